//! Tests of what an item may be and become.

use proptest::prelude::*;

use super::*;

mod ledger;

const DAY: i64 = 86_400_000;

const fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn claim(text: &str) -> Claim {
    Claim::new(text).unwrap()
}

fn id(name: &str) -> ItemId {
    ItemId::minted(name).unwrap()
}

fn evidence(names: &[(&str, &str, Trust)]) -> BTreeMap<EvidenceId, Evidence> {
    let piece = |source: &str, trust| Evidence {
        source: source.to_owned(),
        trust,
    };
    names
        .iter()
        .map(|(name, source, trust)| (EvidenceId::parse(name).unwrap(), piece(source, *trust)))
        .collect()
}

fn new(channel: &str) -> NewItem {
    NewItem {
        claim: claim("Ada likes kiwis"),
        channel: Channel::parse(channel),
        origin: Origin::UserDirect,
        authority: Authority::Owner,
        valid: Interval::default(),
        evidence: evidence(&[("turn1", "c1", Trust::Trusted)]),
    }
}

fn pending() -> Item {
    Item::learnt(id("a"), &new("_project_atlas"), at(0)).unwrap()
}

fn processing(text: &str) -> Processed {
    Processed {
        claim: claim(text),
        processor: "test".to_owned(),
        version: "1".to_owned(),
    }
}

fn processed() -> Item {
    pending()
        .processed(&processing("Ada likes kiwis a lot"), at(1))
        .unwrap()
}

/// An active, processed item that others are superseded by.
fn successor(channel: &str) -> Item {
    let item = Item::learnt(id("b"), &new(channel), at(2)).unwrap();
    item.processed(&processing("Ada likes plums"), at(2))
        .unwrap()
}

fn operation(change: Change, expected: Option<Revision>) -> Operation {
    Operation {
        key: OperationKey::parse("k").unwrap(),
        item: id("a"),
        expected,
        change,
        citations: None,
    }
}

fn owner() -> Actor {
    Actor::Owner("cli".to_owned())
}

/// Every state that an item can be in, by name.
fn states() -> Vec<(&'static str, ItemState)> {
    let later = at(40 * DAY);
    let successor = successor("_project_atlas");
    let mut states: Vec<(&str, Item)> = vec![
        ("pending", pending()),
        ("blocked", pending().blocked("no model").unwrap()),
        ("processed", processed()),
        ("long", processed().promoted().unwrap()),
        ("archived", processed().archived().unwrap()),
        ("expired", processed().expired(later).unwrap()),
    ];
    for (name, before) in [
        ("pending superseded", pending()),
        ("processed superseded", processed()),
        ("long superseded", processed().promoted().unwrap()),
    ] {
        states.push((name, before.superseded(&successor, at(3)).unwrap()));
    }
    let mut states: Vec<_> = states
        .into_iter()
        .map(|(name, item)| (name, ItemState::Live(item)))
        .collect();
    let gone = processed().forgotten(ForgetReason::Owner, at(3)).unwrap();
    states.push(("forgotten", ItemState::Forgotten(gone)));
    states
}

fn changes() -> Vec<Change> {
    vec![
        Change::Add(new("_global")),
        Change::Process(processing("Ada likes kiwis")),
        Change::Block {
            reason: "no model".to_owned(),
        },
        Change::Promote,
        Change::Corroborate {
            evidence: evidence(&[("turn2", "c2", Trust::Trusted)]),
        },
        Change::Supersede { by: id("b") },
        Change::Shadow { over: id("b") },
        Change::Archive,
        Change::Restore,
        Change::Expire,
        Change::Forget {
            reason: ForgetReason::Owner,
        },
        Change::Correct {
            claim: claim("Ada likes limes"),
            origin: Origin::UserDirect,
            authority: Authority::Owner,
            evidence: BTreeMap::new(),
            valid: None,
        },
        Change::Endorse,
        Change::Distrust,
        Change::Cite,
    ]
}

#[test]
fn every_change_of_every_state_is_decided() {
    // One row a state; `-` refuses, `=` has nothing to do, a state's name is what becomes of it.
    const PENDING: &str = "pending";
    const TABLE: &[(&str, [&str; 15])] = &[
        // add, process, block, promote, corroborate, supersede, shadow, archive, restore, expire, forget, correct, endorse, distrust, cite
        (
            "pending",
            [
                "-",
                "processed",
                "blocked",
                "-",
                PENDING,
                "pending superseded",
                PENDING,
                "-",
                "=",
                "-",
                "forgotten",
                PENDING,
                "=",
                PENDING,
                PENDING,
            ],
        ),
        (
            "blocked",
            [
                "-",
                "-",
                "-",
                "-",
                "blocked",
                "blocked superseded",
                "blocked",
                "-",
                "=",
                "-",
                "forgotten",
                PENDING,
                "=",
                "blocked",
                "blocked",
            ],
        ),
        (
            "processed",
            [
                "-",
                "-",
                "-",
                "long",
                "processed",
                "processed superseded",
                "processed",
                "archived",
                "=",
                "expired",
                "forgotten",
                PENDING,
                "=",
                "processed",
                "processed",
            ],
        ),
        (
            "long",
            [
                "-",
                "-",
                "-",
                "-",
                "long",
                "long superseded",
                "long",
                "archived",
                "=",
                "-",
                "forgotten",
                PENDING,
                "=",
                "long",
                "long",
            ],
        ),
        (
            "archived",
            [
                "-",
                "-",
                "-",
                "-",
                "archived",
                "-",
                "archived",
                "=",
                "processed",
                "-",
                "forgotten",
                PENDING,
                "=",
                "archived",
                "archived",
            ],
        ),
        (
            "expired",
            [
                "-",
                "-",
                "-",
                "-",
                "-",
                "-",
                "-",
                "-",
                "processed",
                "-",
                "forgotten",
                "-",
                "=",
                "expired",
                "expired",
            ],
        ),
        (
            "pending superseded",
            [
                "-",
                "-",
                "-",
                "-",
                "-",
                "-",
                "-",
                "-",
                "pending",
                "-",
                "forgotten",
                "-",
                "=",
                "pending superseded",
                "pending superseded",
            ],
        ),
        (
            "processed superseded",
            [
                "-",
                "-",
                "-",
                "-",
                "-",
                "-",
                "-",
                "-",
                "processed",
                "-",
                "forgotten",
                "-",
                "=",
                "processed superseded",
                "processed superseded",
            ],
        ),
        (
            "long superseded",
            [
                "-",
                "-",
                "-",
                "-",
                "-",
                "-",
                "-",
                "-",
                "long",
                "-",
                "forgotten",
                "-",
                "=",
                "long superseded",
                "long superseded",
            ],
        ),
        ("forgotten", ["-"; 15]),
    ];
    let name_of = |state: &ItemState| match state {
        ItemState::Forgotten(_) => "forgotten".to_owned(),
        ItemState::Live(item) => {
            let standing = match (item.layer.name(), item.processing.as_str()) {
                (LayerName::ShortTerm, processing) => processing,
                (LayerName::LongTerm, _) => "long",
                (LayerName::Archive, _) => "archived",
            };
            match item.status.as_str() {
                "active" => standing.to_owned(),
                "expired" => "expired".to_owned(),
                status => format!("{standing} {status}"),
            }
        }
    };
    let same_channel = ItemState::Live(successor("_project_atlas"));
    let broader = ItemState::Live(successor("_global"));
    let states = states();
    assert_eq!(states.len(), TABLE.len());
    for ((name, state), (row, outcomes)) in states.iter().zip(TABLE) {
        assert_eq!(name, row);
        assert_eq!(name_of(state), *name);
        for (change, expected) in changes().into_iter().zip(outcomes) {
            let other = match change {
                Change::Supersede { .. } => Some(&same_channel),
                Change::Shadow { .. } => Some(&broader),
                _ => None,
            };
            let label = change.name();
            let asked = operation(change, Some(state.revision()));
            let found = match apply(&asked, &owner(), at(41 * DAY), Some(state), other) {
                Ok(next) => {
                    assert_eq!(next.revision().get(), state.revision().get() + 1);
                    name_of(&next)
                }
                Err(LedgerError::Refused {
                    source: ItemError::NothingNew { .. },
                    ..
                }) => "=".to_owned(),
                Err(_) => "-".to_owned(),
            };
            assert_eq!(found, *expected, "{label} of {name}");
        }
    }
}

#[test]
fn the_matrix_of_layer_processing_and_status_is_the_one_we_decided() {
    let base = ItemRecord::from(processed());
    let receipt = base.processing.clone();
    let layers = [
        base.layer,
        Layer::LongTerm,
        Layer::Archive {
            from: ServedLayer::LongTerm,
        },
    ];
    let processings = [
        Processing::Pending,
        receipt,
        Processing::Blocked {
            reason: "r".to_owned(),
        },
    ];
    let superseded = Status::Superseded {
        by: id("b"),
        at: at(3),
        reopens: None,
    };
    let statuses = [
        Status::Active,
        superseded,
        Status::Expired { at: at(60 * DAY) },
    ];
    let mut legal = Vec::new();
    for layer in layers {
        for processing in &processings {
            for status in &statuses {
                let record = ItemRecord {
                    layer,
                    processing: processing.clone(),
                    status: status.clone(),
                    valid: Interval::new(None, Some(at(3))).unwrap(),
                    ..base.clone()
                };
                if let Ok(item) = Item::new(record) {
                    legal.push(item.state());
                }
            }
        }
    }
    assert_eq!(
        legal,
        [
            "short_term, pending and active",
            "short_term, pending and superseded",
            "short_term, processed and active",
            "short_term, processed and superseded",
            "short_term, processed and expired",
            "short_term, blocked and active",
            "short_term, blocked and superseded",
            "long_term, processed and active",
            "long_term, processed and superseded",
            "archive, processed and active",
        ]
    );
}

#[test]
fn what_breaks_a_rule_is_neither_made_nor_read() {
    type Breakage = fn(&mut ItemRecord);
    let breakages: &[(&str, Breakage)] = &[
        ("expires before it was learnt", |record| {
            record.layer = Layer::ShortTerm { expires_at: at(0) };
        }),
        ("receipt of another text", |record| {
            record.claim = Claim::new("other").unwrap();
        }),
        ("receipt of a later revision", |record| {
            record.revision = Revision::MIN;
        }),
        ("receipt without a processor", |record| {
            let Processing::Processed { receipt } = &mut record.processing else {
                panic!("the base is processed")
            };
            receipt.processor = " ".to_owned();
        }),
        ("receipt that skips a revision", |record| {
            let Processing::Processed { receipt } = &mut record.processing else {
                panic!("the base is processed")
            };
            receipt.input_revision = receipt.output_revision;
        }),
        ("receipt from before it was learnt", |record| {
            record.learnt = at(2);
        }),
        ("blocked without a reason", |record| {
            record.processing = Processing::Blocked {
                reason: " ".to_owned(),
            };
        }),
        ("superseded without an end", |record| {
            record.status = Status::Superseded {
                by: ItemId::minted("b").unwrap(),
                at: at(3),
                reopens: None,
            };
        }),
        ("superseded by itself", |record| {
            record.valid = Interval::new(None, Some(at(3))).unwrap();
            record.status = Status::Superseded {
                by: record.id.clone(),
                at: at(3),
                reopens: None,
            };
        }),
        ("comes back ended earlier", |record| {
            record.valid = Interval::new(None, Some(at(3))).unwrap();
            let reopens = Some(at(2));
            record.status = Status::Superseded {
                by: ItemId::minted("b").unwrap(),
                at: at(3),
                reopens,
            };
        }),
        ("expired early", |record| {
            record.status = Status::Expired { at: at(5) }
        }),
        ("nobody's", |record| record.authority = Authority::None),
        ("a file of somebody else", |record| {
            record.origin = Origin::UserFile;
            record.authority = Authority::Paired;
        }),
        ("trusted import", |record| record.origin = Origin::Import),
        ("trusted on untrusted evidence", |record| {
            for piece in record.evidence.values_mut() {
                piece.trust = Trust::Untrusted;
            }
        }),
        ("inferred from nothing", |record| {
            record.origin = Origin::AssistantInferred;
            record.evidence.clear();
        }),
        ("evidence from nowhere", |record| {
            for piece in record.evidence.values_mut() {
                piece.source.clear();
            }
        }),
        ("shadows itself", |record| {
            record.shadows.insert(record.id.clone());
        }),
        ("broader than everything", |record| {
            record.channel = Channel::Global;
            record.shadows.insert(ItemId::minted("b").unwrap());
        }),
    ];
    for (what, breakage) in breakages {
        let mut record = ItemRecord::from(processed());
        breakage(&mut record);
        let json = serde_json::to_string(&record).unwrap();
        let refused = Item::new(record);
        assert!(
            matches!(refused, Err(ItemError::Illegal { .. })),
            "{what}: {refused:?}"
        );
        serde_json::from_str::<Item>(&json).expect_err(what);
        serde_json::from_str::<ItemState>(&format!(r#"{{"kind":"live",{}"#, &json[1..]))
            .expect_err(what);
    }
}

#[test]
fn a_channel_that_would_read_back_as_another_is_refused() {
    let mut record = ItemRecord::from(processed());
    record.channel = Channel::User("_global".to_owned());
    Item::new(record).unwrap_err();
}

#[test]
fn every_state_survives_its_serialised_form() {
    for (name, state) in states() {
        let json = serde_json::to_string(&state).unwrap();
        assert_eq!(
            serde_json::from_str::<ItemState>(&json).unwrap(),
            state,
            "{name}"
        );
    }
}

#[test]
fn superseding_closes_the_interval_and_restoring_reopens_it() {
    let mut later = new("_project_atlas");
    later.valid = Interval::new(Some(at(500)), None).unwrap();
    let by = Item::learnt(id("b"), &later, at(1000)).unwrap();
    let by = by
        .processed(&processing("Ada likes plums"), at(1000))
        .unwrap();
    let old = processed().superseded(&by, at(1000)).unwrap();
    assert_eq!(
        old.valid.to(),
        Some(at(500)),
        "the new claim holds from then on"
    );
    let back = old.restored(at(2000)).unwrap();
    assert_eq!(
        (back.valid, &back.status),
        (Interval::default(), &Status::Active)
    );

    let undated = processed()
        .superseded(&successor("_project_atlas"), at(1000))
        .unwrap();
    assert_eq!(
        undated.valid.to(),
        Some(at(1000)),
        "the new claim says no date"
    );
}

#[test]
fn what_may_take_an_items_place_is_limited() {
    let check = |item: &Item, by: &Item, allowed: bool| {
        assert_eq!(
            item.superseded(by, at(9)).is_ok(),
            allowed,
            "{item:?} by {by:?}"
        );
    };
    let global = |item: &Item| {
        Item::new(ItemRecord {
            channel: Channel::Global,
            ..item.clone().into()
        })
        .unwrap()
    };
    check(&processed(), &successor("_project_atlas"), true);
    check(&processed(), &successor("_global"), true);
    check(&global(&processed()), &successor("_project_atlas"), false);
    check(&processed(), &successor("_project_other"), false);
    check(&processed(), &successor("ada"), false);
    check(&processed(), &pending(), false);
    check(
        &processed(),
        &successor("_project_atlas").archived().unwrap(),
        false,
    );
    let doubtful = successor("_project_atlas").distrusted().unwrap();
    check(&processed(), &doubtful, false);
    check(&processed().distrusted().unwrap(), &doubtful, true);
    let paired = Item::new(ItemRecord {
        authority: Authority::Paired,
        ..successor("_project_atlas").into()
    });
    check(&processed(), &paired.unwrap(), false);
}

#[test]
fn a_repetition_counts_once_a_source_and_lets_the_item_live_on() {
    let item = processed();
    let more = |names: &[(&str, &str, Trust)]| item.corroborated(&evidence(names), at(10 * DAY));
    assert_eq!(item.corroborations(), 1);
    assert_eq!(
        more(&[("turn2", "c1", Trust::Trusted)])
            .unwrap()
            .corroborations(),
        1
    );
    assert_eq!(
        more(&[("mail", "inbox", Trust::Untrusted)])
            .unwrap()
            .corroborations(),
        1
    );
    let twice = more(&[
        ("turn1", "c1", Trust::Trusted),
        ("turn9", "c2", Trust::Trusted),
    ])
    .unwrap();
    assert_eq!(twice.corroborations(), 2);
    assert_eq!(twice.layer.expires_at(), Some(at(40 * DAY)));
    let same = more(&[("turn1", "c7", Trust::Trusted)]);
    assert!(
        matches!(same, Err(ItemError::NothingNew { .. })),
        "{same:?}"
    );
}

proptest! {
    #[test]
    fn no_series_of_changes_leaves_the_legal_states(
        steps in prop::collection::vec((0_usize..15, 0_i64..50 * DAY), 0..24),
    ) {
        let changes = changes();
        let same = ItemState::Live(successor("_project_atlas"));
        let broad = ItemState::Live(successor("_global"));
        let mut state = ItemState::Live(pending());
        let mut now = at(0);
        for (step, passed) in steps {
            now = now.plus_millis(passed);
            let change = changes[step].clone();
            let other = if matches!(change, Change::Shadow { .. }) { &broad } else { &same };
            let asked = operation(change, Some(state.revision()));
            if let Ok(next) = apply(&asked, &owner(), now, Some(&state), Some(other)) {
                prop_assert_eq!(next.revision().get(), state.revision().get() + 1);
                // Reading validates.
                let json = serde_json::to_string(&next).unwrap();
                prop_assert_eq!(&serde_json::from_str::<ItemState>(&json).unwrap(), &next);
                state = next;
            }
        }
    }
}
