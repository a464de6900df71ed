//! The end of a turn: what was attached, and what was answered.
//!
//! Blocks are stored with their message before the tier is told, so that a crash in between shows a section twice rather
//! than never. A token is committed or given up exactly once, by the instance that issued it, even if another tier has
//! taken over in the meantime.

use std::sync::atomic::Ordering;

use memory_core::store::StateStore as _;
use memory_core::tier::CommitToken;
use memory_core::wire;

use super::begin::{PendingTurn, scope};
use super::conversation::{self, Place};
use super::{Assistant, Engine, info};
use crate::error::StrataError;
use crate::turn::{Injection, TurnEnd, TurnIds};

impl Assistant {
    /// Records that the blocks of an injection really went into a prompt.
    ///
    /// Blocks that the host took out of it before are given up. Calling it again does nothing.
    pub async fn attached(&self, injection: &Injection) -> Result<(), StrataError> {
        self.writable("record what was attached")?;
        let pending = &injection.pending;
        let Some(place) = pending.place.as_ref().filter(|_| pending.recorded) else {
            return Ok(());
        };
        if pending.attached.load(Ordering::SeqCst) {
            return Ok(());
        }
        let engine = self.engine().await?;
        let input = &pending.input;
        let state = engine.store.state();
        conversation::open_message(state, &*self.options.clock, input, place).await?;
        let kept: Vec<(String, String)> = injection
            .blocks
            .iter()
            .filter_map(|block| Some((block.persistence_key.clone()?, block.text.clone())))
            .collect();
        if !kept.is_empty() {
            state.attach_blocks(&place.message, kept).await?;
        }
        if input.context_lost {
            // The host said that history is gone; what is attached now is all there is.
            self.forget_context(engine, &input.conversation).await?;
        }
        let (attached, removed): (Vec<_>, Vec<_>) =
            pending.tokens.iter().partition(|(block, _)| {
                block.is_empty() || injection.blocks.iter().any(|kept| kept.id == *block)
            });
        let committed = self.commit(pending, place, &attached).await;
        self.give_up(
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
        pending.attached.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// Makes the turn part of the conversation. Returns nothing when the turn must leave no trace.
    ///
    /// What was never attached is given up.
    pub async fn end_turn(
        &self,
        injection: Injection,
        end: TurnEnd,
    ) -> Result<Option<TurnIds>, StrataError> {
        self.writable("end a turn")?;
        let mut pending = injection.pending;
        if !pending.recorded {
            return Ok(None);
        }
        let engine = self.engine().await?;
        let place = match pending.place.take() {
            Some(place) => place,
            None => {
                conversation::locate(engine.store.state(), &*self.options.ids, &pending.input)
                    .await?
            }
        };
        if !pending.attached.load(Ordering::SeqCst) {
            let tokens = pending
                .tokens
                .iter()
                .map(|(_, token)| token.clone())
                .collect();
            self.give_up(&pending, &place, tokens).await;
            if pending.input.context_lost {
                self.forget_context(engine, &pending.input.conversation)
                    .await?;
            }
        }
        let (clock, ids) = (&*self.options.clock, &*self.options.ids);
        let stored = conversation::close_turn(
            engine.store.state(),
            clock,
            ids,
            &pending.input,
            &place,
            end,
        )
        .await?;
        Ok(Some(stored))
    }

    async fn commit(
        &self,
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
            outcome = outcome.and(committed);
        }
        outcome
    }

    async fn give_up(&self, pending: &PendingTurn, place: &Place, tokens: Vec<CommitToken>) {
        if let Some(pinned) = &pending.pinned {
            let call = self.call(scope(&pending.input, place, "discard"));
            pinned.discard(&call, tokens).await;
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
