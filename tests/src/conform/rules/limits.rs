//! Calls that end early: their caller gave up, or their time is over.

use std::sync::Arc;
use std::time::{Duration, Instant};

use memory_core::abi::ErrorCode;
use memory_core::services::Capability;
use memory_core::tier::TurnPlan;
use plugin_host::SlotError;

use super::handed;
use crate::conform::ask::Ask;
use crate::conform::rig::{Instance, Rig};
use crate::conform::rule::{Failure, Outcome, require};
use crate::world::{Fault, World};

/// Time that is too little for any service of a slow world.
const LITTLE: Duration = Duration::from_millis(50);

/// Begins a turn in a conversation whose questions are held, and waits until it has asked one.
async fn held_turn(
    rig: &Rig,
    world: &Arc<World>,
    instance: &Instance,
    ask: &Ask,
    limit: Duration,
) -> Result<HeldTurn, Failure> {
    world.hold(&ask.conversation);
    let (turn, (call, control), request) = (instance.turn(), ask.call(limit), ask.request());
    let running = tokio::spawn(async move { turn.begin_turn(&call, request).await });
    require!(
        rig.comes_true(|| world.in_flight() > 0 || running.is_finished())
            .await
            && !running.is_finished(),
        "ask at least one service in a turn",
        "a turn asked no service within {} ms",
        rig.patience().as_millis()
    );
    Ok(HeldTurn { running, control })
}

struct HeldTurn {
    running: tokio::task::JoinHandle<Result<TurnPlan, SlotError>>,
    control: Arc<plugin_host::TurnControl>,
}

/// Checks that a call that was ended says so.
fn check_ended(answer: Result<TurnPlan, SlotError>, how: &str) -> Result<(), Failure> {
    match answer {
        // What was there in time may be shown.
        Ok(_) => Ok(()),
        Err(error) => {
            require!(
                matches!(
                    error.code(),
                    Some(ErrorCode::CANCELLED | ErrorCode::DEADLINE)
                ),
                "hand `ServiceError::Cancelled` on with `?`, or answer `TierError::Cancelled`",
                "{how}: {error}"
            );
            Ok(())
        }
    }
}

/// Checks that nothing of an instance runs any more, and ends it.
async fn check_still(
    rig: &Rig,
    world: &Arc<World>,
    instance: Instance,
    how: &str,
) -> Result<(), Failure> {
    let advice = "wait only by awaiting services, and in long loops await `call.yield_now()` and look at `call.is_cancelled()`";
    require!(
        rig.comes_true(|| world.in_flight() == 0).await,
        advice,
        "{how}: {} questions are still being asked",
        world.in_flight()
    );
    let drained = instance.end().await;
    require!(
        drained.is_none_or(|drained| drained.abandoned == 0),
        advice,
        "{how}: the call still runs, and holds one of the two threads of its build"
    );
    Ok(())
}

pub(crate) async fn cancellation(rig: &Rig) -> Outcome {
    if handed(rig)
        .iter()
        .all(|capability| *capability == Capability::Clock)
    {
        return Ok("it asks no service that could wait".to_owned());
    }
    let long = rig.rule_limit();
    let world = rig.world();
    let instance = rig.instance(&world).await?;
    let ask = rig.ask("told");
    let held = held_turn(rig, &world, &instance, &ask, long).await?;
    held.control.cancel();
    let start = Instant::now();
    let abort = held.running.abort_handle();
    let answer = match tokio::time::timeout(rig.patience(), held.running).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => {
            return Err(Failure::new(
                error.to_string(),
                "report it as a fault of the program",
            ));
        }
        Err(_) => {
            abort.abort();
            world.release();
            return Err(Failure::new(
                format!(
                    "told to stop, it went on for more than {} ms",
                    rig.patience().as_millis()
                ),
                "end the turn when a service answers `Cancelled`; do not try again",
            ));
        }
    };
    let took = start.elapsed();
    check_ended(answer, "told to stop")?;
    world.release();
    check_still(rig, &world, instance, "told to stop").await?;

    let instance = rig.instance(&world).await?;
    let ask = rig.ask("dropped");
    let held = held_turn(rig, &world, &instance, &ask, long).await?;
    held.running.abort();
    // The answer of a task that was ended is that it was ended.
    drop(held.running.await);
    check_still(rig, &world, instance, "dropped").await?;
    world.release();
    let after = rig.instance(&world).await?;
    after.plan(&rig.ask("after")).await?;
    Ok(format!(
        "stops {} ms after it was told to",
        took.as_millis()
    ))
}

pub(crate) async fn deadline(rig: &Rig) -> Outcome {
    let world = rig.world();
    let asks_something = handed(rig)
        .iter()
        .any(|capability| *capability != Capability::Clock);
    for (limit, slow) in [(Duration::ZERO, false), (LITTLE, asks_something)] {
        let instance = rig.instance(&world).await?;
        let how = format!("with {} ms left", limit.as_millis());
        if slow {
            world.set_fault(Fault::Slow(rig.rule_limit()));
        }
        let ask = rig.ask(&how);
        let (call, _) = ask.call(limit);
        let turn = instance.turn();
        let answer =
            tokio::time::timeout(rig.patience(), turn.begin_turn(&call, ask.request())).await;
        drop(turn);
        let answer = answer.map_err(|_| {
            Failure::new(
                format!("{how} it took more than {} ms", rig.patience().as_millis()),
                "report it as a fault of the loader",
            )
        })?;
        check_ended(answer, &how)?;
        world.set_fault(Fault::None);
        check_still(rig, &world, instance, &how).await?;
    }
    let after = rig.instance(&world).await?;
    after.shown(&rig.ask("after")).await?;
    Ok("in time, and nothing goes on".to_owned())
}
