//! Swapping the tier of an assistant while turns run: no turn fails, and everybody agrees who served it.
//!
//! All of it goes through the façade, with the plugins of this checkout, and the tier is changed as an owner changes it:
//! in the settings, which each turn looks at.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use memory_core::predicates::registry::BUILT;
use memory_core::services::LogKind;
use memory_core::store::StateStore as _;
use memory_substrate::embed::SeededEmbedder;
use strata::{
    Assistant, IngestOptions, IngestSource, Injection, Severity, Tier, TurnEnd, TurnIds, TurnInput,
};
use tests::host::{TempHost, given};
use tests::measure::resident_megabytes;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::child;

/// Turns that run at once.
const TURNS_AT_ONCE: usize = 64;

/// Tasks that speak in a conversation together with three others; the rest have one each.
const SHARING: usize = 16;

/// Changes of the settings under the running turns.
const SWAPS: usize = 200;

/// Changes of the settings whose memory is looked at.
const MEASURED_SWAPS: usize = 500;

/// The order in which tiers are configured, those left out that this build does not have. Each follows on each other one.
const ROUND: [Tier; 12] = [
    Tier::V3,
    Tier::V2,
    Tier::V1,
    Tier::Off,
    Tier::V3,
    Tier::V1,
    Tier::V2,
    Tier::Off,
    Tier::V1,
    Tier::V3,
    Tier::Off,
    Tier::V2,
];

/// Returns the tiers in the order in which they are configured.
fn round() -> Vec<Tier> {
    let is_there = |tier: &Tier| *tier == Tier::Off || BUILT.has(*tier);
    ROUND.into_iter().filter(is_there).collect()
}

const QUESTIONS: [&str; 6] = [
    "When is the archive copied to the tape robot?",
    "Where are the spare belts of the tape robot?",
    "Who rehearses the restore?",
    "What does the roaster need every week?",
    "Which drawer holds the belts and who knows it?",
    "How is the cyclone emptied?",
];

/// Makes an assistant whose tiers all have something to show.
async fn host() -> TempHost {
    let host = TempHost::new(given(SeededEmbedder::default()))
        .await
        .expect("a home: run `cargo xtask build-plugins` first");
    let notes = host.folder.path().join("notes");
    std::fs::create_dir(&notes).expect("made");
    for (page, sections) in [
        (
            "Backups",
            [
                "Schedule: the archive is copied to the tape robot every Sunday.",
                "Restore: rehearsed in May by Nora.",
            ],
        ),
        (
            "Tape robot",
            [
                "Place: it stands in the cellar.",
                "Spare parts: the belts are in drawer C.",
            ],
        ),
        (
            "Roaster",
            [
                "Cleaning: the cyclone of the roaster is emptied every week.",
                "Name: the roaster is called Frieda.",
            ],
        ),
    ] {
        let sections: Vec<String> = sections
            .iter()
            .filter_map(|section| section.split_once(": "))
            .map(|(heading, text)| format!("## {heading}\n\n{text}\n"))
            .collect();
        let text = format!(
            "---\ntitle: {page}\n---\nAbout the {page}.\n\n{}",
            sections.join("\n")
        );
        std::fs::write(notes.join(format!("{page}.md")), text).expect("written");
    }
    let go_on = &mut |_| std::ops::ControlFlow::Continue(());
    host.assistant
        .ingest(IngestSource::Folder(notes), IngestOptions::default(), go_on)
        .await
        .expect("the notes are read");
    let memory = host.assistant.workspace().root().join("memory");
    write_knowledge_base(&memory.join("pkb"));
    std::fs::write(
        memory.join("essentials.md"),
        "Nora is allergic to hazelnuts.\n",
    )
    .expect("written");
    host.assistant.warm().await.expect("warm");
    host
}

/// Writes what tier v1 shows and searches.
fn write_knowledge_base(folder: &Path) {
    std::fs::create_dir_all(folder).expect("made");
    for (name, text) in [
        ("INDEX.md", "# Index\n\n- tape.md: the tape robot\n"),
        (
            "tape.md",
            "# Tape robot\n\nThe archive is copied to the tape robot every Sunday. The belts are in drawer C.\n",
        ),
        (
            "roaster.md",
            "# Roaster\n\nThe cyclone of the roaster is emptied every week.\n",
        ),
    ] {
        std::fs::write(folder.join(name), text).expect("written");
    }
}

/// What one turn came to.
struct Turn {
    conversation: String,
    number: u64,
    configured: Tier,
    served: Option<Tier>,
    stored: TurnIds,
}

/// What the process has logged of its turns.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Begins to keep what the façade logs.
    fn begin() -> Self {
        let log = Self::default();
        let writer = log.clone();
        let lines = tracing_subscriber::fmt::layer()
            .with_ansi(false)
            .with_writer(move || writer.clone());
        let ours = Targets::new().with_target("strata", LevelFilter::DEBUG);
        tracing_subscriber::registry()
            .with(lines.with_filter(ours))
            .init();
        log
    }

    /// Returns what it says of turns, sorted.
    fn turns(&self) -> Vec<Line> {
        let bytes = self.0.lock().expect("nobody panics while writing");
        let text = String::from_utf8_lossy(&bytes);
        let field = |line: &str, name: &str| {
            let (_, value) = line.split_once(&format!(" {name}=")).expect("a field");
            value.split(' ').next().unwrap_or_default().to_owned()
        };
        let turns = text.lines().filter(|line| line.contains("turn begun"));
        let mut turns: Vec<Line> = turns
            .map(|line| Line {
                conversation: field(line, "conversation"),
                number: field(line, "turn").parse().expect("a number"),
                configured: field(line, "configured"),
                served: field(line, "serving"),
            })
            .collect();
        turns.sort();
        turns
    }
}

/// A line of the log: a turn, and which tier was configured and served.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Line {
    conversation: String,
    number: u64,
    configured: String,
    served: String,
}

impl Line {
    fn of(turn: &Turn) -> Self {
        Self {
            conversation: turn.conversation.clone(),
            number: turn.number,
            configured: turn.configured.to_string(),
            served: turn.served.unwrap_or(Tier::Off).to_string(),
        }
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("nobody panics here").extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What all turns share.
struct Stage {
    assistant: Assistant,
    /// One turn at a time in each conversation, as in a chat.
    speaking: Vec<tokio::sync::Mutex<()>>,
    over: AtomicBool,
    /// Turns begun with each tier configured.
    begun: BTreeMap<Tier, AtomicU64>,
}

impl Stage {
    async fn turn(&self, conversation: usize, number: usize) -> Turn {
        let _speaking = self.speaking[conversation].lock().await;
        let name = format!("conversation-{conversation}");
        let question = QUESTIONS[number % QUESTIONS.len()];
        let input = TurnInput::owner(name.clone(), format!("{question} ({number})"));
        let injection = self.assistant.begin_turn(input).await;
        check(&injection);
        self.assistant.attached(&injection).await.expect("attached");
        let stored = self
            .assistant
            .end_turn(&injection, TurnEnd::reply(format!("Reply {number}.")))
            .await
            .expect("ended")
            .expect("the owner's turns are stored");
        self.begun[&injection.trace.configured].fetch_add(1, Ordering::SeqCst);
        Turn {
            conversation: name,
            number: injection.trace.turn,
            configured: injection.trace.configured,
            served: injection.trace.serving.as_ref().map(|serving| serving.tier),
            stored,
        }
    }

    /// Waits until a turn has begun with a tier configured, since a count was taken.
    async fn served_since(&self, tier: Tier, before: u64) {
        while self.begun[&tier].load(Ordering::SeqCst) == before {
            assert!(!self.over.load(Ordering::SeqCst), "the turns are over");
            tokio::task::yield_now().await;
        }
    }
}

/// Checks that a turn was served by the configured tier alone, without a fault.
fn check(injection: &Injection) {
    let trace = &injection.trace;
    let worse = |severity| severity != Severity::Info;
    let faults: Vec<_> = injection
        .notices
        .iter()
        .filter(|notice| worse(notice.severity))
        .collect();
    assert!(faults.is_empty(), "{faults:?}");
    let serving = trace.serving.as_ref();
    if trace.configured == Tier::Off {
        assert!(
            serving.is_none() && injection.blocks.is_empty(),
            "{trace:?}"
        );
        return;
    }
    let serving = serving.expect("a configured tier serves");
    assert_eq!(serving.tier, trace.configured);
    assert_eq!(serving.plugin, format!("tier-{}", trace.configured));
}

#[test]
fn turns_go_on_while_the_tier_is_swapped() {
    let _machine = child::MACHINE.blocking_lock();
    // In a process of its own, because the log is one of its witnesses.
    let said = child::run("swap::turns_while_the_tier_is_swapped", &[]);
    let summary = said.lines().find(|line| line.contains(" swaps, by tier "));
    println!("{}", summary.expect("it says what it did"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "run by `turns_go_on_while_the_tier_is_swapped`"]
async fn turns_while_the_tier_is_swapped() {
    let log = Log::begin();
    let TempHost {
        assistant,
        strata,
        folder,
    } = host().await;
    let conversations = TURNS_AT_ONCE - SHARING + SHARING / 4;
    let stage = Arc::new(Stage {
        assistant,
        speaking: (0..conversations)
            .map(|_| tokio::sync::Mutex::default())
            .collect(),
        over: AtomicBool::new(false),
        begun: Tier::ALL
            .into_iter()
            .map(|tier| (tier, AtomicU64::new(0)))
            .collect(),
    });
    let speakers: Vec<_> = (0..TURNS_AT_ONCE)
        .map(|task| {
            let stage = Arc::clone(&stage);
            tokio::spawn(async move {
                let mut turns = Vec::new();
                let conversation = if task < SHARING {
                    task / 4
                } else {
                    task - SHARING + SHARING / 4
                };
                while !stage.over.load(Ordering::SeqCst) || turns.is_empty() {
                    turns.push(stage.turn(conversation, turns.len()).await);
                }
                turns
            })
        })
        .collect();
    for tier in round().into_iter().cycle().take(SWAPS) {
        stage
            .assistant
            .set_tier(tier)
            .await
            .expect("the settings are changed");
        let before = stage.begun[&tier].load(Ordering::SeqCst);
        stage.served_since(tier, before).await;
    }
    stage.over.store(true, Ordering::SeqCst);
    let mut turns = Vec::new();
    for speaker in speakers {
        turns.extend(speaker.await.expect("no turn fails"));
    }
    assert!(turns.len() >= TURNS_AT_ONCE.max(SWAPS));

    // Trace, counters and the turns as they are stored agree.
    let mut expected: BTreeMap<Tier, u64> = Tier::ALL.into_iter().map(|tier| (tier, 0)).collect();
    for turn in &turns {
        *expected
            .entry(turn.served.unwrap_or(Tier::Off))
            .or_default() += 1;
    }
    let stats = stage.assistant.stats().await.expect("counted");
    assert_eq!(
        (stats.turns.by_tier, stats.turns.unserved),
        (expected.clone(), 0)
    );
    assert!(
        round().iter().all(|tier| expected[tier] > 0),
        "{expected:?}"
    );
    let store = stage.assistant.store().await.expect("open");
    for turn in &turns {
        let node = store
            .state()
            .turn_node(&turn.stored.message)
            .await
            .expect("read")
            .expect("stored");
        let kept: serde_json::Value = serde_json::from_str(&node.metadata).expect("JSON");
        assert_eq!(kept["tier"]["configured"], turn.configured.as_str());
        let served = turn.served.map(Tier::as_str);
        assert_eq!(kept["tier"]["serving"]["tier"].as_str(), served);
        assert!(
            node.attached_blocks.is_empty() || served.is_some(),
            "{node:?}"
        );
    }

    // So do the log of the process and that of the tiers.
    let mut expected_lines: Vec<Line> = turns.iter().map(Line::of).collect();
    expected_lines.sort();
    assert_eq!(log.turns(), expected_lines);
    let mut by_v3: BTreeMap<&str, usize> = BTreeMap::new();
    for turn in &turns {
        let of_v3 = usize::from(turn.served == Some(Tier::V3));
        *by_v3.entry(&turn.conversation).or_default() += of_v3;
    }
    for (conversation, expected) in by_v3 {
        let audits = store
            .state()
            .newest_log(conversation, LogKind::PoolAudit, u32::MAX)
            .await
            .expect("read");
        assert_eq!(audits.len(), expected, "`{conversation}`");
    }

    // Nothing is twice in a conversation, whichever tiers served it.
    let conversations: BTreeSet<&str> = turns
        .iter()
        .map(|turn| turn.conversation.as_str())
        .collect();
    let mut shown = 0;
    for conversation in conversations {
        let mut seen = BTreeSet::new();
        for resident in store.state().resident(conversation).await.expect("read") {
            let key = (resident.slug.clone(), resident.section.clone());
            assert!(
                seen.insert(key),
                "{resident:?} is twice in `{conversation}`"
            );
            shown += 1;
        }
    }
    assert!(shown > 0);
    println!(
        "{} turns, {SWAPS} swaps, by tier {expected:?}, {shown} things shown",
        turns.len()
    );
    drop((stage, strata, folder));
}

/// Parts in which swaps are measured.
const PARTS: usize = 5;

#[test]
fn swaps_of_known_builds_cost_no_memory() {
    let _machine = child::MACHINE.blocking_lock();
    // In a process of its own, because the other tests of this one need memory too.
    let said = child::run("swap::swaps_in_a_process_of_their_own", &[]);
    let grown = child::figure(&said, "grown");
    println!("{} swaps: {grown} MB more", MEASURED_SWAPS / PARTS);
    assert!(grown < 3.0, "{grown} MB");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run by `swaps_of_known_builds_cost_no_memory`"]
async fn swaps_in_a_process_of_their_own() {
    let host = host().await;
    // What grows with the first swaps is caches and the allocator's pools.
    swap(&host.assistant, MEASURED_SWAPS / PARTS).await;
    let mut grown = Vec::with_capacity(PARTS);
    let mut before = resident_megabytes();
    for _ in 0..PARTS {
        swap(&host.assistant, MEASURED_SWAPS / PARTS).await;
        let after = resident_megabytes();
        grown.push(after - before);
        before = after;
    }
    // What is lost with each swap is lost in every part; a thread that the runtime had to start is there in one.
    grown.sort_by(f64::total_cmp);
    println!("by parts: {grown:.1?} MB");
    println!("grown={:.1}", grown[PARTS / 2]);
}

async fn swap(assistant: &Assistant, swaps: usize) {
    for (swap, tier) in round().into_iter().cycle().take(swaps).enumerate() {
        assistant
            .set_tier(tier)
            .await
            .expect("the settings are changed");
        let input = TurnInput::owner("swapped", QUESTIONS[swap % QUESTIONS.len()]);
        let injection = assistant.begin_turn(input).await;
        check(&injection);
        assert_eq!(injection.trace.configured, tier);
        assistant
            .end_turn(&injection, TurnEnd::default())
            .await
            .expect("ended");
    }
}
