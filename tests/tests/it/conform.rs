//! The conformance program: good tiers pass, and a bad one fails each rule by name.
//!
//! The rules are enumerated from the program itself, so a rule that nothing can break, and a fault that no rule notices,
//! fail here.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;

use memory_core::predicates::registry::BUILT;
use plugin_host::{SigningKey, signature_path};
use tempfile::TempDir;
use tests::conform::{self, Options, RULES, Report, Status, Target};
use tests::host::plugin_folder;

/// How the bad tier is made to break a rule.
enum Fault {
    /// By its configuration.
    Told,
    /// By a manifest that speaks of another library than the one beside it.
    Sidecar,
    /// By a signature that was made for another manifest.
    Signature,
}

/// How each rule is broken, and which other rules the same fault may break with it.
const FAULTS: &[(&str, Fault, &[&str])] = &[
    ("manifest-agrees", Fault::Sidecar, &[]),
    ("trust-gates", Fault::Signature, &[]),
    ("never-panics", Fault::Told, &[]),
    ("bad-config", Fault::Told, &[]),
    ("capabilities", Fault::Told, &[]),
    ("health", Fault::Told, &[]),
    ("lets-go", Fault::Told, &[]),
    ("instances-apart", Fault::Told, &[]),
    // A plan that is not valid is not valid for an odd message, a trap or nonsense either.
    (
        "blocks-are-valid",
        Fault::Told,
        &["odd-requests", "page-text-is-data", "nonsense-does-no-harm"],
    ),
    ("shows-what-it-claims", Fault::Told, &[]),
    ("variants-still-show", Fault::Told, &[]),
    ("same-answer", Fault::Told, &[]),
    ("parallel-turns", Fault::Told, &[]),
    ("odd-requests", Fault::Told, &[]),
    ("begin-records-nothing", Fault::Told, &[]),
    ("read-only-turn", Fault::Told, &[]),
    ("explain-records-nothing", Fault::Told, &[]),
    ("explain-agrees", Fault::Told, &[]),
    ("commit-records", Fault::Told, &[]),
    ("commit-counts-once", Fault::Told, &[]),
    ("commit-can-be-repeated", Fault::Told, &[]),
    ("discard-forgets", Fault::Told, &[]),
    ("nothing-twice", Fault::Told, &[]),
    ("stats-count", Fault::Told, &[]),
    ("events-are-answered", Fault::Told, &[]),
    ("lost-context-is-free", Fault::Told, &[]),
    ("delete-forgets", Fault::Told, &[]),
    ("fork-keeps", Fault::Told, &[]),
    // Turns at the same time are how the wrong call comes into a turn.
    ("call-is-passed", Fault::Told, &["parallel-turns"]),
    ("requesters-apart", Fault::Told, &[]),
    ("untrusted-stays-out", Fault::Told, &[]),
    ("page-text-is-data", Fault::Told, &[]),
    ("failures-are-typed", Fault::Told, &[]),
    ("degraded-is-named", Fault::Told, &[]),
    ("nonsense-does-no-harm", Fault::Told, &[]),
    ("recovers", Fault::Told, &[]),
    ("cancellation", Fault::Told, &[]),
    ("deadline", Fault::Told, &[]),
];

/// Returns the manifest and library of a built plugin.
fn built(folder: &Path, id: &str) -> (PathBuf, PathBuf) {
    let library = folder.join(format!("lib{}.so", id.replace('-', "_")));
    assert!(
        library.is_file(),
        "`{}` is missing: run `cargo xtask build-plugins --test-plugins` first",
        library.display()
    );
    (folder.join(format!("{id}.plugin.toml")), library)
}

fn tests_folder() -> PathBuf {
    plugin_folder().join("test")
}

async fn report(library: &Path, options: &Options) -> Report {
    static QUIET: Once = Once::new();
    QUIET.call_once(conform::silence_planned_panics);
    let target = Target::find(library).expect("a library with its manifest");
    conform::run(&target, options).await
}

/// Short enough that a fault which hangs does not hold up the tests, long enough for a machine that is busy.
fn patience() -> Options {
    Options {
        patience: Duration::from_secs(5),
        ..Options::default()
    }
}

async fn check_conforms(folder: &Path, id: &str, options: &Options) {
    let (_, library) = built(folder, id);
    let report = report(&library, options).await;
    assert!(report.conforms(), "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_tiers_and_the_template_conform() {
    let options = Options::default();
    for row in BUILT.rows() {
        check_conforms(&plugin_folder(), row.plugin, &options).await;
    }
    check_conforms(&tests_folder(), "tier-template", &options).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_bad_tier_conforms_while_it_breaks_nothing() {
    let options = Options {
        config: Some("{}".to_owned()),
        ..Options::default()
    };
    check_conforms(&tests_folder(), "bad-tier", &options).await;
}

#[test]
fn every_rule_has_a_fault_and_every_fault_a_rule() {
    let rules: Vec<&str> = RULES.iter().map(|rule| rule.name).collect();
    let broken: Vec<&str> = FAULTS.iter().map(|(rule, _, _)| *rule).collect();
    assert_eq!(
        rules, broken,
        "add the fault for a new rule to `tests/plugins/bad-tier`"
    );
    let distinct: BTreeSet<&str> = rules.iter().copied().collect();
    assert_eq!(distinct.len(), rules.len(), "a name stands for one rule");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_bad_tier_fails_each_rule_by_name_and_no_other() {
    let mut wrong = Vec::new();
    // Most of the time is spent waiting, so a few are checked at once.
    for faults in FAULTS.chunks(4) {
        let checking: Vec<_> = faults
            .iter()
            .map(|(rule, fault, _)| tokio::spawn(broken(rule, fault)))
            .collect();
        for ((rule, _, others), checking) in faults.iter().zip(checking) {
            let report = checking.await.expect("the program does not panic");
            let failed = report.failed();
            let expected = |name: &&str| name == rule || others.contains(name);
            if !failed.contains(rule) || !failed.iter().all(expected) {
                wrong.push(format!("`{rule}` broken, failed {failed:?}\n{report}"));
            }
            for verdict in &report.verdicts {
                if let Status::Failed { seen, advice } = &verdict.status {
                    assert!(!seen.is_empty() && !advice.is_empty(), "{}", verdict.rule);
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Checks the bad tier while it breaks a rule.
async fn broken(rule: &'static str, fault: &'static Fault) -> Report {
    match fault {
        Fault::Told => {
            let options = Options {
                config: Some(format!(r#"{{"break":"{rule}","notes":3}}"#)),
                ..patience()
            };
            report(&built(&tests_folder(), "bad-tier").1, &options).await
        }
        Fault::Sidecar => with_another_sidecar().await,
        Fault::Signature => with_a_stale_signature().await,
    }
}

/// Copies the bad tier's library, and returns the folder, the copy, and the manifest that is not copied.
fn copied() -> (TempDir, PathBuf, PathBuf) {
    let folder = TempDir::new().expect("a folder");
    let (manifest, library) = built(&tests_folder(), "bad-tier");
    let copy = folder.path().join("libbad_tier.so");
    std::fs::copy(&library, &copy).expect("copied");
    (folder, copy, manifest)
}

/// Checks the bad tier beside a signature that a build before it had.
async fn with_a_stale_signature() -> Report {
    let (folder, copy, manifest) = copied();
    let own = folder.path().join("bad-tier.plugin.toml");
    std::fs::copy(&manifest, &own).expect("copied");
    let key = SigningKey::generate().expect("random numbers");
    std::fs::write(signature_path(&own), key.sign(b"the build before")).expect("written");
    let options = Options {
        config: Some("{}".to_owned()),
        ..patience()
    };
    let stale = report(&copy, &options).await;

    let text = std::fs::read(&own).expect("read");
    std::fs::write(signature_path(&own), key.sign(&text)).expect("written");
    let options = Options {
        rule: Some("trust-gates".to_owned()),
        ..options
    };
    let signed = report(&copy, &options).await;
    assert!(
        signed.conforms(),
        "a signature that fits is no fault: {signed}"
    );
    stale
}

/// Checks the bad tier beside a manifest that leaves one of its capabilities out.
async fn with_another_sidecar() -> Report {
    let (folder, copy, manifest) = copied();
    let text = std::fs::read_to_string(&manifest).expect("read");
    let edited = text.replace(r#"uses = ["log", "kv"]"#, r#"uses = ["log"]"#);
    assert_ne!(text, edited, "the manifest names what it uses");
    std::fs::write(folder.path().join("bad-tier.plugin.toml"), edited).expect("written");
    let options = Options {
        config: Some("{}".to_owned()),
        ..patience()
    };
    let report = report(&copy, &options).await;
    let not_run = |verdict: &conform::Verdict| matches!(verdict.status, Status::NotRun { .. });
    assert!(report.verdicts[1..].iter().all(not_run), "{report}");
    report
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_is_named_by_its_own_rule_wherever_it_is() {
    let (_, library) = built(&tests_folder(), "bad-tier");
    for (place, method) in [
        ("create", "create"),
        ("begin_turn", "begin_turn"),
        ("poll", "begin_turn"),
        ("cancel", "begin_turn"),
        ("commit", "commit"),
        ("discard", "discard"),
        ("on_event", "on_event"),
        ("explain", "explain"),
        ("stats", "stats"),
        ("health", "health"),
        ("drop", "shutdown"),
    ] {
        let options = Options {
            config: Some(format!(r#"{{"break":"never-panics","in":"{place}"}}"#)),
            rule: Some("never-panics".to_owned()),
            ..patience()
        };
        let report = report(&library, &options).await;
        let [verdict] = report.verdicts.as_slice() else {
            panic!("one rule was asked for: {report}");
        };
        let Status::Failed { seen, .. } = &verdict.status else {
            panic!("nobody notices a panic in {place}: {report}");
        };
        assert!(
            seen.starts_with(&format!("`{method}` panicked at "))
                && seen.ends_with(&format!("told to panic in {place}")),
            "{place}: {seen}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_an_instance_only_the_panic_is_named() {
    let (_, library) = built(&tests_folder(), "bad-tier");
    let options = Options {
        config: Some(r#"{"break":"never-panics","in":"create"}"#.to_owned()),
        ..patience()
    };
    let report = report(&library, &options).await;
    assert_eq!(report.failed(), ["never-panics"], "{report}");
    let rest = report
        .verdicts
        .iter()
        .skip_while(|verdict| verdict.rule != "never-panics");
    for verdict in rest.skip(1) {
        let Status::NotRun { because } = &verdict.status else {
            panic!("there is no instance to ask: {report}");
        };
        assert!(because.contains("`never-panics`"), "{because}");
    }
}

#[test]
fn a_library_without_a_manifest_or_none_at_all_is_refused() {
    let folder = TempDir::new().expect("a folder");
    let library = folder.path().join("libalone.so");
    let missing = Target::find(&library).expect_err("there is nothing");
    assert!(
        missing.to_string().contains("there is no library"),
        "{missing}"
    );
    std::fs::write(&library, "no library").expect("written");
    let alone = Target::find(&library).expect_err("no manifest");
    assert!(alone.to_string().contains("no manifest"), "{alone}");
}

#[test]
fn the_page_lists_every_rule() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/conformance.md");
    let page = std::fs::read_to_string(path).expect("the page is there");
    let rules = page.split("## The rules").nth(1).expect("it has the table");
    let rows: Vec<&str> = rules
        .lines()
        .filter(|line| line.starts_with("| `"))
        .collect();
    let expected: Vec<String> = RULES
        .iter()
        .map(|rule| format!("| `{}` | {} | {} |", rule.name, rule.means, rule.why))
        .collect();
    assert_eq!(
        rows.join("\n"),
        expected.join("\n"),
        "bring `docs/conformance.md` up to date with `RULES`"
    );
}
