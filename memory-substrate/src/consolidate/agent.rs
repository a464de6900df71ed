//! The filer that is a model: it works on a copy with a few tools, and what it made is looked at before anything counts.
//!
//! It decides where a note goes and how pages are arranged. It cannot lose anything: what a page said and what a note says is
//! there in the same words when it has ended, or its work is refused. Notes and pages of one channel and trust are worked on
//! by themselves, so nothing that is trusted less is ever read beside what is trusted more.

pub(super) mod asked;

mod arguments;
mod brief;
mod desk;
mod kept;
mod talk;
mod tools;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use memory_core::llm::{LlmClient, LlmError, Usage};
use memory_core::provenance::{Channel, Trust};
use memory_core::schedule::FailureKind;
use memory_core::store::{StoreError, StoreResult};

use super::batch::Entry;
use super::filing::Filing;
use super::stage::Stage;
use crate::jobs::Stop;
use crate::pages::PageIndex;

use self::desk::Desk;
use self::talk::Talk;

pub(super) use self::kept::lost;

/// How long a run may take, all its conversations together.
const LONGEST_RUN: Duration = Duration::from_mins(28);

/// A model that files, and what it is told.
#[derive(Clone, Debug)]
pub struct Agent {
    /// The model.
    pub client: Arc<dyn LlmClient>,
    /// What it is told instead of the built-in instruction.
    pub prompt: Option<String>,
}

/// What a model works with.
#[derive(Clone)]
struct Material {
    stage: Arc<Stage>,
    index: Arc<PageIndex>,
    /// The entries, each with what the rules would do with it.
    entries: Arc<[(Entry, String)]>,
    /// Most characters of a page's text.
    longest: usize,
}

/// What came of a model's work.
#[derive(Debug, Default)]
pub(super) struct Made {
    pub(super) filing: Filing,
    /// The entries that it did not file, each with the reason.
    pub(super) left: BTreeMap<String, String>,
    /// Why it did not file some or all of them.
    pub(super) faults: Vec<Fault>,
    pub(super) usage: Usage,
}

/// Why a model filed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It did not answer.
    Model(LlmError),
    /// What it made could not be used.
    Useless(String),
    /// Time was up.
    TimedOut,
    /// Somebody wanted the run to end.
    Stopped,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Model(error) => write!(formatter, "{error}"),
            Self::Useless(reason) => write!(formatter, "the model filed nothing: {reason}"),
            Self::TimedOut => write!(
                formatter,
                "the model was not done after {} minutes",
                LONGEST_RUN.as_secs() / 60
            ),
            Self::Stopped => formatter.write_str("it was stopped"),
        }
    }
}

/// Has a model file entries. Whatever it does, nothing but the result counts.
async fn by_model(agent: &Agent, stop: &Stop, material: &Material) -> StoreResult<Made> {
    let mut groups: BTreeMap<(Channel, Trust), Vec<usize>> = BTreeMap::new();
    for (number, (entry, _)) in material.entries.iter().enumerate() {
        let group = (entry.channel.clone(), entry.trust);
        groups.entry(group).or_default().push(number);
    }
    let mut made = Made::default();
    let deadline = tokio::time::Instant::now() + LONGEST_RUN;
    for ((channel, trust), numbers) in groups {
        let over = made.faults.iter().find(|fault| fault.ends_the_run());
        let ended = if let Some(fault) = over {
            Err(fault.clone())
        } else {
            let taken = made.filing.pages.keys().cloned().collect();
            let desk = Desk::new(material.clone(), (channel, trust), numbers.clone(), taken);
            let mut talk = Talk::new(agent, desk);
            let ended = tokio::select! {
                ended = tokio::time::timeout_at(deadline, talk.run()) => match ended {
                    Ok(ended) => ended?,
                    Err(_) => Err(Fault::TimedOut),
                },
                () = stop.wait() => Err(Fault::Stopped),
            };
            made.usage = made.usage.plus(talk.usage());
            ended
        };
        match ended {
            Ok(filing) => made.take_in(filing)?,
            Err(fault) => {
                for number in numbers {
                    let id = material.entries[number].0.id.clone();
                    made.left.insert(id, fault.to_string());
                }
                if !made.faults.contains(&fault) {
                    made.faults.push(fault);
                }
            }
        }
    }
    Ok(made)
}

impl Fault {
    /// Returns whether there is no use in going on with other entries.
    const fn ends_the_run(&self) -> bool {
        !matches!(self, Self::Useless(_))
    }
}

impl Made {
    /// Returns what kind of failure this is, if it is one.
    pub(super) fn fault(&self) -> Option<FailureKind> {
        let is_billing = |fault: &Fault| matches!(fault, Fault::Model(LlmError::Billing { .. }));
        if self.faults.iter().any(is_billing) {
            return Some(FailureKind::Billing);
        }
        (!self.faults.is_empty()).then_some(FailureKind::Transient)
    }

    /// Adds what was made of one group. Groups have no page in common.
    fn take_in(&mut self, filing: Filing) -> StoreResult<()> {
        for (slug, text) in filing.pages {
            if self.filing.pages.insert(slug.clone(), text).is_some() {
                return Err(StoreError::BadRequest {
                    reason: format!("page `{slug}` was worked on twice in one run"),
                });
            }
        }
        self.filing.routes.extend(filing.routes);
        self.filing.doubts.extend(filing.doubts);
        self.filing.parents.extend(filing.parents);
        Ok(())
    }
}
