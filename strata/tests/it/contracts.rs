//! Exit codes, the JSON form of errors, closed pipes: what scripts rely on.

use std::process::Stdio;

use strata::{Access, SocketUse, Strata, StrataOptions};

use crate::fixture::Fixture;

#[test]
fn exit_codes_tell_failures_apart() {
    let fixture = Fixture::new();
    fixture.run(&["context", "hello"]).expect(3);
    fixture
        .run(&["init", "--time-zone", "Mars/Olympus"])
        .expect(2);
    fixture.run(&["init", "--time-zone", "UTC"]).expect(0);
    fixture.run(&["init", "--time-zone", "UTC"]).expect(4);
    fixture.run(&["tier", "set", "v9"]).expect(2);
    fixture.run(&["config", "get", "memory.v3.lvie"]).expect(3);
    fixture
        .run(&["config", "set", "memory.v3.live", "maybe"])
        .expect(2);
    fixture.run(&["config", "set", "memory.v3.live"]).expect(2);
    fixture.run(&["ingest", "nowhere"]).expect(3);
    fixture.run(&["remember", "  "]).expect(2);
    fixture
        .run(&["--assistant", "no such name!", "context", "hello"])
        .expect(2);
    fixture.run(&["frobnicate"]).expect(2);
    fixture.run(&["help"]).expect(0);
    fixture.run(&["--version"]).expect(0);
}

#[test]
fn an_error_says_what_why_and_what_next() {
    let fixture = Fixture::new();
    let run = fixture.run(&["context", "hello"]).expect(3);
    assert_eq!(run.out, "");
    assert!(
        run.err.contains("error:") && run.err.contains("strata init") && run.err.contains("next:"),
        "{run:?}"
    );

    let printed = fixture
        .run(&["context", "hello", "--json"])
        .expect(3)
        .json();
    assert_eq!(
        (&printed["ok"], &printed["schema"]),
        (&false.into(), &"strata.context/1".into())
    );
    assert_eq!(printed["error"]["code"], "not_found");
    assert!(
        printed["error"]["causes"].is_array() && printed["warnings"].is_array(),
        "{printed}"
    );

    let printed = fixture.run(&["frobnicate", "--json"]).expect(2).json();
    assert_eq!(printed["error"]["code"], "usage");
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let fixture = Fixture::ingested();
    for arguments in [
        &["context", "tape robot"][..],
        &["config", "show", "--json"],
        &["help"],
    ] {
        let mut child = fixture
            .command(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert_eq!(
            String::from_utf8(output.stderr).unwrap(),
            "",
            "{arguments:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_writer_is_turned_away_and_a_reader_is_not() {
    let fixture = Fixture::ingested();
    let options = StrataOptions {
        socket: SocketUse::Off,
        ..fixture.options()
    };
    let strata = Strata::open(options).unwrap();
    let holder = strata
        .assistant("default", Access::ReadWrite)
        .await
        .unwrap();
    // A note is not turned away, only left.
    let run = fixture.run(&["remember", "something"]).expect(0);
    assert!(run.out.starts_with("left:"), "{run:?}");
    assert!(run.err.contains("takes no requests"), "{run:?}");
    let printed = fixture.run(&["reindex", "--json"]).expect(6).json();
    assert_eq!(printed["error"]["code"], "unavailable");
    assert!(printed.to_string().contains("in use"), "{printed}");
    fixture.run(&["context", "tape robot"]).expect(0);
    fixture.run(&["tier", "set", "off"]).expect(0);
    drop(holder);
    let run = fixture.run(&["remember", "something"]).expect(0);
    assert!(run.out.starts_with("known already:"), "{run:?}");
}

#[test]
fn colour_is_forced_and_forbidden() {
    let fixture = Fixture::ingested();
    let run = |name: &str| {
        let output = fixture
            .command(&["doctor"])
            .env("CLICOLOR_FORCE", "1")
            .env(name, "1")
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(run("CLICOLOR_FORCE").contains('\x1b'));
    assert!(!run("NO_COLOR").contains('\x1b'));
}
