//! What the examination finds.

use serde_json::Value;

use strata::Access;

use crate::fixture::{Fixture, built_plugins};

fn found<'a>(data: &'a Value, id: &str) -> Vec<&'a Value> {
    data["checks"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|check| check["id"] == id)
        .collect()
}

#[test]
fn a_sound_workspace_has_no_problems() {
    let fixture = Fixture::ingested();
    let run = fixture.run(&["doctor", "--json"]).expect(0);
    let data = &run.json()["data"];
    assert_eq!(
        (&data["problems"], &data["warnings"]),
        (&0.into(), &0.into()),
        "{data:#}"
    );
    for id in [
        "workspace.permissions",
        "workspace.lock",
        "settings",
        "state",
        "state.items",
        "model",
        "plugins.folder",
        "plugins",
        "pages",
        "index.rows",
        "tier",
    ] {
        assert_eq!(
            found(data, id).first().map(|check| &check["severity"]),
            Some(&"ok".into()),
            "{id}: {data:#}"
        );
    }
    let folder = found(data, "plugins.folder")[0]["evidence"]
        .as_str()
        .unwrap();
    assert!(
        folder.contains("STRATA_PLUGIN_DIR") && folder.contains("plugins.allow.toml"),
        "{folder}"
    );
}

#[test]
fn text_faults_are_warnings_with_their_place() {
    let fixture = Fixture::ingested();
    fixture.note(
        "Broken.md",
        "---\ntitle: [unclosed\n---\nSee [[Nowhere]].\n",
    );
    let notes = fixture.path("notes");
    fixture.run(&["ingest", notes.to_str().unwrap()]).expect(7);
    let data = fixture.data(&["doctor"]);
    let fault = found(&data, "pages.faults")[0];
    assert_eq!(fault["severity"], "warning");
    assert!(
        fault["evidence"]
            .as_str()
            .unwrap()
            .starts_with("broken.md:"),
        "{fault}"
    );
    let dangling = found(&data, "links.dangling")[0];
    assert!(
        dangling["evidence"].as_str().unwrap().contains("Nowhere"),
        "{dangling}"
    );
}

#[test]
fn damage_ends_with_its_own_code() {
    let fixture = Fixture::ingested();
    std::fs::write(
        fixture.workspace("state.db"),
        b"this is not a database, and long enough to be looked at",
    )
    .unwrap();
    for journal in ["state.db-wal", "state.db-shm"] {
        drop(std::fs::remove_file(fixture.workspace(journal)));
    }
    let printed = fixture.run(&["doctor", "--json"]).expect(8).json();
    assert_eq!(found(&printed["data"], "state")[0]["severity"], "problem");
}

#[test]
fn broken_settings_do_not_hide_the_rest() {
    let fixture = Fixture::ingested();
    std::fs::write(fixture.workspace("assistant.toml"), "[memory\n").unwrap();
    let printed = fixture.run(&["doctor", "--json"]).expect(8).json();
    let settings = found(&printed["data"], "settings")[0];
    assert_eq!(settings["severity"], "problem");
    assert!(
        settings["evidence"].as_str().unwrap().contains("line 1"),
        "{settings}"
    );
    assert_eq!(found(&printed["data"], "state")[0]["severity"], "ok");
}

#[test]
fn an_index_that_cannot_be_used_is_damage() {
    let fixture = Fixture::ingested();
    fixture.flip_a_bit_of_the_index();
    let printed = fixture.run(&["doctor", "--json"]).expect(8).json();
    let index = found(&printed["data"], "index")[0];
    assert_eq!(
        (&index["severity"], &index["fix"]),
        (&"problem".into(), &"strata reindex".into())
    );
    let evidence = index["evidence"].as_str().unwrap();
    assert!(evidence.contains(".lance"), "{evidence}");
    fixture.run(&["reindex"]).expect(0);
    fixture.run(&["doctor"]).expect(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_writers_lock_is_looked_at_and_left_alone() {
    let fixture = Fixture::ingested();
    let lock = fixture.workspace("LOCK");
    let before = std::fs::read(&lock).unwrap();
    let data = fixture.data(&["doctor"]);
    assert_eq!(found(&data, "workspace.lock")[0]["severity"], "ok");
    assert_eq!(std::fs::read(&lock).unwrap(), before);

    let holder = fixture.reopen(Access::ReadWrite).await;
    let data = fixture.data(&["doctor"]);
    let held = found(&data, "workspace.lock")[0];
    let evidence = held["evidence"].as_str().unwrap();
    assert!(
        held["severity"] == "info" && evidence.contains(&std::process::id().to_string()),
        "{held}"
    );
    drop(holder);
}

#[test]
fn a_broken_allow_list_is_named_and_takes_nothing_from_the_others() {
    let fixture = Fixture::ingested();
    let list = fixture.path("home/plugins.allow.toml");
    std::fs::write(&list, "[[allow]]\nid = \"x\"\n").unwrap();
    // What the checkout built has a list of its own.
    let built = built_plugins();
    let data = fixture.data(&["doctor", "--plugins", built.to_str().unwrap()]);
    let lists = found(&data, "plugins.allow");
    assert_eq!(lists.len(), 1, "{data:#}");
    let evidence = lists[0]["evidence"].as_str().unwrap();
    assert!(
        evidence.contains("plugins.allow.toml") && evidence.contains("missing key `sha256`"),
        "{evidence}"
    );
    assert!(
        found(&data, "plugins")
            .iter()
            .all(|check| check["severity"] == "ok"),
        "{data:#}"
    );
}

#[test]
fn what_a_page_should_not_hold_is_told_and_the_page_left_as_it_is() {
    let fixture = Fixture::ingested();
    let text = "# Access\n\nThe database password is `hunter2`, and\u{200B} more.\n";
    fixture.note("Access.md", text);
    let notes = fixture.path("notes");
    let ingested = fixture.run(&["ingest", notes.to_str().unwrap()]).expect(0);
    assert!(
        ingested
            .err
            .contains("Access.md: 3:27: a secret (password)")
            && !ingested.err.contains("hunter2"),
        "{ingested:?}"
    );
    let page = std::fs::read_to_string(fixture.workspace("memory/concepts/access.md")).unwrap();
    assert_eq!(page, text);
    let run = fixture.run(&["doctor", "--json"]);
    let data = run.json()["data"].clone();
    for (id, severity, place) in [
        (
            "pages.secrets",
            "warning",
            "access.md:3:27: a secret (password)",
        ),
        (
            "pages.hidden",
            "info",
            "access.md:3:40: zero-width characters",
        ),
    ] {
        let checks = found(&data, id);
        assert_eq!(
            (checks.len(), &checks[0]["severity"]),
            (1, &severity.into()),
            "{data:#}"
        );
        assert_eq!(checks[0]["evidence"], place);
    }
    assert!(!run.out.contains("hunter2"));
}
