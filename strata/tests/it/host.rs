//! The example host, run with a scripted conversation: what its documentation promises is what it prints.

use memory_core::predicates::registry::BUILT;
use strata::Tier;

use crate::fixture::Fixture;

#[expect(
    dead_code,
    reason = "only the program has a use for `main`; the test calls what it calls"
)]
#[path = "../../../examples/host/main.rs"]
mod example;

/// The first question twice, then a question under another tier, where this build has one, and under none.
fn script(other: Option<Tier>) -> String {
    let copied = "When is the archive copied to the tape robot?\n";
    let belts = "Where are the spare belts?\n";
    let with_other = other.map_or(String::new(), |tier| format!("/tier {tier}\n{belts}"));
    format!("{copied}{copied}{with_other}/tier off\n{belts}")
}

async fn chat(fixture: &Fixture, script: &str) -> String {
    let mut output = Vec::new();
    example::chat(fixture.options(), script.as_bytes(), &mut output)
        .await
        .unwrap();
    String::from_utf8(output).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_example_host_remembers_and_changes_tiers() {
    let fixture = Fixture::new();
    // The first chat makes the assistant, which knows nothing yet.
    let said = chat(&fixture, "").await;
    assert!(
        said.contains("(tier v3 is configured, tier-v3 serves)"),
        "{said}"
    );
    let notes = fixture.path("notes");
    let ingest = [
        "--assistant",
        "example-host",
        "ingest",
        notes.to_str().unwrap(),
    ];
    fixture.run(&ingest).expect(0);

    let row = BUILT.rows().iter().rfind(|row| row.tier != Tier::V3);
    let said = chat(&fixture, &script(row.map(|row| row.tier))).await;
    let turns: Vec<&str> = said.split("you: ").collect();
    assert_eq!(turns.len(), 4 + usize::from(row.is_some()), "{said}");
    let (first, again, off) = (turns[1], turns[2], turns[turns.len() - 1]);
    assert!(
        first.contains("[turn 1, tier v3 configured, tier-v3 serves"),
        "{first}"
    );
    assert!(
        first.contains("every Sunday") && first.contains("</memory>"),
        "{first}"
    );
    assert!(first.contains("assistant: You said"), "{first}");
    assert!(
        !again.contains("copied to the tape robot every Sunday"),
        "nothing is shown twice: {again}"
    );
    let mut counts = vec!["off: 1".to_owned(), "v3: 2".to_owned()];
    if let Some(row) = row {
        let expected = format!("tier {} configured, {} serves", row.tier, row.plugin);
        assert!(turns[3].contains(&expected), "{said}");
        counts.push(format!("{}: 1", row.tier));
    }
    assert!(off.contains("tier off configured, nothing serves"), "{off}");
    assert!(off.contains("I saw 0 bytes of memory"), "{off}");
    for counted in counts {
        assert!(
            said.contains(&format!("(turns with tier {counted})")),
            "{said}"
        );
    }
    assert!(!said.contains("[Error"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_example_host_goes_on_without_a_plugin() {
    let fixture = Fixture::new();
    std::fs::write(fixture.plugins().join("libtier_v3.so"), b"not a library").unwrap();
    let said = chat(&fixture, "Is anybody there?\n").await;
    assert!(said.contains("[Error tier_not_serving: "), "{said}");
    assert!(said.contains("assistant: You said"), "{said}");
}
