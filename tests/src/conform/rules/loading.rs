//! Coming up, living beside others, and going away.

use std::collections::BTreeSet;

use memory_core::abi::ErrorCode;
use memory_core::causes::with_causes;
use memory_core::services::Capability;
use memory_core::tier::TierEvent;
use plugin_host::LoadError;
use serde_json::{Value, json};

use super::{all_marks, handed, mark_names, names, shows, used};
use crate::conform::rig::{Rig, tokens};
use crate::conform::rule::{Failure, Outcome, require};
use crate::world::{Fault, Story};

pub(crate) async fn manifest_agrees(rig: &Rig) -> Outcome {
    // Without a library that its sidecar describes there is nothing to ask.
    agreed(rig).await.map_err(Failure::ending)
}

async fn agreed(rig: &Rig) -> Outcome {
    let world = rig.world();
    let made = rig.instance_with(&world.services(), rig.config()).await;
    if let Err(error) = &made {
        // That it panics is another rule's business, and its manifest was read before that.
        require!(
            !rig.panics().is_empty(),
            "make `[package.metadata.strata]`, `MemoryTier::manifest()` and the sidecar agree, and build again",
            "{}",
            with_causes(&**error)
        );
    }
    let builds = rig.host().builds();
    let manifest = builds.first().map(|build| build.manifest());
    let manifest = manifest.ok_or_else(|| {
        Failure::new(
            "no build is loaded although an instance is",
            "report it as a fault of the loader",
        )
    })?;
    let mut seen = BTreeSet::new();
    for name in manifest.requires.iter().chain(&manifest.uses) {
        require!(
            seen.insert(name),
            "name each capability once, under `requires` or `uses`",
            "it names `{name}` twice"
        );
        let allowed = Capability::from_name(name)
            .is_some_and(|capability| capability.allowed_for(manifest.tier));
        require!(
            allowed,
            "ask for nothing that is never handed out",
            "it asks for `{name}`, which tier `{}` may not have",
            manifest.tier
        );
    }
    require!(
        !manifest.version.trim().is_empty(),
        "give `TierManifest::version` the crate's version",
        "its version is empty"
    );
    drop(made);
    Ok(format!(
        "{} {}, border {}, {} capabilities",
        manifest.id,
        manifest.version,
        manifest.abi,
        seen.len()
    ))
}

pub(crate) async fn bad_config(rig: &Rig) -> Outcome {
    let world = rig.world();
    let mut refused = Vec::new();
    let mut cases = vec![("{".to_owned(), None)];
    if let Ok(Value::Object(settings)) = serde_json::from_str(rig.config()) {
        for (key, value) in &settings {
            // An object where none belongs, or a text where an object does.
            let wrong = if value.is_object() {
                json!("conform")
            } else {
                json!({ "conform": [] })
            };
            let mut spoilt = settings.clone();
            spoilt.insert(key.clone(), wrong);
            cases.push((Value::Object(spoilt).to_string(), Some(key.clone())));
            let mut without = settings.clone();
            without.remove(key);
            cases.push((Value::Object(without).to_string(), Some(key.clone())));
        }
        let mut newer = settings.clone();
        newer.insert("conformUnknownKey".to_owned(), json!(1));
        let newer = Value::Object(newer).to_string();
        if let Err(error) = rig.instance_with(&world.services(), &newer).await {
            return Err(Failure::new(
                format!("with a key it cannot know: {}", with_causes(&*error)),
                "ignore keys that are not yours: a host hands over all settings of the tier, and newer ones have more",
            ));
        }
    }
    for (config, key) in cases {
        let about = key.as_deref().unwrap_or("text that is not JSON");
        match rig.instance_with(&world.services(), &config).await {
            Ok(_) if key.is_none() => {
                return Err(Failure::new(
                    "it came up with settings that are not JSON",
                    "parse the settings in `create` and answer `TierError::BadConfig`",
                ));
            }
            // It does not read the key.
            Ok(_) => {}
            Err(error) => {
                let LoadError::Create { code, message, .. } = &*error else {
                    return Err(Failure::new(
                        format!("bad `{about}`: {}", with_causes(&*error)),
                        "refuse bad settings in `create`, not later and not by taking long",
                    ));
                };
                require!(
                    *code == ErrorCode::BAD_CONFIG,
                    "answer bad settings with `TierError::BadConfig`",
                    "bad `{about}` was refused with {code}: {message}"
                );
                if let Some(key) = key {
                    require!(
                        message.contains(&key),
                        "name the key in the reason of `TierError::BadConfig`",
                        "the refusal of a bad `{key}` does not name it: {message}"
                    );
                    refused.push(key);
                }
            }
        }
    }
    refused.dedup();
    Ok(match refused.len() {
        0 => "refuses what is not JSON; reads no key".to_owned(),
        _ => format!("refuses bad {}", refused.join(", ")),
    })
}

pub(crate) async fn capabilities(rig: &Rig) -> Outcome {
    let used = used(rig);
    for capability in handed(rig) {
        let name = capability.name();
        let world = rig.world();
        let made = rig
            .instance_with(&world.services_without(capability), rig.config())
            .await;
        if !used.contains(&capability) {
            require!(
                matches!(
                    made.as_ref().map_err(|error| &**error),
                    Err(LoadError::NotOffered { .. })
                ),
                "report it as a fault of the loader",
                "an instance came up without `{name}`, which it requires"
            );
            continue;
        }
        let advice =
            "treat what is under `uses` as absent or there: an `Option` that is never unwrapped";
        let missing = |what: &str, error: &dyn std::error::Error| {
            Failure::new(
                format!("{what} without `{name}`: {}", with_causes(error)),
                advice,
            )
        };
        let instance = made.map_err(|error| missing("it does not come up", &*error))?;
        let ask = rig.ask(name);
        let plan = instance
            .begin(&ask)
            .await
            .map_err(|error| missing("`begin_turn` fails", &error))?;
        for token in tokens(&plan) {
            let committed = instance.commit(&ask, token, "m1").await;
            committed.map_err(|error| missing("`commit` fails", &error))?;
        }
        let explained = instance.explain(&ask.next()).await;
        explained.map_err(|error| missing("`explain` fails", &error))?;
        let told = instance.tell(&ask, TierEvent::Compaction).await;
        told.map_err(|error| missing("`on_event` fails", &error))?;
    }
    Ok(format!(
        "{} required, {} used",
        rig.sidecar().requires.len(),
        used.len()
    ))
}

pub(crate) async fn health(rig: &Rig) -> Outcome {
    let world = rig.world();
    let instance = rig.instance(&world).await?;
    let ask = rig.ask("a");
    let mut detail = String::new();
    for fault in [Fault::None]
        .into_iter()
        .chain(handed(rig).into_iter().map(Fault::Fails))
        .chain([Fault::None])
    {
        world.set_fault(fault);
        match instance.health(&ask).await {
            Ok(health) if fault == Fault::None => {
                require!(
                    health.ok,
                    "say ok whenever every service answers, whatever happened before",
                    "`health` says `{}` where every service works",
                    health.detail
                );
                detail = health.detail;
            }
            Ok(_) => {}
            Err(error) => require!(
                fault != Fault::None
                    && !matches!(
                        error.code(),
                        Some(ErrorCode::PANICKED | ErrorCode::DEADLINE)
                    ),
                "return the service's error or `ok: false`; never unwrap it",
                "`health` under {fault:?}: {error}"
            ),
        }
    }
    Ok(detail)
}

pub(crate) async fn lets_go(rig: &Rig) -> Outcome {
    let world = rig.world();
    let instance = rig.instance(&world).await?;
    let ask = rig.ask("a");
    let plan = instance.plan(&ask).await?;
    instance.attach(&ask, &plan, "m1").await?;
    let drained = instance.end().await;
    require!(
        drained.is_some_and(|drained| drained.abandoned == 0),
        "let every future of the tier end",
        "calls still ran after the instance was taken out of service"
    );
    let alone = || std::sync::Arc::strong_count(&world) == 1;
    require!(
        rig.comes_true(alone).await,
        "keep services in the instance alone: no statics, no leaks, no drop that waits",
        "services were still held {} ms after the instance was shut down",
        rig.patience().as_millis()
    );
    let other = rig.instance(&rig.world()).await?;
    other.plan(&rig.ask("b")).await?;
    Ok("every service was let go".to_owned())
}

pub(crate) async fn instances_apart(rig: &Rig) -> Outcome {
    let (first_world, second_world) = (rig.world(), rig.world_of(Story::new(500)));
    let first = rig.instance(&first_world).await?;
    let second = rig.instance(&second_world).await?;
    let ask = rig.ask("a");
    let before = second.shown(&ask).await?;
    let plan = first.shown(&ask).await?;
    first.attach(&ask, &plan, "m1").await?;
    // A token of the other instance, for a conversation that this one has never seen: an error or nothing.
    let elsewhere = rig.ask("elsewhere");
    for token in tokens(&first.shown(&elsewhere).await?) {
        second.commit(&elsewhere, token.clone(), "m1").await.ok();
        second.discard(&elsewhere, token).await.ok();
    }
    let advice =
        "keep everything in the instance; a library is loaded once for all assistants of a process";
    let planted = second_world.resident(&elsewhere.conversation);
    require!(
        planted.is_empty(),
        advice,
        "a token of one instance made another one record {} sections",
        planted.len()
    );
    let after = second.plan(&ask).await?;
    let foreign: BTreeSet<_> = all_marks(&after)
        .into_iter()
        .filter(|mark| *mark < 500)
        .collect();
    require!(
        foreign.is_empty(),
        advice,
        "one instance shows texts of another's assistant: {}",
        mark_names(first_world.story(), &foreign)
    );
    require!(
        shows(&after) == shows(&before),
        advice,
        "after a commit in one instance another one shows {} instead of {}",
        names(&shows(&after)),
        names(&shows(&before))
    );
    let stats = second.stats(&ask).await?;
    require!(
        stats.turns == 2 && stats.committed_sections == 0,
        advice,
        "after 2 turns and no commit an instance counts {} and {}, with what another one did",
        stats.turns,
        stats.committed_sections
    );
    Ok(format!(
        "{} sections each, none in common",
        shows(&after).len()
    ))
}
