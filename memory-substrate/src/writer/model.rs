//! Random writes, edits, kills and restarts against a model of what must still be there.
//!
//! Every text carries a word that occurs nowhere else. A word that was acknowledged, or that a person wrote, must be
//! found in some file until a write or a deletion that had seen it took it out; and it must never be in one file twice.

use std::collections::BTreeSet;
use std::sync::Arc;

use memory_core::item::{ItemId, ItemState};
use memory_core::provenance::{Authority, Channel, Origin};
use memory_core::store::{Expected, ItemStore as _, PageStore as _};
use memory_core::text::slug::Slug;
use proptest::prelude::*;

use super::testing::{fast_folder, open, open_faulty, temporaries, tree, workspace};
use super::*;
use crate::fs::RealFs;
use crate::fs::faulty::{FAULTS, Fault, Faults};
use crate::oplog::WriteContext;
use crate::pages::FilePages;
use crate::remember::RememberInput;
use crate::state::ops;

const PAGES: [&str; 3] = ["a", "b", "deep/c"];

/// Something that happens.
#[derive(Clone, Debug)]
enum Event {
    /// Something is remembered.
    Remember,
    /// Something that was remembered is forgotten.
    Forget { note: prop::sample::Index },
    /// A page gets one more line, at its end or at its beginning.
    Write { page: usize, at_end: bool },
    /// A page goes away.
    Delete { page: usize },
    /// A page takes another's name.
    Rename { page: usize, to: usize },
    /// A person adds a line to a page.
    Edit { page: usize, at_end: bool },
    /// The disk fails, or the process dies, some steps later.
    Fault { steps: usize, fault: Fault },
    /// The writer ends and another comes.
    Restart,
}

fn event() -> impl Strategy<Value = Event> {
    let page = 0..PAGES.len();
    prop_oneof![
        3 => Just(Event::Remember),
        1 => any::<prop::sample::Index>().prop_map(|note| Event::Forget { note }),
        4 => (page.clone(), any::<bool>()).prop_map(|(page, at_end)| Event::Write { page, at_end }),
        1 => page.clone().prop_map(|page| Event::Delete { page }),
        1 => (page.clone(), page.clone()).prop_map(|(page, to)| Event::Rename { page, to }),
        4 => (page, any::<bool>()).prop_map(|(page, at_end)| Event::Edit { page, at_end }),
        3 => (0..6_usize, prop::sample::select(FAULTS.to_vec()))
            .prop_map(|(steps, fault)| Event::Fault { steps, fault }),
        2 => Just(Event::Restart),
    ]
}

struct Run {
    runtime: Option<tokio::runtime::Runtime>,
    workspace: Workspace,
    faults: Faults,
    writer: Option<Writer>,
    writers: usize,
    words: usize,
    /// What must be found.
    expected: BTreeSet<String>,
    /// What was remembered, by the identifier of its entry.
    notes: Vec<(String, String)>,
    /// What was forgotten since.
    forgotten: Vec<(String, String)>,
    /// What may or may not have been forgotten, because that failed.
    doubtful: BTreeSet<String>,
}

fn slug(page: usize) -> Slug {
    Slug::parse(PAGES[page]).expect("a slug")
}

fn item_of(entry: &str) -> ItemId {
    ItemId::minted(entry).expect("an id")
}

/// Returns the words of a text.
fn words(text: &str) -> BTreeSet<String> {
    text.split(|character: char| !character.is_alphanumeric())
        .filter(|word| word.starts_with("word"))
        .map(str::to_owned)
        .collect()
}

fn longer(text: &str, word: &str, at_end: bool) -> String {
    if at_end {
        format!("{text}{word}\n")
    } else {
        format!("{word}\n{text}")
    }
}

impl Run {
    fn new(workspace: Workspace) -> Self {
        let mut run = Self {
            runtime: None,
            workspace,
            faults: Faults::default(),
            writer: None,
            writers: 0,
            words: 0,
            expected: BTreeSet::new(),
            notes: Vec::new(),
            forgotten: Vec::new(),
            doubtful: BTreeSet::new(),
        };
        run.restart();
        run
    }

    fn restart(&mut self) {
        self.writer = None;
        // Ends the thread that may still be applying.
        self.runtime = None;
        self.runtime = tokio::runtime::Builder::new_current_thread().build().ok();
        self.writers += 1;
        self.faults = Faults::default();
        let prefix = format!("w{}x", self.writers);
        self.writer = Some(open_faulty(&self.workspace, &self.faults, &prefix));
    }

    fn word(&mut self) -> String {
        self.words += 1;
        format!("word{}", self.words)
    }

    fn happen(&mut self, event: &Event) {
        let word = self.word();
        if matches!(event, Event::Restart) {
            return self.restart();
        }
        let (Some(writer), Some(runtime)) = (&self.writer, &self.runtime) else {
            return;
        };
        let pages = FilePages::of_writer(writer);
        let read = |page: usize| {
            let read = runtime
                .block_on(pages.read(&slug(page)))
                .expect("reading goes on");
            read.map(|page| (String::from_utf8(page.bytes).expect("text"), page.hash))
        };
        match event {
            Event::Remember => {
                let input = RememberInput {
                    texts: vec![word.clone()],
                    origin: Origin::UserDirect,
                    authority: Authority::Owner,
                    channel: Channel::Global,
                };
                let remembered = runtime.block_on(writer.rememberer().remember(input, "UTC"));
                // Steps are counted, so nothing may go on beside them.
                drop(writer.settle());
                if let Ok(receipt) = remembered {
                    self.notes
                        .push((receipt.entries[0].id.clone(), word.clone()));
                    self.expected.insert(word);
                }
            }
            Event::Forget { note } if !self.notes.is_empty() => {
                let at = note.index(self.notes.len());
                let id = self.notes[at].0.clone();
                let forgotten =
                    runtime.block_on(writer.rememberer().forget(&id, WriteContext::host()));
                drop(writer.settle());
                if forgotten.is_ok() {
                    self.forgotten.push(self.notes.remove(at));
                } else {
                    self.doubtful.insert(id);
                }
            }
            Event::Write { page, at_end } => {
                let (text, expected) = match read(*page) {
                    Some((text, hash)) => (text, Expected::Hash(hash)),
                    None => (String::new(), Expected::Absent),
                };
                let text = longer(&text, &word, *at_end).into_bytes();
                let written = runtime.block_on(pages.write(&slug(*page), text, expected));
                if written.is_ok() {
                    self.expected.insert(word);
                }
            }
            Event::Delete { page } => {
                let Some((text, hash)) = read(*page) else {
                    return;
                };
                // Even if it is not acknowledged it may happen.
                drop(runtime.block_on(pages.delete(&slug(*page), Expected::Hash(hash))));
                let gone = words(&text);
                self.expected.retain(|word| !gone.contains(word));
            }
            Event::Rename { page, to } => {
                drop(runtime.block_on(pages.rename(&slug(*page), &slug(*to), Expected::Any)));
            }
            Event::Edit { page, at_end } => {
                // An editor knows nothing of what is not in the file yet.
                let path = self
                    .workspace
                    .concepts_dir()
                    .join(slug(*page).to_relative_path());
                let text = std::fs::read_to_string(&path).unwrap_or_default();
                std::fs::create_dir_all(path.parent().expect("it is in a folder")).expect("made");
                std::fs::write(path, longer(&text, &word, *at_end)).expect("edited");
                self.expected.insert(word);
            }
            Event::Fault { steps, fault } => self.faults.arm(Some((*steps, *fault))),
            Event::Forget { .. } | Event::Restart => {}
        }
    }

    fn check(mut self) -> Result<(), TestCaseError> {
        self.writer = None;
        self.runtime = None;
        let writer = open(&self.workspace);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .expect("a runtime");
        let unapplied = writer.state().read_blocking(ops::unapplied).expect("read");
        prop_assert_eq!(unapplied, []);
        prop_assert_eq!(temporaries(self.workspace.root()), Vec::<String>::new());
        let mut found = BTreeSet::new();
        for (path, bytes) in tree(&RealFs, &self.workspace.memory_dir()) {
            let text = String::from_utf8(bytes).expect("text");
            for word in words(&text) {
                let times = text
                    .split('\n')
                    .filter(|line| words(line).contains(&word))
                    .count();
                prop_assert!(times == 1, "`{word}` is {times} times in {path}:\n{text}");
                found.insert(word);
            }
        }
        let buffer = std::fs::read_to_string(self.workspace.buffer_path()).unwrap_or_default();
        for (id, word) in &self.forgotten {
            prop_assert!(
                !words(&buffer).contains(word),
                "`{id}` came back:\n{buffer}"
            );
            let item = runtime
                .block_on(writer.state().item_state(&item_of(id)))
                .expect("read");
            prop_assert!(matches!(item, Some(ItemState::Forgotten(_))), "{item:?}");
        }
        for (id, word) in self
            .notes
            .iter()
            .filter(|(id, _)| !self.doubtful.contains(id))
        {
            prop_assert!(words(&buffer).contains(word), "`{id}` is gone:\n{buffer}");
            let item = runtime
                .block_on(writer.state().item_state(&item_of(id)))
                .expect("read");
            let claim = item
                .as_ref()
                .and_then(ItemState::live)
                .map(|item| item.claim.as_str());
            prop_assert_eq!(claim, Some(word.as_str()));
        }
        let ledger = runtime
            .block_on(writer.state().verify_ledger())
            .expect("read");
        prop_assert_eq!(ledger.faults, []);
        let lost: Vec<&String> = self.expected.difference(&found).collect();
        prop_assert!(lost.is_empty(), "lost: {lost:?}");
        Ok(())
    }
}

proptest! {
    // `PROPTEST_CASES` scales it.
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases / 4,
        ..ProptestConfig::default()
    })]

    #[test]
    fn nothing_that_was_acknowledged_or_edited_is_lost(
        events in prop::collection::vec(event(), 1..24),
    ) {
        let folder = fast_folder();
        let mut run = Run::new(workspace(folder.path(), Arc::new(RealFs)));
        for event in &events {
            run.happen(event);
        }
        run.check()?;
    }
}
