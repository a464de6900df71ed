//! What happens to conversations between turns.

use std::sync::Arc;

use memory_core::tier::TierEvent;

use super::{names, shows};
use crate::conform::ask::Ask;
use crate::conform::rig::{Instance, Rig};
use crate::conform::rule::{Failure, Outcome, require};
use crate::world::World;

/// Returns every event.
pub(super) fn all() -> Vec<TierEvent> {
    let fork = |full| TierEvent::Fork {
        conversation: "conform-copy".to_owned(),
        full,
    };
    vec![
        TierEvent::Compaction,
        TierEvent::Clean,
        TierEvent::Rewind {
            message: "m1".to_owned(),
        },
        fork(true),
        fork(false),
        TierEvent::MemoryOff,
        TierEvent::Delete,
        TierEvent::ClearAll,
    ]
}

async fn tell(instance: &Instance, ask: &Ask, event: TierEvent) -> Result<(), Failure> {
    let text = format!("{event:?}");
    instance.tell(ask, event).await.map_err(|error| {
        Failure::new(
            format!("{text}: {error}"),
            "answer `Ok` to every event, also to those that do not concern the tier",
        )
    })
}

/// Begins and attaches a first turn, and returns what it showed.
async fn first_turn(
    instance: &Instance,
    ask: &Ask,
) -> Result<std::collections::BTreeSet<memory_core::text::section::SectionId>, Failure> {
    let plan = instance.shown(ask).await?;
    instance.attach(ask, &plan, "m1").await?;
    Ok(shows(&plan))
}

pub(crate) async fn events_are_answered(rig: &Rig) -> Outcome {
    let world = rig.world();
    let instance = rig.instance(&world).await?;
    let ask = rig.ask("a");
    first_turn(&instance, &ask).await?;
    let events = all();
    for event in &events {
        for asked in [&ask, &rig.ask("unknown"), &ask] {
            tell(&instance, asked, event.clone()).await?;
        }
    }
    // A host may go on with a conversation whatever it has said of it.
    instance.plan(&ask.next()).await?;
    Ok(format!("{} events, each told three times", events.len()))
}

pub(crate) async fn lost_context_is_free(rig: &Rig) -> Outcome {
    let world = rig.world();
    let instance = rig.instance(&world).await?;
    let losses = [
        ("compaction", TierEvent::Compaction),
        ("clean", TierEvent::Clean),
        (
            "rewind",
            TierEvent::Rewind {
                message: "m0".to_owned(),
            },
        ),
    ];
    let advice = "let residency alone say what is in context; a memory of the tier's own must adjust to events";
    for (name, event) in losses {
        let ask = rig.ask(name);
        let first = first_turn(&instance, &ask).await?;
        // The host's own rows follow first.
        world.forget_context(&ask.conversation);
        tell(&instance, &ask, event).await?;
        let again = shows(&instance.plan(&ask.next()).await?);
        require!(
            again == first,
            advice,
            "after a {name} it shows {} instead of {}",
            names(&again),
            names(&first)
        );
    }
    let ask = rig.ask("lost");
    let first = first_turn(&instance, &ask).await?;
    let again = shows(&instance.plan(&ask.after_loss()).await?);
    require!(
        again == first,
        "with `context_lost` nothing counts as resident, whatever residency still lists",
        "with `context_lost` it shows {} instead of {}",
        names(&again),
        names(&first)
    );
    Ok("all of it may be shown again".to_owned())
}

pub(crate) async fn delete_forgets(rig: &Rig) -> Outcome {
    let world = rig.world();
    let instance = rig.instance(&world).await?;
    let (ask, other) = (rig.ask("a"), rig.ask("b"));
    let first = first_turn(&instance, &ask).await?;
    let kept = first_turn(&instance, &other).await?;
    // A second turn, so that whatever is kept between turns is there.
    let plan = instance.plan(&ask.next()).await?;
    instance.attach(&ask.next(), &plan, "m2").await?;
    world.forget_context(&ask.conversation);
    tell(&instance, &ask, TierEvent::Delete).await?;
    let values = world.values_of(&ask.conversation);
    require!(
        values.is_empty(),
        "on `Delete` remove every key that was put under `KvScope::Conversation`",
        "after `Delete` the store still holds {values:?}"
    );
    check_like_new(&instance, &ask, &first, "`Delete`").await?;
    let untouched = shows(&instance.plan(&other.next()).await?);
    require!(
        untouched.is_disjoint(&kept),
        "forget the call's conversation alone on `Delete`",
        "deleting one conversation made another one show {} again",
        names(&untouched)
    );

    world.forget_conversations();
    tell(&instance, &rig.ask("nobody"), TierEvent::ClearAll).await?;
    for ask in [&ask, &other] {
        check_like_new(&instance, ask, &first, "`ClearAll`").await?;
    }
    Ok("like a conversation that never was".to_owned())
}

async fn check_like_new(
    instance: &Instance,
    ask: &Ask,
    first: &std::collections::BTreeSet<memory_core::text::section::SectionId>,
    event: &str,
) -> Result<(), Failure> {
    let again = shows(&instance.plan(ask).await?);
    require!(
        again == *first,
        "keep nothing of a conversation in the instance",
        "after {event} it shows {} instead of {}",
        names(&again),
        names(first)
    );
    Ok(())
}

pub(crate) async fn fork_keeps(rig: &Rig) -> Outcome {
    let world: Arc<World> = rig.world();
    let instance = rig.instance(&world).await?;
    for full in [true, false] {
        let ask = rig.ask(&format!("original-{full}"));
        let copy = rig.ask(&format!("copy-{full}"));
        let first = first_turn(&instance, &ask).await?;
        if full {
            world.copy_context(&ask.conversation, &copy.conversation);
        }
        let event = TierEvent::Fork {
            conversation: copy.conversation.clone(),
            full,
        };
        tell(&instance, &ask, event).await?;
        let original = shows(&instance.plan(&ask.next()).await?);
        require!(
            original.is_disjoint(&first),
            "leave the original as it is on `Fork`",
            "after a fork the original shows {} again",
            names(original.intersection(&first))
        );
        let copied = shows(&instance.plan(&copy.next()).await?);
        let advice =
            "ask residency for the copy as for any conversation; the host has copied its rows";
        if full {
            require!(
                copied.is_disjoint(&first),
                advice,
                "a full copy shows {} again",
                names(copied.intersection(&first))
            );
        } else {
            require!(
                copied == first,
                advice,
                "an empty copy shows {} instead of {}",
                names(&copied),
                names(&first)
            );
        }
    }
    Ok("both kinds of copies".to_owned())
}
