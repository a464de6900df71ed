//! Runs from end to end: on an assistant in a folder, with what may come between.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use memory_core::embed::{EmbedError, Embedder, SpaceId, Vectors};
use memory_core::env::{Rng as _, SeededRng};
use memory_core::item::{Consumer, ItemQuery, LayerName};
use memory_core::provenance::{Authority, Channel, Origin, Trust};
use memory_core::store::{ItemStore as _, StoreError};
use memory_core::text::buffer;
use memory_core::text::citation::marks;
use memory_core::text::slug::Slug;
use memory_core::time::Timestamp;

use super::*;
use crate::assistant::AssistantStore;
use crate::assistant::testing::{DIMS, Fixture, runtime};
use crate::embed::SeededEmbedder;
use crate::remember::RememberInput;

mod corpus;
mod cycles;
mod model;

fn options() -> ConsolidateOptions {
    ConsolidateOptions {
        cause: RunCause::Manual,
        dry_run: false,
        most_entries: Some(150),
        longest_page: 5_000,
    }
}

async fn note(store: &AssistantStore, text: &str) -> String {
    note_as(store, text, Origin::UserDirect, Channel::Global).await
}

async fn note_as(store: &AssistantStore, text: &str, origin: Origin, channel: Channel) -> String {
    let input = RememberInput {
        texts: vec![text.to_owned()],
        origin,
        authority: Authority::Owner,
        channel,
    };
    let receipt = store.remember(input, "UTC").await.expect("remembered");
    receipt.entries[0].id.clone()
}

async fn run(store: &AssistantStore) -> RunReport {
    store.consolidate(options()).await.expect("consolidated")
}

/// Brings what was said into its files.
fn settle(store: &AssistantStore) {
    store
        .writer()
        .expect("it writes")
        .settle()
        .expect("settled");
}

fn buffer_of(fixture: &Fixture) -> String {
    std::fs::read_to_string(fixture.workspace.buffer_path()).unwrap_or_default()
}

fn page_of(report: &RunReport, id: &str) -> String {
    let filed = report.filed.iter().find(|filed| filed.entry == id);
    filed.expect("filed").page.to_string()
}

/// Returns every file of the memory with its text, but for what only derives from it.
fn files(fixture: &Fixture) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![fixture.workspace.memory_dir()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("listed").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(text) = std::fs::read_to_string(&path) {
                found.insert(path.display().to_string(), text);
            }
        }
    }
    found
}

#[test]
fn entries_go_where_a_person_would_look_for_them() {
    runtime(async {
        let fixture = Fixture::new();
        fixture.write(
            "nora.md",
            "# Nora\n\nShe keeps the archive.\n\n## Food\n\n- Nora is allergic to hazelnuts.\n",
        );
        fixture.write("roaster.md", "---\naliases: [Frieda]\n---\n# Coffee roaster\n\nIt stands in the cellar, see [[nora]].\n");
        let store = fixture.open().await;
        store.refresh().await.expect("refreshed");
        let said = [
            "The belts were changed in May, see [[roaster]] and [[nowhere]].",
            "nora is allergic to hazelnuts",
            "Frieda needs a new drum.",
            "Tomasz Lem repairs the tape robot.",
            "buy more tea",
            "# not a heading\n---\n```\nls ^m-zz\n```",
        ];
        let mut ids = Vec::new();
        for text in said {
            ids.push(note(&store, text).await);
        }
        let report = run(&store).await;
        assert_eq!(report.outcome, RunOutcome::Installed, "{report:#?}");
        assert_eq!(page_of(&report, &ids[0]), "roaster");
        assert_eq!(page_of(&report, &ids[1]), "nora");
        assert_eq!(page_of(&report, &ids[2]), "roaster");
        assert_eq!(page_of(&report, &ids[3]), "tomasz-lem");
        assert!(
            page_of(&report, &ids[4]).starts_with("notes-"),
            "{report:#?}"
        );
        assert_eq!(buffer_of(&fixture).trim(), "");
        let text = |name: &str| std::fs::read_to_string(fixture.page(name)).expect("a page");
        assert_eq!(
            text("nora.md"),
            format!(
                "# Nora\n\nShe keeps the archive.\n\n## Food\n\n- Nora is allergic to hazelnuts. ^m-{}\n",
                ids[1]
            )
        );
        assert_eq!(
            text("roaster.md").replace(&store.now().civil_date("UTC"), "DAY"),
            format!(
                "---\naliases: [Frieda]\n---\n# Coffee roaster\n\nIt stands in the cellar, see [[nora]].\n\n\
                 - DAY: The belts were changed in May, see [[roaster]] and nowhere. ^m-{}\n\
                 - DAY: Frieda needs a new drum. ^m-{}\n",
                ids[0], ids[2]
            )
        );
        // What was said is in the archive, word for word, and can be searched on its page.
        let archive: String = files(&fixture)
            .into_iter()
            .filter(|(path, _)| path.contains("archive"))
            .map(|(_, text)| text)
            .collect();
        for id in &ids {
            assert!(archive.contains(&format!("^m-{id}")), "{id}");
        }
        let query = ItemQuery::new(Authority::Owner, Consumer::Listing, store.now());
        let items = store.state().items(query).await.expect("read");
        assert_eq!(items.len(), ids.len());
        for item in &items {
            assert_eq!(item.layer.name(), LayerName::LongTerm, "{item:?}");
            let cited = store.state().citations(&item.id).await.expect("read");
            assert_eq!(cited.len(), 1, "{item:?}");
            assert!(cited[0].section.is_some(), "{cited:?}");
        }
        let validated = store.validate(5_000).await.expect("validated");
        assert!(validated.is_clean(), "{validated:?}");
        assert_eq!(run(&store).await.outcome, RunOutcome::Nothing);
    });
}

#[test]
fn a_trial_changes_nothing() {
    runtime(async {
        let fixture = Fixture::new();
        let store = fixture.open().await;
        note(&store, "Nora likes tea.").await;
        settle(&store);
        let before = files(&fixture);
        let trial = ConsolidateOptions {
            dry_run: true,
            ..options()
        };
        let report = store.consolidate(trial).await.expect("tried");
        assert_eq!(report.filed.len(), 1);
        assert!(report.pages[0].diff.contains("+- "), "{report:?}");
        assert_eq!(files(&fixture), before);
        assert!(store.runs(10).await.expect("listed").is_empty());
    });
}

#[test]
fn a_run_is_listed_and_taken_back_whole() {
    runtime(async {
        let fixture = Fixture::new();
        fixture.write("nora.md", "# Nora\n\nShe keeps the archive.\n");
        let store = fixture.open().await;
        store.refresh().await.expect("refreshed");
        for text in ["Nora likes tea.", "Tomasz Lem\nrepairs robots.", "buy tea"] {
            note(&store, text).await;
        }
        settle(&store);
        let before = files(&fixture);
        let report = run(&store).await;
        let listed = store.runs(10).await.expect("listed");
        assert_eq!((listed.len(), &listed[0].report), (1, &report));
        let one = store.run(&report.id).await.expect("read").expect("known");
        assert_eq!(one.report.pages.len(), report.pages.len());

        let operation = report.operation.expect("it was installed");
        let undone = store.undo(&operation).await.expect("taken back");
        assert_eq!(undone.put_back.len(), 3, "{undone:?}");
        assert!(undone.conflicts.is_empty());
        assert_eq!(files(&fixture), before);
        // And filed again, in the same places.
        let again = run(&store).await;
        let places = |report: &RunReport| -> Vec<String> {
            let filed = report.filed.iter();
            filed
                .map(|filed| format!("{} {}", filed.entry, filed.page))
                .collect()
        };
        assert_eq!(places(&again), places(&listed[0].report));
        assert!(buffer_of(&fixture).trim().is_empty());
    });
}

#[test]
fn a_run_in_the_middle_is_taken_back_and_the_others_stay() {
    runtime(async {
        let fixture = Fixture::new();
        fixture.write("nora.md", "# Nora\n\nShe keeps the archive.\n");
        let store = fixture.open().await;
        store.refresh().await.expect("refreshed");
        let mut runs = Vec::new();
        for (of_nora, of_tomasz) in [
            ("Nora likes tea.", "Tomasz Lem likes rum."),
            (
                "Nora lives in Leith.\nSince May.",
                "Tomasz Lem lives in Ghent.",
            ),
            ("Nora has a dog.", "Tomasz Lem has a cat."),
        ] {
            note(&store, of_nora).await;
            note(&store, of_tomasz).await;
            runs.push(run(&store).await);
        }
        let operation = runs[1].operation.clone().expect("installed");
        let undone = store.undo(&operation).await.expect("taken back");
        assert_eq!(undone.put_back.len(), 2, "{undone:?}");
        assert!(undone.conflicts.is_empty(), "{undone:?}");
        let nora = std::fs::read_to_string(fixture.page("nora.md")).expect("a page");
        assert!(
            nora.contains("likes tea") && nora.contains("has a dog"),
            "{nora}"
        );
        assert!(
            !nora.contains("Leith") && !nora.contains("Since May"),
            "{nora}"
        );
        let other = std::fs::read_to_string(fixture.page("tomasz-lem.md")).expect("a page");
        assert!(!other.contains("Ghent") && other.contains("cat"), "{other}");
        assert!(buffer_of(&fixture).contains("Nora lives in Leith."));
        // The first one made a page on which others stand by now.
        let operation = runs[0].operation.clone().expect("installed");
        store.undo(&operation).await.expect("taken back");
        let other = std::fs::read_to_string(fixture.page("tomasz-lem.md")).expect("a page");
        assert!(!other.contains("rum") && other.contains("cat"), "{other}");
    });
}

#[test]
fn what_is_trusted_less_or_of_a_channel_stands_on_pages_of_its_own() {
    runtime(async {
        let fixture = Fixture::new();
        fixture.write("nora.md", "# Nora\n\nShe keeps the archive.\n");
        let store = fixture.open().await;
        store.refresh().await.expect("refreshed");
        let project = Channel::parse("_project_kiwi");
        let tool = note_as(
            &store,
            "Nora is on holiday [[nora]].",
            Origin::ToolOutput,
            Channel::Global,
        )
        .await;
        let kiwi = note_as(
            &store,
            "Nora leads the kiwi team.",
            Origin::UserDirect,
            project.clone(),
        )
        .await;
        let report = run(&store).await;
        let (tool, kiwi) = (page_of(&report, &tool), page_of(&report, &kiwi));
        assert!(
            tool != "nora" && kiwi != "nora" && tool != kiwi,
            "{report:#?}"
        );
        let index = store.pages();
        let page = |name: &str| {
            index
                .get(&Slug::parse(name).expect("a slug"))
                .expect("a page")
                .clone()
        };
        assert_eq!(page(&tool).trust, Trust::Untrusted);
        assert_eq!(
            (page(&kiwi).trust, &page(&kiwi).channel),
            (Trust::Trusted, &project)
        );
        assert_eq!(page("nora").trust, Trust::Trusted);
        let nora = std::fs::read_to_string(fixture.page("nora.md")).expect("a page");
        assert_eq!(nora, "# Nora\n\nShe keeps the archive.\n");
        // No view shows what is not for everybody.
        for (path, text) in files(&fixture) {
            if !path.contains("concepts") && !path.contains("archive") && !path.contains("buffer") {
                assert!(
                    !text.contains("holiday") && !text.contains("kiwi team"),
                    "{path}: {text}"
                );
            }
        }
    });
}

#[test]
fn contradictions_stand_side_by_side_and_are_told() {
    runtime(async {
        let fixture = Fixture::new();
        fixture.write("nora.md", "# Nora\n\n- Nora lives in Leith since May.\n");
        let store = fixture.open().await;
        store.refresh().await.expect("refreshed");
        let id = note(&store, "Nora lives in Porto since May.").await;
        let report = run(&store).await;
        assert_eq!(page_of(&report, &id), "nora");
        assert_eq!(report.doubts.len(), 1, "{report:#?}");
        let text = std::fs::read_to_string(fixture.page("nora.md")).expect("a page");
        assert!(text.contains("Leith") && text.contains("Porto"), "{text}");
        let notices = store.take_notices();
        assert!(
            notices
                .iter()
                .any(|notice| notice.code.starts_with("run_doubts")),
            "{notices:?}"
        );
    });
}

#[test]
fn a_view_that_a_person_edited_is_theirs() {
    runtime(async {
        let fixture = Fixture::new();
        let store = fixture.open().await;
        std::fs::write(fixture.workspace.essentials_path(), "My own words.\n").expect("written");
        note(&store, "Nora likes tea.").await;
        run(&store).await;
        let recent = fixture.workspace.recent_path();
        let text = std::fs::read_to_string(&recent).expect("made");
        assert!(
            text.contains("Nora likes tea.") && text.contains("[[nora]]"),
            "{text}"
        );
        std::fs::write(&recent, format!("{text}\nAnd mine.\n")).expect("written");
        note(&store, "Nora has a dog.").await;
        run(&store).await;
        let text = std::fs::read_to_string(&recent).expect("there");
        assert!(
            text.ends_with("And mine.\n") && !text.contains("dog"),
            "{text}"
        );
        let essentials = std::fs::read_to_string(fixture.workspace.essentials_path());
        assert_eq!(essentials.expect("there"), "My own words.\n");
    });
}

#[test]
fn what_the_owner_changed_in_an_entry_is_what_it_says() {
    runtime(async {
        let fixture = Fixture::new();
        let store = fixture.open().await;
        let id = note(&store, "Nora likes tea.").await;
        settle(&store);
        let text = buffer_of(&fixture).replace("tea", "coffee");
        std::fs::write(fixture.workspace.buffer_path(), text).expect("written");
        let report = run(&store).await;
        assert_eq!(page_of(&report, &id), "nora");
        let query = ItemQuery::new(Authority::Owner, Consumer::Listing, store.now());
        let items = store.state().items(query).await.expect("read");
        assert_eq!(items[0].claim.as_str(), "Nora likes coffee.");
        let nora = std::fs::read_to_string(fixture.page("nora.md")).expect("a page");
        assert!(nora.contains("coffee"), "{nora}");
    });
}

#[test]
fn an_entry_that_was_edited_after_it_was_filed_is_kept() {
    runtime(async {
        let fixture = Fixture::new();
        let store = fixture.open().await;
        let id = note(&store, "Nora likes tea.").await;
        settle(&store);
        let entry = buffer_of(&fixture);
        run(&store).await;
        // As it stands after an edit at the very moment in which it was taken out, and after none.
        let edited = entry.replace("tea", "coffee");
        std::fs::write(fixture.workspace.buffer_path(), &edited).expect("written");
        let report = run(&store).await;
        assert_eq!(
            (report.held.len(), report.filed.len()),
            (1, 0),
            "{report:#?}"
        );
        assert_eq!(buffer_of(&fixture), edited);
        std::fs::write(fixture.workspace.buffer_path(), &entry).expect("written");
        let report = run(&store).await;
        assert_eq!(page_of(&report, &id), "nora");
        assert_eq!(buffer_of(&fixture), "");
        let nora = std::fs::read_to_string(fixture.page("nora.md")).expect("a page");
        assert_eq!(nora.matches("Nora likes tea").count(), 1, "{nora}");
    });
}

/// A model that does something the first times it is asked: whatever happens while a run is at work.
struct Meanwhile {
    inner: SeededEmbedder,
    left: AtomicUsize,
    does: Mutex<Box<dyn FnMut() + Send>>,
}

impl std::fmt::Debug for Meanwhile {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Meanwhile")
    }
}

impl Meanwhile {
    fn new(times: usize, does: impl FnMut() + Send + 'static) -> Arc<Self> {
        Arc::new(Self {
            inner: SeededEmbedder::new(DIMS),
            left: AtomicUsize::new(times),
            does: Mutex::new(Box::new(does)),
        })
    }
}

#[async_trait]
impl Embedder for Meanwhile {
    fn space(&self) -> &SpaceId {
        self.inner.space()
    }

    fn dims(&self) -> usize {
        self.inner.dims()
    }

    async fn embed(&self, texts: Vec<String>) -> Result<Vectors, EmbedError> {
        let is_due = texts.iter().any(|text| text.contains("meanwhile"))
            && self
                .left
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
                    left.checked_sub(1)
                })
                .is_ok();
        if is_due {
            (self.does.lock().expect("nobody panics"))();
        }
        self.inner.embed(texts).await
    }
}

#[test]
fn a_persons_edit_meanwhile_stays_and_the_run_is_made_on_top_of_it() {
    runtime(async {
        let fixture = Fixture::new();
        fixture.write("nora.md", "# Nora\n\nShe keeps the archive.\n");
        let place = fixture.page("nora.md");
        let edit = move || {
            std::fs::write(&place, "# Nora\n\nShe left the archive in May.\n").expect("written");
        };
        let (store, _) = fixture.open_with(Some(Meanwhile::new(1, edit))).await;
        store.refresh().await.expect("refreshed");
        note(&store, "Nora likes tea, meanwhile.").await;
        let report = run(&store).await;
        assert_eq!((report.again, report.filed.len()), (1, 1), "{report:#?}");
        let text = std::fs::read_to_string(fixture.page("nora.md")).expect("a page");
        assert!(
            text.starts_with("# Nora\n\nShe left the archive in May.\n"),
            "{text}"
        );
        assert!(text.contains("likes tea"), "{text}");
    });
}

#[test]
fn a_person_who_never_stops_wins() {
    runtime(async {
        let fixture = Fixture::new();
        fixture.write("nora.md", "# Nora\n\nShe keeps the archive.\n");
        let place = fixture.page("nora.md");
        let mut round = 0;
        let edit = move || {
            round += 1;
            std::fs::write(&place, format!("# Nora\n\nVersion {round}.\n")).expect("written");
        };
        let (store, _) = fixture
            .open_with(Some(Meanwhile::new(usize::MAX, edit)))
            .await;
        store.refresh().await.expect("refreshed");
        note(&store, "Nora likes tea, meanwhile.").await;
        let error = store.consolidate(options()).await.expect_err("never");
        assert!(matches!(error, StoreError::Conflict { .. }), "{error}");
        assert!(buffer_of(&fixture).contains("likes tea"));
        assert!(store.runs(10).await.expect("listed").is_empty());
    });
}

#[test]
fn entries_that_come_meanwhile_are_left_for_the_next_run() {
    runtime(async {
        let fixture = Fixture::new();
        let place = fixture.workspace.buffer_path();
        let add = move || {
            use std::io::Write as _;
            let mut file = std::fs::OpenOptions::new()
                .append(true)
                .open(&place)
                .expect("opened");
            file.write_all(b"- [2026-11-30 14:05] late ^m-late1\n  and long\nmy own prose\n")
                .expect("written");
        };
        let (store, _) = fixture.open_with(Some(Meanwhile::new(1, add))).await;
        note(&store, "Nora likes tea, meanwhile.").await;
        let report = run(&store).await;
        assert_eq!((report.again, report.filed.len()), (0, 1), "{report:#?}");
        assert_eq!(
            buffer_of(&fixture),
            "- [2026-11-30 14:05] late ^m-late1\n  and long\nmy own prose\n"
        );
        let report = run(&store).await;
        assert_eq!(report.filed[0].entry, "late1");
        assert_eq!(buffer_of(&fixture), "my own prose\n");
    });
}

#[test]
fn only_one_run_is_at_work() {
    runtime(async {
        let fixture = Fixture::new();
        let store = fixture.open().await;
        note(&store, "Nora likes tea.").await;
        let _held = store.consolidating().lock().await;
        let error = store.consolidate(options()).await.expect_err("another one");
        assert!(matches!(error, StoreError::Locked { .. }), "{error}");
    });
}

#[test]
fn forgetting_and_erasing_reach_what_runs_keep() {
    runtime(async {
        let fixture = Fixture::new();
        let store = fixture.open().await;
        let id = note(&store, "Nora hides the zebrawood key.").await;
        run(&store).await;
        let context = crate::oplog::WriteContext::new("test", Origin::UserDirect, Authority::Owner);
        let receipt = store.forget(&id, context).await.expect("forgotten");
        assert_eq!(receipt.cited_by.len(), 1, "the page is named");
        let kept = store.state().read_blocking(|connection| {
            connection
                .query_row(
                    "SELECT count(*) FROM run_entry WHERE text LIKE '%zebrawood%'",
                    [],
                    |row| row.get::<_, i64>(0),
                )
                .map_err(|error| StoreError::engine("count", error))
        });
        assert_eq!(kept.expect("counted"), 0);
    });
}

#[test]
fn erasing_reaches_wherever_a_run_has_put_an_entry() {
    runtime(async {
        let fixture = Fixture::new();
        fixture.write("nora.md", "# Nora\n\nShe keeps the archive.\n");
        let store = fixture.open().await;
        store.refresh().await.expect("refreshed");
        let secret = "Nora hides the zebrawood key. It lies below the third stair.";
        let id = note(&store, secret).await;
        note(&store, "Nora likes tea.").await;
        assert_eq!(run(&store).await.filed.len(), 2);
        let target = crate::erase::EraseTarget::Entry(id.clone());
        let mut go_on = |_| std::ops::ControlFlow::Continue(());
        let report = store.erase(target, &mut go_on).await.expect("erased");
        assert!(report.is_clean(), "{report:?}");
        for (path, text) in files(&fixture) {
            assert!(!text.contains("zebrawood"), "{path}: {text}");
        }
        let past = store.runs(1).await.expect("read");
        assert!(!format!("{past:?}").contains("zebrawood"), "{past:?}");
        let page = std::fs::read_to_string(fixture.page("nora.md")).expect("a page");
        assert!(
            page.contains("Nora likes tea.") && !page.contains(&id),
            "{page}"
        );
    });
}

#[test]
fn taking_a_run_back_leaves_what_a_person_wrote() {
    runtime(async {
        let fixture = Fixture::new();
        let mine = "- Nora is allergic to hazelnuts.\n  - and to almonds\n";
        fixture.write("nora.md", &format!("# Nora\n\n{mine}"));
        let store = fixture.open().await;
        store.refresh().await.expect("refreshed");
        for text in [
            "Nora is allergic to hazelnuts",
            "Nora likes tea.",
            "Nora has a dog.",
        ] {
            note(&store, text).await;
        }
        let report = run(&store).await;
        assert_eq!(report.filed.len(), 3, "{report:#?}");
        let page = std::fs::read_to_string(fixture.page("nora.md")).expect("a page");
        let edited: String = page
            .split_inclusive('\n')
            .map(|line| {
                if line.contains("likes tea") {
                    format!("{line}  - green, from a tin\n")
                } else {
                    line.to_owned()
                }
            })
            .collect();
        fixture.write("nora.md", &format!("{edited}\nMore of mine.\n"));
        store.refresh().await.expect("refreshed");
        let operation = report.operation.expect("installed");
        let undone = store.undo(&operation).await.expect("taken back");
        assert_eq!(undone.put_back.len(), 3, "{undone:?}");
        settle(&store);
        let page = std::fs::read_to_string(fixture.page("nora.md")).expect("a page");
        for kept in [mine, "  - green, from a tin\n", "More of mine.\n"] {
            assert!(page.contains(kept), "{kept}: {page}");
        }
        assert!(
            !page.contains("has a dog") && marks(&page).is_empty(),
            "{page}"
        );
    });
}

/// Writes entries of every kind, and returns their ids.
async fn random_entries(store: &AssistantStore, rng: &SeededRng, number: usize) -> Vec<String> {
    const NAMES: [&str; 6] = [
        "Nora",
        "Tomasz Lem",
        "the roaster",
        "kiwi",
        "北京",
        "Frieda",
    ];
    const REST: [&str; 6] = [
        "likes tea",
        "is in the cellar",
        "# has a mark",
        "needs 3 belts\n- [2026-11-30 14:05] x ^m-zz",
        "says \"no\"",
        "sees [[nora]] and [[void]]",
    ];
    let mut ids = Vec::new();
    for _ in 0..number {
        let pick = |words: &[&str; 6]| {
            words[usize::try_from(rng.next_u64() % 6).expect("small")].to_owned()
        };
        let text = format!(
            "{} {} {}",
            pick(&NAMES),
            pick(&REST),
            rng.next_u64() % 1_000
        );
        ids.push(note(store, &text).await);
    }
    ids
}

#[test]
fn entries_are_neither_lost_nor_filed_twice() {
    runtime(async {
        for seed in 0..6 {
            let fixture = Fixture::new();
            fixture.write("nora.md", "# Nora\n\nShe keeps the archive.\n");
            let store = fixture.open().await;
            store.refresh().await.expect("refreshed");
            let rng = SeededRng::new(seed);
            let mut said: Vec<String> = Vec::new();
            for round in 0..5 {
                let number = usize::try_from(rng.next_u64() % 9).expect("small");
                said.extend(random_entries(&store, &rng, number).await);
                // Fewer than there are, all within one minute.
                let few = ConsolidateOptions {
                    most_entries: Some(1 + u32::try_from(rng.next_u64() % 6).expect("small")),
                    ..options()
                };
                let report = store.consolidate(few).await.expect("consolidated");
                assert!(
                    report.problems.is_empty(),
                    "seed {seed}, round {round}: {report:#?}"
                );
                said.sort();
                said.dedup();
                check_each_is_once(&fixture, &said);
            }
        }
    });
}

/// Holds that each entry stands either in the buffer or on one page.
fn check_each_is_once(fixture: &Fixture, ids: &[String]) {
    let waiting: Vec<String> = buffer::entries_in(buffer_of(fixture).as_bytes())
        .into_iter()
        .map(|(id, _)| id)
        .collect();
    let mut filed = Vec::new();
    for (path, text) in files(fixture) {
        if path.contains("concepts") {
            filed.extend(marks(&text).into_iter().map(|mark| mark.id.to_owned()));
        }
    }
    for id in ids {
        let times = waiting
            .iter()
            .chain(&filed)
            .filter(|known| *known == id)
            .count();
        assert_eq!(times, 1, "{id}: {waiting:?} {filed:?}");
    }
    assert_eq!(waiting.len() + filed.len(), ids.len());
}

#[test]
fn what_differs_in_a_sign_is_filed_by_itself() {
    runtime(async {
        let fixture = Fixture::new();
        fixture.write(
            "nora.md",
            "# Nora\n\n- Nora writes C.\n- ~~Nora eats meat~~\n- 2025-01-01: Nora paid rent\n",
        );
        let store = fixture.open().await;
        store.refresh().await.expect("refreshed");
        let said = [
            "Nora writes C++",
            "Nora eats meat",
            "Nora paid rent",
            "Nora has -5 points",
            "Nora has 5 points",
            "2025-01-01: Nora paid rent",
            "nora writes C",
        ];
        for text in said {
            note(&store, text).await;
        }
        let report = run(&store).await;
        assert_eq!(report.filed.len(), said.len(), "{report:#?}");
        let text = std::fs::read_to_string(fixture.page("nora.md")).expect("read");
        for text_said in &said[..5] {
            let line = format!(": {text_said} ^m-");
            assert!(text.contains(&line), "{text_said}: {text}");
        }
        // These two stand there already, sign for sign.
        assert!(
            text.contains("- Nora writes C. ^m-")
                && text.contains("- 2025-01-01: Nora paid rent ^m-"),
            "{text}"
        );
    });
}

#[test]
fn damage_anywhere_leaves_everything_as_it_was() {
    runtime(async {
        let fixture = Fixture::new();
        let store = fixture.open().await;
        note(&store, "Nora likes tea.").await;
        // The folder of a new page cannot be made.
        std::fs::write(fixture.page("nora.md"), [0xff, 0xfe, 0x00]).expect("written");
        let report = run(&store).await;
        let page = page_of(&report, &report.filed[0].entry);
        assert_ne!(page, "nora", "a file that is no text is left alone");
        assert_eq!(
            std::fs::read(fixture.page("nora.md")).expect("there"),
            [0xff, 0xfe, 0x00]
        );
    });
}

#[test]
fn the_record_of_a_run_outlives_a_restart() {
    runtime(async {
        let fixture = Fixture::new();
        let store = fixture.open().await;
        note(&store, "Nora likes tea.").await;
        let report = run(&store).await;
        drop(store);
        let store = fixture.open_read_only().await;
        let run = store.run(&report.id).await.expect("read").expect("known");
        assert_eq!(run.report, report);
        assert!(run.ended >= run.started && run.started > Timestamp::from_millis(0));
    });
}
