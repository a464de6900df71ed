//! Secrets on their way in: of no form that is known is a byte left anywhere, and what only looks like one is kept whole.

use memory_core::item::{Consumer, ItemQuery};
use memory_core::provenance::{Authority, Channel, Origin};
use memory_core::store::ItemStore as _;

use super::*;
use crate::fs::RealFs;
use crate::screen::FindingClass;
use crate::screen::samples::{look_alikes, tokens};
use crate::spool::{self, SpooledNote};
use crate::writer::testing::tree;

fn notes(texts: Vec<String>) -> RememberInput {
    RememberInput {
        texts,
        origin: Origin::UserDirect,
        authority: Authority::Owner,
        channel: Channel::Global,
    }
}

/// Fails when a token stands in any file of the folder: markdown, database with its log, index, notes on their way.
fn check_none_is_kept(fixture: &Fixture, expected: &[&str]) {
    let files = tree(&RealFs, fixture.workspace.root());
    for kind in expected {
        assert!(
            files.keys().any(|path| path.contains(kind)),
            "no `{kind}`: {:?}",
            files.keys()
        );
    }
    for (path, bytes) in &files {
        let text = String::from_utf8_lossy(bytes);
        for (what, token) in tokens() {
            assert!(!text.contains(&token), "a {what} is in `{path}`");
        }
    }
}

#[test]
fn no_token_of_any_form_reaches_any_file_and_look_alikes_stay_whole() {
    runtime(async {
        let fixture = Fixture::new();
        let store = fixture.open().await;
        fixture.write("services.md", "# Services\n\nEach of them has a key.\n");
        store.refresh().await.expect("refreshed");
        let texts: Vec<String> = tokens()
            .iter()
            .enumerate()
            .map(|(number, (_, token))| format!("Service {number} lets {token} in since Monday."))
            .collect();
        assert!(texts.len() >= 60, "{}", texts.len());
        let receipt = store
            .remember(notes(texts.clone()), "UTC")
            .await
            .expect("remembered");
        let secrets = receipt
            .findings
            .iter()
            .filter(|found| found.class == FindingClass::Secret);
        let told: usize = secrets.map(|found| found.count).sum();
        assert_eq!((receipt.entries.len(), told), (texts.len(), texts.len()));
        let alike = look_alikes();
        assert!(alike.len() >= 200, "{}", alike.len());
        let receipt = store
            .remember(notes(alike.clone()), "UTC")
            .await
            .expect("remembered");
        assert_eq!(receipt.findings, []);
        store.writer().expect("a writer").settle().expect("settled");

        // What a hook leaves while somebody else writes, before and after it was taken in.
        let left = SpooledNote {
            input: notes(
                texts
                    .iter()
                    .map(|text| format!("{text} So they say."))
                    .collect(),
            ),
            zone: "UTC".to_owned(),
            actor: "hook".to_owned(),
            session: None,
            at: store.now(),
            key: None,
        };
        spool::leave(&fixture.workspace, "n1", &left).expect("left");
        check_none_is_kept(
            &fixture,
            &["buffer.md", "archive/", "state.db", ".lance/", "spool/n1"],
        );
        drop(store);
        let store = fixture.open().await;
        store.writer().expect("a writer").settle().expect("settled");
        assert!(
            !fixture.workspace.spool_dir().join("n1.json").exists(),
            "it was taken in"
        );
        check_none_is_kept(&fixture, &["buffer.md", "archive/", "state.db"]);

        let query = ItemQuery {
            limit: u32::MAX,
            ..ItemQuery::new(Authority::Owner, Consumer::Listing, store.now())
        };
        let items = store.state().items(query).await.expect("read");
        let claims: BTreeSet<&str> = items.iter().map(|item| item.claim.as_str()).collect();
        let buffer = std::fs::read_to_string(fixture.workspace.buffer_path()).expect("read");
        for text in &alike {
            assert!(claims.contains(text.as_str()), "changed: {text}");
            assert!(buffer.contains(text), "changed: {text}");
        }
        // What was meant is still there.
        assert_eq!(buffer.matches(" in since Monday.").count(), 2 * texts.len());
    });
}
