//! Tests of who may see what, through the services a tier is handed.

use memory_core::provenance::{Authority, Origin, TrustVerdict, trust_of};
use memory_core::services::{KvScope, LexicalQuery, LogKind, LogRow, Resident, Role};
use memory_core::store::{PageOrigin, StateStore as _, TurnNode, TurnTree as _};
use memory_core::text::section::SectionId;
use memory_core::text::slug::Slug;
use memory_core::time::Timestamp;

use super::testing::{call, cancelled};
use super::*;
use crate::assistant::testing::{Fixture, runtime};

fn query(text: &str) -> LexicalQuery {
    LexicalQuery {
        text: text.to_owned(),
        head_weight: 2.5,
        body_weight: 1.0,
        k1: 1.5,
        b: 0.75,
        limit: 10,
        best_per_page: true,
    }
}

fn slugs(names: &[&str]) -> Vec<Slug> {
    names
        .iter()
        .map(|name| Slug::parse(name).expect("canonical"))
        .collect()
}

/// Three pages about one thing: for everyone, for Ada, and from a stranger's document.
async fn three_pages() -> (Fixture, crate::assistant::AssistantStore) {
    let fixture = Fixture::new();
    fixture.write(
        "open.md",
        "# Open\n\nThe harbour opens at dawn. See [[private]] and [[foreign]].\n",
    );
    fixture.write(
        "private.md",
        "---\nchannel: ada\n---\n# Private\n\nAda keeps the harbour key.\n",
    );
    fixture.write(
        "foreign.md",
        "# Foreign\n\nThe harbour belongs to a stranger.\n",
    );
    std::fs::write(
        fixture.workspace.core_pages_path(),
        "- [[open]]\n- [[private]]\n- [[foreign]]\n",
    )
    .expect("written");
    std::fs::write(fixture.workspace.essentials_path(), "Call me Kim.\n").expect("written");
    fixture.write_pkb("essentials.md", "Kim owns a boat.\n");
    fixture.write_pkb("boats.md", "The boat lies in the harbour.\n");
    let store = fixture.open().await;
    let origin = PageOrigin {
        slug: Slug::parse("foreign").expect("canonical"),
        original_name: "foreign.md".to_owned(),
        origin: Origin::ExternalDoc,
        authority: Authority::Owner,
        at: Timestamp::from_millis(1),
    };
    assert!(
        trust_of(origin.origin, origin.authority)
            .is_some_and(|TrustVerdict { trust, .. }| trust == Trust::Untrusted)
    );
    store
        .state()
        .put_page_origins(vec![origin])
        .await
        .expect("recorded");
    store.refresh().await.expect("refreshed");
    (fixture, store)
}

#[test]
fn a_requester_sees_trusted_text_of_its_channels_only() {
    runtime(async {
        let (_fixture, store) = three_pages().await;
        let services = store.services(Tier::V3, &Capability::ALL);
        let (pages, sections) = (
            services.pages.expect("offered"),
            services.sections.expect("offered"),
        );
        let (lexical, dense) = (
            services.lexical.expect("offered"),
            services.dense.expect("offered"),
        );
        let pkb = store.every_service(Tier::V1).pkb.expect("there");
        let all = ["open", "private", "foreign"];
        for (authority, channels, visible) in [
            (Authority::None, vec!["ada"], vec![]),
            (Authority::Owner, vec![], vec!["open"]),
            (Authority::Paired, vec![], vec![]),
            (Authority::Paired, vec!["_global"], vec![]),
            (Authority::Paired, vec!["bob"], vec![]),
            (Authority::Paired, vec!["ada", "_global"], vec!["private"]),
            (Authority::Owner, vec!["ada"], vec!["open", "private"]),
        ] {
            let call = call(authority, &channels);
            let expected = slugs(&visible);
            let mut core = pages.core(&call).await.expect("listed");
            core.sort();
            assert_eq!(core, expected);
            // The views and the knowledge base belong to no channel, so they are the owner's alone.
            let is_owner = authority == Authority::Owner;
            let now_text = pages.now_text(&call).await.expect("read");
            assert_eq!(now_text.contains("Kim"), is_owner);
            assert_eq!(now_text.is_empty(), !is_owner);
            let shown = pkb.always_shown(&call).await.expect("read");
            assert_eq!(shown.is_empty(), !is_owner);
            let hits = pkb.search(&call, "harbour".to_owned(), 5).await;
            assert_eq!(hits.expect("searched").is_empty(), !is_owner);
            assert_eq!(
                pages.count(&call).await.expect("counted"),
                u32::try_from(expected.len()).expect("small")
            );
            let mut fresh: Vec<Slug> = pages
                .freshest(&call, 5)
                .await
                .expect("listed")
                .into_iter()
                .map(|page| page.slug)
                .collect();
            fresh.sort();
            assert_eq!(fresh, expected);
            let read = pages.read(&call, slugs(&all)).await.expect("read");
            assert_eq!(
                read.into_iter()
                    .flatten()
                    .map(|page| page.slug)
                    .collect::<Vec<_>>(),
                expected
            );
            let listed = sections.of_pages(&call, slugs(&all)).await.expect("listed");
            assert_eq!(
                listed
                    .iter()
                    .filter(|sections| !sections.is_empty())
                    .count(),
                expected.len()
            );
            let ids: Vec<SectionId> = slugs(&all).into_iter().map(SectionId::lead).collect();
            let texts = sections.texts(&call, ids).await.expect("read");
            assert_eq!(texts.iter().flatten().count(), expected.len());
            let mut found: Vec<Slug> = lexical
                .search(&call, query("harbour"))
                .await
                .expect("searched")
                .into_iter()
                .map(|hit| hit.id.slug)
                .collect();
            found.sort();
            assert_eq!(found, expected);
            let vector = dense
                .embed(&call, vec!["harbour".to_owned()])
                .await
                .expect("embedded");
            let mut found: Vec<Slug> = dense
                .search(&call, vector, 10)
                .await
                .expect("searched")
                .into_iter()
                .map(|hit| hit.id.slug)
                .collect();
            found.sort();
            assert_eq!(found, expected);
            let links = pages.links(&call, slugs(&["open"])).await.expect("listed");
            assert_eq!(
                links[0].len(),
                expected.len().saturating_sub(1),
                "links to hidden pages are hidden"
            );
        }
    });
}

#[test]
fn section_text_is_what_the_file_says_now() {
    runtime(async {
        let (fixture, store) = three_pages().await;
        let services = store.services(Tier::V3, &Capability::ALL);
        let sections = services.sections.expect("offered");
        let owner = call(Authority::Owner, &[]);
        let lead = SectionId::lead(Slug::parse("open").expect("canonical"));
        let gone = SectionId {
            heading: "no such part".to_owned(),
            ..lead.clone()
        };
        fixture.write("open.md", "# Open\n\nThe harbour is closed.\n");
        let texts = sections
            .texts(&owner, vec![lead.clone(), gone])
            .await
            .expect("read");
        assert!(
            texts[0]
                .as_ref()
                .is_some_and(|text| text.text.contains("closed")),
            "{texts:?}"
        );
        assert!(texts[1].is_none());
        // A page that has just become private is not shown by an index that does not know it yet.
        fixture.write("open.md", "---\nchannel: ada\n---\n# Open\n\nSecret now.\n");
        assert!(
            sections
                .texts(&owner, vec![lead.clone()])
                .await
                .expect("read")[0]
                .is_none()
        );
        std::fs::remove_file(fixture.page("open.md")).expect("removed");
        assert!(sections.texts(&owner, vec![lead]).await.expect("read")[0].is_none());
    });
}

#[test]
fn a_reader_records_nothing_and_says_so() {
    runtime(async {
        let fixture = Fixture::new();
        fixture.write("a.md", "# A\n\nOne.\n");
        drop(fixture.open().await);
        let store = fixture.open_read_only().await;
        let services = store.services(Tier::V3, &Capability::ALL);
        let owner = call(Authority::Owner, &[]);
        let shown = Resident {
            slug: Slug::parse("a").expect("canonical"),
            section: None,
            bytes: 3,
        };
        let recorded = services
            .residency
            .expect("offered")
            .record(&owner, "m1".to_owned(), vec![shown])
            .await;
        assert!(
            matches!(recorded, Err(ServiceError::Unavailable { .. })),
            "{recorded:?}"
        );
        let row = LogRow {
            kind: LogKind::Selection,
            slug: None,
            body: "{}".to_owned(),
        };
        let logged = services
            .log
            .expect("offered")
            .append(&owner, vec![row])
            .await;
        assert!(matches!(logged, Err(ServiceError::Unavailable { .. })));
        let put = services
            .kv
            .expect("offered")
            .put(&owner, KvScope::Assistant, "k".to_owned(), None)
            .await;
        assert!(matches!(put, Err(ServiceError::Unavailable { .. })));
    });
}

#[test]
fn state_is_kept_by_tier_and_conversation() {
    runtime(async {
        let fixture = Fixture::new();
        let store = fixture.open().await;
        let owner = call(Authority::Owner, &[]);
        let (v3, v2) = (
            store.services(Tier::V3, &Capability::ALL),
            store.every_service(Tier::V2),
        );
        let (kv3, kv2) = (v3.kv.expect("offered"), v2.kv.expect("offered"));
        kv3.put(
            &owner,
            KvScope::Conversation,
            "k".to_owned(),
            Some("three".to_owned()),
        )
        .await
        .expect("kept");
        let of = async |kv: &Arc<dyn memory_core::services::Kv>| {
            kv.get(&owner, KvScope::Conversation, "k".to_owned())
                .await
                .expect("read")
        };
        assert_eq!(of(&kv3).await.as_deref(), Some("three"));
        assert_eq!(of(&kv2).await, None);
        assert!(v3.pkb.is_none(), "the row of v3 has no knowledge base");
        let residency = v3.residency.expect("offered");
        let shown = Resident {
            slug: Slug::parse("a").expect("canonical"),
            section: None,
            bytes: 3,
        };
        residency
            .record(&owner, "m1".to_owned(), vec![shown])
            .await
            .expect("recorded");
        let active = residency.active(&owner).await.expect("listed");
        assert_eq!((active.len(), active[0].tier), (1, Tier::V3));
        assert_eq!(
            v2.residency
                .expect("offered")
                .active(&owner)
                .await
                .expect("listed"),
            active
        );
    });
}

#[test]
fn a_cancelled_call_stops_and_bad_numbers_are_refused() {
    runtime(async {
        let (_fixture, store) = three_pages().await;
        let services = store.services(Tier::V3, &Capability::ALL);
        let lexical = services.lexical.expect("offered");
        assert_eq!(
            lexical.search(&cancelled(), query("harbour")).await,
            Err(ServiceError::Cancelled)
        );
        let owner = call(Authority::Owner, &[]);
        let bad = LexicalQuery {
            b: 1.5,
            ..query("harbour")
        };
        assert!(matches!(
            lexical.search(&owner, bad).await,
            Err(ServiceError::BadRequest { .. })
        ));
        let bad = LexicalQuery {
            head_weight: f32::NAN,
            ..query("harbour")
        };
        assert!(matches!(
            lexical.search(&owner, bad).await,
            Err(ServiceError::BadRequest { .. })
        ));
        for text in [
            "",
            "*",
            "a AND OR",
            "(bypass only)",
            "\"--error-on-warnings\"",
            "don't",
        ] {
            lexical
                .search(&owner, query(text))
                .await
                .expect("user text is text");
        }
        let idf = lexical
            .idf(&owner, "harbour harbour unheard".to_owned())
            .await
            .expect("answered");
        assert_eq!(
            idf.iter()
                .map(|(term, _)| term.as_str())
                .collect::<Vec<_>>(),
            ["harbour", "unheard"]
        );
        assert!(idf[0].1 < idf[1].1);
    });
}

#[test]
fn the_knowledge_base_is_searched_by_word_and_by_meaning() {
    runtime(async {
        let fixture = Fixture::new();
        fixture.write_pkb("essentials.md", "Call me Kim.\n");
        fixture.write_pkb("travel.md", "Trains to Lisbon leave at nine.\n");
        fixture.write_pkb("food.md", "No peanuts, ever.\n");
        let store = fixture.open().await;
        let pkb = store.every_service(Tier::V1).pkb.expect("there");
        let owner = call(Authority::Owner, &[]);
        let shown = pkb.always_shown(&owner).await.expect("read");
        assert!(
            shown.iter().any(|file| file.path == "essentials.md"),
            "{shown:?}"
        );
        let hits = pkb
            .search(&owner, "peanuts".to_owned(), 2)
            .await
            .expect("searched");
        assert_eq!(hits[0].path, "food.md");
        assert!(hits[0].lexical.is_some() && hits[0].dense.is_some() && hits[0].fused > 0.0);
        assert!(hits.len() <= 2);
        assert!(
            pkb.search(&call(Authority::None, &[]), "peanuts".to_owned(), 2)
                .await
                .expect("searched")
                .is_empty()
        );
        fixture.write_pkb("food.md", "Peanuts are fine. So is halibut.\n");
        let hits = pkb
            .search(&owner, "halibut".to_owned(), 2)
            .await
            .expect("searched");
        assert_eq!(hits[0].path, "food.md");
        drop(pkb);
        let plain = fixture.reopen_lexical(store).await;
        let pkb = plain.every_service(Tier::V1).pkb.expect("there");
        let hits = pkb
            .search(&owner, "halibut".to_owned(), 2)
            .await
            .expect("searched");
        assert_eq!(hits.len(), 1);
        assert!(hits[0].dense.is_none());
    });
}

#[test]
fn messages_are_those_of_the_branch_that_the_conversation_is_on() {
    runtime(async {
        let fixture = Fixture::new();
        let store = fixture.open().await;
        let say = async |branch: &str, id: &str, parent: Option<&str>| {
            let node = TurnNode {
                id: id.to_owned(),
                conversation: "talk".to_owned(),
                parent: parent.map(str::to_owned),
                branch: branch.to_owned(),
                turn: 1,
                role: Role::User,
                text: format!("text of {id}"),
                finalised: true,
                speaker: None,
                principal: None,
                authority: Authority::Owner,
                agent: None,
                channel: Channel::Global,
                origin: Origin::UserDirect,
                event_time: Timestamp::from_millis(1),
                ingestion_time: Timestamp::from_millis(1),
                metadata: "{}".to_owned(),
                attached_blocks: Vec::new(),
            };
            store.state().put_turn_node(node).await.expect("stored");
        };
        say("main", "m1", None).await;
        say("main", "m2", Some("m1")).await;
        say("side", "s2", Some("m1")).await;
        let services = store.services(Tier::V3, &Capability::ALL);
        let messages = services.messages.expect("offered");
        let recent = async |authority| {
            let call = call(authority, &[]);
            let recent = messages.recent(&call, 9).await.expect("read");
            recent.into_iter().map(|one| one.id).collect::<Vec<_>>()
        };
        assert_eq!(recent(Authority::Owner).await, ["m1", "s2"]);
        store
            .state()
            .switch_branch("talk", "main")
            .await
            .expect("switched");
        assert_eq!(recent(Authority::Owner).await, ["m1", "m2"]);
        assert!(recent(Authority::None).await.is_empty());
    });
}
