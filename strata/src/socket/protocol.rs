//! What is said on the socket.
//!
//! A connection opens with one frame each way, in which both sides name the version they speak; everything else may
//! change with it. Requests carry a number of the client's, so that several may run at once and answers find their
//! caller. Their arguments stay plain JSON until the operation is known, so that an older writer can refuse one that it
//! does not know and go on.

use memory_substrate::assistant::EngineProgress;
use memory_substrate::ingest::IngestReport;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{ErrorKind, RemoteCause, StrataError, cause_chain};

/// The version of everything below.
pub(super) const VERSION: u32 = 1;

/// How a client opens a connection.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Hello {
    /// The version it speaks. The one member that every version has.
    pub(super) strata: u32,
    /// The assistant it wants.
    #[serde(default)]
    pub(super) assistant: String,
    /// What the folder of that assistant is called on its disk: two may have one name and even one path, in different
    /// containers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) root: Option<(u64, u64)>,
}

/// How the writer answers that.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Welcome {
    /// The version that the writer speaks.
    pub(super) strata: u32,
    /// Why it will not talk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) refused: Option<Fault>,
}

/// What a writer can be asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Operation {
    /// Keep notes.
    Remember,
    /// Take one out again.
    Forget,
    /// Take pages in and index them.
    Ingest,
    /// Bring the index up to date.
    Sync,
    /// Make the index anew.
    Reindex,
    /// Make everything derived anew.
    Rebuild,
    /// Compare and repair everything derived.
    Reconcile,
    /// Copy everything into a folder.
    BackUp,
    /// File the buffer into pages.
    Consolidate,
    /// Do whatever is due.
    Work,
    /// Cancel a job.
    CancelJob,
    /// Try a job again.
    RetryJob,
    /// Take an operation back.
    Undo,
    /// Make something unrecoverable.
    Erase,
    /// Choose what a message is shown with.
    BeginTurn,
    /// Record what was shown.
    Attached,
    /// Record a turn.
    EndTurn,
    /// Record a turn that was begun in a process that cannot finish it.
    RecordTurn,
    /// Take note of what happened to a conversation.
    Event,
    /// Forget what is in the context of every conversation.
    ClearConversations,
}

impl Operation {
    /// Returns whether it is done in pieces, so that one that was stopped is gone on with by the same request again.
    pub(super) fn is_resumable(self) -> bool {
        matches!(
            self,
            Self::Sync | Self::Reindex | Self::Rebuild | Self::Reconcile
        )
    }
}

/// What a client says after the opening.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Said {
    /// It wants something done.
    Request {
        /// Its number, new on this connection.
        id: u64,
        /// The operation, which may be one that only another version knows.
        operation: Value,
        /// The arguments.
        with: Value,
    },
    /// It wants a request to stop where it may.
    Stop {
        /// The request.
        id: u64,
    },
    /// It will not finish a turn that it began.
    GiveUp {
        /// The turn.
        turn: u64,
    },
}

/// What a writer says after the opening.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Told {
    /// Requests are being worked on.
    Working,
    /// How far a request is.
    Progress {
        /// The request.
        id: u64,
        /// How far it is.
        at: EngineProgress,
    },
    /// A request is done.
    Done {
        /// The request.
        id: u64,
        /// What came of it.
        value: Value,
    },
    /// A request failed.
    Failed {
        /// The request.
        id: u64,
        /// Why.
        fault: Fault,
    },
    /// The writer stops listening to this client.
    Ended {
        /// Why.
        fault: Fault,
        /// The requests that were begun and will be answered; no other one was.
        running: Vec<u64>,
    },
}

/// Which of the protocol's own faults something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FaultCode {
    /// The two sides speak different versions. Go another way.
    Version,
    /// The client wants another assistant. Go another way.
    AnotherAssistant,
    /// There are too many clients or requests. Try again, or go another way.
    Busy,
    /// The writer is ending, and the request was not begun. Go another way.
    Closing,
    /// The writer does not know the operation, so it was not begun. Go another way.
    UnknownOperation,
    /// What was said cannot be understood. Report it.
    Malformed,
    /// What was said is too long. Report it.
    TooLong,
    /// The turn is not known here, or not any more. Begin it again.
    UnknownTurn,
    /// The pages were taken in and the index could not follow.
    NotIndexed,
    /// The operation itself failed. Report it.
    #[serde(other)]
    Failed,
}

/// Why something was refused or failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fault {
    pub(crate) code: FaultCode,
    /// How a caller should react, as [`ErrorKind::name`] spells it.
    kind: String,
    /// What happened, the outermost cause first.
    causes: Vec<String>,
    /// What a person can do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
    /// What was taken in although the index could not follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    report: Option<Box<IngestReport>>,
}

impl Fault {
    /// Returns a fault of the protocol itself.
    pub(crate) fn new(code: FaultCode, kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            code,
            kind: kind.name().to_owned(),
            causes: vec![message.into()],
            advice: None,
            report: None,
        }
    }

    /// Returns the fault of a writer that is ending.
    pub(crate) fn closing() -> Self {
        let message = "the process that writes is ending and takes no more requests";
        Self::new(FaultCode::Closing, ErrorKind::Unavailable, message)
    }

    /// Returns the fault of what cannot be understood.
    pub(crate) fn malformed(what: &str, error: &serde_json::Error) -> Self {
        let message = format!("{what} cannot be understood: {error}");
        Self::new(FaultCode::Malformed, ErrorKind::Usage, message)
    }

    /// Returns whether nothing was begun, so that the same may be asked for another way.
    pub(crate) fn was_not_begun(&self) -> bool {
        matches!(
            self.code,
            FaultCode::Version
                | FaultCode::AnotherAssistant
                | FaultCode::Busy
                | FaultCode::Closing
                | FaultCode::UnknownOperation
        )
    }

    /// Returns what happened, in one line.
    pub(crate) fn message(&self) -> String {
        self.causes.join(": ")
    }
}

impl From<StrataError> for Fault {
    fn from(error: StrataError) -> Self {
        let kind = error.kind().name().to_owned();
        let advice = error.advice().map(str::to_owned);
        let (causes, is_locked) = (cause_chain(&error), error.is_locked());
        let (code, report) = match error {
            StrataError::NotIndexed { report, .. } => (FaultCode::NotIndexed, Some(report)),
            // It is not the writer any more, so somebody else is to be asked.
            _ if is_locked => (FaultCode::Closing, None),
            _ => (FaultCode::Failed, None),
        };
        Self {
            code,
            kind,
            causes,
            advice,
            report,
        }
    }
}

impl From<Fault> for StrataError {
    fn from(fault: Fault) -> Self {
        let mut causes = fault.causes.into_iter();
        let message = causes.next().unwrap_or_default();
        let source = RemoteCause::chain(causes);
        match (fault.code, fault.report, source) {
            (FaultCode::NotIndexed, Some(report), Some(source)) => Self::NotIndexed {
                report,
                source: source.into(),
            },
            (_, _, source) => Self::Remote {
                message,
                kind: ErrorKind::named(&fault.kind),
                advice: fault.advice,
                source,
            },
        }
    }
}

/// Reads the arguments of an operation.
pub(crate) fn arguments<T: DeserializeOwned>(with: Value) -> Result<T, Fault> {
    serde_json::from_value(with).map_err(|error| Fault::malformed("the request", &error))
}

#[cfg(test)]
mod tests {
    use memory_core::store::StoreError;

    use super::*;

    #[test]
    fn an_error_is_the_same_on_the_other_side() {
        let refused = StrataError::from(StoreError::Locked {
            holder: "process 1 is writing".to_owned(),
        });
        let fault = Fault::from(StrataError::from(StoreError::Locked {
            holder: "process 1 is writing".to_owned(),
        }));
        let said = serde_json::to_string(&fault).unwrap();
        let back = StrataError::from(serde_json::from_str::<Fault>(&said).unwrap());
        assert_eq!(cause_chain(&back), cause_chain(&refused));
        assert_eq!(
            (back.kind(), back.advice()),
            (refused.kind(), refused.advice())
        );
    }

    #[test]
    fn what_was_taken_in_is_reported_although_the_index_failed() {
        let error = StrataError::NotIndexed {
            report: Box::new(IngestReport {
                written: 3,
                ..IngestReport::default()
            }),
            source: "no room".into(),
        };
        let chain = cause_chain(&error);
        let back = StrataError::from(Fault::from(error));
        assert_eq!(cause_chain(&back), chain);
        assert!(matches!(back, StrataError::NotIndexed { report, .. } if report.written == 3));
    }

    #[test]
    fn a_fault_of_a_newer_version_is_a_failure() {
        let said = r#"{"code":"of_tomorrow","kind":"of_tomorrow","causes":["no"]}"#;
        let fault: Fault = serde_json::from_str(said).unwrap();
        assert!(fault.code == FaultCode::Failed && !fault.was_not_begun());
        assert_eq!(StrataError::from(fault).kind(), ErrorKind::Failed);
    }
}
