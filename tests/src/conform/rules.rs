//! The checks behind the rules, grouped as the list groups them, and what they have in common.

use std::collections::BTreeSet;

use memory_core::services::Capability;
use memory_core::text::section::SectionId;
use memory_core::tier::{Block, TurnPlan};

use super::rig::Rig;
use crate::world::{Mark, Story, marks};

pub(crate) mod commits;
pub(crate) mod events;
pub(crate) mod faults;
pub(crate) mod limits;
pub(crate) mod loading;
pub(crate) mod panics;
pub(crate) mod scope;
pub(crate) mod trust;
pub(crate) mod turns;

/// Returns the sections a plan shows.
fn shows(plan: &TurnPlan) -> BTreeSet<SectionId> {
    let shown = plan.blocks.iter().flat_map(|block| &block.shows);
    shown.map(|shown| shown.section.clone()).collect()
}

/// Returns the marks in the texts of a plan, variants included.
fn all_marks(plan: &TurnPlan) -> BTreeSet<Mark> {
    let texts = plan.blocks.iter().flat_map(texts);
    texts.flat_map(marks).collect()
}

fn texts(block: &Block) -> impl Iterator<Item = &str> {
    std::iter::once(block.text.as_str()).chain(block.variants.iter().map(String::as_str))
}

/// Returns a plan as text, without what may differ between two equal answers: the tokens.
fn canonical(plan: &TurnPlan) -> String {
    let mut plan = plan.clone();
    for block in &mut plan.blocks {
        if let Some(token) = &mut block.commit {
            token.0.clear();
        }
    }
    format!("{plan:#?}")
}

/// Returns section names for a person, a few at most.
fn names<'a>(sections: impl IntoIterator<Item = &'a SectionId>) -> String {
    let names: Vec<String> = sections.into_iter().map(|id| format!("`{id}`")).collect();
    match names.len() {
        0 => "none".to_owned(),
        1..=4 => names.join(", "),
        more => format!("{} and {} more", names[..3].join(", "), more - 3),
    }
}

/// Returns names for marks.
fn mark_names(story: &Story, marks: &BTreeSet<Mark>) -> String {
    let sections = story
        .sections()
        .filter(|(_, part)| marks.contains(&part.mark));
    let mut names: Vec<String> = sections.map(|(_, part)| format!("`{}`", part.id)).collect();
    let files = story.files.iter().filter(|file| marks.contains(&file.mark));
    names.extend(files.map(|file| format!("`{}`", file.path)));
    names.truncate(4);
    names.join(", ")
}

/// Returns the first line in which two texts differ, of each.
fn first_difference(left: &str, right: &str) -> String {
    let mut pairs = left.lines().zip(right.lines());
    match pairs.find(|(left, right)| left != right) {
        Some((left, right)) => format!("`{}` and `{}`", left.trim(), right.trim()),
        None => "one has more lines than the other".to_owned(),
    }
}

/// Returns the capabilities that a tier is handed where everything is there.
fn handed(rig: &Rig) -> Vec<Capability> {
    let sidecar = rig.sidecar();
    let names = sidecar.requires.iter().chain(&sidecar.uses);
    let asked = names.filter_map(|name| Capability::from_name(name));
    asked
        .filter(|capability| capability.allowed_for(sidecar.tier))
        .collect()
}

/// Returns the capabilities that a tier uses and could do without.
fn used(rig: &Rig) -> Vec<Capability> {
    let sidecar = rig.sidecar();
    let names = sidecar.uses.iter();
    names
        .filter_map(|name| Capability::from_name(name))
        .collect()
}
