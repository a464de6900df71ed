//! Plugins: listed, verified, trusted; and what a turn is worth without one.

use memory_core::predicates::registry::BUILT;
use plugin_host::sha256_hex;
use strata::{Access, Strata, Tier, TurnInput};

use crate::fixture::{Fixture, Run, built_plugins};

fn distrust(fixture: &Fixture) {
    std::fs::remove_file(fixture.path("home/plugins.allow.toml")).unwrap();
}

fn trust_all(fixture: &Fixture) {
    for row in BUILT.rows() {
        fixture.run(&["plugins", "trust", row.plugin]).expect(0);
    }
}

fn without_folder(fixture: &Fixture, arguments: &[&str]) -> Run {
    let nowhere = fixture.path("nowhere");
    let mut all = vec!["--plugins", nowhere.to_str().unwrap()];
    all.extend(arguments);
    fixture.run(&all)
}

#[test]
fn what_the_checkout_built_is_trusted_without_more() {
    let fixture = Fixture::ingested();
    distrust(&fixture);
    let built = built_plugins();
    let listed = fixture.data(&["plugins", "list", "--plugins", built.to_str().unwrap()]);
    let plugins = listed["plugins"].as_array().unwrap();
    for row in BUILT.rows() {
        let plugin = plugins
            .iter()
            .find(|plugin| plugin["id"] == row.plugin)
            .unwrap();
        assert_eq!(
            (&plugin["tier"], &plugin["state"]["state"]),
            (&row.tier.as_str().into(), &"trusted".into()),
            "{plugin}"
        );
    }
}

#[test]
fn a_plugin_has_to_be_trusted_first() {
    let fixture = Fixture::ingested();
    distrust(&fixture);
    let verified = fixture.run(&["plugins", "verify"]).expect(8);
    assert!(
        verified.err.contains("strata plugins trust"),
        "{verified:?}"
    );
    let asked = fixture.run(&["context", "tape robot"]).expect(0);
    assert_eq!(asked.out, "", "no tier serves");
    assert!(asked.err.contains("allow-list"), "{asked:?}");

    trust_all(&fixture);
    fixture.run(&["plugins", "verify"]).expect(0);
    let asked = fixture.run(&["context", "tape robot"]).expect(0);
    assert!(asked.out.contains("<memory>"), "{asked:?}");
    assert!(
        !fixture.plugins().join("plugins.allow.toml").exists(),
        "never beside the plugins"
    );
    let again = fixture.data(&["plugins", "trust", "tier-v3"]);
    assert_eq!(again["added"], false);
}

#[test]
fn a_plugin_is_trusted_by_its_files_too() {
    let fixture = Fixture::ingested();
    distrust(&fixture);
    let manifest = fixture.plugins().join("tier-v3.plugin.toml");
    let trusted = fixture.data(&["plugins", "trust", manifest.to_str().unwrap()]);
    assert_eq!(
        (&trusted["id"], &trusted["added"]),
        (&"tier-v3".into(), &true.into())
    );
    fixture.run(&["plugins", "trust", "tier-v9"]).expect(3);
    let note = fixture.path("notes/Backups.md");
    fixture
        .run(&["plugins", "trust", note.to_str().unwrap()])
        .expect(3);
}

#[test]
fn a_changed_library_is_refused_and_the_turn_goes_on() {
    let fixture = Fixture::ingested();
    for entry in std::fs::read_dir(fixture.plugins()).unwrap() {
        let path = entry.unwrap().path();
        if path.to_str().unwrap().contains("tier_v3") {
            std::fs::write(&path, b"not a library").unwrap();
        }
    }
    std::fs::write(
        fixture.workspace("memory/essentials.md"),
        "Nora is allergic to hazelnuts.\n",
    )
    .unwrap();
    let asked = fixture.run(&["context", "tape robot"]).expect(0);
    assert!(
        asked.out.contains("<info>") && asked.out.contains("hazelnuts"),
        "static text stays: {asked:?}"
    );
    assert!(
        !asked.out.contains("<memory>"),
        "another tier never stands in: {asked:?}"
    );
    assert!(asked.err.contains("tier-v3"), "{asked:?}");
    let shown = fixture.data(&["tier", "show"]);
    assert!(
        shown["serving"].is_null() && shown["reason"].is_string(),
        "{shown}"
    );
    fixture.run(&["plugins", "verify"]).expect(8);
    fixture.run(&["plugins", "trust", "tier-v3"]).expect(8);
    for row in BUILT.rows().iter().filter(|row| row.tier != Tier::V3) {
        fixture.run(&["tier", "set", row.tier.as_str()]).expect(0);
        let shown = fixture.data(&["tier", "show"]);
        assert_eq!(
            shown["serving"]["plugin"], row.plugin,
            "the others still serve: {shown}"
        );
    }
}

#[test]
fn a_missing_folder_is_said_and_survived() {
    let fixture = Fixture::ingested();
    let asked = without_folder(&fixture, &["context", "tape robot"]).expect(0);
    assert_eq!(asked.out, "");
    assert!(asked.err.contains("tier-v3"), "{asked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_plugin_did_is_counted() {
    let fixture = Fixture::ingested();
    let strata = Strata::open(fixture.options()).unwrap();
    assert!(strata.plugin_metrics().builds.is_empty());
    let assistant = strata.assistant("default", Access::ReadOnly).await.unwrap();
    for _ in 0..2 {
        let asked = TurnInput::owner("c", "Where is the tape robot?");
        assert!(!assistant.begin_turn(asked).await.blocks.is_empty());
    }
    let counted = strata.plugin_metrics();
    let [build] = &counted.builds[..] else {
        panic!("{counted:?}")
    };
    assert_eq!((build.tier, build.quarantined.as_ref()), (Tier::V3, None));
    assert_eq!(build.methods["begin_turn"].calls, 2);
    assert!(
        !build.methods.contains_key("commit"),
        "nothing was attached"
    );
    assert_eq!(counted.slots.len(), 1);
}

/// Installs another build of tier v3 and returns its checksum: the same code with bytes behind it that no loader reads.
fn install_another_build(fixture: &Fixture) -> String {
    let library = fixture.plugins().join("libtier_v3.so");
    let mut bytes = std::fs::read(&library).unwrap();
    bytes.extend(b"another build");
    let sha256 = sha256_hex(&bytes);
    // Replaced by another file, as whoever installs a build does.
    let new = fixture.plugins().join("new");
    std::fs::write(&new, &bytes).unwrap();
    std::fs::rename(&new, &library).unwrap();
    let manifest = fixture.plugins().join("tier-v3.plugin.toml");
    let text = std::fs::read_to_string(&manifest).unwrap();
    let line = |line: &str| match line.split(' ').next() {
        Some("sha256") => format!("sha256 = \"{sha256}\"\n"),
        Some("bytes") => format!("bytes = {}\n", bytes.len()),
        _ => format!("{line}\n"),
    };
    std::fs::write(&manifest, text.lines().map(line).collect::<String>()).unwrap();
    sha256
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_that_is_installed_serves_once_a_host_asks_for_it() {
    let fixture = Fixture::ingested();
    let assistant = fixture.reopen(Access::ReadWrite).await;
    let serving = |status: strata::TierStatus| status.serving.map(|serving| serving.sha256);
    let first = serving(assistant.tier_status().await.unwrap()).unwrap();
    let second = install_another_build(&fixture);

    let refused = assistant.reload_tier().await.unwrap();
    assert!(
        refused
            .reason
            .as_ref()
            .is_some_and(|reason| reason.contains("is not on the allow-list")),
        "{refused:?}"
    );
    assert_eq!(serving(refused), Some(first.clone()), "it serves on");

    fixture.run(&["plugins", "trust", "tier-v3"]).expect(0);
    let before = assistant
        .begin_turn(TurnInput::owner("before", "tape robot"))
        .await;
    assert_eq!(
        before.trace.serving.as_ref().map(|serving| &serving.sha256),
        Some(&first),
        "nobody has asked for it"
    );
    let reloaded = assistant.reload_tier().await.unwrap();
    assert_eq!((reloaded.configured, &reloaded.reason), (Tier::V3, &None));
    assert_eq!(serving(reloaded), Some(second.clone()));
    // The turn that the old instance began is finished by it.
    assistant.attached(&before).await.unwrap();
    let after = assistant
        .begin_turn(TurnInput::owner("after", "tape robot"))
        .await;
    assert_eq!(
        after.trace.serving.map(|serving| serving.sha256),
        Some(second)
    );
    assert!(!after.trace.sections.is_empty());

    assistant.set_tier(Tier::Off).await.unwrap();
    let off = assistant.reload_tier().await.unwrap();
    assert_eq!((off.configured, off.serving), (Tier::Off, None));
}

#[test]
fn trusting_a_plugin_keeps_what_people_wrote_into_the_list() {
    let fixture = Fixture::ingested();
    let list = fixture.path("home/plugins.allow.toml");
    let written = format!(
        "# Ask Nora before you add to this.\n\n[[allow]]\nsha256 = \"{}\" # reviewed\nid = \"gone\"\n",
        "0".repeat(64)
    );
    std::fs::write(&list, &written).unwrap();
    fixture.run(&["plugins", "trust", "tier-v3"]).expect(0);
    let text = std::fs::read_to_string(&list).unwrap();
    assert!(text.starts_with(&written), "{text}");
    assert!(text[written.len()..].contains("id = \"tier-v3\""), "{text}");
}
