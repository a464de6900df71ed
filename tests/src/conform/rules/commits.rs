//! What is recorded once a block was attached, and what is not.

use std::collections::BTreeSet;

use memory_core::predicates::Tier;
use memory_core::services::{Capability, LogKind};
use memory_core::text::section::SectionId;
use memory_core::text::slug::Slug;
use memory_core::tier::{CommitToken, TierStats};

use super::{names, shows, used};
use crate::conform::ask::Ask;
use crate::conform::rig::{Instance, Rig, tokens};
use crate::conform::rule::{Failure, Outcome, require};
use crate::world::{Fault, World};

/// Returns the sections that are in a conversation's context; whole pages do not count.
fn resident(world: &World, ask: &Ask) -> BTreeSet<SectionId> {
    let entries = world.resident(&ask.conversation).into_iter();
    entries.filter_map(|entry| entry.section).collect()
}

pub(crate) async fn commit_records(rig: &Rig) -> Outcome {
    let world = rig.world();
    let instance = rig.instance(&world).await?;
    let ask = rig.ask("a");
    let plan = instance.shown(&ask).await?;
    let mut expected = BTreeSet::new();
    for block in &plan.blocks {
        let Some(token) = &block.commit else {
            continue;
        };
        let committed = instance.commit(&ask, token.clone(), "m1").await;
        committed.map_err(|error| {
            Failure::new(
                error.to_string(),
                "make `commit` succeed where every service works",
            )
        })?;
        let own = block.shows.iter();
        expected.extend(own.map(|shown| (shown.section.clone(), "m1".to_owned(), shown.bytes)));
        let entries = world.resident(&ask.conversation).into_iter();
        let recorded: BTreeSet<_> = entries
            .filter_map(|entry| Some((entry.section?, entry.message, entry.bytes)))
            .collect();
        if recorded != expected {
            let odd: Vec<String> = recorded
                .symmetric_difference(&expected)
                .map(|(section, message, bytes)| {
                    format!("`{section}` on `{message}`, {bytes} bytes")
                })
                .take(3)
                .collect();
            return Err(Failure::new(
                format!(
                    "after committing block `{}` these differ: {}",
                    block.id,
                    odd.join("; ")
                ),
                "call `Residency::record` with the message that `commit` is given and with each entry of `shows`",
            ));
        }
    }
    for row in world.rows(LogKind::Selection) {
        let shown = |slug: &Slug| expected.iter().any(|(section, _, _)| section.slug == *slug);
        require!(
            row.slug.as_ref().is_none_or(shown),
            "log as selected only what was shown",
            "it logs `{:?}` as selected, which no committed block shows",
            row.slug
        );
    }
    Ok(format!(
        "{} sections, each with its message and length",
        expected.len()
    ))
}

pub(crate) async fn commit_counts_once(rig: &Rig) -> Outcome {
    let world = rig.world();
    let instance = rig.instance(&world).await?;
    let ask = rig.ask("a");
    let unknown = CommitToken("nobody/7/7".to_owned());
    // An error is as good as nothing.
    instance.commit(&ask, unknown.clone(), "m0").await.ok();
    instance.discard(&ask, unknown).await.ok();
    let advice = "keep what a token stands for until it is recorded, then remove it, and count only for whoever removed it";
    let count = resident(&world, &ask).len();
    require!(
        count == 0,
        advice,
        "an unknown token records {count} sections"
    );

    let plan = instance.shown(&ask).await?;
    instance.attach(&ask, &plan, "m1").await?;
    for token in tokens(&plan) {
        instance.commit(&ask, token, "m2").await.ok();
    }
    let other = rig.ask("b");
    let second = instance.shown(&other).await?;
    let twice: Vec<_> = tokens(&second)
        .into_iter()
        .flat_map(|token| [token.clone(), token])
        .map(|token| {
            let (turn, (call, _)) = (instance.turn(), other.call(rig.rule_limit()));
            tokio::spawn(async move { turn.commit(&call, token, "m1".to_owned()).await })
        })
        .collect();
    for committing in twice {
        // One of the two may be refused.
        drop(committing.await);
    }
    for (ask, plan) in [(&ask, &plan), (&other, &second)] {
        let rows = world.resident(&ask.conversation);
        require!(
            rows.len() == shows(plan).len(),
            advice,
            "two commits of one token record {} rows for {} sections",
            rows.len(),
            shows(plan).len()
        );
    }
    let expected = (shows(&plan).len() + shows(&second).len()) as u64;
    let counted = instance.stats(&ask).await?.committed_sections;
    require!(
        counted == expected,
        advice,
        "two commits of each token count {counted} sections instead of {expected}"
    );
    Ok(format!("{expected} sections, each counted once"))
}

pub(crate) async fn commit_can_be_repeated(rig: &Rig) -> Outcome {
    let world = rig.world();
    let instance = rig.instance(&world).await?;
    let ask = rig.ask("a");
    let plan = instance.shown(&ask).await?;
    world.set_fault(Fault::RecordFails);
    for (block, token) in plan.blocks.iter().zip(tokens(&plan)) {
        let refused = instance.commit(&ask, token, "m1").await.is_err();
        require!(
            refused || block.shows.is_empty(),
            "return the error of `Residency::record`",
            "a commit succeeds although nothing could be recorded"
        );
    }
    let advice = "take the token out only after `Residency::record` has succeeded; `CommitBook::get` looks without taking";
    let counted = instance.stats(&ask).await?.committed_sections;
    require!(
        counted == 0,
        advice,
        "a failed commit counts {counted} sections"
    );
    world.set_fault(Fault::None);
    instance.attach(&ask, &plan, "m1").await?;
    require!(
        resident(&world, &ask) == shows(&plan),
        advice,
        "the repeated commit recorded {} instead of {}",
        names(&resident(&world, &ask)),
        names(&shows(&plan))
    );
    let (counted, expected) = (
        instance.stats(&ask).await?.committed_sections,
        shows(&plan).len() as u64,
    );
    require!(
        counted == expected,
        advice,
        "a commit that was repeated counts {counted} sections instead of {expected}"
    );
    Ok(format!("{expected} sections at the second try"))
}

pub(crate) async fn discard_forgets(rig: &Rig) -> Outcome {
    let world = rig.world();
    let instance = rig.instance(&world).await?;
    let ask = rig.ask("a");
    let plan = instance.shown(&ask).await?;
    let advice = "let `discard` drop what the token stands for, and nothing else";
    for token in tokens(&plan) {
        let discarded = instance.discard(&ask, token.clone()).await;
        discarded.map_err(|error| Failure::new(error.to_string(), advice))?;
        let recorded = resident(&world, &ask);
        require!(
            recorded.is_empty(),
            advice,
            "`discard` records {}",
            names(&recorded)
        );
        instance.commit(&ask, token, "m1").await.ok();
    }
    let recorded = resident(&world, &ask);
    require!(
        recorded.is_empty(),
        advice,
        "a token that was discarded still records {}",
        names(&recorded)
    );
    let stats: TierStats = instance.stats(&ask).await?;
    require!(
        stats.committed_sections == 0,
        advice,
        "what was discarded counts as {} committed sections",
        stats.committed_sections
    );
    let again = instance.plan(&ask.next()).await?;
    require!(
        shows(&again) == shows(&plan),
        advice,
        "after a discard it shows {} instead of {}",
        names(&shows(&again)),
        names(&shows(&plan))
    );
    Ok(format!("{} sections, shown again", shows(&plan).len()))
}

pub(crate) async fn nothing_twice(rig: &Rig) -> Outcome {
    let world = rig.world();
    let instance = rig.instance(&world).await?;
    let ask = rig.ask("a");
    let plan = instance.shown(&ask).await?;
    instance.attach(&ask, &plan, "m1").await?;
    let fresh = rig.instance(&world).await?;
    for (asked, who) in [(&instance, "this instance"), (&fresh, "a fresh one")] {
        let advice = "ask `Residency::active` in every turn and leave out what it lists";
        check_not_shown(asked, &ask.next(), &shows(&plan), who, advice).await?;
    }
    let Some(first) = shows(&plan).into_iter().next() else {
        return Ok("nothing to show".to_owned());
    };
    // As another tier would have left it before a change of tiers.
    let other = if rig.sidecar().tier == Tier::V2 {
        Tier::V3
    } else {
        Tier::V2
    };
    let planted = rig.ask("planted");
    let slug = first.slug.clone();
    world.plant_resident(
        &planted.conversation,
        other,
        slug.clone(),
        Some(first.clone()),
    );
    let advice = "leave out what any tier has shown: the model has seen it";
    let one = BTreeSet::from([first.clone()]);
    check_not_shown(&instance, &planted, &one, "this instance", advice).await?;

    let whole = rig.ask("whole");
    world.plant_resident(&whole.conversation, other, slug.clone(), None);
    let of_page = shows(&plan).into_iter().filter(|id| id.slug == slug);
    let advice = "an entry without a section stands for the whole page";
    check_not_shown(
        &instance,
        &whole,
        &of_page.collect(),
        "this instance",
        advice,
    )
    .await?;
    Ok(format!(
        "{} sections, none of them again",
        shows(&plan).len()
    ))
}

async fn check_not_shown(
    instance: &Instance,
    ask: &Ask,
    seen: &BTreeSet<SectionId>,
    who: &str,
    advice: &str,
) -> Result<(), Failure> {
    let plan = instance.plan(ask).await?;
    let shown = shows(&plan);
    let again: Vec<&SectionId> = shown.intersection(seen).collect();
    require!(
        again.is_empty(),
        advice,
        "{who} shows {} although it is in context",
        names(again)
    );
    Ok(())
}

pub(crate) async fn stats_count(rig: &Rig) -> Outcome {
    let world = rig.world();
    let instance = rig.instance(&world).await?;
    let ask = rig.ask("a");
    let mut expected = TierStats::default();
    let advice = "count a turn in `begin_turn`, sections in `commit`, degraded turns where `degraded` is filled";
    check_stats(&instance, &ask, &expected, "a fresh instance", advice).await?;
    instance.explain(&ask).await.ok();
    instance.health(&ask).await.ok();
    check_stats(
        &instance,
        &ask,
        &expected,
        "after `explain` and `health`",
        advice,
    )
    .await?;
    let plan = instance.shown(&ask).await?;
    expected.turns = 1;
    check_stats(&instance, &ask, &expected, "after one turn", advice).await?;
    instance.attach(&ask, &plan, "m1").await?;
    expected.committed_sections = shows(&plan).len() as u64;
    check_stats(&instance, &ask, &expected, "after its commit", advice).await?;
    let second = instance.plan(&ask.next()).await?;
    expected.turns = 2;
    for token in tokens(&second) {
        instance.discard(&ask, token).await.ok();
    }
    check_stats(&instance, &ask, &expected, "after a discarded turn", advice).await?;
    for capability in used(rig)
        .into_iter()
        .filter(|capability| *capability != Capability::Clock)
    {
        world.set_fault(Fault::Fails(capability));
        let plan = instance.begin(&rig.ask(capability.name())).await;
        world.set_fault(Fault::None);
        if let Ok(plan) = plan {
            expected.turns += 1;
            expected.degraded_turns += u64::from(!plan.degraded.is_empty());
            check_stats(&instance, &ask, &expected, "after a degraded turn", advice).await?;
        }
    }
    Ok(format!(
        "{} turns, {} of them degraded, {} sections",
        expected.turns, expected.degraded_turns, expected.committed_sections
    ))
}

async fn check_stats(
    instance: &Instance,
    ask: &Ask,
    expected: &TierStats,
    when: &str,
    advice: &str,
) -> Result<(), Failure> {
    let stats = instance.stats(ask).await?;
    let three = |stats: &TierStats| (stats.turns, stats.committed_sections, stats.degraded_turns);
    require!(
        stats == *expected,
        advice,
        "{when}: (turns, sections, degraded) is {:?} instead of {:?}",
        three(&stats),
        three(expected)
    );
    Ok(())
}
