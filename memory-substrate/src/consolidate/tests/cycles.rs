//! A year of runs.

use super::*;

#[test]
fn after_a_year_of_runs_every_sentence_is_still_there_and_any_run_can_be_taken_back() {
    runtime(async {
        const CYCLES: usize = 365;
        let fixture = Fixture::new();
        fixture.write("nora.md", "# Nora\n\nShe keeps the archive.\n");
        let store = fixture.open().await;
        store.refresh().await.expect("refreshed");
        let rng = SeededRng::new(7);
        let mut said = Vec::new();
        let mut runs = Vec::new();
        for cycle in 0..CYCLES {
            let person = ["Nora", "Tomasz Lem", "Frieda"][cycle % 3];
            let text = format!("{person} said the number {cycle} on that day.");
            note(&store, &text).await;
            said.push(text);
            runs.push(run(&store).await);
            // Now and then one is taken back, and filed again by the next one.
            if rng.next_u64().is_multiple_of(20) {
                let at = usize::try_from(rng.next_u64()).unwrap_or(0) % runs.len();
                if let Some(operation) = &runs[at].operation {
                    store.undo(operation).await.expect("taken back");
                }
            }
        }
        let buffer = buffer_of(&fixture);
        let all: String = files(&fixture)
            .into_iter()
            .filter(|(path, _)| path.contains("concepts"))
            .map(|(_, text)| text)
            .chain([buffer])
            .collect();
        for text in &said {
            assert_eq!(all.matches(text.as_str()).count(), 1, "{text}");
        }
        let validated = store.validate(5_000).await.expect("validated");
        assert!(validated.is_clean(), "{validated:?}");
    });
}
