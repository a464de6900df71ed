//! Settings: shown, changed, and looked at again while an assistant is open.

use memory_core::predicates::registry::BUILT;
use strata::{Tier, TurnInput};

use crate::fixture::Fixture;

#[test]
fn a_setting_goes_into_the_file_and_out_again() {
    let fixture = Fixture::ingested();
    let file = fixture.workspace("assistant.toml");
    let before = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{before}# the owner's remark\n")).unwrap();

    fixture
        .run(&["config", "set", "memory.v3.needleK", "7"])
        .expect(0);
    let got = fixture.data(&["config", "get", "memory.v3.needleK"]);
    assert_eq!(
        (&got["value"], &got["origin"]),
        (&7.into(), &"assistant".into())
    );
    assert!(
        std::fs::read_to_string(&file)
            .unwrap()
            .contains("# the owner's remark")
    );

    let shown = fixture.run(&["config", "show", "--origin"]).expect(0);
    let line = |key: &str| {
        shown
            .out
            .lines()
            .find(|line| line.starts_with(key))
            .unwrap()
            .to_owned()
    };
    assert!(
        line("memory.v3.needleK ").contains("assistant, line"),
        "{}",
        line("memory.v3.needleK ")
    );
    assert!(
        line("memory.v3.denseK ").ends_with("default"),
        "{}",
        line("memory.v3.denseK ")
    );

    fixture
        .run(&["config", "unset", "memory.v3.needleK"])
        .expect(0);
    assert_eq!(
        fixture.data(&["config", "get", "memory.v3.needleK"])["origin"],
        "default"
    );
}

#[test]
fn values_that_belong_together_change_together() {
    let fixture = Fixture::ingested();
    let alone = fixture
        .run(&["config", "set", "memory.v2.dense_weight", "0.5"])
        .expect(4);
    assert!(alone.err.contains("sparse_weight"), "{alone:?}");
    fixture
        .run(&[
            "config",
            "set",
            "memory.v2.dense_weight",
            "0.5",
            "memory.v2.sparse_weight",
            "0.5",
        ])
        .expect(0);
}

#[test]
fn an_unknown_key_names_the_one_that_was_meant() {
    let fixture = Fixture::ingested();
    let run = fixture
        .run(&["config", "set", "memory.v3.lvie", "true"])
        .expect(3);
    assert!(run.err.contains("memory.v3.live"), "{run:?}");
    std::fs::write(
        fixture.workspace("assistant.toml"),
        "[memory.v3]\nlvie = true\n",
    )
    .unwrap();
    let shown = fixture.run(&["tier", "show"]).expect(0);
    assert!(
        shown.err.contains("line 2") && shown.err.contains("the configured tier is now `v3`"),
        "a slip must be loud: {shown:?}"
    );
    assert!(
        shown.out.contains("configured: v3"),
        "and change nothing: {shown:?}"
    );
}

#[test]
fn the_environment_beats_the_file() {
    let fixture = Fixture::ingested();
    let output = fixture
        .command(&["tier", "show", "--json"])
        .env("STRATA_MEMORY__ENABLED", "false")
        .output()
        .unwrap();
    let printed: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(printed["data"]["configured"], "off", "{printed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_assistant_follows_its_file_and_survives_a_broken_one() {
    let fixture = Fixture::new();
    let assistant = fixture.assistant().await;
    let ask = || assistant.begin_turn(TurnInput::owner("c", "tape robot"));
    assert_eq!(
        ask().await.trace.serving.map(|serving| serving.tier),
        Some(Tier::V3)
    );

    let file = fixture.workspace("assistant.toml");
    let good = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, "[memory\n").unwrap();
    for _ in 0..2 {
        let injection = ask().await;
        assert_eq!(
            injection.trace.serving.map(|serving| serving.tier),
            Some(Tier::V3)
        );
        assert!(!injection.blocks.is_empty());
        assert_eq!(injection.notices[0].code, "settings_broken");
    }

    std::fs::write(&file, "[memory.v3]\nlive = false\n").unwrap();
    let injection = ask().await;
    assert_eq!(injection.trace.configured, Tier::V2);
    assert_eq!(
        injection.trace.serving.map(|serving| serving.tier),
        BUILT.row(Tier::V2).map(|row| row.tier)
    );

    std::fs::write(&file, good).unwrap();
    let injection = ask().await;
    assert_eq!(
        injection.trace.serving.clone(),
        assistant.tier_status().await.unwrap().serving
    );
    assert_eq!(
        assistant.stats().await.unwrap().tier.serving,
        injection.trace.serving
    );
    assert_eq!(injection.trace.configured, Tier::V3);
}

#[test]
fn a_time_zone_that_nobody_knows_is_refused() {
    let fixture = Fixture::ingested();
    let refused = fixture
        .run(&["config", "set", "time_zone", "Mars/Berlin"])
        .expect(2);
    assert!(
        refused.err.contains("did you mean `Europe/Berlin`?"),
        "{refused:?}"
    );
    fixture
        .run(&["config", "set", "time_zone", "Mars/X"])
        .expect(2);
    let zone = fixture.data(&["config", "get", "time_zone"]);
    assert_eq!(zone["value"], "Europe/Berlin");
    fixture
        .run(&["config", "set", "time_zone", "Asia/Tokyo"])
        .expect(0);
}

#[test]
fn a_slip_at_a_switch_changes_no_tier_even_for_a_program_that_starts_later() {
    let fixture = Fixture::ingested();
    let file = fixture.workspace("assistant.toml");
    let good = std::fs::read_to_string(&file).unwrap();
    let slip = good.replace("live = true", "live = \"yes\"");
    assert_ne!(slip, good);
    std::fs::write(&file, &slip).unwrap();

    let shown = fixture.run(&["tier", "show"]).expect(0);
    assert!(shown.out.contains("configured: v3"), "{shown:?}");
    assert!(
        shown.err.contains("fault at a switch of the tier"),
        "{shown:?}"
    );
    let asked = fixture.data(&["context", "tape robot"]);
    assert_eq!(asked["trace"]["configured"], "v3");
    assert_eq!(asked["notices"][0]["code"], "tier_switch_faulty");
    let got = fixture.data(&["config", "get", "memory.v3.live"]);
    assert_eq!(
        (&got["value"], &got["origin"]),
        (&true.into(), &"kept".into())
    );
    let examined = fixture.run(&["doctor"]).expect(8);
    assert!(
        examined.out.contains("problem settings.tier"),
        "{examined:?}"
    );

    fixture.run(&["tier", "set", "v3"]).expect(0);
    fixture.run(&["doctor"]).expect(0);
    let got = fixture.data(&["config", "get", "memory.v3.live"]);
    assert_eq!(got["origin"], "assistant");
}
