//! The command line with a language model: a scripted one on loopback, over both wires.

use std::fmt::Write as _;

use memory_core::store::StoreError;
use memory_substrate::blocking;
use serde_json::{Value, json};

use crate::fixture::{Fixture, Run};

#[expect(
    dead_code,
    reason = "not everything that the server can do is needed here"
)]
#[path = "../../../memory-substrate/src/llm/scripted.rs"]
mod scripted;

use scripted::{Asked, Reply, ScriptedServer};

/// The name of the variable that holds the key, and the key.
const KEY: (&str, &str) = ("MY_MODEL_KEY", "sk-test-0a1b2c3d4e5f");

const WIRES: [&str; 2] = ["openai", "anthropic"];

/// Has the settings name a model.
fn configure(fixture: &Fixture, wire: &str, server: &ScriptedServer) {
    for (key, value) in [
        ("llm.provider", wire),
        ("llm.model", "scripted"),
        ("llm.baseUrl", &server.base_url()),
        ("llm.keyVariable", KEY.0),
    ] {
        fixture.run(&["config", "set", key, value]).expect(0);
    }
}

/// Runs the program with the key in its environment, while the server goes on.
async fn run(fixture: &Fixture, arguments: &[&str]) -> Run {
    let mut command = fixture.command(arguments);
    command.env(KEY.0, KEY.1);
    let output = blocking::run(move || Ok::<_, StoreError>(command.output().unwrap()));
    let output = output.await.unwrap();
    let run = Run {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    };
    assert!(
        !run.out.contains(KEY.1) && !run.err.contains(KEY.1),
        "{run:?}"
    );
    run
}

/// Returns the notes that a request names.
fn notes(asked: &Asked) -> Vec<String> {
    let mut text = String::new();
    collect(&asked.body, &mut text);
    text.lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter_map(|line| Some(line["note"].as_str()?.to_owned()))
        .collect()
}

fn collect(value: &Value, text: &mut String) {
    match value {
        Value::String(part) => writeln!(text, "{part}").unwrap(),
        Value::Array(parts) => parts.iter().for_each(|part| collect(part, text)),
        Value::Object(parts) => parts.values().for_each(|part| collect(part, text)),
        _ => {}
    }
}

/// Answers as a model that files every note on a page of its own and is done.
fn diligent() -> impl FnMut(&Asked) -> Reply + Send {
    let mut is_filed = false;
    move |asked| {
        if std::mem::replace(&mut is_filed, true) {
            return Reply::Calls(vec![("done".to_owned(), json!({}))]);
        }
        let file = |note: &String| ("file".to_owned(), json!({"note": note, "title": "Swans"}));
        Reply::Calls(notes(asked).iter().map(file).collect())
    }
}

fn buffer(fixture: &Fixture) -> String {
    std::fs::read_to_string(fixture.workspace("memory/buffer.md")).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_files_notes_over_both_wires() {
    for wire in WIRES {
        let fixture = Fixture::ingested();
        let server = ScriptedServer::start(Box::new(diligent())).await;
        configure(&fixture, wire, &server);
        let said = "Amelie Roux counted seven swans.";
        fixture.run(&["remember", said]).expect(0);
        let done = run(&fixture, &["consolidate", "--json"]).await.expect(0);
        let report = done.json()["data"].take();
        assert_eq!(
            (&report["filer"], &report["model"], &report["outcome"]),
            (&json!("model"), &json!("scripted"), &json!("installed")),
            "{report:#}"
        );
        assert_eq!(
            report["usage"],
            json!({"calls": 2, "input": 200, "output": 20, "cached": 80})
        );
        let page = std::fs::read_to_string(fixture.workspace("memory/concepts/swans.md")).unwrap();
        assert!(
            page.starts_with("# Swans\n") && page.contains(said),
            "{page}"
        );
        assert!(!buffer(&fixture).contains(said));
        let asked = server.asked();
        assert!(
            asked
                .iter()
                .all(|asked| asked.headers.iter().any(|(_, value)| value.contains(KEY.1)))
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_fails_leaves_everything_as_it_was() {
    let unpaid = || {
        Reply::Status(
            402,
            Vec::new(),
            json!({"error": {"message": "no credit"}}).to_string(),
        )
    };
    for wire in WIRES {
        let fixture = Fixture::ingested();
        let server = ScriptedServer::with(vec![
            unpaid(),
            Reply::Garbage("<html>".to_owned()),
            Reply::Garbage("<html>".to_owned()),
            Reply::Garbage("<html>".to_owned()),
            Reply::Text("I would rather talk.".to_owned()),
            Reply::Text("Still.".to_owned()),
        ])
        .await;
        configure(&fixture, wire, &server);
        fixture
            .run(&["remember", "Amelie Roux counted seven swans."])
            .expect(0);
        let before = buffer(&fixture);
        for reason in ["no credit", "cannot be used", "without calling anything"] {
            let failed = run(&fixture, &["consolidate"]).await.expect(7);
            assert!(failed.err.contains(reason), "{reason}: {failed:?}");
            assert_eq!(buffer(&fixture), before);
        }
        let listed = fixture.data(&["runs", "list"]);
        assert_eq!(
            listed["runs"][2]["report"]["fault"], "billing",
            "{listed:#}"
        );
        // Without the key nothing is asked of anybody.
        let asked = server.asked().len();
        let keyless = fixture.run(&["consolidate"]);
        assert!(keyless.err.contains(KEY.0), "{keyless:?}");
        assert_eq!((server.asked().len(), buffer(&fixture)), (asked, before));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_says_what_a_model_can_do() {
    let fixture = Fixture::ingested();
    let doctor = fixture.run(&["doctor", "--llm"]).expect(0);
    assert!(doctor.out.contains("llm: none is configured"), "{doctor:?}");
    let server = ScriptedServer::with(vec![
        Reply::Text("ready".to_owned()),
        Reply::Calls(vec![("add".to_owned(), json!({"a": 2, "b": 3}))]),
        Reply::Text("{\"sum\": 5}".to_owned()),
        Reply::Status(
            401,
            Vec::new(),
            json!({"error": {"message": format!("{} is wrong", KEY.1)}}).to_string(),
        ),
    ])
    .await;
    configure(&fixture, "openai", &server);
    let quiet = run(&fixture, &["doctor"]).await.expect(0);
    assert!(
        quiet.out.contains("was not asked") && server.asked().is_empty(),
        "{quiet:?}"
    );
    let asked = run(&fixture, &["doctor", "--llm"]).await.expect(0);
    for what in ["a plain answer", "a call of a tool", "an answer of a form"] {
        assert!(asked.out.contains(&format!("gave {what}")), "{asked:?}");
    }
    let refused = run(&fixture, &["doctor", "--llm"]).await;
    assert_ne!(refused.code, Some(0));
    assert!(
        refused.out.contains("401") && refused.out.contains("llm.baseUrl"),
        "{refused:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_while_a_model_works_nothing_has_changed() {
    let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let silent = move |_: &Asked| {
        told.send(()).unwrap();
        Reply::Silence
    };
    let server = ScriptedServer::start(Box::new(silent)).await;
    let fixture = Fixture::ingested();
    configure(&fixture, "openai", &server);
    // Saving something asks no model.
    fixture
        .run(&["remember", "Amelie Roux counted seven swans."])
        .expect(0);
    assert!(server.asked().is_empty());
    let before = buffer(&fixture);
    let mut command = fixture.command(&["consolidate"]);
    let mut child = command.env(KEY.0, KEY.1).spawn().unwrap();
    heard.recv().await.unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(buffer(&fixture), before);
    fixture
        .run(&["config", "set", "llm.provider", "none"])
        .expect(0);
    fixture.run(&["doctor"]).expect(0);
    let report = fixture.data(&["consolidate"]);
    assert_eq!(
        (&report["filer"], &report["outcome"]),
        (&json!("rules"), &json!("installed"))
    );
}
