//! Processes that are killed while they take pages in or index them, and indexes that something was done to meanwhile.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::Child;

use memory_core::env::{Rng as _, SeededRng};

use super::*;
use crate::assistant::testing::{open_here, said, say};

/// Rounds of killing without being told otherwise.
const ROUNDS: u64 = 4;

/// How many rounds, for whoever has more time.
const ROUNDS_VARIABLE: &str = "STRATA_KILL_ROUNDS";

/// In which round a process is.
const ROUND: &str = "STRATA_TEST_ROUND";

/// Listens to a process until it says a figure that is wanted, kills it there, and returns all that it said of it.
fn kill_when(mut child: Child, figure: &str, wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let mut heard = Vec::new();
    let mut found = false;
    let lines = BufReader::new(child.stdout.take().expect("it is listened to")).lines();
    for line in lines {
        let line = line.expect("text");
        let Some(value) = said(&line, figure) else {
            continue;
        };
        heard.push(value.to_owned());
        // What it said before it died counts, so it is listened to until the end.
        if !found && wanted(value) {
            found = true;
            child.kill().expect("killed");
        }
    }
    child.wait().expect("ended");
    assert!(found, "it ended by itself: {heard:?}");
    heard
}

#[test]
fn an_index_whose_making_was_killed_is_completed_by_the_next_start() {
    let fixture = Fixture::new();
    write_pages(&fixture, 1_000);
    let clean = runtime(async {
        let store = fixture.open().await;
        store.sync(&mut go_on).await.expect("synchronised");
        row_set(&store).await
    });
    std::fs::remove_dir_all(fixture.workspace.index_dir()).expect("removed");
    let child = fixture
        .process("assistant::tests::killed::indexes_until_it_is_killed")
        .spawn()
        .expect("it starts");
    let number = |done: &str| done.parse::<usize>().expect("a number");
    let heard = kill_when(child, "done", |done| number(done) >= 300);
    let heard: Vec<usize> = heard.iter().map(|done| number(done)).collect();
    assert!(heard.is_sorted(), "progress never goes down: {heard:?}");
    runtime(async {
        let store = fixture.open().await;
        assert!(
            !found(&store, "harbour3").is_empty(),
            "words are found at once"
        );
        let waiting = store.stats().await.expect("counted").waiting;
        assert!(
            (1..=800).contains(&waiting),
            "what was done stays done: {waiting}"
        );
        let mut steps = Vec::new();
        let report = store
            .sync(&mut |step| {
                steps.push(step.done);
                go_on(step)
            })
            .await
            .expect("synchronised");
        assert_eq!(report.pages, waiting);
        assert!(
            steps.is_sorted() && steps.last() == Some(&waiting),
            "{steps:?}"
        );
        assert_eq!(row_set(&store).await, clean);
        assert!(store.integrity().await.expect("compared").is_clean());
    });
}

#[test]
#[ignore = "it is the process that another test kills"]
fn indexes_until_it_is_killed() {
    runtime(async {
        let (_, store) = open_here().await;
        let follow = &mut |step: SyncProgress| {
            say("done", step.done);
            ControlFlow::Continue(())
        };
        store.sync(follow).await.expect("synchronised");
    });
}

/// Returns every file of the index, sorted.
fn files_of(index: &Path) -> Vec<PathBuf> {
    let (mut folders, mut files) = (vec![index.to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("listed") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// Cuts a file off somewhere or changes one of its bits. An empty one is removed.
fn harm(path: &Path, numbers: &SeededRng) -> String {
    let mut bytes = std::fs::read(path).expect("read");
    if bytes.is_empty() {
        std::fs::remove_file(path).expect("removed");
        return format!("{} removed", path.display());
    }
    let at = usize::try_from(numbers.next_u64()).unwrap_or_default() % bytes.len();
    let how = if numbers.next_u64().is_multiple_of(2) {
        bytes.truncate(at);
        "cut off"
    } else {
        bytes[at] ^= 1 << (numbers.next_u64() % 8);
        "changed"
    };
    std::fs::write(path, bytes).expect("written");
    format!("{} {how} at {at}", path.display())
}

#[test]
fn pages_that_were_taken_in_outlive_kills_and_harm_to_the_index() {
    let rounds =
        std::env::var(ROUNDS_VARIABLE).map_or(ROUNDS, |rounds| rounds.parse().expect("a number"));
    let (fixture, numbers) = (Fixture::new(), SeededRng::new(4));
    let mut told: Vec<String> = Vec::new();
    for round in 0..rounds {
        let child = fixture
            .process("assistant::tests::killed::takes_pages_in_until_it_is_killed")
            .env(ROUND, round.to_string())
            .spawn()
            .expect("it starts");
        let last = numbers.next_u64() % 6;
        told.extend(kill_when(child, "page", |page| {
            page.ends_with(&format!("-{last}"))
        }));
        let files = files_of(&fixture.workspace.index_dir());
        let at = usize::try_from(numbers.next_u64()).unwrap_or_default() % files.len();
        let harmed = format!("round {round}: {}", harm(&files[at], &numbers));
        runtime(async {
            let store = fixture.open().await;
            for page in &told {
                let word = page.replace('-', "");
                assert_eq!(
                    found(&store, &word).len(),
                    1,
                    "{harmed}: `{page}` is not found"
                );
                assert!(
                    fixture.page(&format!("{page}.md")).exists(),
                    "{harmed}: `{page}` is lost"
                );
            }
            store.sync(&mut go_on).await.expect("synchronised");
            let rows = row_set(&store).await;
            let lacks = |page: &&String| {
                !rows
                    .iter()
                    .any(|(key, ..)| key.starts_with(&format!("{page}#")))
            };
            assert_eq!(told.iter().find(lacks), None, "{harmed}");
            assert!(
                store.integrity().await.expect("compared").is_clean(),
                "{harmed}"
            );
        });
    }
    println!("{} pages outlived {rounds} kills", told.len());
}

#[test]
#[ignore = "it is the process that another test kills"]
fn takes_pages_in_until_it_is_killed() {
    let round = std::env::var(ROUND).expect("given");
    runtime(async {
        let (_, store) = open_here().await;
        for number in 0..1_000 {
            let name = format!("page-{round}-{number}");
            let text = format!(
                "# {name}\n\nThis is {}.\n\n## More\n\nAnd more.\n",
                name.replace('-', "")
            );
            let source = IngestSource::Text {
                name: name.clone(),
                text,
            };
            let listener = &mut |_: EngineProgress| ControlFlow::Continue(());
            let ingesting = store.ingest_and_index(source, IngestOptions::default(), listener);
            let (report, _) = ingesting.await.expect("taken in");
            assert_eq!(report.written, 1, "{report:?}");
            say("page", name);
        }
    });
}

/// Every file once, though what is harmed is replaced by other files each time.
#[test]
fn whichever_file_of_the_index_is_harmed_the_next_start_works_and_ends_equal() {
    runtime(async {
        let (fixture, numbers) = (Fixture::new(), SeededRng::new(9));
        write_pages(&fixture, 3);
        let store = fixture.open().await;
        store.sync(&mut go_on).await.expect("synchronised");
        let clean = row_set(&store).await;
        drop(store);
        let mut number = 0;
        loop {
            let files = files_of(&fixture.workspace.index_dir());
            let Some(path) = files.get(number) else {
                break;
            };
            let harmed = harm(path, &numbers);
            let store = fixture.open().await;
            assert_eq!(found(&store, "number1").len(), 1, "{harmed}");
            store.sync(&mut go_on).await.expect("synchronised");
            assert_eq!(row_set(&store).await, clean, "{harmed}");
            assert!(
                store.integrity().await.expect("compared").is_clean(),
                "{harmed}"
            );
            number += 1;
        }
        assert!(number > 8, "{number}");
    });
}
