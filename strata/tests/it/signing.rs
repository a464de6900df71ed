//! Plugins that are trusted because of who signed them, through the command line.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use crate::fixture::Fixture;

/// Returns a fixture whose plugins nobody trusts, a key file in it and the public key.
fn with_key() -> (Fixture, PathBuf, String) {
    let fixture = Fixture::ingested();
    std::fs::remove_file(fixture.path("home/plugins.allow.toml")).unwrap();
    let file = fixture.path("release.key");
    let made = fixture.data(&["plugins", "keygen", file.to_str().unwrap()]);
    let key = made["key"].as_str().unwrap().to_owned();
    (fixture, file, key)
}

fn verified_v3(fixture: &Fixture) -> serde_json::Value {
    let listed = fixture.data(&["plugins", "list"]);
    let plugins = listed["plugins"].as_array().unwrap();
    let found = plugins.iter().find(|plugin| plugin["id"] == "tier-v3");
    found.unwrap().clone()
}

#[test]
fn a_signed_plugin_of_a_trusted_key_serves() {
    let (fixture, file, key) = with_key();
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let file = file.to_str().unwrap();
    let again = fixture.run(&["plugins", "keygen", file]);
    assert_ne!(again.code, Some(0), "a key is never replaced: {again:?}");

    let signed = fixture.data(&["plugins", "sign", "tier-v3", "--key", file]);
    assert_eq!(
        (&signed["id"], &signed["key"]),
        (&"tier-v3".into(), &key.as_str().into())
    );
    assert!(fixture.plugins().join("tier-v3.plugin.toml.sig").is_file());
    assert_eq!(
        verified_v3(&fixture)["state"]["state"],
        "not_trusted",
        "no key is listed yet"
    );

    let trust = [
        "plugins", "trust", "--key", &key, "--id", "release", "--only", "tier-v3",
    ];
    let trusted = fixture.data(&trust);
    assert_eq!(
        (&trusted["id"], &trusted["added"]),
        (&"release".into(), &true.into())
    );
    assert_eq!(fixture.data(&trust)["added"], false);
    let plugin = verified_v3(&fixture);
    assert_eq!(
        (&plugin["state"]["state"], &plugin["trust"]["id"]),
        (&"trusted".into(), &"release".into())
    );
    let shown = fixture.run(&["plugins", "list"]).expect(0);
    assert!(shown.out.contains("trusted by key `release`"), "{shown:?}");
    let asked = fixture.run(&["context", "tape robot"]).expect(0);
    assert!(asked.out.contains("<memory>"), "{asked:?}");
}

#[test]
fn a_signature_that_does_not_fit_is_refused_with_the_reason() {
    let (fixture, file, key) = with_key();
    let file = file.to_str().unwrap();
    fixture
        .run(&["plugins", "sign", "tier-v3", "--key", file])
        .expect(0);
    fixture
        .run(&["plugins", "trust", "--key", &key, "--id", "release"])
        .expect(0);
    let manifest = fixture.plugins().join("tier-v3.plugin.toml");
    let text = std::fs::read_to_string(&manifest).unwrap();
    std::fs::write(&manifest, format!("{text}\n")).unwrap();
    let verified = fixture.run(&["plugins", "verify"]).expect(8);
    assert!(
        verified
            .err
            .contains("its manifest was changed after it was signed"),
        "{verified:?}"
    );
    // Signing it again is what its owner does.
    fixture
        .run(&["plugins", "sign", "tier-v3", "--key", file])
        .expect(0);
    assert_eq!(verified_v3(&fixture)["state"]["state"], "trusted");
}

#[test]
fn keys_that_are_none_or_are_exposed_are_refused() {
    let (fixture, file, _) = with_key();
    let name = file.to_str().unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let refused = fixture.run(&["plugins", "sign", "tier-v3", "--key", name]);
    assert!(
        refused.code != Some(0) && refused.err.contains("can be read by others"),
        "{refused:?}"
    );
    let refused = fixture.run(&["plugins", "trust", "--key", "abc", "--id", "x"]);
    assert!(
        refused.code != Some(0) && refused.err.contains("is not a public key"),
        "{refused:?}"
    );
    // A key needs a name, and one of plugin and key is needed.
    assert_ne!(
        fixture.run(&["plugins", "trust", "--key", "abc"]).code,
        Some(0)
    );
    assert_ne!(fixture.run(&["plugins", "trust"]).code, Some(0));
}

#[test]
fn a_broken_allow_list_is_told_and_the_other_counts() {
    let fixture = Fixture::ingested();
    std::fs::write(fixture.path("home/plugins.allow.toml"), "allow = nothing").unwrap();
    let built = crate::fixture::built_plugins();
    let run = fixture
        .run(&["plugins", "list", "--plugins", built.to_str().unwrap()])
        .expect(0);
    assert!(run.out.contains("trusted by checksum"), "{run:?}");
    assert!(run.err.contains("not TOML"), "{run:?}");
}
