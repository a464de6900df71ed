//! Asking a model: what it is given, and what becomes of the entries that it is not given or leaves behind.

use std::collections::BTreeSet;
use std::sync::Arc;

use memory_core::store::{StoreError, StoreResult};
use memory_core::text::citation::marks;

use super::{Agent, Made, Material, by_model};
use crate::blocking;
use crate::consolidate::batch::Entry;
use crate::consolidate::check::{Bench, Keeping};
use crate::consolidate::filing::{Filing, Route};
use crate::consolidate::near::Nearness;
use crate::consolidate::rules::by_rules;
use crate::consolidate::stage::Stage;
use crate::jobs::Stop;
use crate::pages::PageIndex;

/// Has a model file entries. Those that a page states already are not for it to decide.
pub(in super::super) async fn ask(
    agent: &Agent,
    stop: &Stop,
    entries: Vec<Entry>,
    nearness: Nearness,
    (stage, index): (&Arc<Stage>, &Arc<PageIndex>),
    longest: usize,
) -> StoreResult<Made> {
    let (staged, pages) = (Arc::clone(stage), Arc::clone(index));
    let (rest, known) = blocking::run(move || {
        let bench = Bench {
            stage: &staged,
            index: &pages,
            entries: &entries,
            longest,
            keeping: Keeping::InPlace,
        };
        let filing = by_rules(&bench, &nearness);
        Ok::<_, StoreError>(divided(&staged, entries, &filing))
    })
    .await?;
    let mut made = if rest.is_empty() {
        Made::default()
    } else {
        let material = Material {
            stage: Arc::clone(stage),
            index: Arc::clone(index),
            entries: rest.into(),
            longest,
        };
        by_model(agent, stop, &material).await?
    };
    made.filing.routes.extend(known);
    let left = std::mem::take(&mut made.left);
    made.filing
        .routes
        .extend(left.into_iter().map(|(entry, why)| Route {
            entry,
            page: None,
            why,
            block: None,
        }));
    Ok(made)
}

/// Divides entries into those that a model is asked about, with a suggestion for each, and those whose place is known.
fn divided(
    stage: &Stage,
    entries: Vec<Entry>,
    filing: &Filing,
) -> (Vec<(Entry, String)>, Vec<Route>) {
    let stated: BTreeSet<&str> = stage
        .pages
        .values()
        .flat_map(|page| marks(&page.text))
        .map(|mark| mark.id)
        .collect();
    let (mut rest, mut known) = (Vec::new(), Vec::new());
    for entry in entries {
        let mut routes = filing.routes.iter();
        let route = routes.find(|route| route.entry == entry.id);
        match route {
            Some(route) if stated.contains(entry.id.as_str()) => known.push(route.clone()),
            Some(Route {
                page: Some(page),
                why,
                ..
            }) if stage.pages.contains_key(page) => rest.push((entry, format!("{page}: {why}"))),
            _ => rest.push((entry, "a page of its own".to_owned())),
        }
    }
    (rest, known)
}
