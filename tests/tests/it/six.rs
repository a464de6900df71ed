//! Six processes with one memory open: nobody is turned away, nothing is lost, nothing is there twice.
//!
//! Whichever comes first writes, and the others hand it what they want written; when it ends, another one takes over.
//! Meanwhile one of them repairs and makes the index anew again and again.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use memory_substrate::embed::SeededEmbedder;
use tests::host::{TempHost, given, home_in};
use tests::measure::percentile;

use crate::child;
use crate::told::{Acknowledged, assistant, check, note, page_text, say, speak, take_in};

/// How many processes.
const PROCESSES: usize = 6;
/// How many calls each makes.
const CALLS: usize = 300;
/// How many calls lie between two times of upkeep.
const UPKEEP: usize = 60;

const HOME_VARIABLE: &str = "STRATA_SIX_HOME";
const PROCESS_VARIABLE: &str = "STRATA_SIX_PROCESS";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn six_processes_share_a_memory_and_nothing_fails_or_is_lost_or_doubled() {
    let _machine = child::MACHINE.lock().await;
    let host = TempHost::new(given(SeededEmbedder::default())).await;
    let folder = host
        .expect("a home: run `cargo xtask build-plugins` first")
        .closed();
    let home = home_in(folder.path());
    let program = std::env::current_exe().expect("a program knows where it is");
    let children: Vec<Child> = (0..PROCESSES)
        .map(|process| {
            Command::new(&program)
                .args([
                    "six::makes_its_calls",
                    "--exact",
                    "--ignored",
                    "--nocapture",
                ])
                .env(HOME_VARIABLE, &home)
                .env(PROCESS_VARIABLE, process.to_string())
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("it starts")
        })
        .collect();
    // One reader each: a child whose output nobody takes stands still.
    let readers: Vec<_> = children
        .into_iter()
        .map(|child| std::thread::spawn(move || child.wait_with_output().expect("ended")))
        .collect();
    let mut told = Acknowledged::default();
    let mut waits = Vec::new();
    for (process, reader) in readers.into_iter().enumerate() {
        let output = reader.join().expect("no panic");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && said.contains("1 passed"),
            "process {process} failed: {}\n{said}\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        for line in said.lines() {
            told.take(line);
            let took = line.strip_prefix("took ").map(str::parse);
            waits.extend(took.map(|millis| Duration::from_millis(millis.expect("a number"))));
        }
    }
    let distinct = |names: &[String]| names.iter().collect::<BTreeSet<_>>().len();
    let calls = distinct(&told.notes) + distinct(&told.pages) + told.turns.len();
    assert_eq!(
        calls,
        PROCESSES * CALLS - UPKEEPS,
        "every call was answered"
    );
    check(&home, &told).await;
    let assistant = assistant(&home).await;
    let store = assistant.store().await.expect("open");
    let compared = store.integrity().await.expect("compared");
    assert!(compared.is_clean(), "{compared:?}");
    println!(
        "{calls} calls of {PROCESSES} processes: half of them within {:?}, all but one in a hundred within {:?}, the longest {:?}",
        percentile(&mut waits, 0.5),
        percentile(&mut waits, 0.99),
        percentile(&mut waits, 1.0)
    );
}

/// How many calls are upkeep, in the one process that does it.
const UPKEEPS: usize = CALLS / UPKEEP;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run by `six_processes_share_a_memory_and_nothing_fails_or_is_lost_or_doubled`"]
async fn makes_its_calls() {
    let home = PathBuf::from(std::env::var_os(HOME_VARIABLE).expect("given"));
    let process: usize = std::env::var(PROCESS_VARIABLE)
        .expect("given")
        .parse()
        .expect("a number");
    let assistant = assistant(&home).await;
    for number in 0..CALLS {
        let name = format!("thing-{process}-{number}");
        let start = Instant::now();
        match number {
            _ if process == 0 && number % UPKEEP == UPKEEP - 1 => {
                let go_on = &mut |_| ControlFlow::Continue(());
                if number % (2 * UPKEEP) == UPKEEP - 1 {
                    let report = assistant.reconcile(go_on).await.expect("repaired");
                    assert!(report.faults.is_empty(), "{report:?}");
                } else {
                    let go_on = &mut |_| ControlFlow::Continue(());
                    assistant.reindex(go_on).await.expect("made anew");
                }
                continue;
            }
            _ if number % 4 == 1 => {
                take_in(&assistant, &name, page_text(&name)).await;
                say(&format!("ack page {name}"));
            }
            _ if number % 4 == 2 => speak(&assistant, &name).await,
            _ => note(&assistant, &name).await,
        }
        say(&format!("took {}", start.elapsed().as_millis()));
    }
    assistant.close().await;
}
