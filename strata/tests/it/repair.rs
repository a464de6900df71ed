//! Repairing, rebuilding, copying, taking back and erasing, from the command line.

use strata::Access;

use crate::fixture::Fixture;

const QUESTION: &str = "When is the archive copied to the tape robot?";

#[test]
fn a_damaged_index_is_repaired_by_doctor_and_serves_meanwhile() {
    let fixture = Fixture::ingested();
    let before = fixture.run(&["context", QUESTION]).expect(0);
    fixture.flip_a_bit_of_the_index();
    let meanwhile = fixture.run(&["context", QUESTION]).expect(0);
    assert!(meanwhile.out.contains("Sunday"), "{meanwhile:?}");
    fixture.run(&["doctor"]).expect(8);
    let data = fixture.data(&["doctor", "--fix"]);
    assert_eq!(data["repaired"]["after"]["missing"], 0, "{data:#}");
    assert_eq!(data["repaired"]["index"]["pages"], 3, "{data:#}");
    assert_eq!(
        (&data["problems"], &data["warnings"]),
        (&0.into(), &0.into())
    );
    let after = fixture.run(&["context", QUESTION]).expect(0);
    assert_eq!(before.out, after.out);
    let again = fixture.run(&["doctor", "--fix"]).expect(0);
    assert!(again.out.contains("nothing needed it"), "{again:?}");
}

#[test]
fn a_rebuild_ends_with_the_same_memory() {
    let fixture = Fixture::ingested();
    let before = fixture.run(&["context", QUESTION]).expect(0);
    let data = fixture.data(&["rebuild"]);
    assert_eq!(data["index"]["pages"], 3, "{data:#}");
    assert_eq!(data["compared"]["checked"], 7, "{data:#}");
    let after = fixture.run(&["context", QUESTION]).expect(0);
    assert_eq!(before.out, after.out);
}

#[test]
fn a_backup_is_restored_under_another_name_or_over_what_is_there() {
    let fixture = Fixture::ingested();
    fixture
        .run(&["remember", "The key hangs behind the door."])
        .expect(0);
    let copy = fixture.path("copy");
    let copy = copy.to_str().unwrap();
    let made = fixture.data(&["backup", copy]);
    assert!(made["files"].as_u64().unwrap() > 5, "{made:#}");
    fixture.run(&["backup", copy]).expect(4);
    let before = fixture.run(&["context", QUESTION]).expect(0);

    fixture.run(&["restore", copy]).expect(4);
    fixture
        .run(&["restore", copy, "--assistant", "ada"])
        .expect(0);
    let first = fixture
        .run(&["context", QUESTION, "--assistant", "ada"])
        .expect(0);
    assert!(
        first.out.contains("Sunday"),
        "words are found at once: {first:?}"
    );
    fixture.run(&["rebuild", "--assistant", "ada"]).expect(0);
    let restored = fixture
        .run(&["context", QUESTION, "--assistant", "ada"])
        .expect(0);
    assert_eq!(before.out, restored.out);
    fixture.run(&["doctor", "--assistant", "ada"]).expect(0);

    std::fs::write(fixture.workspace("memory/buffer.md"), "").unwrap();
    let replaced = fixture.data(&["restore", copy, "--replace"]);
    assert!(replaced["replaced"].is_string(), "{replaced:#}");
    let buffer = std::fs::read_to_string(fixture.workspace("memory/buffer.md")).unwrap();
    assert!(buffer.contains("behind the door"), "{buffer}");

    let list = fixture.path("copy/backup.json");
    let newer = std::fs::read_to_string(&list)
        .unwrap()
        .replace("\"form\": 1", "\"form\": 2");
    std::fs::write(&list, newer).unwrap();
    let refused = fixture
        .run(&["restore", copy, "--assistant", "eve"])
        .expect(1);
    assert!(refused.err.contains("newer"), "{refused:?}");
    fixture.run(&["restore", "nowhere"]).expect(3);
}

#[test]
fn what_was_done_is_listed_and_taken_back() {
    let fixture = Fixture::ingested();
    let said = fixture.data(&["remember", "The key hangs behind the door."]);
    let id = said["entries"][0]["id"].as_str().unwrap();
    let listed = fixture.data(&["undo"]);
    let newest = &listed["operations"][0];
    assert_eq!(
        (&newest["id"], &newest["kind"]),
        (&id.into(), &"remember".into())
    );
    let undone = fixture.data(&["undo", id]);
    assert_eq!(undone["entries"][0], id);
    let buffer = std::fs::read_to_string(fixture.workspace("memory/buffer.md")).unwrap();
    assert!(!buffer.contains("behind the door"), "{buffer}");
    fixture.run(&["undo", "nothing"]).expect(3);

    let ingest = fixture.data(&["undo", "--limit", "9"]);
    let ingest = ingest["operations"]
        .as_array()
        .unwrap()
        .iter()
        .find(|operation| operation["kind"] == "ingest")
        .unwrap();
    fixture
        .run(&["undo", ingest["id"].as_str().unwrap()])
        .expect(0);
    let left = std::fs::read_dir(fixture.workspace("memory/concepts")).unwrap();
    assert_eq!(left.count(), 0);
}

#[test]
fn erasing_asks_first_and_leaves_nothing() {
    let fixture = Fixture::ingested();
    fixture.run(&["erase"]).expect(2);
    fixture.run(&["erase", "--page", "tape-robot"]).expect(2);
    assert!(fixture.workspace("memory/concepts/tape-robot.md").is_file());
    let run = fixture
        .run(&["erase", "--page", "tape-robot", "--yes"])
        .expect(0);
    assert!(run.out.contains("nothing is left"), "{run:?}");
    let asked = fixture.run(&["context", "Where is the belt?"]).expect(0);
    assert!(!asked.out.contains("drawer C"), "{asked:?}");
    fixture
        .run(&["erase", "--page", "tape-robot", "--yes"])
        .expect(3);
    fixture
        .run(&["erase", "--entry", "unknown", "--yes"])
        .expect(3);
    fixture
        .run(&["erase", "--conversation", "unknown", "--yes"])
        .expect(3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_waits_makes_a_damaged_index_again() {
    let fixture = Fixture::ingested();
    for number in 0..20 {
        let name = format!("More {number}.md");
        fixture.note(
            &name,
            &format!("# More {number}\n\nThe kettle {number} is descaled.\n"),
        );
    }
    let notes = fixture.path("notes");
    fixture.run(&["ingest", notes.to_str().unwrap()]).expect(0);
    fixture.flip_a_bit_of_the_index();
    let assistant = fixture.reopen(Access::ReadWrite).await;
    assistant.warm().await.unwrap();
    let store = assistant.store().await.unwrap();
    // The work begins by itself; waiting for it is joining it.
    store
        .sync(&mut |_| std::ops::ControlFlow::Continue(()))
        .await
        .unwrap();
    assert!(store.integrity().await.unwrap().is_clean());
    let refused = fixture.reopen(Access::ReadOnly).await;
    let refused = refused
        .reconcile(&mut |_| std::ops::ControlFlow::Continue(()))
        .await;
    assert!(refused.is_err());
}
