//! The end of a turn: what was attached, and what was answered.
//!
//! Blocks are stored with their message before the tier is told, so that a crash in between shows a section twice rather
//! than never. A token is committed or given up exactly once, by the instance that issued it, even if another tier has
//! taken over in the meantime. A step that fails leaves the injection as it was, so that the host can try again.

use std::time::Duration;

use memory_core::store::{StateStore as _, StoreError};
use memory_core::tier::CommitToken;
use memory_core::wire;
use serde_json::json;

use super::begin::{self, PendingTurn, scope};
use super::beside::{RecordWith, TurnHome};
use super::conversation::{self, Place};
use super::route::Route;
use super::{Assistant, Engine, info};
use crate::error::StrataError;
use crate::turn::{Injection, TurnEnd, TurnIds, TurnInput};

/// How far the recording of a turn has come, so that trying again repeats only what may be repeated.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Where the message stands, if beginning the turn could not tell.
    place: Option<Place>,
    /// Whether what was in context before a lost history has been forgotten. A second time would forget what has been
    /// recorded since.
    forgotten: bool,
    attached: bool,
    /// The identifiers that were made for the message and the reply.
    message: Option<String>,
    reply: Option<String>,
    /// How the turn was stored.
    ended: Option<TurnIds>,
}

impl Assistant {
    /// Records that the blocks of an injection really went into a prompt.
    ///
    /// Blocks that the host took out of it before are given up. Calling it again does nothing.
    pub async fn attached(&self, injection: &Injection) -> Result<(), StrataError> {
        self.writable("record what was attached")?;
        let pending = &injection.pending;
        if !pending.recorded {
            return Ok(());
        }
        if !self.is_here(injection).await {
            return self.attached_elsewhere(injection).await;
        }
        let Some(place) = pending.place.as_ref() else {
            return Ok(());
        };
        let mut progress = pending.progress.lock().await;
        if progress.attached {
            return Ok(());
        }
        if progress.ended.is_some() {
            let reason = "the turn has ended and its blocks were given up: call `attached` before `end_turn`";
            return Err(StrataError::from(StoreError::BadRequest {
                reason: reason.to_owned(),
            }));
        }
        let engine = self.engine().await?;
        let input = &pending.input;
        let state = engine.store.state();
        let served = metadata(injection);
        conversation::open_message(state, &*self.options.clock, input, place, &served).await?;
        let kept: Vec<(String, String)> = injection
            .blocks
            .iter()
            .filter_map(|block| Some((block.persistence_key.clone()?, block.text.clone())))
            .collect();
        if !kept.is_empty() {
            state.attach_blocks(&place.message, kept).await?;
        }
        self.forget_lost(engine, input, &mut progress).await?;
        let (attached, removed): (Vec<_>, Vec<_>) =
            pending.tokens.iter().partition(|(block, _)| {
                block.is_empty() || injection.blocks.iter().any(|kept| kept.id == *block)
            });
        let committed = self.commit(engine, pending, place, &attached).await;
        self.give_up(
            engine,
            pending,
            place,
            removed.iter().map(|(_, token)| token.clone()).collect(),
        )
        .await;
        if injection
            .blocks
            .iter()
            .any(|block| block.id == wire::block::STATIC_INFO)
        {
            info::mark_attached(&engine.store, &input.conversation, &place.message).await?;
        }
        committed?;
        // Only now: what failed may be tried again, and every step of it can be repeated.
        progress.attached = true;
        Ok(())
    }

    /// Makes the turn part of the conversation. Returns nothing when the turn must leave no trace.
    ///
    /// What was never attached is given up. Calling it again changes nothing and returns the same messages; after an
    /// error it can be called again. Drop the injection afterwards: it holds the tier that chose its blocks.
    pub async fn end_turn(
        &self,
        injection: &Injection,
        mut end: TurnEnd,
    ) -> Result<Option<TurnIds>, StrataError> {
        self.writable("end a turn")?;
        let pending = &injection.pending;
        if !pending.recorded {
            return Ok(None);
        }
        if !self.is_here(injection).await {
            return self.end_elsewhere(injection, end).await;
        }
        let mut progress = pending.progress.lock().await;
        if let Some(ended) = &progress.ended {
            return Ok(Some(ended.clone()));
        }
        let (clock, ids) = (&*self.options.clock, &*self.options.ids);
        let engine = self.engine().await?;
        let (state, input) = (engine.store.state(), &pending.input);
        let place = match pending.place.as_ref().or(progress.place.as_ref()) {
            Some(place) => place.clone(),
            None => conversation::locate(state, ids, input).await?,
        };
        progress.place = Some(place.clone());
        self.name_reply(&mut end, &mut progress);
        self.forget_lost(engine, input, &mut progress).await?;
        let user = conversation::user_node(clock, input, &place, &metadata(injection));
        let (stored, messages) =
            conversation::closing_messages(state, clock, ids, user, end).await?;
        engine.store.recorder()?.end_turn(messages).await?;
        if !progress.attached {
            let tokens = pending
                .tokens
                .iter()
                .map(|(_, token)| token.clone())
                .collect();
            self.give_up(engine, pending, &place, tokens).await;
        }
        progress.ended = Some(stored.clone());
        Ok(Some(stored))
    }

    /// Returns whether this process can finish a turn: it was begun here, by whom writes here. It waits for nobody, because
    /// handing the turn over does.
    async fn is_here(&self, injection: &Injection) -> bool {
        matches!(injection.pending.home, TurnHome::Here)
            && matches!(self.route(Duration::ZERO).await, Ok(Route::Here))
    }

    async fn attached_elsewhere(&self, injection: &Injection) -> Result<(), StrataError> {
        let pending = &injection.pending;
        let mut progress = pending.progress.lock().await;
        if progress.attached {
            return Ok(());
        }
        let done = match &pending.home {
            TurnHome::There(turn) => turn.attached(&injection.blocks).await?,
            TurnHome::Here | TurnHome::Anywhere => None,
        };
        if done.is_none() {
            let mut with = self.record_of(injection, &mut progress);
            with.blocks = Some(injection.blocks.clone());
            self.record_anywhere(with).await?;
        }
        (progress.attached, progress.forgotten) = (true, true);
        Ok(())
    }

    async fn end_elsewhere(
        &self,
        injection: &Injection,
        mut end: TurnEnd,
    ) -> Result<Option<TurnIds>, StrataError> {
        let pending = &injection.pending;
        let mut progress = pending.progress.lock().await;
        if let Some(ended) = &progress.ended {
            return Ok(Some(ended.clone()));
        }
        // Named here, so that asking again, and asking another, is about the same reply.
        self.name_reply(&mut end, &mut progress);
        let done = match &pending.home {
            TurnHome::There(turn) => turn.end(&end).await?,
            TurnHome::Here | TurnHome::Anywhere => None,
        };
        let ended = if let Some(ended) = done {
            ended
        } else {
            let mut with = self.record_of(injection, &mut progress);
            with.end = Some(end);
            self.record_anywhere(with).await?
        };
        progress.ended.clone_from(&ended);
        Ok(ended)
    }

    /// Returns what another process needs to record a turn.
    fn record_of(&self, injection: &Injection, progress: &mut Progress) -> RecordWith {
        let (mut input, trace) = (injection.pending.input.clone(), injection.trace.clone());
        if input.message_id.is_none() {
            let message = progress.message.get_or_insert_with(|| {
                Some(trace.message.clone())
                    .filter(|message| !message.is_empty())
                    .unwrap_or_else(|| self.options.ids.next_id())
            });
            input.message_id = Some(message.clone());
        }
        input.context_lost &= !progress.forgotten;
        RecordWith {
            input,
            trace,
            blocks: None,
            end: None,
        }
    }

    /// Records a turn that was begun in a process that could not finish it.
    pub(super) async fn record(&self, with: RecordWith) -> Result<Option<TurnIds>, StrataError> {
        let RecordWith {
            input,
            trace,
            blocks,
            end,
        } = with;
        let engine = self.engine().await?;
        let state = engine.store.state();
        let place = conversation::locate(state, &*self.options.ids, &input).await?;
        let mut injection = begin::empty(input, &self.settings.in_force().config);
        injection.trace = trace;
        injection.pending.recorded = true;
        injection.pending.place = Some(place);
        if let Some(blocks) = blocks {
            injection.blocks = blocks;
            Box::pin(self.attached(&injection)).await?;
        }
        match end {
            Some(end) => Box::pin(self.end_turn(&injection, end)).await,
            None => Ok(None),
        }
    }

    fn name_reply(&self, end: &mut TurnEnd, progress: &mut Progress) {
        if end.reply.is_some() && end.reply_id.is_none() {
            let made = progress
                .reply
                .get_or_insert_with(|| self.options.ids.next_id());
            end.reply_id = Some(made.clone());
        }
    }

    /// Forgets what was in context if the host said that its history is gone: what is attached now is all there is.
    async fn forget_lost(
        &self,
        engine: &Engine,
        input: &TurnInput,
        progress: &mut Progress,
    ) -> Result<(), StrataError> {
        if input.context_lost && !progress.forgotten {
            self.forget_context(engine, &input.conversation).await?;
            progress.forgotten = true;
        }
        Ok(())
    }

    async fn commit(
        &self,
        engine: &Engine,
        pending: &PendingTurn,
        place: &Place,
        tokens: &[&(String, CommitToken)],
    ) -> Result<(), StrataError> {
        let Some(pinned) = &pending.pinned else {
            return Ok(());
        };
        let call = self.call(scope(&pending.input, place, "commit"));
        let mut outcome = Ok(());
        for (_, token) in tokens {
            let committed = pinned
                .commit(&call, token.clone(), place.message.clone())
                .await;
            let committed = self.noted(engine, pinned.serving(), committed).await;
            outcome = outcome.and(committed);
        }
        Ok(outcome?)
    }

    /// Gives tokens up. A tier that cannot be told forgets them by itself in time, so a failure is only noted.
    pub(super) async fn give_up(
        &self,
        engine: &Engine,
        pending: &PendingTurn,
        place: &Place,
        tokens: Vec<CommitToken>,
    ) {
        if let Some(pinned) = &pending.pinned {
            let call = self.call(scope(&pending.input, place, "discard"));
            let answer = pinned.discard(&call, tokens).await;
            if let Err(error) = self.noted(engine, pinned.serving(), answer).await {
                tracing::warn!(%error, "the tier could not be told that blocks were left out");
            }
        }
    }

    /// Forgets that anything is in a conversation's context.
    pub(super) async fn forget_context(
        &self,
        engine: &Engine,
        conversation: &str,
    ) -> Result<(), StrataError> {
        engine.store.state().clear_resident(conversation).await?;
        Ok(info::mark_lost(&engine.store, conversation).await?)
    }
}

/// Returns what is kept with a message about the turn it began: which tier was configured, and what served.
fn metadata(injection: &Injection) -> String {
    let trace = &injection.trace;
    let tier = json!({ "configured": trace.configured, "serving": trace.serving });
    json!({ "tier": tier }).to_string()
}
