//! Which tier is configured and what serves: two facts, and every place that shows the one shows the other.

use memory_core::predicates::registry::BUILT;
use memory_core::store::StateStore as _;
use strata::{Tier, TurnInput};

use crate::fixture::Fixture;

/// What a place must say of each of the two.
struct Expected {
    configured: &'static str,
    /// The tier that serves, and the plugin; `None` when nothing does.
    serving: Option<(&'static str, &'static str)>,
}

/// Walks through all places.
async fn check_every_place(fixture: &Fixture, expected: &Expected) {
    let Expected {
        configured,
        serving,
    } = *expected;
    let serving_tier = serving.map(|(tier, _)| tier);

    // `tier show`, as data and as text.
    let shown = fixture.data(&["tier", "show"]);
    assert_eq!(shown["configured"], configured, "{shown}");
    assert_eq!(shown["serving"]["tier"].as_str(), serving_tier, "{shown}");
    let text = fixture.run(&["tier", "show"]).expect(0).out;
    assert!(
        text.contains(&format!("configured: {configured}")),
        "{text}"
    );
    let served = serving.map_or("serving:    none".to_owned(), |(tier, plugin)| {
        format!("serving:    {tier} by `{plugin}`")
    });
    assert!(text.contains(&served), "{text}");

    // `tier set`, which changes nothing here.
    let set = fixture.data(&["tier", "set", configured]);
    assert_eq!(set["configured"], configured, "{set}");
    assert_eq!(set["serving"]["tier"].as_str(), serving_tier, "{set}");
    let text = fixture.run(&["tier", "set", configured]).expect(0).out;
    assert!(
        text.contains(&format!("configured: {configured}")) && text.contains(&served),
        "{text}"
    );

    // A turn's trace, as data, as text and in the log.
    let asked = fixture.data(&["context", "tape robot"]);
    assert_eq!(asked["trace"]["configured"], configured, "{asked}");
    assert_eq!(
        asked["trace"]["serving"]["tier"].as_str(),
        serving_tier,
        "{asked}"
    );
    let asked = fixture.run(&["context", "tape robot", "--explain", "-vv"]);
    let said = asked.out.clone() + &asked.err;
    let described = serving.map_or(
        format!("tier {configured} is configured, none serves"),
        |(tier, plugin)| format!("tier {configured} is configured, {tier} served by `{plugin}`"),
    );
    assert!(said.contains(&described), "{asked:?}");
    let begun = asked
        .err
        .lines()
        .find(|line| line.contains("turn begun"))
        .unwrap();
    assert!(
        begun.contains(&format!("configured={configured}")),
        "{begun}"
    );
    assert!(
        begun.contains(&format!("serving={}", serving_tier.unwrap_or("off"))),
        "{begun}"
    );

    // The examination.
    let examined = fixture.run(&["doctor"]).out;
    let line = examined
        .lines()
        .find(|line| line.contains(" tier: "))
        .unwrap();
    match (configured, serving) {
        ("off", None) => assert!(line.contains("no tier is configured and none serves")),
        (_, None) => {
            assert!(line.contains(&format!("tier {configured} is configured and none serves")));
        }
        (_, Some((tier, plugin))) => {
            assert!(
                line.contains(&format!(
                    "tier {configured} is configured and served by `{plugin}`"
                )),
                "{line}"
            );
            assert!(line.contains(&format!(", tier {tier}, sha256 ")), "{line}");
        }
    }

    // The library's own answers.
    let assistant = fixture.reopen(strata::Access::ReadWrite).await;
    let injection = assistant
        .begin_turn(TurnInput::owner("walk", "tape robot"))
        .await;
    let stats = assistant.stats().await.unwrap();
    let statuses = [
        (injection.trace.configured, injection.trace.serving.clone()),
        (stats.tier.configured, stats.tier.serving.clone()),
    ];
    for (tier, serves) in statuses {
        assert_eq!(tier.as_str(), configured);
        let plugin = serves
            .as_ref()
            .map(|serves| (serves.tier.as_str(), serves.plugin.as_str()));
        assert_eq!(plugin, serving);
    }
    let counted = serving_tier.or((configured == "off").then_some("off"));
    match counted {
        Some(tier) => assert_eq!(stats.turns.by_tier[&tier.parse::<Tier>().unwrap()], 1),
        None => assert_eq!(stats.turns.unserved, 1),
    }

    // What is kept with the message.
    let ended = assistant
        .end_turn(&injection, strata::TurnEnd::default())
        .await;
    let message = ended.unwrap().unwrap().message;
    let store = assistant.store().await.unwrap();
    let node = store.state().turn_node(&message).await.unwrap().unwrap();
    let kept: serde_json::Value = serde_json::from_str(&node.metadata).unwrap();
    assert_eq!(kept["tier"]["configured"], configured, "{kept}");
    assert_eq!(
        kept["tier"]["serving"]["tier"].as_str(),
        serving_tier,
        "{kept}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn every_place_shows_both_facts() {
    let fixture = Fixture::ingested();
    for row in BUILT.rows().iter().rev() {
        let (tier, plugin) = (row.tier.as_str(), row.plugin);
        fixture.run(&["tier", "set", tier]).expect(0);
        let expected = Expected {
            configured: tier,
            serving: Some((tier, plugin)),
        };
        check_every_place(&fixture, &expected).await;
    }
    fixture.run(&["tier", "set", "off"]).expect(0);
    let off = Expected {
        configured: "off",
        serving: None,
    };
    check_every_place(&fixture, &off).await;

    fixture.run(&["tier", "set", "v3"]).expect(0);
    std::fs::write(fixture.plugins().join("libtier_v3.so"), b"not a library").unwrap();
    let refused = Expected {
        configured: "v3",
        serving: None,
    };
    check_every_place(&fixture, &refused).await;
}
