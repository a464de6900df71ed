//! Who may see what, and what page text may do.

use std::collections::BTreeSet;

use memory_core::causes::with_causes;
use memory_core::provenance::{Authority, Channel, Trust};
use memory_core::services::Capability;
use memory_core::text::block::Tag;
use memory_core::text::memory_block::{MemoryBlock, PieceKind};
use memory_core::text::section::SectionId;
use memory_core::text::slug::Slug;
use memory_core::tier::{Block, TierEvent};

use super::turns::{check_plan, check_wrapper};
use super::{all_marks, handed, mark_names, names, shows, texts};
use crate::conform::ask::Ask;
use crate::conform::rig::{Instance, Rig};
use crate::conform::rule::{Failure, Outcome, require};
use crate::world::{Asked, Mark, Page, Story, TOPICS, World, marks, topic};

pub(crate) async fn call_is_passed(rig: &Rig) -> Outcome {
    let world = rig.world();
    let instance = rig.instance(&world).await?;
    world.take_journal();
    let kiln = [Channel::Project("kiln".to_owned())];
    let owner = rig.ask("a");
    let asks = [
        owner.clone(),
        owner.by(Authority::None, &[]),
        rig.ask("b").by(Authority::Paired, &kiln),
        rig.ask("c").by(Authority::Owner, &kiln),
    ];
    let mut count = 0;
    for ask in &asks {
        let (call, _) = ask.call(rig.patience());
        let turn = instance.turn();
        let plan = turn.begin_turn(&call, ask.request()).await;
        let plan = plan.map_err(|error| {
            Failure::new(
                with_causes(&error),
                "pass each service the call of the method at hand",
            )
        })?;
        for block in &plan.blocks {
            if let Some(token) = &block.commit {
                turn.commit(&call, token.clone(), "m1".to_owned())
                    .await
                    .ok();
            }
        }
        turn.explain(&call, ask.request()).await.ok();
        turn.on_event(&call, TierEvent::Compaction).await.ok();
        turn.health(&call).await.ok();
        let journal = world.take_journal();
        let token = call.control().token();
        let foreign = journal
            .iter()
            .find(|asked| asked.token != token || asked.scope != *call.scope());
        if let Some(foreign) = foreign {
            return Err(Failure::new(
                format!(
                    "`{}` was asked for `{}` while a call of `{}` was answered",
                    foreign.method, foreign.scope.conversation, ask.conversation
                ),
                "keep no call; pass on the one that the method was given",
            ));
        }
        count += journal.len();
    }
    count += overlapping(rig, &world, &instance).await?;
    Ok(format!("{count} questions, each with its own call"))
}

/// Holds one turn at its first question, answers another one meanwhile, and looks whose call the first goes on with.
async fn overlapping(rig: &Rig, world: &World, instance: &Instance) -> Result<usize, Failure> {
    let advice = "keep no call in the instance; the one at hand belongs to this turn";
    let held = rig
        .ask("held")
        .saying(format!("Where are the {} kept in the roastery?", topic(1)));
    let quick = rig
        .ask("quick")
        .saying(format!("Where are the {} kept in the roastery?", topic(2)));
    world.hold(&held.conversation);
    let (turn, (call, _), request) = (instance.turn(), held.call(rig.rule_limit()), held.request());
    let running = tokio::spawn(async move { turn.begin_turn(&call, request).await });
    let waits = rig.comes_true(|| world.in_flight() > 0).await;
    let answered = instance.begin(&quick).await;
    world.release();
    require!(
        waits,
        "ask at least one service in a turn",
        "a turn asked no service within {} ms",
        rig.patience().as_millis()
    );
    answered.map_err(|error| Failure::new(format!("beside another turn: {error}"), advice))?;
    match running.await {
        Ok(Ok(plan)) => require!(
            plan.degraded.is_empty(),
            advice,
            "a turn that was overtaken by another one is degraded: {:?}",
            plan.degraded
        ),
        Ok(Err(error)) => {
            let text = format!("a turn that was overtaken by another one fails: {error}");
            return Err(Failure::new(text, advice));
        }
        Err(error) => return Err(Failure::new(error.to_string(), advice)),
    }
    let journal: Vec<Asked> = world.take_journal();
    let mixed = journal.iter().find(|asked| {
        let conversation = &asked.scope.conversation;
        (asked.text.contains(&topic(1)) && *conversation != held.conversation)
            || (asked.text.contains(&topic(2)) && *conversation != quick.conversation)
    });
    if let Some(mixed) = mixed {
        return Err(Failure::new(
            format!(
                "`{}` was asked what one conversation said with the call of another",
                mixed.method
            ),
            advice,
        ));
    }
    Ok(journal.len())
}

pub(crate) async fn requesters_apart(rig: &Rig) -> Outcome {
    let (kiln, ada) = (
        Channel::Project("kiln".to_owned()),
        Channel::User("ada".to_owned()),
    );
    let world = rig.world();
    let instance = rig.instance(&world).await?;
    let everything = rig
        .ask("a")
        .by(Authority::Owner, &[kiln.clone(), ada.clone()]);
    let plan = instance.shown(&everything).await?;
    instance.explain(&everything).await.ok();
    let others = [
        ("nobody", everything.by(Authority::None, &[])),
        (
            "nobody, with channels",
            everything.by(Authority::None, &[kiln.clone(), ada.clone()]),
        ),
        (
            "a paired person without a channel",
            everything.by(Authority::Paired, &[]),
        ),
        (
            "a paired person of one channel",
            everything.by(Authority::Paired, &[kiln]),
        ),
        (
            "the owner without channels",
            everything.by(Authority::Owner, &[]),
        ),
        ("the owner in another conversation", rig.ask("b")),
    ];
    for (who, ask) in &others {
        let advice =
            "cache nothing that a service gave across calls: the next one may be somebody else's";
        for ask in [ask.clone(), ask.next()] {
            let other = instance.plan(&ask).await?;
            let visible = visible(&world, &ask);
            let leaked: BTreeSet<Mark> = all_marks(&other).difference(&visible).copied().collect();
            require!(
                leaked.is_empty(),
                advice,
                "{who} is shown {}",
                mark_names(world.story(), &leaked)
            );
            let mut named: Vec<SectionId> = shows(&other).into_iter().collect();
            named.extend(other.already_resident.clone());
            let explanation = instance.explain(&ask).await;
            let candidates = explanation
                .map(|explained| explained.candidates)
                .unwrap_or_default();
            named.extend(
                candidates
                    .into_iter()
                    .filter_map(|candidate| candidate.section),
            );
            let hidden: Vec<&SectionId> = named
                .iter()
                .filter(|id| {
                    let mark = world.story().mark_of(id);
                    mark.is_some_and(|mark| !visible.contains(&mark))
                })
                .collect();
            require!(
                hidden.is_empty(),
                advice,
                "{who} is told of {}",
                names(hidden)
            );
        }
        let fresh = rig.instance(&world).await?.plan(ask).await?;
        let used = instance.plan(ask).await?;
        require!(
            shows(&fresh) == shows(&used),
            advice,
            "{who} is shown {} by an instance that others asked before, and {} by a fresh one",
            names(&shows(&used)),
            names(&shows(&fresh))
        );
    }
    Ok(format!(
        "{} sections for the owner, {} others see only their own",
        shows(&plan).len(),
        others.len()
    ))
}

/// Returns the marks of what a requester may see.
fn visible(world: &World, ask: &Ask) -> BTreeSet<Mark> {
    let scope = ask.scope();
    let mut visible = world
        .story()
        .marks_where(|page| world.may_see(&scope, page));
    if ask.authority == Authority::Owner {
        visible.extend(world.story().file_marks());
    }
    visible
}

pub(crate) async fn untrusted_stays_out(rig: &Rig) -> Outcome {
    let labelled = [Capability::Sections];
    if handed(rig)
        .iter()
        .all(|capability| !labelled.contains(capability))
    {
        return Ok("none of its services carries a label of trust".to_owned());
    }
    let world = World::labelling(Story::new(0), rig.sidecar().tier);
    let instance = rig.instance(&world).await?;
    let untrusted = |page: &Page| page.trust == Trust::Untrusted;
    let marked = world.story().marks_where(untrusted);
    let advice = "drop a `SectionText` whose `entry.trust` is `Untrusted`, and the summary of a page whose lead is";
    for ask in [
        rig.ask("a"),
        rig.ask("b")
            .saying("What do visitors say of the moon and hearsay?"),
    ] {
        let plan = instance.plan(&ask).await?;
        let shown: BTreeSet<Mark> = all_marks(&plan).intersection(&marked).copied().collect();
        require!(
            shown.is_empty(),
            advice,
            "it shows the untrusted {}",
            mark_names(world.story(), &shown)
        );
        let explanation = instance.explain(&ask).await;
        let candidates = explanation
            .map(|explained| explained.candidates)
            .unwrap_or_default();
        let selected = candidates.iter().find(|candidate| {
            let page = world
                .story()
                .pages
                .iter()
                .find(|page| page.slug == candidate.slug);
            candidate.outcome == "selected" && page.is_some_and(untrusted)
        });
        if let Some(selected) = selected {
            return Err(Failure::new(
                format!("it selects the untrusted `{}`", selected.slug),
                advice,
            ));
        }
    }
    Ok(format!("{} untrusted sections, none shown", marked.len()))
}

pub(crate) async fn page_text_is_data(rig: &Rig) -> Outcome {
    let world = rig.world_of(Story::hostile());
    let instance = rig.instance(&world).await?;
    let mut seen = BTreeSet::new();
    for number in 0..TOPICS {
        let topic = topic(number);
        let ask = rig
            .ask(&topic)
            .saying(format!("Where in Leith are the {topic} of the roastery?"));
        let plan = instance.plan(&ask).await?;
        check_plan(&plan)?;
        for block in &plan.blocks {
            check_wrapper(block)?;
            check_pieces(block)?;
            seen.extend(marks(&block.text));
        }
    }
    require!(
        !seen.is_empty(),
        "the scripted world has pages and files with these very words; make the tier find some of them",
        "it shows nothing of a world full of traps"
    );
    Ok(format!("{} traps shown, none sprung", seen.len()))
}

/// Checks that the headers in a `<memory>` block are those of what it shows, in order.
fn check_pieces(block: &Block) -> Result<(), Failure> {
    if Tag::parse(&block.tag) != Some(Tag::Memory) {
        return Ok(());
    }
    let shown: Vec<&Slug> = block
        .shows
        .iter()
        .map(|shown| &shown.section.slug)
        .collect();
    for text in texts(block) {
        let parsed = MemoryBlock::parse(text);
        // Headings are a person's text and may have been escaped, so only pages are compared.
        let pages: Vec<&Slug> = parsed
            .pieces
            .iter()
            .filter_map(|piece| match &piece.kind {
                PieceKind::Section { slug, .. } => Some(slug),
                PieceKind::Capability => None,
            })
            .collect();
        let forged =
            pages.len() < parsed.pieces.len() || pages.iter().any(|page| !shown.contains(page));
        // What a variant leaves out is the business of another rule.
        let whole = text == block.text;
        require!(
            !forged && (!whole || pages == shown),
            "render sections with `memory_block::render_section`, which escapes lines that would read as headers",
            "block `{}` has headers for {} sections and shows {}",
            block.id,
            parsed.pieces.len(),
            shown.len()
        );
    }
    Ok(())
}
