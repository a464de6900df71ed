//! What a file configures is served by the plugin of that tier's row, or by nothing when the tier was removed.
//!
//! Which tiers there are is asked of the registry, so this holds in every build; where a tier was removed it is the test
//! of what its users are told.

use memory_core::predicates::registry::BUILT;
use strata::{Severity, Tier, TurnInput};

use crate::fixture::Fixture;

/// Files as people have them, and the tier that each configures.
const FILES: [(&str, Tier); 4] = [
    ("[memory.v2]\nenabled = false\n", Tier::V1),
    ("[memory.v2]\nenabled = true\n", Tier::V2),
    ("[memory.v3]\nlive = true\n", Tier::V3),
    ("[memory]\nenabled = false\n", Tier::Off),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_configured_tier_is_served_by_its_row_or_by_nothing() {
    let fixture = Fixture::new();
    let assistant = fixture.assistant().await;
    for (text, tier) in FILES {
        std::fs::write(fixture.workspace("assistant.toml"), text).unwrap();
        let injection = assistant
            .begin_turn(TurnInput::owner("c", "tape robot"))
            .await;
        assert_eq!(injection.trace.configured, tier);
        let serving = injection.trace.serving.as_ref();
        assert_eq!(
            serving.map(|serving| serving.plugin.as_str()),
            BUILT.row(tier).map(|row| row.plugin)
        );
        let told: Vec<(&str, Severity, String)> = injection
            .notices
            .iter()
            .map(|notice| {
                (
                    notice.code.as_str(),
                    notice.severity,
                    notice.message.clone(),
                )
            })
            .collect();
        let expected: Vec<(&str, Severity, String)> = BUILT
            .require(tier)
            .err()
            .map(|removed| ("tier_not_serving", Severity::Error, removed.to_string()))
            .into_iter()
            .collect();
        assert_eq!(told, expected, "{text}");
        let status = assistant.tier_status().await.unwrap();
        assert_eq!(
            (status.configured, &status.serving),
            (tier, &injection.trace.serving)
        );
        assert_eq!(
            status.reason,
            BUILT.require(tier).err().map(|removed| removed.to_string())
        );
    }
}

#[test]
fn only_a_tier_of_this_build_can_be_set() {
    let fixture = Fixture::ingested();
    let file = fixture.workspace("assistant.toml");
    for tier in Tier::ALL {
        let before = std::fs::read_to_string(&file).unwrap();
        match BUILT.require(tier) {
            Ok(()) => {
                fixture.run(&["tier", "set", tier.as_str()]).expect(0);
            }
            Err(removed) => {
                let run = fixture.run(&["tier", "set", tier.as_str()]).expect(2);
                assert!(run.err.contains(&removed.to_string()), "{run:?}");
                assert_eq!(std::fs::read_to_string(&file).unwrap(), before);
            }
        }
    }
}
