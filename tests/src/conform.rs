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
mod world;

pub use self::report::{Report, Status, Verdict};
pub use self::rig::{Options, Target};
pub use self::rule::{RULES, Rule};

use self::rig::Rig;
use self::rule::check;

/// Runs every rule against a library, in the order of [`RULES`].
pub async fn run(target: &Target, options: &Options) -> Report {
    let mut report = Report::new(target);
    for rule in RULES {
        // Without the first rule there is no library to ask.
        let status = match report.failed().first() {
            Some(first) if *first == RULES[0].name => Status::NotRun {
                because: format!("`{first}` is broken, so there is nothing to ask"),
            },
            _ => check(rule, target, options).await,
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
        if text != world::PLANNED_PANIC {
            usual(info);
        }
    }));
}
