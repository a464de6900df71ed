//! What the commands print and leave behind.

use memory_core::predicates::registry::BUILT;

use crate::fixture::Fixture;

const QUESTION: &str = "When is the archive copied to the tape robot?";

#[test]
fn three_commands_lead_from_notes_to_a_prompt() {
    let fixture = Fixture::new();
    let created = fixture
        .run(&["init", "--time-zone", "Europe/Berlin"])
        .expect(0);
    assert!(created.out.contains("tier v3"), "{created:?}");
    let notes = fixture.path("notes");
    let ingested = fixture.run(&["ingest", notes.to_str().unwrap()]).expect(0);
    assert!(ingested.out.contains("wrote 3 pages"), "{ingested:?}");
    assert_eq!(ingested.err, "", "nothing may be drawn without a terminal");

    let asked = fixture.run(&["context", QUESTION]).expect(0);
    assert!(
        asked.out.starts_with("<memory>\n") && asked.out.trim_end().ends_with("</memory>"),
        "{asked:?}"
    );
    assert!(
        asked.out.contains("copied to the tape robot every Sunday"),
        "{asked:?}"
    );
    assert!(!asked.out.contains('\x1b'), "no colour in a pipe");
}

#[test]
fn json_output_is_one_object_of_a_documented_form() {
    let fixture = Fixture::ingested();
    let run = fixture
        .run(&["context", QUESTION, "--explain", "--json"])
        .expect(0);
    let printed = run.json();
    assert_eq!(printed["schema"], "strata.context/1");
    assert_eq!(
        printed["warnings"].as_array().map(Vec::len),
        Some(0),
        "{printed}"
    );
    let trace = &printed["data"]["trace"];
    assert_eq!(
        (
            trace["configured"].as_str(),
            trace["serving"]["tier"].as_str()
        ),
        (Some("v3"), Some("v3"))
    );
    assert_eq!(trace["serving"]["plugin"], "tier-v3");
    let section = &trace["sections"][0];
    assert!(
        section["lane"].is_string() && section["score"].is_number(),
        "{section}"
    );
    assert!(
        trace["timings"]["embedding_us"]
            .as_u64()
            .is_some_and(|time| time > 0),
        "{trace}"
    );
    let candidates = printed["data"]["explanation"]["candidates"]
        .as_array()
        .unwrap();
    assert!(
        candidates
            .iter()
            .any(|candidate| candidate["outcome"] == "selected"),
        "{candidates:?}"
    );
}

#[test]
fn asking_changes_nothing_and_attaching_is_remembered() {
    let fixture = Fixture::ingested();
    let first = fixture.run(&["context", QUESTION]).expect(0);
    let second = fixture.run(&["context", QUESTION]).expect(0);
    assert_eq!(first.out, second.out);

    let attached = fixture.run(&["context", QUESTION, "--attach"]).expect(0);
    assert_eq!(attached.out, first.out);
    // Each run is a process of its own, so this is also what a restart gives.
    let again = fixture.data(&["context", QUESTION]);
    assert_eq!(again["text"], "");
    assert!(
        !again["trace"]["already_resident"]
            .as_array()
            .unwrap()
            .is_empty(),
        "{again}"
    );
    assert_eq!(again["trace"]["turn"], 2);
    let elsewhere = fixture
        .run(&["context", QUESTION, "--conversation", "other"])
        .expect(0);
    assert_eq!(elsewhere.out, first.out);
}

#[test]
fn memory_that_is_damaged_leaves_warnings_and_no_failure() {
    let fixture = Fixture::ingested();
    std::fs::write(
        fixture.workspace("state.db"),
        b"this is not a database, and long enough to be looked at",
    )
    .unwrap();
    for journal in ["state.db-wal", "state.db-shm"] {
        drop(std::fs::remove_file(fixture.workspace(journal)));
    }
    let asked = fixture.run(&["context", QUESTION]).expect(0);
    assert!(asked.err.contains("damaged"), "{asked:?}");
    let printed = fixture
        .run(&["context", QUESTION, "--attach", "--explain", "--json"])
        .expect(0)
        .json();
    assert_eq!(printed["data"]["attached"], false);
    for said in ["could not explain", "could not record"] {
        assert!(
            printed["warnings"]
                .as_array()
                .unwrap()
                .iter()
                .any(|warning| warning.as_str().unwrap().contains(said)),
            "{said}: {printed}"
        );
    }
}

#[test]
fn nobody_known_gets_nothing_and_leaves_no_trace() {
    let fixture = Fixture::ingested();
    let before = fixture.run(&["context", QUESTION]).expect(0);
    let nobody = fixture.data(&["context", QUESTION, "--authority", "none", "--attach"]);
    assert_eq!(nobody["text"], "");
    assert_eq!(nobody["notices"][0]["code"], "no_authority");
    let after = fixture.data(&["context", QUESTION]);
    assert_eq!(after["text"], before.out.trim_end());
    assert_eq!(after["trace"]["turn"], 1);
}

#[test]
fn what_is_remembered_is_shown_at_once() {
    let fixture = Fixture::ingested();
    let first = fixture.data(&["remember", "The spare key hangs behind the clock."]);
    assert_eq!(first["entries"][0]["duplicate"], false);
    let again = fixture.data(&["remember", "The spare key hangs behind the clock."]);
    assert_eq!(again["entries"][0]["duplicate"], true);
    assert_eq!(again["entries"][0]["id"], first["entries"][0]["id"]);
    let buffer = std::fs::read_to_string(fixture.workspace("memory/buffer.md")).unwrap();
    assert_eq!(buffer.matches("spare key").count(), 1);

    let asked = fixture.run(&["context", "hello"]).expect(0);
    assert!(
        asked.out.contains("<info>\n") && asked.out.contains("behind the clock"),
        "{asked:?}"
    );
    fixture.run(&["context", "hello", "--attach"]).expect(0);
    let later = fixture.run(&["context", "hello again"]).expect(0);
    assert!(
        !later.out.contains("<info>"),
        "it is in the conversation already: {later:?}"
    );
}

#[test]
fn every_tier_serves_and_off_is_off() {
    let fixture = Fixture::ingested();
    std::fs::create_dir_all(fixture.workspace("memory/pkb")).unwrap();
    std::fs::write(
        fixture.workspace("memory/pkb/INDEX.md"),
        "The tape robot is called Otto.\n",
    )
    .unwrap();
    for row in BUILT.rows() {
        let tier = row.tier.as_str();
        let tag = if row.reads_pages {
            "<memory>"
        } else {
            "<knowledge_base>"
        };
        let set = fixture.data(&["tier", "set", tier]);
        assert_eq!(set["configured"], tier);
        let shown = fixture.data(&["tier", "show"]);
        assert_eq!(
            (&shown["configured"], &shown["serving"]["tier"]),
            (&tier.into(), &tier.into()),
            "{shown}"
        );
        let asked = fixture.data(&["context", QUESTION]);
        assert_eq!(asked["trace"]["configured"], tier);
        assert_eq!(
            asked["trace"]["serving"], shown["serving"],
            "trace and status must agree"
        );
        assert!(
            asked["text"].as_str().unwrap().contains(tag),
            "{tier}: {asked}"
        );
    }
    fixture.run(&["tier", "set", "off"]).expect(0);
    let asked = fixture.data(&["context", QUESTION]);
    assert_eq!(
        (&asked["text"], &asked["trace"]["configured"]),
        (&"".into(), &"off".into())
    );
    assert!(asked["trace"]["serving"].is_null());
}

#[test]
fn a_page_comes_from_standard_input() {
    use std::io::Write as _;
    use std::process::Stdio;

    let fixture = Fixture::ingested();
    let mut child = fixture
        .command(&["ingest", "-", "--name", "Lighthouse.md"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(b"# Lighthouse\n\nThe lamp turns every nine seconds.\n")
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let asked = fixture
        .run(&["context", "How often does the lighthouse lamp turn?"])
        .expect(0);
    assert!(asked.out.contains("nine seconds"), "{asked:?}");
}

#[test]
fn a_faulty_page_is_indexed_and_its_fault_named() {
    let fixture = Fixture::ingested();
    fixture.note(
        "Broken.md",
        "---\ntitle: [unclosed\n---\nThe harbour is closed in March.\n",
    );
    let notes = fixture.path("notes");
    let run = fixture.run(&["ingest", notes.to_str().unwrap()]).expect(7);
    assert!(run.err.contains("Broken.md:"), "{run:?}");
    let asked = fixture
        .run(&["context", "When is the harbour closed?"])
        .expect(0);
    assert!(asked.out.contains("closed in March"), "{asked:?}");
    let stored = std::fs::read(fixture.workspace("memory/concepts/broken.md")).unwrap();
    assert_eq!(
        stored,
        std::fs::read(fixture.path("notes/Broken.md")).unwrap()
    );
}

#[test]
fn reindexing_gives_the_same_answers() {
    let fixture = Fixture::ingested();
    let before = fixture.run(&["context", QUESTION]).expect(0);
    std::fs::remove_dir_all(fixture.workspace("index")).unwrap();
    let rebuilt = fixture.data(&["reindex"]);
    assert_eq!(rebuilt["pages"], 3);
    let after = fixture.run(&["context", QUESTION]).expect(0);
    assert_eq!(before.out, after.out);
}
