//! Filing the buffer into pages, from the command line.

use crate::fixture::Fixture;

fn page(fixture: &Fixture, name: &str) -> String {
    let path = fixture.workspace(&format!("memory/concepts/{name}.md"));
    std::fs::read_to_string(path).unwrap_or_default()
}

#[test]
fn notes_become_pages_that_are_found_and_can_be_taken_back() {
    let fixture = Fixture::ingested();
    let robot = page(&fixture, "tape-robot");
    for text in [
        "The tape robot was oiled by Tomasz [[tape-robot]].",
        "Amelie Roux tunes the harpsichord.",
    ] {
        fixture.run(&["remember", text]).expect(0);
    }
    let trial = fixture.run(&["consolidate", "--dry-run"]).expect(0);
    assert!(
        trial.out.contains("would file: 2 entries") && trial.out.contains("+- "),
        "{trial:?}"
    );
    assert_eq!(page(&fixture, "tape-robot"), robot);

    let run = fixture.data(&["consolidate"]);
    assert_eq!(run["outcome"], "installed", "{run:#}");
    assert!(page(&fixture, "tape-robot").starts_with(robot.trim_end()));
    assert!(page(&fixture, "amelie-roux").contains("harpsichord"));
    let asked = fixture
        .run(&["context", "Who tunes the harpsichord?"])
        .expect(0);
    assert!(asked.out.contains("Amelie Roux"), "{asked:?}");
    assert!(!asked.out.contains("^m-"), "{asked:?}");
    let nothing = fixture.run(&["consolidate"]).expect(0);
    assert!(nothing.out.contains("nothing to file"), "{nothing:?}");

    let listed = fixture.data(&["runs", "list"]);
    let id = listed["runs"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(run["id"], id.as_str());
    let shown = fixture.run(&["runs", "show", &id]).expect(0);
    assert!(shown.out.contains("+- "), "{shown:?}");
    fixture.run(&["runs", "show", "nothing"]).expect(3);

    let undone = fixture.data(&["runs", "undo", &id]);
    assert_eq!(
        undone["put_back"].as_array().unwrap().len(),
        2,
        "{undone:#}"
    );
    assert_eq!(page(&fixture, "tape-robot"), robot);
    assert_eq!(page(&fixture, "amelie-roux"), "");
    let buffer = std::fs::read_to_string(fixture.workspace("memory/buffer.md")).unwrap();
    assert!(buffer.contains("harpsichord"), "{buffer}");
    fixture.run(&["doctor"]).expect(0);
}

#[test]
fn without_concept_pages_there_is_nothing_to_file_into() {
    let fixture = Fixture::ingested();
    fixture.run(&["tier", "set", "off"]).expect(0);
    let refused = fixture.run(&["consolidate"]);
    assert_ne!(refused.code, Some(0), "{refused:?}");
    assert!(refused.err.contains("no concept pages"), "{refused:?}");
}

#[test]
fn work_files_the_buffer_when_that_is_due() {
    let fixture = Fixture::ingested();
    for number in 0..12 {
        let text = format!("Amelie Roux counted {number} swans.");
        fixture.run(&["remember", &text]).expect(0);
    }
    let status = fixture.data(&["status"]);
    assert_eq!(status["entries"], 12, "{status:#}");
    let worked = fixture.data(&["work"]);
    assert_eq!(worked["done"], 1, "{worked:#}");
    fixture.run(&["remember", "And one more."]).expect(0);
    let nothing = fixture.run(&["work"]).expect(0);
    assert!(nothing.out.contains("nothing was due"), "{nothing:?}");
    let status = fixture.data(&["status"]);
    assert_eq!(status["entries"], 1, "{status:#}");
    assert_eq!(status["jobs"]["completed"], 1, "{status:#}");
    assert_eq!(status["last_run"]["report"]["outcome"], "installed");
    assert_eq!(page(&fixture, "amelie-roux").matches("swans").count(), 12);
    let listed = fixture.data(&["jobs", "list"]);
    let job = &listed["jobs"][0];
    assert_eq!(
        (&job["kind"], &job["status"]),
        (&"memory_v2_consolidate".into(), &"completed".into())
    );
    let id = job["id"].as_str().unwrap();
    let again = fixture.data(&["jobs", "retry", id]);
    assert_eq!(
        again["status"], "completed",
        "only what failed is tried again"
    );
    fixture.run(&["jobs", "cancel", "nothing"]).expect(3);
}
