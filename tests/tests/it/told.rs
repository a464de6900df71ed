//! What processes were told is durable, and whether a memory still has it.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use memory_core::item::{Consumer, ItemQuery};
use memory_core::store::{ItemStore as _, StateStore as _};
use memory_substrate::embed::SeededEmbedder;
use strata::{
    Access, Assistant, Authority, Channel, DoctorOptions, Finding, IngestOptions, IngestSource,
    Origin, RememberInput, Timestamp, TurnEnd, TurnInput,
};
use tests::host::{ASSISTANT, given, open};

/// The page that is written again and again.
pub(crate) const LIVING: &str = "living";

/// What processes were told is durable.
#[derive(Debug, Default)]
pub(crate) struct Acknowledged {
    pub(crate) notes: Vec<String>,
    pub(crate) pages: Vec<String>,
    /// Messages, and whether their blocks were acknowledged as attached.
    pub(crate) turns: BTreeMap<String, bool>,
    /// The newest version of the page that is written again and again.
    pub(crate) version: u64,
}

impl Acknowledged {
    /// Takes in a line that a process has said.
    pub(crate) fn take(&mut self, line: &str) {
        let mut words = line.split(' ');
        let (Some("ack"), Some(kind), Some(what)) = (words.next(), words.next(), words.next())
        else {
            return;
        };
        match kind {
            "note" => self.notes.push(what.to_owned()),
            "page" => self.pages.push(what.to_owned()),
            "version" => self.version = what.parse().expect("a number"),
            "turn" => drop(self.turns.entry(what.to_owned()).or_default()),
            "attached" => drop(self.turns.insert(what.to_owned(), true)),
            other => panic!("nobody acknowledges `{other}`"),
        }
    }
}

/// How many rows there are.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    pub(crate) index: u64,
    pub(crate) items: usize,
}

/// Holds what is there against what was acknowledged, and returns how long it took to open it and how much is there.
pub(crate) async fn check(home: &Path, told: &Acknowledged) -> (Duration, Rows) {
    let start = Instant::now();
    let assistant = assistant(home).await;
    let store = assistant.store().await.expect("open");
    let opening = start.elapsed();
    let buffer = std::fs::read_to_string(assistant.workspace().buffer_path()).unwrap_or_default();
    let archive = archived(assistant.workspace().archive_dir());
    for note in &told.notes {
        let sentence = format!("The {note} stands.");
        for (place, text) in [("buffer", &buffer), ("archive", &archive)] {
            assert_eq!(text.matches(&sentence).count(), 1, "{note} in the {place}");
        }
    }
    let concepts = assistant.workspace().concepts_dir();
    let read = |page: &str| {
        let text = std::fs::read_to_string(concepts.join(format!("{page}.md")));
        text.unwrap_or_else(|error| panic!("`{page}` is lost: {error}"))
    };
    for page in &told.pages {
        assert_eq!(read(page), page_text(page));
    }
    if told.version > 0 {
        let text = read(LIVING);
        let version: u64 = text
            .strip_prefix("Version ")
            .and_then(|text| text.strip_suffix(".\n"))
            .and_then(|version| version.parse().ok())
            .unwrap_or_else(|| panic!("half a page: {text:?}"));
        assert!(version >= told.version, "{version} < {}", told.version);
    }
    for (message, attached) in &told.turns {
        let node = store.state().turn_node(message).await.expect("read");
        let node = node.unwrap_or_else(|| panic!("turn `{message}` is lost"));
        assert!(!attached || !node.attached_blocks.is_empty(), "{node:?}");
    }
    assistant.warm().await.expect("warm");
    let go_on = &mut |_| ControlFlow::Continue(());
    assistant.sync(go_on).await.expect("indexed");
    let stats = store.stats().await.expect("counted");
    assert_eq!(stats.waiting, 0);
    let report = assistant
        .doctor(DoctorOptions::default())
        .await
        .expect("examined");
    let bad: Vec<_> = report
        .checks
        .iter()
        .filter(|check| check.severity == Finding::Problem)
        .collect();
    assert!(bad.is_empty(), "{bad:#?}");
    let query = ItemQuery {
        limit: u32::MAX,
        ..ItemQuery::new(
            Authority::Owner,
            Consumer::Listing,
            Timestamp::from_millis(i64::MAX),
        )
    };
    let rows = Rows {
        index: stats.index.map_or(0, |index| index.rows),
        items: store.state().items(query).await.expect("read").len(),
    };
    assert!(rows.items >= told.notes.len(), "{rows:?}");
    (opening, rows)
}

/// Returns everything below the archive, one text.
fn archived(folder: PathBuf) -> String {
    let mut folders = vec![folder];
    let mut text = String::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten() {
            let path = entry.expect("listed").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                text.push_str(&std::fs::read_to_string(path).expect("text"));
            }
        }
    }
    text
}

/// Opens the memory for writing.
pub(crate) async fn assistant(home: &Path) -> Assistant {
    let strata = open(home.to_owned(), given(SeededEmbedder::default())).expect("opened");
    let assistant = strata.assistant(ASSISTANT, Access::ReadWrite).await;
    assistant.expect("nobody else has it")
}

/// Returns the text of a page.
pub(crate) fn page_text(name: &str) -> String {
    format!("# {name}\n\nThis page is about {name}.\n\n## Part\n\nAnd so is this.\n")
}

/// Says something at once, so that it is heard even if this process ends with it.
pub(crate) fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .expect("somebody listens");
}

/// Keeps a note.
pub(crate) async fn note(assistant: &Assistant, name: &str) {
    let input = RememberInput {
        texts: vec![format!("The {name} stands.")],
        origin: Origin::UserDirect,
        authority: Authority::Owner,
        channel: Channel::Global,
    };
    let receipt = assistant.remember(input).await.expect("kept");
    assert_eq!(receipt.left, None, "somebody writes");
    say(&format!("ack note {name}"));
}

/// Takes in a page.
pub(crate) async fn take_in(assistant: &Assistant, name: &str, text: String) {
    let source = IngestSource::Text {
        name: name.to_owned(),
        text,
    };
    let options = IngestOptions {
        overwrite: true,
        ..IngestOptions::default()
    };
    let go_on = &mut |_| ControlFlow::Continue(());
    let (report, _) = assistant
        .ingest(source, options, go_on)
        .await
        .expect("taken in");
    assert_eq!((report.written, report.invalid), (1, 0), "{report:?}");
}

/// Has a turn.
pub(crate) async fn speak(assistant: &Assistant, name: &str) {
    let input = TurnInput::owner(name.to_owned(), format!("What of {name}?"));
    let injection = assistant.begin_turn(input).await;
    assistant.attached(&injection).await.expect("attached");
    let end = TurnEnd::reply("It stands.".to_owned());
    let ids = assistant.end_turn(&injection, end).await.expect("ended");
    let message = ids.expect("the owner's turns are stored").message;
    say(&format!("ack turn {message}"));
    if !injection.blocks.is_empty() {
        say(&format!("ack attached {message}"));
    }
}
