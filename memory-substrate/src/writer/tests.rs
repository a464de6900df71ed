//! Every step of every kind of write goes wrong in every way, and nothing that was acknowledged is lost.

use std::collections::HashSet;
use std::sync::Arc;

use memory_core::env::CountingIds;
use memory_core::item::{Consumer, ItemQuery};
use memory_core::provenance::{Authority, Channel, Origin, Trust};
use memory_core::store::{Expected, ItemStore as _, PageStore as _, StoreError, StoreResult};
use memory_core::text::slug::Slug;

use super::testing::{
    NOW, Tree, clock, copy, fast_folder, open, open_faulty, temporaries, tree, workspace,
};
use super::*;
use crate::error::{SubstrateError, SubstrateResult};
use crate::fs::RealFs;
use crate::fs::faulty::{FAULTS, Fault, Faults, Reached};
use crate::ingest::{IngestOptions, IngestSource, Ingester};
use crate::oplog::{OverlayFs, WriteContext, ids_of};
use crate::pages::{FilePages, hash_bytes};
use crate::remember::RememberInput;
use crate::state::{BufferReader, ops, origins};

const PAGE: &str = "# Kiwi\n\none\ntwo\nthree\nfour\nfive\n";

fn slug(text: &str) -> Slug {
    Slug::parse(text).expect("a slug")
}

fn input(text: &str) -> RememberInput {
    RememberInput {
        texts: vec![text.to_owned(), format!("{text}, and\nmore of it")],
        origin: Origin::UserDirect,
        authority: Authority::Owner,
        channel: Channel::Global,
    }
}

/// What a case does. An error means that it was not acknowledged.
type Act = fn(&tokio::runtime::Runtime, &Writer) -> SubstrateResult<()>;

const ACTS: [(&str, Act); 7] = [
    ("remember", |runtime, writer| {
        let context = WriteContext::host().with_key("k");
        let rememberer = writer.rememberer();
        let remembered = rememberer.remember_as(input("fact"), "UTC", context);
        runtime.block_on(remembered).map(drop)
    }),
    ("create", |runtime, writer| {
        let pages = FilePages::of_writer(writer);
        let created = pages
            .write(&slug("new/page"), PAGE.into(), Expected::Absent)
            .await_in(runtime);
        Ok(created.map(drop)?)
    }),
    ("edit", |runtime, writer| {
        let pages = FilePages::of_writer(writer);
        let expected = Expected::Hash(hash_bytes(PAGE.as_bytes()));
        let edited = pages
            .write(&slug("kiwi"), b"edited\n".to_vec(), expected)
            .await_in(runtime);
        Ok(edited.map(drop)?)
    }),
    ("rename", |runtime, writer| {
        let pages = FilePages::of_writer(writer);
        let expected = Expected::Hash(hash_bytes(PAGE.as_bytes()));
        Ok(pages
            .rename(&slug("kiwi"), &slug("moved/kiwi"), expected)
            .await_in(runtime)?)
    }),
    ("delete", |runtime, writer| {
        let pages = FilePages::of_writer(writer);
        Ok(pages
            .delete(&slug("kiwi"), Expected::Any)
            .await_in(runtime)?)
    }),
    ("forget", |runtime, writer| {
        let rememberer = writer.rememberer();
        let forgotten = rememberer.forget("before000001", WriteContext::host());
        runtime.block_on(forgotten).map(drop)
    }),
    ("ingest", |_, writer| {
        let ingester = Ingester::new(writer, FilePages::of_writer(writer));
        let vault = writer.workspace().imports_dir().join("vault");
        let options = IngestOptions {
            overwrite: true,
            origin: Origin::Import,
            ..IngestOptions::default()
        };
        ingester
            .run(&IngestSource::Folder(vault), options, &mut |_| {})
            .map(drop)
    }),
];

trait AwaitIn: Future + Sized {
    fn await_in(self, runtime: &tokio::runtime::Runtime) -> Self::Output {
        runtime.block_on(self)
    }
}

impl<F: Future> AwaitIn for F {}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime")
}

/// An assistant with some memories, to be copied for each case.
struct Template(tempfile::TempDir);

impl Template {
    fn new() -> Self {
        let folder = fast_folder();
        let workspace = workspace(&folder.path().join("home"), Arc::new(RealFs));
        for (name, text) in [("a.md", "one"), ("kiwi.md", "imported"), ("z.md", "three")] {
            let path = workspace.imports_dir().join("vault").join(name);
            memory_core::env::Fs::write(&RealFs, &path, text.as_bytes()).expect("write");
        }
        let writer = open_faulty(&workspace, &Faults::default(), "before");
        let runtime = runtime();
        runtime
            .block_on(writer.rememberer().remember(input("earlier"), "UTC"))
            .expect("remembered");
        let pages = FilePages::of_writer(&writer);
        // How it came in is known, so that the record's way can be followed as well.
        let context = WriteContext::new("test", Origin::ExternalDoc, Authority::Owner);
        pages
            .write_as(&slug("kiwi"), PAGE.into(), Expected::Absent, context)
            .await_in(&runtime)
            .expect("written");
        writer.settle().expect("settled");
        drop((pages, writer, runtime));
        Self(folder)
    }

    fn copy(&self) -> Place {
        let folder = fast_folder();
        copy(self.0.path(), folder.path());
        let id = crate::workspace::AssistantId::new("kiwi").expect("a name");
        let workspace = Workspace::open(&folder.path().join("home"), &id, Arc::new(RealFs));
        Place {
            workspace: workspace.expect("it was copied"),
            _folder: folder,
        }
    }
}

struct Place {
    _folder: tempfile::TempDir,
    workspace: Workspace,
}

/// What can be read of an assistant: its files, and how its pages came in.
#[derive(Clone, PartialEq, Eq)]
struct View {
    files: Tree,
    origins: Vec<String>,
}

impl std::fmt::Debug for View {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}{:?}", printed(&self.files), self.origins)
    }
}

fn printed(tree: &Tree) -> String {
    let lines: Vec<String> = tree
        .iter()
        .map(|(path, bytes)| format!("{path}: {:?}", String::from_utf8_lossy(bytes)))
        .collect();
    lines.join("\n")
}

fn origins_of(state: &SqliteState) -> Vec<String> {
    let origins = state.read_blocking(origins::all).expect("read");
    origins
        .into_iter()
        .map(|origin| format!("{} {:?}", origin.slug, origin.origin))
        .collect()
}

impl Place {
    fn on_disk(&self, state: &SqliteState) -> View {
        View {
            files: tree(&RealFs, &self.workspace.memory_dir()),
            origins: origins_of(state),
        }
    }

    /// Returns the files as a process sees them that only reads.
    fn as_read(&self) -> Tree {
        let state = SqliteState::open_read_only(&self.workspace.state_path()).expect("open");
        let root = self.workspace.root().to_owned();
        let overlay = OverlayFs::stored(root, Arc::new(RealFs), Arc::new(state));
        without_temporaries(tree(&overlay, &self.workspace.memory_dir()))
    }

    /// Acts with a fault. Returns whether the act was acknowledged.
    fn act(&self, act: Act, planned: Option<(usize, Fault)>) -> (bool, usize) {
        let faults = Faults::default();
        let (runtime, writer) = (runtime(), open_faulty(&self.workspace, &faults, "act"));
        faults.arm(planned);
        let acted = act(&runtime, &writer);
        let settled = writer.settle();
        let seen = tree(
            writer.workspace().fs().as_ref(),
            &self.workspace.memory_dir(),
        );
        let halted = writer.refusal().is_some();
        if halted {
            assert!(
                matches!(settled, Err(StoreError::ReadOnly { .. })),
                "{settled:?}"
            );
            let refused = runtime.block_on(writer.rememberer().remember(input("x"), "UTC"));
            assert!(
                matches!(
                    refused,
                    Err(SubstrateError::Store(StoreError::ReadOnly { .. }))
                ),
                "{refused:?}"
            );
        }
        let acknowledged = match &acted {
            Ok(()) => true,
            // Ingest tells of a failure that came after the commit, and the commit counts.
            Err(_) => false,
        };
        if acknowledged && halted {
            let read = self.as_read();
            assert_eq!(
                without_temporaries(seen),
                read,
                "the writer sees what a reader sees"
            );
        }
        let steps = faults.steps();
        drop(writer);
        drop(runtime);
        (acknowledged, steps)
    }

    /// Opens the assistant on a good disk and checks that it is as before or as after.
    fn check(&self, before: &View, after: &View, acknowledged: bool, case: &str) {
        let read = self.as_read();
        let is_after = read == after.files;
        let fits = is_after || (!acknowledged && read == before.files);
        assert!(fits, "{case}, as read before recovery:\n{}", printed(&read));
        let writer = open(&self.workspace);
        let view = self.on_disk(writer.state());
        let fits = view == *after || (!acknowledged && view == *before);
        assert!(
            fits,
            "{case}:\n{view:?}\nneither\n{before:?}\nnor\n{after:?}"
        );
        assert_eq!(
            temporaries(self.workspace.root()),
            Vec::<String>::new(),
            "{case}"
        );
        let unapplied = writer.state().read_blocking(ops::unapplied).expect("read");
        assert_eq!(unapplied, [], "{case}");
        assert!(writer.refusal().is_none(), "{case}");
        assert!(self.workspace.reserve_path().exists(), "{case}");
        check_items(&writer, case);
        let runtime = runtime();
        runtime
            .block_on(writer.state().check())
            .expect("a sound database");
        runtime
            .block_on(writer.rememberer().remember(input("afterwards"), "UTC"))
            .expect("writing goes on");
        writer.settle().expect("settled");
        let buffer = std::fs::read_to_string(self.workspace.buffer_path()).expect("read");
        assert_eq!(buffer.matches("] afterwards ^m-").count(), 1, "{case}");
    }
}

/// Checks that every entry of the buffer is one item and every item an entry, and that the ledger proves it.
fn check_items(writer: &Writer, case: &str) {
    let fs = writer.workspace().fs().as_ref();
    let buffer = crate::workspace::read_text_or_empty(fs, &writer.workspace().buffer_path());
    let entries: Vec<String> = ids_of(&buffer.expect("read")).into_iter().collect();
    let runtime = runtime();
    let query = ItemQuery::new(Authority::Owner, Consumer::Listing, NOW);
    let items = runtime.block_on(writer.state().items(query)).expect("read");
    let mut items: Vec<String> = items
        .iter()
        .map(|item| item.id.as_str().trim_start_matches("mem_").to_owned())
        .collect();
    let mut expected = entries;
    items.sort();
    expected.sort();
    assert_eq!(items, expected, "{case}");
    let check = runtime
        .block_on(writer.state().verify_ledger())
        .expect("read");
    assert_eq!(check.faults, [], "{case}");
}

fn without_temporaries(tree: Tree) -> Tree {
    let is_real = |name: &String| !name.contains(crate::fs::TEMPORARY_MARK);
    tree.into_iter().filter(|(name, _)| is_real(name)).collect()
}

/// Returns how an act changes an assistant, and in how many steps.
fn healthy(template: &Template, act: Act) -> (View, View, usize) {
    let place = template.copy();
    let look = || {
        let state = SqliteState::open_read_only(&place.workspace.state_path()).expect("open");
        place.on_disk(&state)
    };
    let before = look();
    let (acknowledged, steps) = place.act(act, None);
    assert!(acknowledged);
    let after = look();
    assert_ne!(before, after);
    (before, after, steps)
}

#[test]
fn every_step_may_fail_or_be_the_last() {
    let template = Template::new();
    for (name, act) in ACTS {
        let (before, after, steps) = healthy(&template, act);
        assert!(steps >= 3, "{name} has {steps} steps");
        for step in 0..steps {
            for fault in FAULTS {
                let place = template.copy();
                let (acknowledged, _) = place.act(act, Some((step, fault)));
                let case = format!("{name}, step {step} of {steps}, {fault:?}");
                place.check(&before, &after, acknowledged, &case);
            }
        }
    }
}

#[test]
fn recovery_may_be_cut_off_anywhere() {
    let template = Template::new();
    for (name, act) in ACTS {
        let (before, after, _) = healthy(&template, act);
        for step in 0.. {
            let place = template.copy();
            // The first step is the commit; nothing else happens.
            let (acknowledged, _) = place.act(act, Some((1, Fault::Dies(Reached::Nothing))));
            let faults = Faults::default();
            faults.arm(Some((step, Fault::Dies(Reached::Half))));
            drop(open_recovering(&place.workspace, &faults));
            let finished = faults.steps() <= step;
            let case = format!("{name}, recovery cut off at step {step}");
            place.check(&before, &after, acknowledged, &case);
            if finished {
                break;
            }
        }
    }
}

/// Opens a writer that may die while it opens.
fn open_recovering(workspace: &Workspace, faults: &Faults) -> StoreResult<Writer> {
    let lock = workspace.lock("test").expect("nobody else writes");
    let clock = Arc::new(memory_core::env::ManualClock::at(NOW));
    let state = SqliteState::open_faulty(&workspace.state_path(), clock.as_ref(), faults.clone());
    let ids = Arc::new(CountingIds::new("recovering"));
    let workspace = workspace.with_fs(Arc::new(crate::fs::faulty::FaultyFs(faults.clone())));
    Writer::over(&workspace, Arc::new(state?), Some(lock), clock, ids)
}

/// Kills a writer right after the commit of an act, lets somebody edit, and opens the assistant again.
fn edited_after_a_crash(act: Act, edit: impl FnOnce(&Workspace)) -> (Place, Writer) {
    let place = Template::new().copy();
    let (acknowledged, _) = place.act(act, Some((1, Fault::Dies(Reached::Nothing))));
    assert!(acknowledged);
    edit(&place.workspace);
    let writer = open(&place.workspace);
    (place, writer)
}

fn act(name: &str) -> Act {
    let found = ACTS.iter().find(|(known, _)| *known == name);
    found.expect("a known act").1
}

#[test]
fn an_edit_after_the_crash_is_merged_or_both_are_kept() {
    let edit = |text: &'static str| {
        move |workspace: &Workspace| {
            let path = workspace.concepts_dir().join("kiwi.md");
            std::fs::write(path, text).expect("edited");
        }
    };
    let text = |place: &Place, name: &str| {
        std::fs::read_to_string(place.workspace.concepts_dir().join(name)).ok()
    };
    let append: Act = |runtime, writer| {
        let pages = FilePages::of_writer(writer);
        let longer = format!("{PAGE}six\n").into_bytes();
        let written = pages
            .write(&slug("kiwi"), longer, Expected::Any)
            .await_in(runtime);
        Ok(written.map(drop)?)
    };
    let edited = "# Kiwi fruit\n\none\ntwo\nthree\nfour\nfive\n";
    let (place, writer) = edited_after_a_crash(append, edit(edited));
    assert_eq!(text(&place, "kiwi.md"), Some(format!("{edited}six\n")));
    assert_eq!(writer.recovery().conflicts, []);

    let (place, writer) = edited_after_a_crash(act("edit"), edit(edited));
    let [conflict] = writer.recovery().conflicts.as_slice() else {
        panic!("expected one conflict, got {:?}", writer.recovery());
    };
    assert_eq!(text(&place, "kiwi.md").as_deref(), Some(edited));
    let copy = conflict.copy.as_deref().expect("a copy");
    assert_eq!(copy, "memory/concepts/kiwi (conflict act000001).md");
    let copied = std::fs::read_to_string(place.workspace.root().join(copy));
    assert_eq!(copied.expect("there"), "edited\n");

    let (place, writer) = edited_after_a_crash(act("delete"), edit(edited));
    assert_eq!(text(&place, "kiwi.md").as_deref(), Some(edited));
    assert_eq!(writer.recovery().conflicts[0].copy, None);
    assert_eq!(origins_of(writer.state()), ["kiwi ExternalDoc"]);

    let (place, writer) = edited_after_a_crash(act("rename"), edit(edited));
    assert_eq!(text(&place, "kiwi.md"), None);
    assert_eq!(text(&place, "moved/kiwi.md").as_deref(), Some(edited));
    assert_eq!(origins_of(writer.state()), ["moved/kiwi ExternalDoc"]);
}

#[test]
fn a_page_that_was_moved_beside_another_takes_its_record_along() {
    let taken = |workspace: &Workspace| {
        let folder = workspace.concepts_dir().join("moved");
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join("kiwi.md"), "The owner's own.\n").expect("written");
    };
    let (place, writer) = edited_after_a_crash(act("rename"), taken);
    let copy = writer.recovery().conflicts[0].copy.clone().expect("a copy");
    assert!(place.workspace.root().join(&copy).is_file(), "{copy}");
    let copied = crate::pages::page_of_path(&copy).0;
    assert_eq!(
        origins_of(writer.state()),
        [format!("{copied} ExternalDoc")]
    );
}

#[test]
fn an_entry_that_is_edited_while_it_is_forgotten_stays_and_shows_to_nobody() {
    let (place, writer) = edited_after_a_crash(act("forget"), |workspace| {
        let path = workspace.buffer_path();
        let text = std::fs::read_to_string(&path).expect("read");
        let edited = text.replacen(
            "earlier ^m-before000001",
            "earlier, corrected ^m-before000001",
            1,
        );
        assert_ne!(edited, text);
        std::fs::write(path, edited).expect("edited");
    });
    let [conflict] = writer.recovery().conflicts.as_slice() else {
        panic!("expected one conflict, got {:?}", writer.recovery());
    };
    assert_eq!(
        (conflict.path.as_str(), &conflict.copy),
        ("memory/buffer.md", &None)
    );
    let buffer = std::fs::read_to_string(place.workspace.buffer_path()).expect("read");
    assert!(
        buffer.contains("earlier, corrected ^m-before000001"),
        "{buffer}"
    );
    let reader = BufferReader {
        requester: Authority::Owner,
        channels: Vec::new(),
        now: NOW,
    };
    let withheld = writer
        .state()
        .withheld_entries(&reader, &ids_of(&buffer))
        .expect("read");
    assert_eq!(withheld, HashSet::from(["before000001".to_owned()]));
}

#[test]
fn a_merge_that_was_cut_off_is_not_merged_again() {
    let append: Act = |runtime, writer| {
        let pages = FilePages::of_writer(writer);
        let longer = format!("{PAGE}five\n").into_bytes();
        let written = pages
            .write(&slug("kiwi"), longer, Expected::Any)
            .await_in(runtime);
        Ok(written.map(drop)?)
    };
    for step in 0.. {
        let place = Template::new().copy();
        place.act(append, Some((1, Fault::Dies(Reached::Nothing))));
        let path = place.workspace.concepts_dir().join("kiwi.md");
        let edited = format!("zero\n{PAGE}");
        std::fs::write(&path, &edited).expect("edited");
        let faults = Faults::default();
        faults.arm(Some((step, Fault::Dies(Reached::All))));
        drop(open_recovering(&place.workspace, &faults));
        let writer = open(&place.workspace);
        let merged = std::fs::read_to_string(&path).expect("there");
        assert_eq!(merged, format!("{edited}five\n"), "cut off at step {step}");
        assert_eq!(writer.recovery().conflicts, []);
        if faults.steps() <= step {
            break;
        }
    }
}

#[test]
fn a_full_disk_is_told_with_what_to_do_and_overcome() {
    let place = Template::new().copy();
    let faults = Faults::default();
    let (runtime, writer) = (runtime(), open_faulty(&place.workspace, &faults, "full"));
    let full = Fault::Fails(io::ErrorKind::StorageFull, Reached::Nothing);
    faults.arm(Some((0, full)));
    let refused = act("create")(&runtime, &writer);
    let Err(SubstrateError::Store(error @ StoreError::ReadOnly { .. })) = refused else {
        panic!("expected a refusal, got {refused:?}");
    };
    let told = error.to_string();
    assert!(
        told.contains("free some disk space") && told.contains("state.db"),
        "{told}"
    );
    assert!(!place.workspace.reserve_path().exists(), "it was given up");
    assert!(
        writer
            .state()
            .read_blocking(ops::halt)
            .expect("read")
            .is_some()
    );
    let pages = FilePages::of_writer(&writer);
    assert!(
        runtime
            .block_on(pages.read(&slug("kiwi")))
            .expect("reading goes on")
            .is_some()
    );
    drop((pages, writer));
    let writer = open(&place.workspace);
    assert!(writer.refusal().is_none());
    act("create")(&runtime, &writer).expect("writing goes on");
    assert!(place.workspace.reserve_path().exists());

    // A disk that is still full when it is opened is no reason not to read.
    drop(writer);
    std::fs::remove_file(place.workspace.reserve_path()).expect("gone");
    let faults = Faults::default();
    faults.arm(Some((1, full)));
    let writer = open_recovering(&place.workspace, &faults).expect("opens");
    assert!(writer.refusal().is_some());
}

#[test]
fn of_two_writers_the_older_one_is_refused() {
    let place = Template::new().copy();
    let (runtime, older) = (runtime(), open(&place.workspace));
    // Somebody deleted the lock's file, so that another writer could come.
    std::fs::remove_file(place.workspace.lock_path()).expect("deleted");
    let newer = open(&place.workspace);
    let refused = act("create")(&runtime, &older);
    assert!(
        matches!(
            refused,
            Err(SubstrateError::Store(StoreError::Locked { .. }))
        ),
        "{refused:?}"
    );
    act("create")(&runtime, &newer).expect("written");
}

/// An assistant that was used and whose state database then met with something.
fn with_state(happens: impl FnOnce(&Workspace)) -> (Place, Writer) {
    let place = Template::new().copy();
    drop(open(&place.workspace));
    happens(&place.workspace);
    let writer = open(&place.workspace);
    (place, writer)
}

#[test]
fn a_lost_state_database_is_told_and_what_it_knew_of_entries_is_not_guessed() {
    let (_place, writer) = with_state(|_| {});
    assert_eq!(writer.recovery().loss, None);
    let (place, writer) = with_state(|workspace| {
        std::fs::remove_file(workspace.state_path()).expect("deleted");
    });
    let loss = writer.recovery().loss.as_ref().expect("told");
    assert_eq!((loss.withheld, loss.kept.as_ref()), (2, None));
    assert!(
        loss.message().contains("the file is missing"),
        "{}",
        loss.message()
    );
    let buffer = std::fs::read_to_string(place.workspace.buffer_path()).expect("read");
    let reader = BufferReader {
        requester: Authority::Owner,
        channels: vec![Channel::Global],
        now: NOW,
    };
    let ids = ids_of(&buffer);
    let withheld = writer.state().withheld_entries(&reader, &ids);
    assert_eq!(withheld.expect("read"), ids);
    // They have items, of which it is known that nobody knows whose they are.
    let items = runtime().block_on(writer.state().items(ItemQuery::new(
        Authority::Owner,
        Consumer::Listing,
        NOW,
    )));
    let items = items.expect("read");
    assert_eq!(items.len(), ids.len());
    assert!(
        items
            .iter()
            .all(|item| item.trust == Trust::Untrusted && item.origin == Origin::Import)
    );
    let told = runtime()
        .block_on(writer.state().meta("state_loss"))
        .expect("read");
    assert_eq!(told, Some(loss.message()));
    drop(writer);
    assert_eq!(
        open(&place.workspace).recovery().loss,
        None,
        "it is told once"
    );
}

#[test]
fn a_state_database_that_cannot_tell_how_pages_came_in_is_refused_and_left_alone() {
    let place = Template::new().copy();
    let workspace = &place.workspace;
    std::fs::write(workspace.state_path(), [0; 8192]).expect("zeroed");
    let lock = workspace.lock("test").expect("nobody else writes");
    let ids = CountingIds::new("refused");
    let refused = Writer::open(workspace, lock, clock(), Arc::new(ids)).expect_err("damaged");
    assert!(matches!(refused, StoreError::Damaged { .. }), "{refused}");
    let bytes = std::fs::read(workspace.state_path()).expect("it is there");
    assert_eq!(bytes, [0; 8192], "whoever restores it finds it as it was");
}

#[test]
fn a_damaged_state_database_is_kept_aside_and_read_as_far_as_it_can_be() {
    // Without its last page most tables can still be read.
    let (_place, writer) = with_state(|workspace| {
        let mut bytes = std::fs::read(workspace.state_path()).expect("read");
        bytes.truncate(bytes.len() - 4096);
        std::fs::write(workspace.state_path(), bytes).expect("cut");
    });
    let loss = writer.recovery().loss.as_ref().expect("told");
    assert!(loss.kept.as_ref().is_some_and(|kept| kept.is_file()));
    assert!(
        loss.rescued.contains(&"page_origins".to_owned()),
        "{loss:?}"
    );
    assert_eq!(origins_of(writer.state()), ["kiwi ExternalDoc"]);
    check_items(&writer, "a damaged database");
    let check = runtime()
        .block_on(writer.state().verify_ledger())
        .expect("read");
    assert_eq!(check.faults, []);
    let query = ItemQuery::new(Authority::Owner, Consumer::Listing, NOW);
    let items = runtime()
        .block_on(writer.state().items(query))
        .expect("read");
    assert_eq!(
        items.len(),
        2,
        "every entry has its item, taken over or made up"
    );
}
