//! What a rule is, and the list of all of them.

use std::future::Future;
use std::pin::Pin;

use super::rig::{Options, Target};
use super::{Rig, rules};

/// A check while it runs: one line on what was seen, or the failure.
pub(crate) type Checking<'a> = Pin<Box<dyn Future<Output = Outcome> + Send + 'a>>;

/// What a check came to.
pub(crate) type Outcome = Result<String, Failure>;

/// How a rule was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// What was seen.
    pub(crate) seen: String,
    /// What an author does about it.
    pub(crate) advice: String,
    /// Whether no other rule can be checked then.
    pub(crate) ends: bool,
}

impl Failure {
    pub(crate) fn new(seen: impl Into<String>, advice: impl Into<String>) -> Self {
        Self {
            seen: seen.into(),
            advice: advice.into(),
            ends: false,
        }
    }

    /// Returns the same failure of a rule without which there is nothing to ask.
    #[must_use]
    pub(crate) fn ending(self) -> Self {
        Self { ends: true, ..self }
    }
}

/// Fails with what was seen and what to do unless a condition holds.
macro_rules! require {
    ($condition:expr, $advice:expr, $($seen:tt)+) => {
        if !$condition {
            return Err($crate::conform::rule::Failure::new(format!($($seen)+), $advice));
        }
    };
}

pub(crate) use require;

/// One rule of the contract.
#[derive(Clone, Copy)]
pub struct Rule {
    /// Its name, which never changes.
    pub name: &'static str,
    /// What it asks for, in one sentence.
    pub means: &'static str,
    /// Why, in one sentence.
    pub why: &'static str,
    pub(crate) check: for<'a> fn(&'a Rig) -> Checking<'a>,
}

impl std::fmt::Debug for Rule {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name)
    }
}

macro_rules! rules {
    ($($module:ident { $($check:ident, $name:literal, $means:literal, $why:literal;)+ })+) => {
        /// Every rule. The first ones decide whether the library can be used at all; the last ones may block threads.
        pub const RULES: &[Rule] = &[$($(
            Rule {
                name: $name,
                means: $means,
                why: $why,
                check: |rig| Box::pin(rules::$module::$check(rig)),
            },
        )+)+];
    };
}

rules! {
    loading {
        manifest_agrees, "manifest-agrees",
            "Sidecar and library say the same of id, tier, border version and capabilities, and ask for nothing the tier's row does not allow.",
            "A host decides by the sidecar before any code of the library runs.";
    }
    trust {
        trust_gates, "trust-gates",
            "As it was delivered it is trusted by its hash or a signature that fits; changed, cut short, unlisted or badly signed no host opens it.",
            "A loaded library has every right of its host, so nothing of it may run before somebody has vouched for these very bytes.";
    }
    panics {
        never_panics, "never-panics",
            "No `create`, no method, no poll and no drop of a call or an instance panics.",
            "A host contains a panic, but the turn is lost, and a build with three of them is taken out of service.";
    }
    loading {
        bad_config, "bad-config",
            "Settings that make no sense are refused with `BAD_CONFIG` and the name of the key; keys that are unknown are no fault.",
            "A person must find the one setting that is wrong, and a newer host may send more.";
        capabilities, "capabilities",
            "Without a capability it `requires` there is no instance; without one it `uses` it comes up and answers every method.",
            "A host may lack a model or a store, and must know beforehand what that costs.";
        health, "health",
            "`health` says ok when all is well, answers without panic when services fail, and says ok again afterwards.",
            "A host asks it before an instance may serve, and again to show what is wrong.";
        lets_go, "lets-go",
            "An instance that is shut down lets go of every service and of the calls it had.",
            "Libraries are never unloaded, so what an instance keeps is kept for the life of the process.";
        instances_apart, "instances-apart",
            "Two instances share nothing: no texts, no tokens, no counters.",
            "One process serves several assistants, which must not learn of one another.";
    }
    turns {
        blocks_are_valid, "blocks-are-valid",
            "Blocks have unique ids, known tags, finite scores, sensible sizes and a token for what they show.",
            "A host puts them into a prompt without looking at them again.";
        shows_what_it_claims, "shows-what-it-claims",
            "A block's text holds exactly the sections that its `shows` lists.",
            "What is listed is recorded as seen; text that is not listed would be shown again and never explained.";
        variants_still_show, "variants-still-show",
            "Shorter variants are really shorter, largest first, and each still shows every section.",
            "The host may take any of them and records all of `shows`.";
        same_answer, "same-answer",
            "The same question in the same world gets the same plan byte for byte, from this instance and from a fresh one.",
            "Prompt caches, retries and people who ask why depend on it.";
        parallel_turns, "parallel-turns",
            "Turns that run at the same time get what they get alone.",
            "Calls come on any thread and in parallel.";
        odd_requests, "odd-requests",
            "Empty, huge and strange messages and an empty memory are answered like any other.",
            "People paste logs, send nothing, and start with no notes.";
        begin_records_nothing, "begin-records-nothing",
            "`begin_turn` records nothing as seen: no residency, no selections.",
            "Only the host knows whether a block was attached, and only after it was.";
        read_only_turn, "read-only-turn",
            "When nothing can be written, `begin_turn` gives the same plan and calls nothing degraded.",
            "An assistant opened for reading only is asked for context too.";
        explain_records_nothing, "explain-records-nothing",
            "`explain` writes nothing at all.",
            "Looking must not change what is looked at.";
        explain_agrees, "explain-agrees",
            "What `explain` calls selected and resident is what `begin_turn` shows and lists.",
            "An explanation of something else is worse than none.";
    }
    commits {
        commit_records, "commit-records",
            "`commit` records exactly what the block shows, under the message it was attached to.",
            "Residency is the one truth about what is in context.";
        commit_counts_once, "commit-counts-once",
            "A token that is unknown or used, also at the same time, records and counts nothing more.",
            "Hosts repeat calls whose answers they never saw.";
        commit_can_be_repeated, "commit-can-be-repeated",
            "A commit that could not be recorded is an error, and succeeds when it is repeated.",
            "Otherwise what is in the prompt is never recorded, and is shown again.";
        discard_forgets, "discard-forgets",
            "`discard` records nothing and makes the token worthless.",
            "The block was never attached, so nothing of it was seen.";
        nothing_twice, "nothing-twice",
            "What is in context is not shown again, whichever tier or instance showed it, as section or as whole page.",
            "A repeated note costs tokens and attention and says nothing.";
        stats_count, "stats-count",
            "Counters begin at zero and count turns, committed sections and degraded turns, and nothing else.",
            "Operators compare tiers by them.";
    }
    events {
        events_are_answered, "events-are-answered",
            "Every event is answered without an error, also twice and for a conversation nobody knows.",
            "Events are told, not asked; a host cannot do anything about a refusal.";
        lost_context_is_free, "lost-context-is-free",
            "After compaction, clean, rewind or a lost history everything may be shown again.",
            "What is not in context any more must not be missing.";
        delete_forgets, "delete-forgets",
            "After `Delete` nothing is kept of a conversation, and after `ClearAll` of none.",
            "Deleted is deleted.";
        fork_keeps, "fork-keeps",
            "A fork leaves the original as it was; a full copy shows nothing twice, an empty one everything.",
            "Two branches of one conversation must not disturb each other.";
    }
    scope {
        call_is_passed, "call-is-passed",
            "Every service is asked with the call that is being answered, also when turns overlap.",
            "The call carries who asks; another one answers for somebody else.";
        requesters_apart, "requesters-apart",
            "Nothing that one requester, channel or conversation was shown comes up for another who may not see it.",
            "The host filters inside its services; a cache in the tier would undo that.";
        untrusted_stays_out, "untrusted-stays-out",
            "A section that a service labels untrusted is neither shown nor selected.",
            "Text from outside must not speak to the model as memory.";
        page_text_is_data, "page-text-is-data",
            "No title, heading, path or text can end the block or pass for another section.",
            "Pages are written by people and by what they read.";
    }
    faults {
        failures_are_typed, "failures-are-typed",
            "A service that fails, panics, is away or has nothing never makes a method panic; an error keeps its kind.",
            "The host tells the user why, and retries what may be retried.";
        degraded_is_named, "degraded-is-named",
            "A turn goes on without a capability that is only used, and a plan made in spite of a failure names it.",
            "A quiet loss of quality is the hardest one to find.";
        nonsense_does_no_harm, "nonsense-does-no-harm",
            "Short and doubled lists, numbers that are none and megabytes of text give an error or a valid plan.",
            "A service may be newer, broken or in the middle of a rebuild.";
        recovers, "recovers",
            "After a failure is over, the next turn is as good as ever.",
            "A model that was away for a minute must not cost the rest of the day.";
    }
    limits {
        cancellation, "cancellation",
            "A call whose caller gave up ends soon, with `CANCELLED` or a plan, and leaves no question unanswered behind.",
            "The host has promised the time to somebody else.";
        deadline, "deadline",
            "A call with no time or too little is over in time, and nothing of it goes on running.",
            "A turn waits for memory only so long; a blocked thread is lost to all.";
    }
}

/// Checks one rule. Whatever happens, there is an answer.
pub(super) async fn check(rule: &Rule, target: &Target, options: &Options) -> Outcome {
    let rig = Rig::new(rule.name, target, options)?;
    let limit = rig.rule_limit();
    let checking = tokio::time::timeout(limit, (rule.check)(&rig));
    checking.await.unwrap_or_else(|_| {
        Err(Failure::new(
            format!("the rule was not through after {} s", limit.as_secs()),
            "find the method that does not come back, or give a slow machine more `--patience`",
        ))
    })
}
