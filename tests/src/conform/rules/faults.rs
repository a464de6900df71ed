//! Services that fail, and services that answer nonsense.

use memory_core::abi::ErrorCode;
use memory_core::services::Capability;
use memory_core::tier::{TierEvent, TurnPlan};
use plugin_host::SlotError;

use super::turns::{check_plan, check_wrapper};
use super::{handed, names, shows, used};
use crate::conform::ask::Ask;
use crate::conform::rig::{Instance, Rig, tokens};
use crate::conform::rule::{Failure, Outcome, require};
use crate::world::{Fault, Nonsense, World};

/// Calls every method and returns what came of each.
async fn call_everything(
    instance: &Instance,
    ask: &Ask,
    before: &TurnPlan,
) -> Vec<(&'static str, Result<(), SlotError>)> {
    let begun = instance.begin(ask).await;
    let mut answers = Vec::new();
    let fresh = begun.as_ref().map(tokens).unwrap_or_default();
    answers.push(("begin_turn", begun.map(drop)));
    answers.push(("explain", instance.explain(ask).await.map(drop)));
    let mut all = tokens(before).into_iter().chain(fresh);
    if let Some(token) = all.next() {
        answers.push(("commit", instance.commit(ask, token, "m1").await));
    }
    for token in all {
        answers.push(("discard", instance.discard(ask, token).await));
    }
    for event in [TierEvent::Compaction, TierEvent::Delete] {
        answers.push(("on_event", instance.tell(ask, event).await));
    }
    answers.push(("health", instance.health(ask).await.map(drop)));
    answers
}

/// Returns what a tier may say when a service failed in a way.
fn allowed(fault: Fault) -> &'static [ErrorCode] {
    match fault {
        Fault::Unavailable(_) => &[ErrorCode::UNAVAILABLE],
        Fault::Fails(_) | Fault::Panics(_) => &[ErrorCode::INTERNAL, ErrorCode::UNAVAILABLE],
        // An answer without content is no failure.
        _ => &[],
    }
}

pub(crate) async fn failures_are_typed(rig: &Rig) -> Outcome {
    let mut count = 0;
    let faults = |capability| {
        [
            Fault::Fails(capability),
            Fault::Unavailable(capability),
            Fault::Panics(capability),
            Fault::Empty(capability),
        ]
    };
    let asynchronous = handed(rig)
        .into_iter()
        .filter(|capability| *capability != Capability::Clock);
    for fault in asynchronous.flat_map(faults) {
        let world = rig.world();
        let instance = rig.instance(&world).await?;
        let ask = rig.ask("a");
        let before = instance.shown(&ask).await?;
        world.set_fault(fault);
        for (method, answer) in call_everything(&instance, &ask, &before).await {
            count += 1;
            let Err(error) = answer else {
                continue;
            };
            let code = error.code();
            require!(
                code.is_some_and(|code| allowed(fault).contains(&code)),
                "hand a service's error on with `?`, which keeps its kind; never unwrap an answer",
                "`{method}` under {fault:?}: {error}"
            );
        }
        world.set_fault(Fault::None);
        let counted = instance.stats(&ask).await?;
        require!(
            counted.turns >= 1,
            "count turns where they succeed",
            "after a failure no turn is counted"
        );
    }
    Ok(format!("{count} calls, none of them a panic"))
}

pub(crate) async fn degraded_is_named(rig: &Rig) -> Outcome {
    let used = used(rig);
    let mut named = Vec::new();
    for capability in handed(rig) {
        for fault in [Fault::Fails(capability), Fault::Unavailable(capability)] {
            let world = rig.world();
            let instance = rig.instance(&world).await?;
            world.take_journal();
            world.set_fault(fault);
            // Long enough a message and one that is not, since tiers treat them differently.
            for message in [None, Some("and the roastery?")] {
                let ask = rig.ask(message.unwrap_or("a"));
                let ask = message.map_or(ask.clone(), |message| ask.saying(message));
                let plan = match instance.begin(&ask).await {
                    Ok(plan) => plan,
                    Err(error) => {
                        require!(
                            !used.contains(&capability),
                            "go on without what is only used, or list it under `requires`",
                            "without `{}`, which it only uses, a turn fails: {error}",
                            capability.name()
                        );
                        continue;
                    }
                };
                check_degraded(&world, fault, &plan)?;
                named.extend(plan.degraded);
            }
        }
    }
    named.sort();
    named.dedup_by(|left, right| code_of(left) == code_of(right));
    let codes: Vec<&str> = named.iter().map(|entry| code_of(entry)).collect();
    Ok(match codes.len() {
        0 => "no failure left a plan behind".to_owned(),
        _ => format!("names {}", codes.join(", ")),
    })
}

/// Returns the code at the start of an entry of `degraded`.
fn code_of(entry: &str) -> &str {
    entry.split(':').next().unwrap_or(entry)
}

fn check_degraded(world: &World, fault: Fault, plan: &TurnPlan) -> Result<(), Failure> {
    let journal = world.take_journal();
    // What cannot be written because the host reads only is no loss to the turn.
    let missed = journal
        .iter()
        .find(|asked| asked.refused && !(asked.writes && matches!(fault, Fault::Unavailable(_))));
    if let Some(missed) = missed {
        require!(
            !plan.degraded.is_empty(),
            "add a code such as `dense_unavailable` to `degraded` for whatever could not be had",
            "`{}` failed and the plan does not say so",
            missed.method
        );
    }
    for entry in &plan.degraded {
        let code = code_of(entry);
        let shaped = !code.is_empty()
            && code
                .chars()
                .all(|character| character.is_ascii_lowercase() || character == '_');
        require!(
            shaped,
            "begin each entry with a code of small letters and `_`, and put details after a colon",
            "it calls a turn degraded by `{entry}`"
        );
    }
    Ok(())
}

pub(crate) async fn nonsense_does_no_harm(rig: &Rig) -> Outcome {
    let mut count = 0;
    for capability in handed(rig) {
        for nonsense in Nonsense::ALL {
            let world = rig.world();
            let instance = rig.instance(&world).await?;
            let ask = rig.ask("a");
            let before = instance.shown(&ask).await?;
            let fault = Fault::Nonsense(capability, nonsense);
            world.set_fault(fault);
            let spoilt = |error: Failure| {
                Failure::new(
                    format!(
                        "under {:?} of `{}`: {}",
                        nonsense,
                        capability.name(),
                        error.seen
                    ),
                    error.advice,
                )
            };
            for ask in [&ask, &ask.next(), &rig.ask("b")] {
                if let Ok(plan) = instance.begin(ask).await {
                    check_plan(&plan).map_err(spoilt)?;
                    for block in &plan.blocks {
                        check_wrapper(block).map_err(spoilt)?;
                    }
                }
                for (method, answer) in call_everything(&instance, ask, &before).await {
                    count += 1;
                    let Err(error) = answer else {
                        continue;
                    };
                    let crossed = !error.to_string().contains("sent a bad");
                    let code = error.code();
                    require!(
                        crossed
                            && !matches!(
                                code,
                                None | Some(ErrorCode::PANICKED | ErrorCode::DEADLINE)
                            ),
                        "trust no length, order or number of an answer: zip instead of indexing, and drop scores that are none",
                        "`{method}` under {nonsense:?} of `{}`: {error}",
                        capability.name()
                    );
                }
            }
        }
    }
    Ok(format!("{count} calls, none of them harmed"))
}

pub(crate) async fn recovers(rig: &Rig) -> Outcome {
    let ask = rig.ask("a");
    let usual = shows(&rig.instance(&rig.world()).await?.shown(&ask).await?);
    for capability in handed(rig) {
        for fault in [Fault::Fails(capability), Fault::Panics(capability)] {
            let world = rig.world();
            let instance = rig.instance(&world).await?;
            if capability != Capability::Clock {
                world.set_fault(fault);
            }
            instance.begin(&ask).await.ok();
            instance.explain(&ask).await.ok();
            world.set_fault(Fault::None);
            let advice = "keep nothing of a failure; the next turn asks again";
            let plan = instance.begin(&ask).await.map_err(|error| {
                Failure::new(format!("after {fault:?} is over: {error}"), advice)
            })?;
            require!(
                plan.degraded.is_empty() && shows(&plan) == usual,
                advice,
                "after {fault:?} is over it shows {} instead of {}, degraded: {:?}",
                names(&shows(&plan)),
                names(&usual),
                plan.degraded
            );
            instance.attach(&ask, &plan, "m1").await?;
        }
    }
    Ok(format!(
        "from failures of {} capabilities",
        handed(rig).len()
    ))
}
