//! Keeping a note, whoever writes: here, in the process that does, or in the spool for the next one.
//!
//! Every way is taken under one key, so that a note whose answer was lost on one of them is not kept twice by another.

use std::sync::Arc;
use std::time::Duration;

use memory_core::store::StoreError;
use memory_substrate::blocking;
use memory_substrate::oplog::WriteContext;
use memory_substrate::remember::{self, RememberInput, RememberReceipt};
use memory_substrate::spool::{self, SpooledNote};
use memory_substrate::workspace::Workspace;

use super::Assistant;
use super::beside::{RememberWith, Request, go_on};
use super::route::Route;
use crate::error::StrataError;
use crate::options::StrataOptions;
use crate::settings::{LiveSettings, SettingsSource};
use crate::socket::Operation;

/// Under which name the host's own notes are written down.
const ACTOR: &str = "strata";

/// How the keys begin that are given to operations here.
const RESERVED: [&str; 3] = ["once/", "spool/", "undo:"];

/// Longest key of a request, in bytes.
const LONGEST_KEY: usize = 256;

impl Assistant {
    /// Adds entries to the buffer and to the archive of the day. They are durable when this returns.
    ///
    /// While another process writes, that one adds them; where it cannot be reached, they are left for the next writer,
    /// and the receipt says so.
    pub async fn remember(&self, input: RememberInput) -> Result<RememberReceipt, StrataError> {
        self.keep(input, None).await
    }

    /// Does the same under a key of the caller's: the same request again, here or in another process, gives the same
    /// entries and adds nothing.
    pub async fn remember_once(
        &self,
        input: RememberInput,
        key: &str,
    ) -> Result<RememberReceipt, StrataError> {
        self.keep(input, Some(key.to_owned())).await
    }

    pub(crate) async fn keep(
        &self,
        input: RememberInput,
        key: Option<String>,
    ) -> Result<RememberReceipt, StrataError> {
        self.writable("remember")?;
        check(key.as_deref())?;
        if matches!(self.route(Duration::ZERO).await, Ok(Route::Here)) {
            return self.keep_here(input, key, ACTOR).await;
        }
        // Without a caller's key one is made, so that a lost answer can be asked for again.
        let key = key.unwrap_or_else(|| made_key(&self.options));
        let with = RememberWith {
            input: input.clone(),
            key: key.clone(),
        };
        let request = Request::repeatable("remember", Operation::Remember);
        match self.hand_over(request, &with, &mut go_on).await {
            Ok(Some(receipt)) => Ok(receipt),
            Ok(None) => self.keep_here(input, Some(key), ACTOR).await,
            Err(error) if error.is_locked() || matches!(error, StrataError::Unanswered { .. }) => {
                let zone = self.look().await?.config.time_zone.clone();
                leave_in(&self.options, &self.workspace, input, key, zone).await
            }
            Err(error) => Err(error),
        }
    }

    /// Keeps a note as the writer.
    pub(super) async fn keep_here(
        &self,
        input: RememberInput,
        key: Option<String>,
        actor: &str,
    ) -> Result<RememberReceipt, StrataError> {
        let zone = self.look().await?.config.time_zone.clone();
        let mut context = WriteContext::new(actor, input.origin, input.authority);
        context.key = key;
        // A note needs neither the index nor a model.
        let writer = self.writer().await?;
        Ok(writer
            .rememberer()
            .remember_as(input, &zone, context)
            .await?)
    }
}

/// Leaves a note for the next writer.
pub(crate) async fn leave(
    options: &Arc<StrataOptions>,
    workspace: &Workspace,
    input: RememberInput,
    key: Option<String>,
) -> Result<RememberReceipt, StrataError> {
    check(key.as_deref())?;
    let source = SettingsSource::new(options, workspace.clone());
    let settings = blocking::run(move || LiveSettings::open(source)).await?;
    let zone = settings.in_force().config.time_zone.clone();
    let key = key.unwrap_or_else(|| made_key(options));
    leave_in(options, workspace, input, key, zone).await
}

async fn leave_in(
    options: &Arc<StrataOptions>,
    workspace: &Workspace,
    input: RememberInput,
    key: String,
    zone: String,
) -> Result<RememberReceipt, StrataError> {
    remember::check(&input)?;
    let name = options.ids.next_id();
    let note = SpooledNote {
        input,
        zone,
        actor: ACTOR.to_owned(),
        session: None,
        at: options.clock.now(),
        key: Some(key),
    };
    let workspace = workspace.clone();
    let named = name.clone();
    blocking::run(move || spool::leave(&workspace, &named, &note).map_err(StrataError::from))
        .await?;
    Ok(RememberReceipt {
        left: Some(name),
        ..RememberReceipt::default()
    })
}

/// Returns a key that nobody else uses.
fn made_key(options: &StrataOptions) -> String {
    format!("once/{}", options.ids.next_id())
}

fn check(key: Option<&str>) -> Result<(), StrataError> {
    let Some(key) = key else {
        return Ok(());
    };
    let reason = if key.trim().is_empty() {
        "the key of a request must not be blank".to_owned()
    } else if let Some(prefix) = RESERVED.iter().find(|prefix| key.starts_with(**prefix)) {
        format!("the key of a request must not begin with `{prefix}`")
    } else if key.len() > LONGEST_KEY {
        format!("the key of a request may have {LONGEST_KEY} bytes at most")
    } else {
        return Ok(());
    };
    Err(StoreError::BadRequest { reason }.into())
}
