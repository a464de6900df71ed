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
    // The prompt is printed before anything is recorded, so the exit code tells that it could not be.
    let run = fixture
        .run(&["context", QUESTION, "--attach", "--explain", "--json"])
        .expect(7);
    let printed = run.json();
    assert!(run.err.contains("could not record"), "{run:?}");
    assert!(
        printed["warnings"]
            .as_array()
            .unwrap()
            .iter()
            .any(|warning| warning.as_str().unwrap().contains("could not explain")),
        "{printed}"
    );
}

#[test]
fn what_could_not_be_printed_does_not_count_as_seen() {
    let fixture = Fixture::ingested();
    let first = fixture.run(&["context", QUESTION]).expect(0);
    for format in [&[][..], &["--json"][..]] {
        let full = std::fs::File::options()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let mut command = fixture.command(&["context", QUESTION, "--attach"]);
        let ended = command.args(format).stdout(full).output().unwrap();
        assert_eq!(ended.status.code(), Some(1), "{ended:?}");
        let again = fixture.run(&["context", QUESTION]).expect(0);
        assert_eq!(again.out, first.out);
    }
    fixture.run(&["context", QUESTION, "--attach"]).expect(0);
    assert_eq!(fixture.data(&["context", QUESTION])["text"], "");
}

#[test]
fn a_blank_name_is_refused() {
    let fixture = Fixture::ingested();
    for blank in ["", "  ", "\t"] {
        for arguments in [
            &["context", "hi", "--conversation", blank][..],
            &["context", "hi", "--conversation", blank, "--json"],
            &["context", "hi", "--assistant", blank],
            &["config", "get", blank],
            &["tier", "set", blank],
            &["ingest", "-", "--name", blank],
        ] {
            fixture.run(arguments).expect(2);
        }
    }
    fixture.run(&["context", "hi", "--home", ""]).expect(2);
}

#[test]
fn nothing_that_steers_a_terminal_gets_there() {
    let fixture = Fixture::ingested();
    fixture.note(
        "Cl\u{1b}[2Jear.md",
        "---\ntitle: [un\u{1b}[31mclosed\n---\nThe quince\u{1b}]0;owned\u{7} press \u{202e}is here. See [[No\u{1b}[8mwhere]].\n",
    );
    let notes = fixture.path("notes");
    let notes = notes.to_str().unwrap();
    for (arguments, coloured) in [
        (&["ingest", notes][..], false),
        (
            &["context", "Where is the quince press?", "--explain"],
            false,
        ),
        (
            &["context", "Where is the quince press?", "--explain"],
            true,
        ),
        (&["doctor"], false),
        (&["doctor"], true),
        (&["context", "hi", "--assistant", "a\u{1b}[2J"], false),
        (&["config", "get", "no\u{1b}[2Jkey"], true),
    ] {
        let mut command = fixture.command(arguments);
        if coloured {
            command.env("CLICOLOR_FORCE", "1");
        }
        let ended = command.output().unwrap();
        let said = [ended.stdout, ended.stderr].concat();
        let said = String::from_utf8(said).unwrap();
        // Our own colours are all that may be left.
        let mut rest = said.clone();
        for code in ["0", "1", "2", "1;31", "32", "33", "36"] {
            rest = rest.replace(&format!("\x1b[{code}m"), "");
        }
        let steers = |letter: char| letter.is_control() && letter != '\n' && letter != '\t';
        assert!(
            !rest.contains(steers) && !rest.contains('\u{202e}'),
            "{said:?}"
        );
        assert!(coloured || rest == said, "{said:?}");
    }
    let shown = fixture
        .run(&["context", "Where is the quince press?"])
        .expect(0);
    assert!(shown.out.contains("\\u{1b}]0;owned"), "{shown:?}");
    let data = fixture.data(&["context", "Where is the quince press?"]);
    assert!(
        data["text"].as_str().unwrap().contains("\u{1b}]0;owned"),
        "{data}"
    );
}

#[test]
fn what_to_do_next_fits_what_happened() {
    let fixture = Fixture::ingested();
    let next = |arguments: &[&str], code: i32| {
        let run = fixture.run(arguments).expect(code);
        let next = run
            .err
            .lines()
            .find_map(|line| line.strip_prefix("  next: "));
        next.unwrap_or_default().to_owned()
    };
    let unknown = next(&["config", "get", "time_zonee"], 3);
    assert!(
        unknown.contains("config show") && !unknown.contains("init"),
        "{unknown}"
    );
    let nowhere = next(&["ingest", "no-such-folder"], 3);
    assert!(
        !nowhere.contains("init") && !nowhere.contains("config"),
        "{nowhere}"
    );
    let plugin = next(&["plugins", "trust", "tier-v9"], 3);
    assert!(plugin.contains("plugins list"), "{plugin}");
    let nobody = next(&["context", "hi", "--assistant", "nobody"], 3);
    assert!(nobody.contains("--assistant"), "{nobody}");
    let twice = next(&["init"], 4);
    assert!(twice.contains("left as it is"), "{twice}");

    let lock = std::fs::File::open(fixture.workspace("LOCK")).unwrap();
    lock.lock().unwrap();
    let busy = next(&["reindex"], 6);
    assert!(busy.contains("that process"), "{busy}");
    drop(lock);
    std::fs::write(fixture.workspace("state.db"), [7; 4096]).unwrap();
    for journal in ["state.db-wal", "state.db-shm"] {
        drop(std::fs::remove_file(fixture.workspace(journal)));
    }
    let damaged = next(&["remember", "something"], 8);
    assert!(
        damaged.contains("backup") && !damaged.contains("reindex"),
        "{damaged}"
    );
}

#[test]
fn pages_that_could_not_be_indexed_are_reported_with_that() {
    let fixture = Fixture::new();
    fixture.run(&["init"]).expect(0);
    let index = fixture.workspace("index");
    drop(std::fs::remove_dir_all(&index));
    std::fs::write(&index, "in the way\n").unwrap();
    let notes = fixture.path("notes");
    let run = fixture.run(&["ingest", notes.to_str().unwrap()]).expect(7);
    assert!(run.out.contains("wrote 3 pages"), "{run:?}");
    assert!(run.out.contains("indexed: nothing"), "{run:?}");
    assert!(run.err.contains("strata reindex"), "{run:?}");
    let run = fixture
        .run(&["ingest", notes.to_str().unwrap(), "--json"])
        .expect(7);
    let data = run.json();
    let first = &data["data"][0];
    assert!(
        first["index"].is_null() && first["index_error"].is_string(),
        "{data}"
    );
    let asked = fixture.run(&["context", QUESTION]).expect(0);
    assert!(asked.out.contains("<memory>"), "found by words: {asked:?}");
    std::fs::remove_file(&index).unwrap();
    fixture.run(&["reindex"]).expect(0);
    fixture.run(&["ingest", notes.to_str().unwrap()]).expect(0);
}

#[test]
fn a_view_that_cannot_be_read_costs_only_itself() {
    let fixture = Fixture::ingested();
    let recent = fixture.workspace("memory/recent.md");
    drop(std::fs::remove_file(&recent));
    std::fs::create_dir(&recent).unwrap();
    let essentials = fixture.workspace("memory/essentials.md");
    std::fs::write(essentials, "Nora is allergic to hazelnuts.\n").unwrap();
    let asked = fixture.run(&["context", "hello"]).expect(0);
    assert!(asked.out.contains("hazelnuts"), "{asked:?}");
    assert!(asked.err.contains("recent.md"), "{asked:?}");
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
fn a_secret_is_in_no_log_and_no_answer_however_much_is_logged() {
    let fixture = Fixture::ingested();
    let token = ["gh", "p_", "k9Zq2LmN4RtK9PxVb7YwE3sUa6Tc0Gd1Hf5J"].concat();
    let text = &format!("The robot lets {token} in, and its password is `hunter2`.");
    fixture.note("Robot.md", &format!("# Robot\n\n{text}\n"));
    let notes = fixture.path("notes");
    let mut lines = 0;
    for arguments in [
        vec!["remember", text],
        vec!["remember", text, "--key", "k1", "--json"],
        vec!["context", text, "--attach", "--conversation", "c1"],
        vec!["ingest", notes.to_str().unwrap()],
        vec!["forget", text],
        vec!["erase", "--page", text, "--yes"],
        vec!["doctor"],
    ] {
        let mut command = fixture.command(&arguments);
        let run = command
            .arg("-vvvv")
            .env("STRATA_LOG", "trace")
            .output()
            .unwrap();
        let err = String::from_utf8(run.stderr).unwrap();
        let is_logged = |line: &&str| line.contains("TRACE") || line.contains("DEBUG");
        lines += err.lines().filter(is_logged).count();
        let is_own = arguments.contains(&"forget") || arguments.contains(&"erase");
        for secret in [token.as_str(), "hunter2"] {
            // Who passes a secret as a name is told that this is no name; that is not kept anywhere.
            let logged = err
                .lines()
                .any(|line| line.contains(secret) && (!is_own || line.contains("TRACE")));
            assert!(!logged, "{arguments:?} told `{secret}`: {err}");
        }
    }
    assert!(lines > 0, "nothing was logged");
}

#[test]
fn a_secret_is_redacted_and_its_owner_told() {
    let fixture = Fixture::ingested();
    let text = "my production database password is `hunter2` and my API key is `sk-abc123`";
    let run = fixture.run(&["remember", text]).expect(0);
    assert!(
        run.err.contains("redacted: password") && run.err.contains("redacted: key or token"),
        "{run:?}"
    );
    let again = fixture.data(&["remember", text]);
    assert_eq!(again["entries"][0]["duplicate"], true);
    assert_eq!(again["findings"][0]["class"], "secret");
    let asked = fixture
        .run(&["context", text, "--attach", "--json"])
        .expect(0);
    assert!(asked.out.contains("[redacted: password]"), "{asked:?}");
    let mut folders = vec![fixture.path("home/assistants")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let bytes = std::fs::read(&path).unwrap();
            for secret in ["hunter2", "sk-abc123"] {
                let found = bytes
                    .windows(secret.len())
                    .any(|window| window == secret.as_bytes());
                assert!(!found, "`{}` holds a secret", path.display());
            }
        }
    }
}

#[test]
fn an_entry_can_be_forgotten_once_and_only_if_there_is_one() {
    let fixture = Fixture::ingested();
    let kept = fixture.data(&["remember", "The spare key hangs behind the clock."]);
    let id = kept["entries"][0]["id"].as_str().unwrap();
    fixture.data(&["remember", "The kettle is descaled on Mondays."]);
    let run = fixture.run(&["forget", id]).expect(0);
    assert!(
        run.out.contains("taken out of `memory/buffer.md`")
            && run.out.contains("kept in `memory/archive/"),
        "{run:?}"
    );
    let buffer = std::fs::read_to_string(fixture.workspace("memory/buffer.md")).unwrap();
    assert!(
        !buffer.contains("spare key") && buffer.contains("kettle"),
        "{buffer}"
    );
    let asked = fixture.run(&["context", "hello"]).expect(0);
    assert!(
        !asked.out.contains("behind the clock") && asked.out.contains("kettle"),
        "{asked:?}"
    );
    let again = fixture.run(&["forget", &format!("^m-{id}")]).expect(0);
    assert!(again.out.contains("forgotten already"), "{again:?}");
    let unknown = fixture
        .run(&["forget", "nothing-like-it", "--json"])
        .expect(3);
    assert_eq!(unknown.json()["error"]["code"], "not_found");
    fixture.run(&["forget", "../../etc/passwd"]).expect(2);
    let told = fixture.data(&["forget", id]);
    assert_eq!(
        (&told["entry_removed"], &told["item_forgotten"]),
        (&false.into(), &false.into())
    );

    // What its owner edited is the owner's.
    let other = fixture.data(&["remember", "The cellar is damp."]);
    let other = other["entries"][0]["id"].as_str().unwrap();
    let path = fixture.workspace("memory/buffer.md");
    let edited = std::fs::read_to_string(&path)
        .unwrap()
        .replace("damp", "dry");
    std::fs::write(&path, &edited).unwrap();
    let refused = fixture.run(&["forget", other]);
    assert_ne!(refused.code, Some(0));
    assert!(refused.err.contains("edited"), "{refused:?}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), edited);
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
        let shown = fixture.data(&["tier", "show"]);
        assert_eq!(
            (&shown["configured"], &shown["serving"]["tier"]),
            (&tier.into(), &tier.into()),
            "{shown}"
        );
        assert_eq!(
            (&set["configured"], &set["serving"]),
            (&shown["configured"], &shown["serving"]),
            "{set}"
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
fn what_there_is_to_mend_in_pages_is_listed() {
    let fixture = Fixture::ingested();
    let before = fixture.run(&["--json", "validate"]).json();
    let before = before["data"]["pages"].as_u64();
    fixture.note(
        "Long.md",
        &format!(
            "---\ntitle: [a\n---\n\n[[nowhere-at-all]]\n\n{}\n",
            "word ".repeat(1_200)
        ),
    );
    let notes = fixture.path("notes");
    fixture.run(&["ingest", notes.to_str().unwrap()]);
    let listed = fixture.run(&["--json", "validate"]).expect(7).json();
    let data = &listed["data"];
    assert_eq!(data["pages"].as_u64(), before.map(|pages| pages + 1));
    assert_eq!(data["oversized"][0]["slug"], "long");
    assert!(data["oversized"][0]["characters"].as_u64() > Some(5_000));
    let dangling = data["dangling"].as_array().unwrap();
    assert!(
        dangling
            .iter()
            .any(|link| link["target"] == "nowhere-at-all"),
        "{data}"
    );
    assert_eq!(data["faults"][0]["path"], "long.md");
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
