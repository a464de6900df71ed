//! The repair: it mends rows, finishes what was cut off, and may itself be cut off.

use memory_core::services::{LogKind, LogRow};
use memory_core::store::StateStore as _;
use memory_core::time::Timestamp;

use super::*;

async fn repair(store: &AssistantStore) -> ReconcileReport {
    let repaired = store.reconcile(&mut |_| ControlFlow::Continue(())).await;
    repaired.expect("repaired")
}

#[test]
fn rows_that_differ_are_mended_and_everything_agrees_afterwards() {
    runtime(async {
        let fixture = Fixture::new();
        write_pages(&fixture, 30);
        let store = fixture.open().await;
        store.sync(&mut go_on).await.expect("synchronised");
        let clean = row_set(&store).await;
        // As another program or a fault of ours may leave it: a row too many, one too few, one that says something else.
        let index = store.engine.index.load_full().expect("an index");
        let mut rows = index.all_rows().await.expect("rows");
        rows.retain(|row| row.id.slug.as_str() == "area-1/page-1");
        rows[1].body_terms = "forged".to_owned();
        rows.pop();
        let page = rows[0].id.slug.clone();
        index
            .replace_pages(vec![page], rows.clone())
            .await
            .expect("written");
        let mut stranger = rows[0].clone();
        stranger.id.slug = crate::snapshot::testing::slug("nobody");
        index
            .replace_pages(vec![stranger.id.slug.clone()], vec![stranger])
            .await
            .expect("written");
        drop(index);
        let mut steps = Vec::new();
        let report = store
            .reconcile(&mut |step| {
                steps.push(step);
                ControlFlow::Continue(())
            })
            .await
            .expect("repaired");
        let before = &report.before;
        assert_eq!((before.missing, before.stale, before.extra), (1, 1, 1));
        assert!(report.is_clean() && !report.rebuilt, "{report:?}");
        assert!(steps.is_sorted_by_key(|step| step.step), "{steps:?}");
        assert!(
            steps
                .iter()
                .any(|step| step.step == ReconcileStep::Index && step.total == 2)
        );
        assert_eq!(row_set(&store).await, clean);
        let again = repair(&store).await;
        assert_eq!(again.index.pages, 0, "nothing is left to do");
    });
}

#[test]
fn an_index_that_cannot_be_read_is_made_anew_and_an_interruption_goes_on() {
    runtime(async {
        let fixture = Fixture::new();
        write_pages(&fixture, 1_000);
        let store = fixture.open().await;
        store.sync(&mut go_on).await.expect("synchronised");
        let clean = row_set(&store).await;
        std::fs::remove_dir_all(fixture.workspace.index_dir()).expect("removed");
        let stopped = store
            .reconcile(&mut |at| {
                if at.step == ReconcileStep::Index && at.done > 100 {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })
            .await
            .expect("begun");
        assert!(stopped.stopped && stopped.rebuilt && !stopped.is_clean());
        assert!(!found(&store, "harbour3").is_empty(), "it serves meanwhile");
        drop(store);
        let store = fixture.open().await;
        let report = repair(&store).await;
        assert!(report.is_clean(), "{report:?}");
        assert_eq!(row_set(&store).await, clean);
    });
}

#[test]
fn rows_of_conversations_that_do_not_exist_go_after_a_day() {
    runtime(async {
        let fixture = Fixture::new();
        let store = fixture.open().await;
        let row = LogRow {
            kind: LogKind::Selection,
            slug: None,
            body: "{}".to_owned(),
        };
        store
            .state()
            .append_log("gone", 1, Tier::V3, vec![row], Timestamp::from_millis(1))
            .await
            .expect("logged");
        assert_eq!(repair(&store).await.orphans, 0, "it may be about to begin");
        fixture.clock.advance_millis(25 * 60 * 60 * 1000);
        assert_eq!(repair(&store).await.orphans, 1);
    });
}
