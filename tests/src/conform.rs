//! Checks one built tier against the contract of tiers: `conform PATH.so`.
//!
//! The library is loaded as a host loads it, and meets a scripted world in memory. Each rule has a stable name, makes
//! instances of its own, and says in one line what was seen. A tier that hangs, panics or answers nonsense fails rules
//! and never stops the program; what no host can contain (an abort, an exhausted stack) ends it.
//!
//! Only `memory-core` and the loader are needed, so what is proved here holds for every host.
//!
//! # Limitations
//!
//! A rule shows the presence of a fault and never its absence: the world is small, and so is what is asked of it.

mod ask;
mod report;
mod rig;
mod rule;
mod rules;

pub use self::report::{Report, Status, Verdict};
pub use self::rig::{Options, Target};
pub use self::rule::{RULES, Rule};

use self::rig::Rig;
use self::rule::check;

/// Runs every rule against a library, or the one that the options name, in the order of [`RULES`].
pub async fn run(target: &Target, options: &Options) -> Report {
    let mut report = Report::new(target);
    let mut ended_by = None;
    let wanted = |rule: &&Rule| options.rule.as_deref().is_none_or(|name| name == rule.name);
    for rule in RULES.iter().filter(wanted) {
        if let Some(first) = ended_by {
            let because = format!("`{first}` is broken, so there is nothing to ask");
            report.add(rule, Status::NotRun { because });
            continue;
        }
        let status = match check(rule, target, options).await {
            Ok(note) => Status::Passed { note },
            Err(failure) => {
                ended_by = failure.ends.then_some(rule.name);
                Status::Failed {
                    seen: failure.seen,
                    advice: failure.advice,
                }
            }
        };
        report.add(rule, status);
    }
    report
}

/// Keeps the panics that the scripted world is told to have out of standard error; all others are printed as ever.
pub fn silence_planned_panics() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let text = info.payload_as_str().unwrap_or_default();
        if text != crate::world::PLANNED_PANIC {
            usual(info);
        }
    }));
}
