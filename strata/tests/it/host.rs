//! The example host, run with a scripted conversation: what its documentation promises is what it prints.

use crate::fixture::Fixture;

#[expect(
    dead_code,
    reason = "only the program has a use for `main`; the test calls what it calls"
)]
#[path = "../../../examples/host/main.rs"]
mod example;

const SCRIPT: &str = "\
When is the archive copied to the tape robot?
When is the archive copied to the tape robot?
/tier v2
Where are the spare belts?
/tier off
Where are the spare belts?
";

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

    let said = chat(&fixture, SCRIPT).await;
    let turns: Vec<&str> = said.split("you: ").collect();
    assert_eq!(turns.len(), 5, "{said}");
    let [_, first, again, other, off] = turns[..] else {
        panic!("{said}")
    };
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
    assert!(
        other.contains("tier v2 configured, tier-v2 serves"),
        "{other}"
    );
    assert!(off.contains("tier off configured, nothing serves"), "{off}");
    assert!(off.contains("I saw 0 bytes of memory"), "{off}");
    for counted in ["off: 1", "v2: 1", "v3: 2"] {
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
