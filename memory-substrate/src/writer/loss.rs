//! Opening the state database when it is gone or damaged.
//!
//! Files are the truth for prose, so an assistant goes on without its state; but what only the state held is lost, and
//! that must be said and not be passed over by making an empty one. A mark beside the database tells a lost one from one
//! that was never made. A damaged file is kept aside, and whatever can still be read of it is taken over, provided that
//! it still tells how pages came in. What is known of an entry of the buffer no longer may have been said by anybody, so
//! it is shown to nobody.

use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;

use memory_core::env::Clock;
use memory_core::provenance::{Authority, Channel, Origin, Trust};
use memory_core::store::{StoreError, StoreResult};
use memory_core::time::Timestamp;
use serde::Serialize;

use crate::error::store_io;
use crate::oplog::ids_of;
use crate::state::remembered::{self, EntrySource, NewEntry};
use crate::state::{SqliteState, rescue};
use crate::workspace::{Workspace, read_text_or_empty};

const MARK: &[u8] = b"The file `state.db` beside this one holds what is not in `memory/`. If it is lost, the next start says so.\n";

/// The key under which the state keeps what was lost before it.
const LOSS: &str = "state_loss";

/// A state database that was lost, and what was done about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StateLoss {
    /// What was wrong.
    pub reason: String,
    /// Where the damaged file is kept.
    pub kept: Option<PathBuf>,
    /// Tables that could be taken over from it.
    pub rescued: Vec<String>,
    /// Entries of the buffer that are shown to nobody, because it is not known any more who said them.
    pub withheld: usize,
}

impl StateLoss {
    /// Returns what a person is told.
    pub fn message(&self) -> String {
        let mut text = format!(
            "the state database was lost ({}): conversations, what was shown in them, logs and how pages came in are gone",
            self.reason
        );
        if !self.rescued.is_empty() {
            text.push_str(" except for what could be read of: ");
            text.push_str(&self.rescued.join(", "));
        }
        text.push_str("; pages, buffer and archive are whole");
        if self.withheld > 0 {
            let _ = write!(
                text,
                ", and {} entries of the buffer are shown to nobody because it is not known who said them",
                self.withheld
            );
        }
        if let Some(kept) = &self.kept {
            let _ = write!(text, "; the damaged file is `{}`", kept.display());
        }
        text
    }
}

/// Opens the state database, making a new one when there was none or it is lost.
pub(super) fn open_state(
    workspace: &Workspace,
    clock: &dyn Clock,
) -> StoreResult<(SqliteState, Option<StateLoss>)> {
    let path = workspace.state_path();
    let fs = workspace.fs().as_ref();
    let is_marked = fs.info(&workspace.state_mark_path()).is_ok();
    let is_there = fs.info(&path).is_ok();
    let opened = SqliteState::open(&path, clock);
    let (state, loss) = match opened {
        Ok(state) if is_there || !is_marked => (state, None),
        Ok(state) => (state, Some(("the file is missing".to_owned(), None))),
        // Without the record of how pages came in, those of others would pass for the owner's own. That is the owner's to
        // decide, by moving the file away; until then nothing is written.
        Err(StoreError::Damaged { reason, .. })
            if !rescue::is_intact(&path) && rescue::knows_origins(&path) =>
        {
            let kept = set_aside(workspace, clock.now())?;
            // What else the reason says is advice for leaving the file where it is.
            let reason = reason.split(';').next().unwrap_or_default().to_owned();
            (SqliteState::open(&path, clock)?, Some((reason, Some(kept))))
        }
        Err(error) => return Err(error),
    };
    let loss = match loss {
        Some((reason, kept)) => Some(make_up(workspace, &state, clock.now(), reason, kept)?),
        None => None,
    };
    if !is_marked && let Err(error) = fs.write(&workspace.state_mark_path(), MARK) {
        tracing::warn!(%error, "the state database could not be marked; losing it would not be noticed");
    }
    Ok((state, loss))
}

/// Moves the database and its log out of the way, where they stay.
fn set_aside(workspace: &Workspace, now: Timestamp) -> StoreResult<PathBuf> {
    let path = workspace.state_path();
    let kept = with_suffix(&path, &format!(".damaged-{}", now.as_millis()));
    for suffix in ["-wal", "-shm", ""] {
        let (from, to) = (with_suffix(&path, suffix), with_suffix(&kept, suffix));
        match workspace.fs().rename(&from, &to) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(store_io("set aside", &from)(error));
            }
            _ => {}
        }
    }
    Ok(kept)
}

fn with_suffix(path: &std::path::Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Takes over what can be read of the lost database and makes up for the rest.
fn make_up(
    workspace: &Workspace,
    state: &SqliteState,
    now: Timestamp,
    reason: String,
    kept: Option<PathBuf>,
) -> StoreResult<StateLoss> {
    let rescued = match &kept {
        Some(kept) => state.take_over(kept)?,
        None => Vec::new(),
    };
    let buffer = read_text_or_empty(workspace.fs().as_ref(), &workspace.buffer_path())?;
    let source = EntrySource {
        channel: Channel::Global,
        origin: Origin::Import,
        authority: Authority::Owner,
        trust: Trust::Untrusted,
        at: now,
    };
    let (day, ids) = (now.civil_date("UTC"), ids_of(&buffer));
    state.write_blocking(|transaction| {
        let mut withheld = 0;
        for id in &ids {
            if remembered::is_known(transaction, id)? {
                continue;
            }
            let entry = NewEntry {
                id,
                hash: "",
                day: &day,
                operation: "",
            };
            remembered::add(transaction, entry, &source)?;
            withheld += 1;
        }
        let loss = StateLoss {
            reason,
            kept,
            rescued,
            withheld,
        };
        rescue::put_loss(transaction, LOSS, &loss.message())?;
        Ok(loss)
    })
}
