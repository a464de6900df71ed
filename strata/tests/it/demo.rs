//! The demonstration gives the same injections whenever it is played.

use std::path::Path;

use memory_core::predicates::registry::BUILT;

use crate::fixture::Fixture;

#[test]
fn two_runs_inject_the_same_bytes() {
    let fixture = Fixture::new();
    let repo = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_str()
        .unwrap();
    let first = fixture.data(&["demo", "--repo", repo]);
    let digest = fixture.run(&["demo", "--repo", repo, "--digest"]).expect(0);
    assert_eq!(first["digest"].as_str(), Some(digest.out.trim()));

    assert_eq!(first["faults"].as_array().map(Vec::len), Some(0));
    let turns = first["turns"].as_array().unwrap();
    let played: Vec<(u64, &str)> = turns
        .iter()
        .filter_map(|turn| Some((turn["turn"].as_u64()?, turn["configured"].as_str()?)))
        .collect();
    let script = ["v1", "v1", "v2", "v2", "v3", "v3", "v3", "off", "v3", "v3"];
    let there: Vec<(u64, &str)> = (1..)
        .zip(script)
        .filter(|(_, tier)| BUILT.has(tier.parse().unwrap()))
        .collect();
    assert_eq!(played, there);
    let left_out = first["left_out"].as_array().unwrap();
    assert_eq!(left_out.len(), script.len() - there.len());
    for turn in turns {
        let off = turn["configured"] == "off";
        let serving = turn["serving"]["tier"].as_str().unwrap_or("off");
        assert_eq!(turn["configured"], serving, "{turn:#}");
        assert_eq!(
            turn["text"] == "",
            off || turn["sections"].as_array().unwrap().is_empty() && turn["turn"] == 10,
            "{turn:#}"
        );
    }
}
