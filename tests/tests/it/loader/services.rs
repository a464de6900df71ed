//! Services from the scripted world that conformance is checked in too, and what a plugin must get of them.

use std::sync::Arc;

use memory_core::env::Clock as _;
use memory_core::predicates::Tier;
use memory_core::provenance::Authority;
use memory_core::services::{
    Call, CallScope, Capability, Dense as _, Kv as _, KvScope, Lexical as _, LexicalQuery,
    Log as _, LogKind, Messages as _, Pages as _, Requester, Residency as _, Services,
};
use memory_core::text::slug::Slug;
use tests::world::{Fault, Story, World};

/// Returns a world of its own.
pub(super) fn world() -> Arc<World> {
    World::new(Story::new(0), Tier::V3)
}

/// Returns every service.
pub(super) fn all() -> Services {
    world().services()
}

/// Returns a few services that fail: one panics, one is unavailable, most are not there.
pub(super) fn broken() -> Services {
    let with = |fault| {
        let world = world();
        world.set_fault(fault);
        world.services()
    };
    Services {
        pages: with(Fault::Panics(Capability::Pages)).pages,
        dense: with(Fault::Unavailable(Capability::Dense)).dense,
        clock: all().clock,
        ..Services::default()
    }
}

/// Returns the scope of the owner's first turn.
pub(super) fn scope() -> CallScope {
    CallScope {
        requester: Requester {
            principal: Some("ada".to_owned()),
            authority: Authority::Owner,
            consumer: "loader".to_owned(),
        },
        conversation: "c1".to_owned(),
        turn: 1,
        ..CallScope::default()
    }
}

/// Puts something into the context of the conversation.
pub(super) fn plant(world: &World) {
    let slug = Slug::from_title("garden");
    world.plant_resident("c1", Tier::V2, slug, None);
}

/// Returns the lines that the probe's echo must have: what the services say when nothing is between them and the caller.
pub(super) async fn expected(world: &World, call: &Call, message: &str) -> Vec<String> {
    const THERE: &str = "a sound world answers";
    let core = world.core(call).await.expect(THERE);
    let texts = vec![message.to_owned()];
    let vector = world.embed(call, texts).await.expect(THERE);
    let query = LexicalQuery {
        text: message.to_owned(),
        head_weight: 2.0,
        body_weight: 1.0,
        k1: 1.2,
        b: 0.75,
        limit: 3,
        best_per_page: true,
    };
    let space = world.space(call).await;
    let links = world.links(call, core.clone()).await;
    let freshest = world.freshest(call, 3).await;
    let near = memory_core::services::Dense::search(world, call, vector, 3).await;
    let found = memory_core::services::Lexical::search(world, call, query).await;
    let idf = world.idf(call, message.to_owned()).await;
    let rows = world.newest(call, LogKind::PoolAudit, 1).await;
    let kept = world.get(call, KvScope::Assistant, "seen".to_owned()).await;
    vec![
        format!("clock: {}", world.now().as_millis()),
        format!("pages.count: {:?}", world.count(call).await.expect(THERE)),
        format!("pages.links: {:?}", links.expect(THERE)),
        format!(
            "pages.read: {:?}",
            world.read(call, core).await.expect(THERE)
        ),
        format!("pages.freshest: {:?}", freshest.expect(THERE)),
        format!(
            "pages.now_text: {:?}",
            world.now_text(call).await.expect(THERE)
        ),
        format!("dense.space: {:?}", space.expect(THERE)),
        format!("dense.search: {:?}", near.expect(THERE)),
        format!("lexical.search: {:?}", found.expect(THERE)),
        format!("lexical.idf: {:?}", idf.expect(THERE)),
        format!(
            "residency.active: {:?}",
            world.active(call).await.expect(THERE)
        ),
        "log.append: ()".to_owned(),
        format!("log.newest: {:?}", rows.expect(THERE)),
        "kv.put: ()".to_owned(),
        format!("kv.get: {:?}", kept.expect(THERE)),
        format!(
            "messages.recent: {:?}",
            world.recent(call, 2).await.expect(THERE)
        ),
        "notices.post: ()".to_owned(),
    ]
}
