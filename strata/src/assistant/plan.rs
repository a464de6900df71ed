//! What a tier's answer must not be, whatever else it is.
//!
//! The plugin host refuses answers it cannot understand. This is about answers that are understood and would still spoil
//! a prompt or a record: a text of megabytes that may not be left out, or a score that is no number. Such an answer is
//! given up as a whole, because nothing says which part of it is right.

use memory_core::tier::{Block, TurnPlan};

/// Blocks one answer may have.
const BLOCKS: usize = 64;

/// Bytes that all texts of an answer may have together, shorter forms included.
const TEXT_BYTES: usize = 4 << 20;

/// Bytes of an identifier, a lane or a code.
const NAME_BYTES: usize = 256;

/// Sections that a block may show, and that may be named as being in context already.
const SECTIONS: usize = 10_000;

/// Codes of what degraded.
const CODES: usize = 64;

/// Returns what is wrong with an answer.
pub(super) fn check(plan: &TurnPlan) -> Result<(), String> {
    let blocks = plan.blocks.len();
    if blocks > BLOCKS {
        return Err(format!("it has {blocks} blocks, and {BLOCKS} are the most"));
    }
    let bytes: usize = plan.blocks.iter().map(text_bytes).sum();
    if bytes > TEXT_BYTES {
        return Err(format!(
            "its texts have {bytes} bytes, and {TEXT_BYTES} are the most"
        ));
    }
    if plan.already_resident.len() > SECTIONS {
        return Err(format!("it names more than {SECTIONS} sections"));
    }
    let codes = &plan.degraded;
    if codes.len() > CODES || codes.iter().any(|code| code.len() > NAME_BYTES) {
        return Err("it has too many or too long codes of what degraded".to_owned());
    }
    plan.blocks.iter().try_for_each(check_block)
}

fn check_block(block: &Block) -> Result<(), String> {
    let id = &block.id;
    if id.trim().is_empty() || id.len() > NAME_BYTES {
        return Err("a block has a blank or a very long id".to_owned());
    }
    if block.shows.len() > SECTIONS {
        return Err(format!("block `{id}` shows more than {SECTIONS} sections"));
    }
    for shown in &block.shows {
        let section = &shown.section;
        if !shown.score.is_finite() {
            return Err(format!(
                "block `{id}` shows `{section}` with a score that is no number"
            ));
        }
        if shown.lane.len() > NAME_BYTES {
            return Err(format!(
                "block `{id}` shows `{section}` from a very long lane"
            ));
        }
    }
    Ok(())
}

fn text_bytes(block: &Block) -> usize {
    block.text.len() + block.variants.iter().map(String::len).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use memory_core::text::section::SectionId;
    use memory_core::tier::{Placement, ShownSection};

    use super::*;

    fn block(id: &str) -> Block {
        Block {
            id: id.to_owned(),
            tag: "memory".to_owned(),
            placement: Placement::Prepend,
            order: 0,
            priority: 0,
            mandatory: true,
            persistence_key: None,
            text: "text".to_owned(),
            variants: Vec::new(),
            minimum_tokens: 0,
            shows: vec![ShownSection {
                section: SectionId::parse_key("a/b#1.0#").expect("a section"),
                lane: "dense".to_owned(),
                score: 0.5,
                bytes: 4,
            }],
            commit: None,
        }
    }

    #[track_caller]
    fn refused(change: impl FnOnce(&mut TurnPlan)) -> String {
        let mut plan = TurnPlan {
            blocks: vec![block("a")],
            ..TurnPlan::default()
        };
        assert_eq!(check(&plan), Ok(()));
        change(&mut plan);
        check(&plan).unwrap_err()
    }

    #[test]
    fn what_would_spoil_a_prompt_is_refused() {
        for score in [f32::NAN, f32::INFINITY] {
            let reason = refused(|plan| plan.blocks[0].shows[0].score = score);
            assert!(reason.contains("no number"), "{reason}");
        }
        let reason = refused(|plan| plan.blocks[0].text = "x".repeat(TEXT_BYTES + 1));
        assert!(reason.contains("bytes"), "{reason}");
        refused(|plan| plan.blocks[0].variants = vec!["x".repeat(TEXT_BYTES)]);
        refused(|plan| plan.blocks[0].id = " ".to_owned());
        refused(|plan| plan.blocks = vec![block("a"); BLOCKS + 1]);
        refused(|plan| plan.blocks[0].shows[0].lane = "x".repeat(NAME_BYTES + 1));
        refused(|plan| plan.degraded = vec![String::new(); CODES + 1]);
    }
}
