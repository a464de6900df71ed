//! Tests of who may change and see what.

use super::*;
use crate::text::section::SectionId;
use crate::text::slug::Slug;

#[test]
fn trust_falls_by_itself_and_rises_only_by_the_owner() {
    let mut import = new("_global");
    import.origin = Origin::Import;
    let item = ItemState::Live(Item::learnt(id("a"), &import, at(0)).unwrap());
    let trust = |state: &ItemState| state.live().map(|item| item.trust);
    assert_eq!(trust(&item), Some(Trust::Untrusted));
    let asked = |change| operation(change, Some(Revision::MIN));
    let system = Actor::System("pass".to_owned());
    let by_system = apply(&asked(Change::Endorse), &system, at(1), Some(&item), None);
    assert!(
        matches!(by_system, Err(LedgerError::Denied { .. })),
        "{by_system:?}"
    );
    let endorsed = apply(&asked(Change::Endorse), &owner(), at(1), Some(&item), None).unwrap();
    assert_eq!(trust(&endorsed), Some(Trust::Trusted));

    let correct = |origin| Change::Correct {
        claim: claim("other words"),
        origin,
        authority: Authority::Owner,
        evidence: BTreeMap::new(),
        valid: None,
    };
    let spoken = apply(
        &asked(correct(Origin::UserDirect)),
        &owner(),
        at(1),
        Some(&item),
        None,
    );
    assert_eq!(trust(&spoken.unwrap()), Some(Trust::Trusted));
    let inferred = asked(correct(Origin::AssistantInferred));
    let inferred = apply(&inferred, &system, at(1), Some(&item), None).unwrap();
    assert_eq!(trust(&inferred), Some(Trust::Untrusted));

    let mut derived = new("_global");
    derived.evidence = evidence(&[("t", "c", Trust::Trusted), ("m", "mail", Trust::Untrusted)]);
    assert_eq!(
        Item::learnt(id("a"), &derived, at(0)).unwrap().trust,
        Trust::Untrusted
    );
}

#[test]
fn each_actor_does_only_what_it_may() {
    let item = ItemState::Live(processed());
    let revision = Some(item.revision());
    let denied = |actor: &Actor, change: Change| {
        let result = apply(
            &operation(change, revision),
            actor,
            at(60 * DAY),
            Some(&item),
            None,
        );
        matches!(result, Err(LedgerError::Denied { .. }))
    };
    let paired = Actor::Paired("bob".to_owned());
    let system = Actor::System("pass".to_owned());
    for change in changes() {
        if matches!(change, Change::Add(_)) {
            continue;
        }
        let by_paired = !matches!(change, Change::Corroborate { .. });
        assert_eq!(denied(&paired, change.clone()), by_paired, "{change:?}");
        let by_system = matches!(
            change,
            Change::Endorse | Change::Correct { .. } | Change::Forget { .. }
        );
        assert_eq!(denied(&system, change.clone()), by_system, "{change:?}");
        assert!(!denied(&owner(), change));
    }
    let add = |authority| {
        let new = NewItem {
            authority,
            ..new("_global")
        };
        apply(
            &operation(Change::Add(new), None),
            &paired,
            at(0),
            None,
            None,
        )
    };
    assert!(matches!(
        add(Authority::Owner),
        Err(LedgerError::Denied { .. })
    ));
    add(Authority::Paired).unwrap();
}

#[test]
fn what_was_not_seen_is_not_changed() {
    let item = ItemState::Live(processed());
    let result = |asked: &Operation, current| apply(asked, &owner(), at(9), current, None);
    for (change, expected, current) in [
        (Change::Promote, Some(Revision::MIN), Some(&item)),
        (Change::Promote, None, Some(&item)),
        (Change::Promote, Some(Revision::MIN), None),
        (Change::Promote, None, None),
        (Change::Add(new("_global")), None, Some(&item)),
        (
            Change::Add(new("_global")),
            Some(item.revision()),
            Some(&item),
        ),
    ] {
        let result = result(&operation(change, expected), current);
        assert!(
            matches!(result, Err(LedgerError::StaleRevision { .. })),
            "{result:?}"
        );
    }
}

#[test]
fn a_citation_names_what_the_item_rests_on() {
    let item = ItemState::Live(processed());
    let cite = |section: Option<&str>, evidence: Option<&str>| {
        let page = Slug::parse("kiwi").unwrap();
        let citation = Citation {
            section: section.map(|slug| SectionId::lead(Slug::parse(slug).unwrap())),
            page,
            evidence: evidence.map(|name| EvidenceId::parse(name).unwrap()),
        };
        let asked = Operation {
            citations: Some(vec![citation]),
            ..operation(Change::Cite, Some(item.revision()))
        };
        apply(&asked, &owner(), at(9), Some(&item), None).is_ok()
    };
    assert!(cite(None, None) && cite(Some("kiwi"), Some("turn1")));
    assert!(!cite(Some("plum"), None) && !cite(None, Some("turn7")));
}

#[test]
fn who_sees_what_before_and_after_it_is_processed() {
    let from = |origin, authority| {
        let new = NewItem {
            origin,
            authority,
            ..new("_project_atlas")
        };
        Item::learnt(id("a"), &new, at(0)).unwrap()
    };
    let own = from(Origin::UserDirect, Authority::Owner);
    let tool = from(Origin::ToolOutput, Authority::Owner);
    let inferred = from(Origin::AssistantInferred, Authority::Owner);
    let process = |item: &Item| item.processed(&processing("done"), at(1)).unwrap();
    let long = process(&own).promoted().unwrap();
    let rows: [(&str, Item, [bool; 4]); 8] = [
        // listing, buffer, agent, index
        ("own pending", own.clone(), [true, true, false, false]),
        (
            "inferred pending",
            inferred.clone(),
            [true, false, false, false],
        ),
        (
            "inferred processed",
            process(&inferred),
            [true, true, true, true],
        ),
        ("tool pending", tool.clone(), [true, false, false, false]),
        ("tool processed", process(&tool), [true, false, false, true]),
        (
            "blocked",
            own.blocked("r").unwrap(),
            [false, false, false, false],
        ),
        ("long", long.clone(), [true, true, true, true]),
        (
            "archived",
            long.archived().unwrap(),
            [false, false, false, false],
        ),
    ];
    let consumers = [
        Consumer::Listing,
        Consumer::Buffer,
        Consumer::Agent,
        Consumer::Index,
    ];
    for (name, item, expected) in rows {
        for (consumer, expected) in consumers.into_iter().zip(expected) {
            let asked = |authority, archived| ItemQuery {
                channels: vec![item.channel.clone()],
                archived,
                ..ItemQuery::new(authority, consumer, at(5))
            };
            let shown = |query: &ItemQuery| query.shows(&item, item.trust);
            assert_eq!(
                shown(&asked(Authority::Owner, false)),
                expected,
                "{name} {consumer:?}"
            );
            assert!(!shown(&asked(Authority::None, true)), "{name} {consumer:?}");
            let paired = expected && consumer != Consumer::Index && item.trust == Trust::Trusted;
            assert_eq!(
                shown(&asked(Authority::Paired, true)),
                paired,
                "{name} {consumer:?}"
            );
            let elsewhere = ItemQuery {
                channels: Vec::new(),
                ..asked(Authority::Owner, true)
            };
            assert_eq!(
                shown(&elsewhere),
                expected && consumer == Consumer::Index,
                "{name}"
            );
            let distrusted_later = asked(Authority::Owner, false).shows(&item, Trust::Untrusted);
            let tolerant = matches!(consumer, Consumer::Listing | Consumer::Index);
            assert_eq!(
                distrusted_later,
                expected && tolerant,
                "{name} {consumer:?}"
            );
        }
    }
    let archive = ItemQuery {
        channels: vec![long.channel.clone()],
        archived: true,
        ..ItemQuery::new(Authority::Owner, Consumer::Agent, at(5))
    };
    assert!(archive.shows(&long.archived().unwrap(), Trust::Trusted));
}

#[test]
fn an_error_survives_the_way_through_a_store() {
    let error = LedgerError::KeyReused {
        key: OperationKey::parse("k").unwrap(),
    };
    let carried: crate::store::StoreError = error.into();
    assert!(matches!(
        LedgerError::from(carried),
        LedgerError::KeyReused { .. }
    ));
}
