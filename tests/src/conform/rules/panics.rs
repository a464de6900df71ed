//! Panics, wherever they are: a rule of its own, because a contained panic looks like many other failures.

use std::future::Future;
use std::sync::Arc;

use memory_core::causes::with_causes;

use super::events;
use crate::conform::rig::{Instance, Rig, tokens};
use crate::conform::rule::{Failure, Outcome};
use crate::world::World;

pub(crate) async fn never_panics(rig: &Rig) -> Outcome {
    let world = rig.world();
    let made = rig.instance_with(&world.services(), rig.config()).await;
    let instance = match made {
        Ok(instance) => instance,
        // No other rule has anything to ask.
        Err(error) => {
            let other = || {
                Failure::new(
                    with_causes(&*error),
                    "make `create` and `health` succeed where every service works",
                )
            };
            return Err(check(rig).err().unwrap_or_else(other).ending());
        }
    };
    call_everything(&instance, rig).await;
    give_up_everything(&instance, rig, &world).await;
    instance.end().await;
    // The library's own list and this one are left once the thread that shut the instance down has ended. If something
    // else holds the build, what was heard until then counts.
    if let [build] = rig.host().builds().as_slice() {
        rig.comes_true(|| Arc::strong_count(build) <= 2).await;
    }
    check(rig)?;
    Ok("every method, answered and given up, and the end of the instance".to_owned())
}

/// Fails if anything has panicked.
fn check(rig: &Rig) -> Outcome {
    let panics = rig.panics();
    if panics.is_empty() {
        return Ok(String::new());
    }
    let told: Vec<String> = panics
        .iter()
        .map(|(method, message)| format!("`{method}` {message}"))
        .collect();
    Err(Failure::new(
        told.join("; "),
        "answer with an error instead: `?`, `get`, `ok_or`; a `Drop` has nobody to answer to and must not fail at all",
    ))
}

/// Calls every method. What it answers is the business of other rules.
async fn call_everything(instance: &Instance, rig: &Rig) {
    let (ask, other) = (rig.ask("a"), rig.ask("b"));
    if let Ok(plan) = instance.begin(&ask).await {
        for token in tokens(&plan) {
            instance.commit(&ask, token.clone(), "m1").await.ok();
            instance.commit(&ask, token, "m1").await.ok();
        }
    }
    if let Ok(plan) = instance.begin(&other).await {
        for token in tokens(&plan) {
            instance.discard(&other, token.clone()).await.ok();
            instance.discard(&other, token).await.ok();
        }
    }
    instance.explain(&ask.next()).await.ok();
    for event in events::all() {
        instance.tell(&ask, event).await.ok();
    }
    instance.stats(&ask).await.ok();
    instance.health(&ask).await.ok();
}

/// Begins every method in a conversation whose questions are not answered, and gives it up while it waits.
async fn give_up_everything(instance: &Instance, rig: &Rig, world: &Arc<World>) {
    let ask = rig.ask("given-up");
    let begun = instance.begin(&ask).await;
    let waiting = begun.as_ref().map(tokens).unwrap_or_default();
    world.hold(&ask.conversation);
    give_up(rig, world, instance.begin(&ask)).await;
    give_up(rig, world, instance.explain(&ask)).await;
    give_up(rig, world, instance.health(&ask)).await;
    for token in waiting {
        give_up(rig, world, instance.commit(&ask, token.clone(), "m1")).await;
        give_up(rig, world, instance.discard(&ask, token)).await;
    }
    for event in events::all() {
        give_up(rig, world, instance.tell(&ask, event)).await;
    }
    world.release();
}

/// Waits until a call has asked a service or is answered, and then drops it.
async fn give_up<T>(rig: &Rig, world: &World, call: impl Future<Output = T>) {
    tokio::select! {
        biased;
        _ = call => {}
        _ = rig.comes_true(|| world.in_flight() > 0) => {}
    }
    // The next call must not be taken for this one.
    rig.comes_true(|| world.in_flight() == 0).await;
}
