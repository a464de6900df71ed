//! What an item rests on.
//!
//! An item only names its evidence, which is kept elsewhere. Saying a thing twice in one place does not make it truer,
//! so what counts is the number of different sources and never the number of mentions.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::EvidenceId;
use crate::provenance::Trust;

/// One piece of evidence, as an item knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// What it is part of, such as a conversation or a document. Pieces of one source are not independent.
    pub source: String,
    /// Whether it may be built upon.
    pub trust: Trust,
}

/// Returns how many independent, trusted sources there are.
pub fn corroborations(evidence: &BTreeMap<EvidenceId, Evidence>) -> usize {
    evidence
        .values()
        .filter(|piece| piece.trust == Trust::Trusted)
        .map(|piece| piece.source.as_str())
        .collect::<BTreeSet<_>>()
        .len()
}
