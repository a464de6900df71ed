//! Every value comes back from the border as it went in, and nothing that comes in can break us.

use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;

use super::*;
use crate::text::section::normalise_heading;
use crate::tier::ExplainedCandidate;

fn check_round_trip<T: Cross + Clone + PartialEq + fmt::Debug>(value: &T) {
    assert_eq!(T::from_abi(value.clone().into_abi()).as_ref(), Ok(value));
}

fn slugs() -> impl Strategy<Value = Slug> {
    vec("\\PC{1,8}", 1..3).prop_map(|parts| Slug::from_path(&parts.join("/")))
}

fn sections() -> impl Strategy<Value = SectionId> {
    (slugs(), "\\PC{0,12}", 1..4_u32, 0..3_u32).prop_map(|(slug, heading, occurrence, chunk)| {
        SectionId {
            slug,
            heading: normalise_heading(&heading),
            occurrence,
            chunk,
        }
    })
}

fn times() -> impl Strategy<Value = Timestamp> {
    any::<i64>().prop_map(Timestamp::from_millis)
}

fn finite() -> impl Strategy<Value = f32> {
    -1.0e6_f32..1.0e6
}

fn texts() -> impl Strategy<Value = String> {
    "\\PC{0,12}"
}

prop_compose! {
    fn shown()(section in sections(), lane in texts(), score in finite(), bytes in any::<u64>()) -> ShownSection {
        ShownSection { section, lane, score, bytes }
    }
}

prop_compose! {
    fn blocks()(
        (id, tag, text) in (texts(), texts(), texts()),
        placement in prop_oneof![Just(Placement::Prepend), Just(Placement::AfterMemoryPrefix), Just(Placement::Append)],
        (order, priority, mandatory) in any::<(i32, i32, bool)>(),
        persistence_key in of(texts()),
        variants in vec(texts(), 0..3),
        minimum_tokens in any::<u32>(),
        shows in vec(shown(), 0..3),
        commit in of(texts().prop_map(CommitToken)),
    ) -> Block {
        Block {
            id, tag, placement, order, priority, mandatory, persistence_key, text, variants, minimum_tokens, shows,
            commit,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn requests_and_plans(
        blocks in vec(blocks(), 0..3),
        pool_size in any::<u32>(),
        already_resident in vec(sections(), 0..3),
        degraded in vec(texts(), 0..2),
        (user_message, previous_reply, recent) in (texts(), of(texts()), vec(texts(), 0..3)),
        context_lost in any::<bool>(),
    ) {
        check_round_trip(&TurnPlan { blocks, pool_size, already_resident, degraded: degraded.clone() });
        let situation = degraded.join(" ");
        check_round_trip(&TurnRequest { user_message, previous_reply, recent, situation, context_lost });
    }

    #[test]
    fn scopes(
        (principal, consumer, conversation) in (of(texts()), texts(), texts()),
        authority in prop_oneof![Just(Authority::None), Just(Authority::Owner), Just(Authority::Paired)],
        projects in vec("[a-z]{1,5}", 0..3),
        (as_of, known_at) in (of(times()), of(times())),
        turn in any::<u64>(),
        trace_parent in of(texts()),
    ) {
        let channels = projects.into_iter().map(Channel::Project).chain([Channel::Global]).collect();
        let requester = Requester { principal, authority, consumer };
        check_round_trip(&CallScope { requester, channels, as_of, known_at, conversation, turn, trace_parent });
    }

    #[test]
    fn pages_and_sections(
        (slug, title, text) in (slugs(), texts(), texts()),
        summary in of(texts()),
        (modified_at, dated) in (times(), of(times())),
        number in any::<u32>(),
        bytes in any::<u64>(),
        id in sections(),
        trusted in any::<bool>(),
    ) {
        let trust = if trusted { Trust::Trusted } else { Trust::Untrusted };
        let entry = SectionEntry {
            id: id.clone(), heading: title.clone(), ordinal: number, hash: text.clone(), bytes, trust,
        };
        check_round_trip(&PageEntry {
            slug: slug.clone(), title: title.clone(), modified_at, fresh_at: modified_at, sections: number,
        });
        check_round_trip(&vec![
            Some(PageText { slug: slug.clone(), title: title.clone(), summary: summary.clone(), body: text.clone() }),
            None,
        ]);
        check_round_trip(&vec![vec![PageLink { target: slug.clone(), description: summary, target_in_degree: number }]]);
        check_round_trip(&SectionText { entry, page_title: title, dated, text: text.clone() });
        check_round_trip(&Resident { slug: slug.clone(), section: Some(id.clone()), bytes });
        check_round_trip(&ResidentEntry {
            slug: slug.clone(), section: None, message: text.clone(), tier: Tier::V2, bytes, at: modified_at,
        });
        check_round_trip(&LogRow { kind: LogKind::PoolAudit, slug: Some(slug), body: text });
    }

    #[test]
    fn searches(
        id in sections(),
        (score, weight) in (finite(), finite()),
        text in texts(),
        vector in vec(finite(), 0..40),
        limit in any::<u32>(),
        dense in of(finite()),
    ) {
        check_round_trip(&vector);
        check_round_trip(&vec![SectionHit { id, score }]);
        check_round_trip(&vec![(text.clone(), score)]);
        check_round_trip(&DenseSpace { space: SpaceId::new(text.clone()), dims: limit });
        check_round_trip(&LexicalQuery {
            text: text.clone(), head_weight: weight, body_weight: score, k1: 1.2, b: 0.75, limit, best_per_page: true,
        });
        check_round_trip(&PkbFile { path: text.clone(), text: text.clone() });
        check_round_trip(&PkbHit { path: text.clone(), chunk: limit, text, dense, lexical: None, fused: score });
    }

    #[test]
    fn what_crosses_as_json(
        slug in slugs(),
        section in of(sections()),
        lanes in vec((texts(), finite()), 0..3),
        (fused, outcome) in (finite(), texts()),
        (turns, ok) in any::<(u64, bool)>(),
    ) {
        let candidate = ExplainedCandidate { slug, section, lanes, fused, outcome: outcome.clone() };
        check_round_trip(&Explanation { candidates: vec![candidate], notes: vec![outcome.clone()] });
        check_round_trip(&TierStats { turns, committed_sections: turns, degraded_turns: 0 });
        check_round_trip(&TierHealth { ok, detail: outcome.clone() });
        check_round_trip(&TierEvent::Fork { conversation: outcome.clone(), full: ok });
        check_round_trip(&TierEvent::Rewind { message: outcome });
    }

    #[test]
    fn no_text_that_comes_in_panics(text in "\\PC{0,30}") {
        drop(Slug::from_abi(text.as_str().into()));
        drop(SectionId::from_abi(text.as_str().into()));
        drop(Explanation::from_abi(text.as_str().into()));
        drop(TierEvent::from_abi(text.as_str().into()));
    }
}

#[test]
fn the_rest_of_the_values() {
    for tier in Tier::ALL {
        check_round_trip(&tier);
    }
    for kind in [LogKind::Selection, LogKind::PoolAudit, LogKind::Activation] {
        check_round_trip(&kind);
    }
    for scope in [KvScope::Conversation, KvScope::Assistant] {
        check_round_trip(&scope);
    }
    for role in [Role::User, Role::Assistant, Role::Tool] {
        check_round_trip(&Message {
            id: "m1".into(),
            role,
            text: "hello".into(),
            at: Timestamp::from_millis(-1),
        });
    }
    for severity in [Severity::Info, Severity::Warning, Severity::Error] {
        check_round_trip(&Notice {
            code: "c".into(),
            severity,
            message: "m".into(),
        });
    }
    for event in [
        TierEvent::Compaction,
        TierEvent::Clean,
        TierEvent::Delete,
        TierEvent::ClearAll,
        TierEvent::MemoryOff,
    ] {
        check_round_trip(&event);
    }
}

#[test]
fn a_number_nobody_knows_is_named() {
    let error = Role::from_abi(types::RoleCode(9)).expect_err("there is no such role");
    assert_eq!(error.to_string(), "the other side sent a bad Role: 9");
}

#[test]
fn a_bad_section_is_named() {
    let error = SectionHit::from_abi(types::SectionHit {
        id: "no key".into(),
        score: 0.0,
    })
    .expect_err("not a key");
    assert!(
        error
            .to_string()
            .starts_with("the other side sent a bad section: `no key`"),
        "{error}"
    );
}
