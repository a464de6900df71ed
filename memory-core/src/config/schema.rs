//! The one table of all settings.
//!
//! Parsing, checking, suggestions, `config show` and the reference all derive from it, so a key that is in the table
//! works everywhere and a key that is not works nowhere. The typed structs in `typed` are filled from it, and a test
//! holds the two together. Keys of tier v2 and of the substrate are spelt with underscores and those of tier v3 in
//! camel case; both spellings are in use by people's files and stay.

use std::fmt::Write as _;

use super::value::{self, Kind, Value};
use crate::predicates::Tier;
use crate::predicates::registry::BUILT;

/// The switch of memory as a whole.
pub(crate) const ENABLED: &str = "memory.enabled";
/// The switch of concept pages and tier v2.
pub(crate) const V2_ENABLED: &str = "memory.v2.enabled";
/// The switch of tier v3.
pub(crate) const V3_LIVE: &str = "memory.v3.live";

/// One setting.
#[derive(Clone, Debug, PartialEq)]
pub struct KeySpec {
    /// The dotted key, unique in the table.
    pub key: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// What applies when nobody sets it; `None` for a key that only overrides another.
    pub default: Option<Value>,
    /// Whether it also takes `none`.
    pub nullable: bool,
    /// One line on what it does.
    pub doc: &'static str,
}

impl KeySpec {
    /// Tells whether the key is one of the three that decide the tier.
    pub fn is_switch(&self) -> bool {
        is_switch(self.key)
    }

    /// Describes the accepted values.
    pub fn accepts(&self) -> String {
        value::describe(self.kind, self.nullable)
    }

    /// Reads a value from plain text; the error says what is expected.
    pub fn parse(&self, text: &str) -> Result<Value, String> {
        value::from_text(self.kind, self.nullable, text)
    }

    pub(crate) fn read(&self, item: &toml_edit::Item) -> Result<Value, String> {
        value::from_item(self.kind, self.nullable, item)
    }
}

/// Tells whether a key is one of the three that decide the tier.
pub(crate) fn is_switch(key: &str) -> bool {
    [ENABLED, V2_ENABLED, V3_LIVE].contains(&key)
}

const fn key(key: &'static str, kind: Kind, default: Value, doc: &'static str) -> KeySpec {
    KeySpec {
        key,
        kind,
        default: Some(default),
        nullable: false,
        doc,
    }
}

const fn nullable(key: &'static str, kind: Kind, default: Value, doc: &'static str) -> KeySpec {
    KeySpec {
        key,
        kind,
        default: Some(default),
        nullable: true,
        doc,
    }
}

/// A key without a default of its own, which beats its twin under `memory.v2` when it is set.
const fn twin(key: &'static str, kind: Kind, nullable: bool, doc: &'static str) -> KeySpec {
    KeySpec {
        key,
        kind,
        default: None,
        nullable,
        doc,
    }
}

/// The key that names the plugin of a tier. It stays known when the tier is removed, so that no file earns a warning by it.
const fn plugin(key: &'static str, tier: Tier, doc: &'static str) -> KeySpec {
    KeySpec {
        key,
        kind: Kind::PluginId,
        default: match BUILT.row(tier) {
            Some(row) => Some(text(row.plugin)),
            None => None,
        },
        nullable: false,
        doc,
    }
}

const fn text(value: &'static str) -> Value {
    Value::Text(std::borrow::Cow::Borrowed(value))
}

const PROVIDERS: &[&str] = &["openai", "anthropic"];
const MAX: i64 = u32::MAX as i64;
const COUNT: Kind = Kind::Int { min: 0, max: MAX };
const POSITIVE_COUNT: Kind = Kind::Int { min: 1, max: MAX };
const SHARE: Kind = Kind::Float { min: 0.0, max: 1.0 };
const NOT_NEGATIVE: Kind = Kind::Float {
    min: 0.0,
    max: f64::INFINITY,
};

/// All settings, grouped as in the reference.
// One line a key: the table is read down its columns.
#[rustfmt::skip]
pub static KEYS: &[KeySpec] = &[
    key("time_zone", Kind::TimeZone, text("UTC"), "Time zone in which dates are shown and written."),
    plugin("plugins.v1", Tier::V1, "Plugin that serves tier v1."),
    plugin("plugins.v2", Tier::V2, "Plugin that serves tier v2."),
    plugin("plugins.v3", Tier::V3, "Plugin that serves tier v3."),
    nullable("llm.provider", Kind::OneOf(PROVIDERS), Value::None, "Whose wire the language model speaks; nothing is asked of any model with `none`."),
    nullable("llm.model", Kind::Text, Value::None, "Name of the model with its provider."),
    nullable("llm.baseUrl", Kind::Text, Value::None, "Where the model is if not with the provider itself, such as `http://127.0.0.1:11434/v1/`."),
    nullable("llm.keyVariable", Kind::Text, Value::None, "Environment variable that holds the key; the key itself stands in no file."),
    key("llm.timeoutSeconds", Kind::Int { min: 1, max: 3600 }, Value::Int(120), "How long one answer may take, with all tries."),
    key("llm.concurrency", Kind::Int { min: 1, max: 64 }, Value::Int(2), "Calls of the model at the same time."),
    key(ENABLED, Kind::Bool, Value::Bool(true), "Whether memory is on at all."),
    key("memory.embeddings.required", Kind::Bool, Value::Bool(true), "Whether a missing embedding model is reported as a fault; search is lexical either way."),
    key("memory.embeddings.model", Kind::Text, text("all-MiniLM-L6-v2"), "Embedding model; another one needs a reindex."),
    key("memory.segmentation.targetTokens", POSITIVE_COUNT, Value::Int(450), "Length of a chunk of text that is embedded."),
    key("memory.segmentation.overlapTokens", COUNT, Value::Int(60), "How far neighbouring chunks overlap; less than a chunk."),
    key("memory.retrieval.maxInjectTokens", POSITIVE_COUNT, Value::Int(16_000), "Budget of everything injected into one turn."),
    // Overrides of the substrate, which have no defaults of their own.
    twin("memory.substrate.sweep_enabled", Kind::Bool, false, "Overrides `memory.v2.sweep_enabled`."),
    twin("memory.substrate.dense_weight", SHARE, false, "Overrides `memory.v2.dense_weight`."),
    twin("memory.substrate.sparse_weight", SHARE, false, "Overrides `memory.v2.sparse_weight`."),
    twin("memory.substrate.min_sparse_spread", SHARE, false, "Overrides `memory.v2.min_sparse_spread`."),
    twin("memory.substrate.full_sparse_spread", SHARE, false, "Overrides `memory.v2.full_sparse_spread`."),
    twin("memory.substrate.bm25_k1", NOT_NEGATIVE, false, "Overrides `memory.v2.bm25_k1`."),
    twin("memory.substrate.bm25_b", SHARE, false, "Overrides `memory.v2.bm25_b`."),
    twin("memory.substrate.consolidation_interval_hours", POSITIVE_COUNT, false, "Overrides `memory.v2.consolidation_interval_hours`."),
    twin("memory.substrate.consolidation_max_buffer_lines", POSITIVE_COUNT, true, "Overrides `memory.v2.consolidation_max_buffer_lines`."),
    twin("memory.substrate.consolidation_max_entries_per_run", POSITIVE_COUNT, true, "Overrides `memory.v2.consolidation_max_entries_per_run`."),
    twin("memory.substrate.max_page_chars", POSITIVE_COUNT, false, "Overrides `memory.v2.max_page_chars`."),
    twin("memory.substrate.consolidation_prompt_path", Kind::Text, true, "Overrides `memory.v2.consolidation_prompt_path`."),
    twin("memory.substrate.spread_k", SHARE, false, "Overrides `memory.v2.k` outside tier v2."),
    twin("memory.substrate.spread_hops", COUNT, false, "Overrides `memory.v2.hops` outside tier v2."),
    twin("memory.substrate.ann_candidate_limit", POSITIVE_COUNT, true, "Overrides `memory.v2.ann_candidate_limit` outside tier v2."),
    // Tier v2, which also supplies the substrate's defaults.
    key(V2_ENABLED, Kind::Bool, Value::Bool(true), "Whether concept pages are on; tier v2 serves unless v3 is live."),
    key("memory.v2.sweep_enabled", Kind::Bool, Value::Bool(false), "Whether a model looks for unsaved facts in the background."),
    key("memory.v2.d", SHARE, Value::Float(0.3), "Weight of the previous activation; the four weights sum to 1."),
    key("memory.v2.c_user", SHARE, Value::Float(0.3), "Weight of the user's message."),
    key("memory.v2.c_assistant", SHARE, Value::Float(0.2), "Weight of the assistant's last reply."),
    key("memory.v2.c_now", SHARE, Value::Float(0.2), "Weight of the present moment."),
    key("memory.v2.k", SHARE, Value::Float(0.5), "Part of its activation that a page passes on over a link."),
    key("memory.v2.hops", COUNT, Value::Int(2), "Links that activation travels."),
    key("memory.v2.top_k", POSITIVE_COUNT, Value::Int(25), "Pages shown at most."),
    nullable("memory.v2.ann_candidate_limit", POSITIVE_COUNT, Value::None, "Candidates taken from the vector index; all with `none`."),
    key("memory.v2.epsilon", NOT_NEGATIVE, Value::Float(0.01), "Activation below which a page is forgotten."),
    key("memory.v2.dense_weight", SHARE, Value::Float(0.85), "Weight of meaning in similarity; with `sparse_weight` it sums to 1."),
    key("memory.v2.sparse_weight", SHARE, Value::Float(0.15), "Weight of words in similarity."),
    key("memory.v2.min_sparse_spread", SHARE, Value::Float(0.2), "Spread of word scores from which words count."),
    key("memory.v2.full_sparse_spread", SHARE, Value::Float(0.5), "Spread of word scores from which words count fully."),
    key("memory.v2.bm25_k1", NOT_NEGATIVE, Value::Float(1.2), "Saturation of repeated words."),
    key("memory.v2.bm25_b", SHARE, Value::Float(0.4), "How much long texts are held back."),
    key("memory.v2.consolidation_interval_hours", POSITIVE_COUNT, Value::Int(8), "Hours between consolidations."),
    nullable("memory.v2.consolidation_max_buffer_lines", POSITIVE_COUNT, Value::Int(100), "Buffer size that starts a consolidation early and caps the buffer in `<info>`."),
    nullable("memory.v2.consolidation_max_entries_per_run", POSITIVE_COUNT, Value::Int(150), "Entries that one consolidation takes."),
    key("memory.v2.max_page_chars", POSITIVE_COUNT, Value::Int(5000), "Length from which a page is reported as too long."),
    nullable("memory.v2.consolidation_prompt_path", Kind::Text, Value::None, "File that replaces the consolidation prompt."),
    key("memory.v2.rerank.enabled", Kind::Bool, Value::Bool(false), "Whether a cross-encoder reorders the candidates."),
    key("memory.v2.rerank.top_k", Kind::Int { min: 1, max: 200 }, Value::Int(50), "Candidates that are reordered."),
    key("memory.v2.rerank.alpha", SHARE, Value::Float(0.3), "Weight of the cross-encoder's score."),
    key("memory.v2.rerank.model", Kind::Text, text("gte-reranker-modernbert-base"), "Cross-encoder model."),
    key("memory.v2.rerank.dtype", Kind::Text, text("q8"), "Precision of the cross-encoder."),
    key("memory.v2.router.enabled", Kind::Bool, Value::Bool(true), "Whether a model chooses the pages instead of activation."),
    key("memory.v2.router.max_page_ids", Kind::Int { min: 1, max: 100 }, Value::Int(25), "Pages the router may choose."),
    nullable("memory.v2.router.router_prompt_path", Kind::Text, Value::None, "File that replaces the router prompt."),
    nullable("memory.v2.router.batch_size", POSITIVE_COUNT, Value::None, "Pages in one call of the router; all with `none`."),
    nullable("memory.v2.router.tier1_size", POSITIVE_COUNT, Value::None, "Most recent pages that are always offered to the router."),
    nullable("memory.v2.router.tier2_size", POSITIVE_COUNT, Value::None, "Further pages that are offered to the router."),
    key("memory.v2.router.historical_pairs", COUNT, Value::Int(1), "Earlier exchanges shown to the router."),
    nullable("memory.v2.router.historical_pairs_max_chars", POSITIVE_COUNT, Value::None, "Length to which earlier exchanges are cut."),
    // Tier v3.
    key(V3_LIVE, Kind::Bool, Value::Bool(false), "Whether tier v3 serves."),
    key("memory.v3.needleK", COUNT, Value::Int(100), "Sections found by their words; 0 turns the lane off."),
    key("memory.v3.denseK", COUNT, Value::Int(100), "Sections found by meaning; 0 turns this lane and those that build on it off."),
    key("memory.v3.replyQueryK", COUNT, Value::Int(12), "Sections found with the assistant's last reply; 0 turns the pass off."),
    key("memory.v3.spanQueryK", COUNT, Value::Int(0), "Sections found with single sentences of the message; 0 turns the pass off."),
    key("memory.v3.selectorEnabled", Kind::Bool, Value::Bool(true), "Whether a model chooses from the pool."),
    nullable("memory.v3.selectorPromptPath", Kind::Text, Value::None, "File that replaces the selector prompt."),
    key("memory.v3.hotSet.k", COUNT, Value::Int(40), "Pages in the hot lane; 0 turns it off."),
    key("memory.v3.hotSet.halfLifeDays", Kind::Positive, Value::Float(14.0), "Days after which a use counts half in the hot lane."),
    key("memory.v3.freshSet.k", COUNT, Value::Int(100), "Pages in the fresh lane; 0 turns it off."),
    key("memory.v3.edge.hubDegree", COUNT, Value::Int(30), "Links from which a page is a hub that passes nothing on."),
    key("memory.v3.edge.seedCount", COUNT, Value::Int(18), "Best pages whose links are followed."),
    key("memory.v3.edge.perSeed", COUNT, Value::Int(6), "Links followed from each."),
    key("memory.v3.edge.cap", COUNT, Value::Int(45), "Pages that links add at most."),
    key("memory.v3.entity.enabled", Kind::Bool, Value::Bool(true), "Whether rare names in the message add their pages."),
    key("memory.v3.entity.idfFloor", NOT_NEGATIVE, Value::Float(4.0), "Rarity from which a word is a name."),
    key("memory.v3.entity.cap", COUNT, Value::Int(8), "Pages that names add at most."),
    key("memory.v3.learnedEdges.halfLifeDays", Kind::Positive, Value::Float(30.0), "Days after which pages chosen together count half."),
    key("memory.v3.learnedEdges.minCount", COUNT, Value::Int(3), "Joint choices from which two pages are linked."),
    key("memory.v3.learnedEdges.npmiFloor", Kind::Float { min: -1.0, max: 1.0 }, Value::Float(0.2), "Association from which two pages are linked."),
    key("memory.v3.learnedEdges.maxPerPage", COUNT, Value::Int(6), "Learned links of one page; 0 turns the lane off."),
    key("memory.v3.learnedEdges.perSeed", COUNT, Value::Int(3), "Learned links followed from each page."),
    key("memory.v3.learnedEdges.cap", COUNT, Value::Int(20), "Pages that learned links add at most; 0 turns the lane off."),
    key("memory.v3.prune.maxResidentBytes", POSITIVE_COUNT, Value::Int(393_216), "Injected bytes in context from which old sections are pruned."),
    key("memory.v3.prune.targetResidentBytes", POSITIVE_COUNT, Value::Int(262_144), "Injected bytes that pruning leaves; less than the maximum."),
    key("memory.v3.gate.enabled", Kind::Bool, Value::Bool(true), "Whether a turn without any strong hit injects nothing."),
    nullable("memory.v3.gate.denseThreshold", SHARE, Value::None, "Similarity that opens the gate; `none` takes the one calibrated for the embedding space."),
    key("memory.v3.gate.sparseThreshold", SHARE, Value::Float(0.35), "Normalised word score from which words count as a weak signal."),
    key("memory.v3.gate.sparseOnlyThreshold", SHARE, Value::Float(0.75), "Normalised word score that opens the gate alone."),
    nullable("memory.v3.gate.denseClusterThreshold", SHARE, Value::None, "Similarity at which three close hits open the gate; `none` takes the calibrated one."),
    nullable("memory.v3.gate.denseClusterMaxDelta", SHARE, Value::None, "How close those three are; `none` takes the calibrated one."),
    key("memory.v3.gate.topK", POSITIVE_COUNT, Value::Int(5), "Hits that the gate looks at."),
    nullable("memory.v3.gate.bm25NormK", Kind::Positive, Value::None, "Word score that normalises to one half; `none` takes the built-in one."),
    key("memory.v3.gate.bypassForCore", Kind::Bool, Value::Bool(true), "Whether core pages pass a closed gate."),
    key("memory.v3.poolLog.captureInput", Kind::Bool, Value::Bool(false), "Whether the audit of a turn keeps the selector's exact input."),
];

/// Returns the setting with this exact key.
pub fn find(key: &str) -> Option<&'static KeySpec> {
    KEYS.iter().find(|spec| spec.key == key)
}

/// Tells whether some key lies below this dotted path.
pub(crate) fn is_table(path: &str) -> bool {
    KEYS.iter().any(|spec| is_below(spec.key, path))
}

/// Tells whether `key` lies below the table `path`.
pub(crate) fn is_below(key: &str, path: &str) -> bool {
    key.strip_prefix(path)
        .is_some_and(|rest| rest.starts_with('.'))
}

/// Returns the reference of all settings as a markdown table.
pub fn reference() -> String {
    let mut out = String::from("| key | accepts | default | meaning |\n|---|---|---|---|\n");
    for spec in KEYS {
        let default = spec
            .default
            .as_ref()
            .map_or_else(|| "not set".to_owned(), |value| format!("`{value}`"));
        writeln!(
            out,
            "| `{}` | {} | {default} | {} |",
            spec.key,
            spec.accepts(),
            spec.doc
        )
        .expect("writing to a string does not fail");
    }
    out
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn keys_are_unique_and_no_key_is_also_a_table() {
        let keys: BTreeSet<_> = KEYS.iter().map(|spec| spec.key).collect();
        assert_eq!(keys.len(), KEYS.len());
        for spec in KEYS {
            assert!(!is_table(spec.key), "{}", spec.key);
        }
    }

    #[test]
    fn every_default_is_a_value_its_key_accepts() {
        for spec in KEYS {
            let Some(default) = &spec.default else {
                continue;
            };
            let checked = value::check(spec.kind, spec.nullable, default.clone());
            assert_eq!(checked.as_ref(), Ok(default), "{}", spec.key);
            assert_eq!(
                spec.parse(&default.to_string()).as_ref(),
                Ok(default),
                "{}",
                spec.key
            );
        }
    }

    #[test]
    fn every_key_has_a_line_of_documentation() {
        for spec in KEYS {
            assert!(
                spec.doc.ends_with('.') && !spec.doc.contains(['\n', '|']),
                "{}",
                spec.key
            );
        }
        assert_eq!(reference().lines().count(), KEYS.len() + 2);
    }

    #[test]
    fn switches_are_in_the_table() {
        let switches: Vec<_> = KEYS.iter().filter(|spec| spec.is_switch()).collect();
        assert_eq!(switches.len(), 3);
        assert!(
            switches
                .iter()
                .all(|spec| spec.kind == Kind::Bool && !spec.nullable)
        );
    }
}
