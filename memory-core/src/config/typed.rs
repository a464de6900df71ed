//! The settings as typed structs, one for each part of the product that reads them.
//!
//! A part gets its own struct and nothing else, so what a change of a setting can affect is visible in a signature.
//! The structs are filled from the table of settings by name; field names follow the spelling of the keys.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::layers::Settings;
use super::schema::{self, KEYS};
use crate::predicates::registry::BUILT;
use crate::predicates::{Tier, TierSwitches};

/// Which plugin serves which tier; one that was removed has none unless somebody wrote it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginsConfig {
    /// Identifier of the plugin for tier v1.
    pub v1: Option<String>,
    /// Identifier of the plugin for tier v2.
    pub v2: Option<String>,
    /// Identifier of the plugin for tier v3.
    pub v3: Option<String>,
}

impl PluginsConfig {
    /// Returns the plugin for a tier; no plugin serves `off`, nor a tier that was removed, whatever the settings say.
    pub fn id(&self, tier: Tier) -> Option<&str> {
        BUILT.row(tier)?;
        match tier {
            Tier::Off => None,
            Tier::V1 => self.v1.as_deref(),
            Tier::V2 => self.v2.as_deref(),
            Tier::V3 => self.v3.as_deref(),
        }
    }
}

/// The language model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LlmConfig {
    /// Whose wire it speaks, `openai` or `anthropic`; there is no model without a value.
    pub provider: Option<String>,
    /// Its name with the provider.
    pub model: Option<String>,
    /// Where it is, if not with the provider itself.
    pub base_url: Option<String>,
    /// The environment variable that holds the key.
    pub key_variable: Option<String>,
    /// How long one answer may take, in seconds.
    pub timeout_seconds: u32,
    /// Calls at the same time.
    pub concurrency: u32,
}

/// The `memory` table.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryConfig {
    /// The embedding model.
    pub embeddings: EmbeddingsConfig,
    /// How text is cut for embedding.
    pub segmentation: SegmentationConfig,
    /// What may be injected.
    pub retrieval: RetrievalConfig,
    /// The substrate's tuning, overrides resolved.
    pub substrate: SubstrateTuning,
    /// Tier v2.
    pub v2: V2Config,
    /// Tier v3.
    pub v3: V3Config,
    switches: TierSwitches,
}

impl MemoryConfig {
    /// Returns the switches, for the predicates to interpret.
    pub const fn switches(&self) -> TierSwitches {
        self.switches
    }

    pub(crate) fn resolve(settings: &Settings) -> Self {
        Self {
            embeddings: table(settings, "memory.embeddings"),
            segmentation: table(settings, "memory.segmentation"),
            retrieval: table(settings, "memory.retrieval"),
            substrate: super::tuning::resolve_substrate_tuning(settings),
            v2: table(settings, "memory.v2"),
            v3: table(settings, "memory.v3"),
            switches: settings.switches(),
        }
    }
}

/// The embedding model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmbeddingsConfig {
    /// Whether a missing model is a fault rather than a choice.
    pub required: bool,
    /// Name of the model.
    pub model: String,
}

/// How text is cut for embedding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SegmentationConfig {
    /// Length of a chunk.
    pub target_tokens: u32,
    /// Overlap of neighbouring chunks, below the length.
    pub overlap_tokens: u32,
}

/// What may be injected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RetrievalConfig {
    /// Budget of everything injected into one turn.
    pub max_inject_tokens: u32,
}

/// The substrate's fifteen tunables with overrides resolved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SubstrateTuning {
    /// Whether a model looks for unsaved facts in the background.
    pub sweep_enabled: bool,
    /// Weight of meaning in similarity.
    pub dense_weight: f64,
    /// Weight of words in similarity.
    pub sparse_weight: f64,
    /// Spread of word scores from which words count.
    pub min_sparse_spread: f64,
    /// Spread of word scores from which words count fully.
    pub full_sparse_spread: f64,
    /// Saturation of repeated words.
    pub bm25_k1: f64,
    /// How much long texts are held back.
    pub bm25_b: f64,
    /// Hours between consolidations.
    pub consolidation_interval_hours: u32,
    /// Buffer size that starts a consolidation early; never without a value.
    pub consolidation_max_buffer_lines: Option<u32>,
    /// Entries that one consolidation takes; all without a value.
    pub consolidation_max_entries_per_run: Option<u32>,
    /// Length from which a page is reported as too long.
    pub max_page_chars: u32,
    /// File that replaces the consolidation prompt.
    pub consolidation_prompt_path: Option<String>,
    /// Part of its activation that a page passes on over a link.
    pub spread_k: f64,
    /// Links that activation travels.
    pub spread_hops: u32,
    /// Candidates taken from the vector index; all without a value.
    pub ann_candidate_limit: Option<u32>,
}

/// Tier v2's own settings; the rest of its table reaches it as [`SubstrateTuning`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct V2Config {
    /// Weight of the previous activation.
    pub d: f64,
    /// Weight of the user's message.
    pub c_user: f64,
    /// Weight of the assistant's last reply.
    pub c_assistant: f64,
    /// Weight of the present moment.
    pub c_now: f64,
    /// Part of its activation that a page passes on over a link.
    pub k: f64,
    /// Links that activation travels.
    pub hops: u32,
    /// Pages shown at most.
    pub top_k: u32,
    /// Candidates taken from the vector index; all without a value.
    pub ann_candidate_limit: Option<u32>,
    /// Activation below which a page is forgotten.
    pub epsilon: f64,
    /// The cross-encoder.
    pub rerank: RerankConfig,
    /// The router.
    pub router: RouterConfig,
}

/// Tier v2's cross-encoder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RerankConfig {
    /// Whether it runs.
    pub enabled: bool,
    /// Candidates that are reordered.
    pub top_k: u32,
    /// Weight of its score.
    pub alpha: f64,
    /// Name of the model.
    pub model: String,
    /// Precision of the model.
    pub dtype: String,
}

/// Tier v2's router.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouterConfig {
    /// Whether a model chooses the pages instead of activation.
    pub enabled: bool,
    /// Pages it may choose.
    pub max_page_ids: u32,
    /// File that replaces its prompt.
    pub router_prompt_path: Option<String>,
    /// Pages in one call; all without a value.
    pub batch_size: Option<u32>,
    /// Most recent pages that are always offered.
    pub tier1_size: Option<u32>,
    /// Further pages that are offered.
    pub tier2_size: Option<u32>,
    /// Earlier exchanges shown.
    pub historical_pairs: u32,
    /// Length to which earlier exchanges are cut.
    pub historical_pairs_max_chars: Option<u32>,
}

/// Tier v3's settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct V3Config {
    /// Sections found by their words.
    pub needle_k: u32,
    /// Sections found by meaning.
    pub dense_k: u32,
    /// Sections found with the assistant's last reply.
    pub reply_query_k: u32,
    /// Sections found with single sentences of the message.
    pub span_query_k: u32,
    /// Whether a model chooses from the pool.
    pub selector_enabled: bool,
    /// File that replaces the selector prompt.
    pub selector_prompt_path: Option<String>,
    /// The hot lane.
    pub hot_set: HotSetConfig,
    /// The fresh lane.
    pub fresh_set: FreshSetConfig,
    /// Links that authors wrote.
    pub edge: EdgeConfig,
    /// Rare names in the message.
    pub entity: EntityConfig,
    /// Links learned from joint choices.
    pub learned_edges: LearnedEdgesConfig,
    /// The valve that prunes old sections from the context.
    pub prune: PruneConfig,
    /// The gate that keeps quiet turns quiet.
    pub gate: GateConfig,
    /// The audit of each turn's pool.
    pub pool_log: PoolLogConfig,
}

/// Tier v3's hot lane.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HotSetConfig {
    /// Pages in the lane.
    pub k: u32,
    /// Days after which a use counts half.
    pub half_life_days: f64,
}

/// Tier v3's fresh lane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FreshSetConfig {
    /// Pages in the lane.
    pub k: u32,
}

/// How tier v3 follows the links that authors wrote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EdgeConfig {
    /// Links from which a page is a hub.
    pub hub_degree: u32,
    /// Best pages whose links are followed.
    pub seed_count: u32,
    /// Links followed from each.
    pub per_seed: u32,
    /// Pages added at most.
    pub cap: u32,
}

/// How tier v3 uses rare names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EntityConfig {
    /// Whether it does.
    pub enabled: bool,
    /// Rarity from which a word is a name.
    pub idf_floor: f64,
    /// Pages added at most.
    pub cap: u32,
}

/// How tier v3 learns links.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LearnedEdgesConfig {
    /// Days after which a joint choice counts half.
    pub half_life_days: f64,
    /// Joint choices from which two pages are linked.
    pub min_count: u32,
    /// Association from which two pages are linked.
    pub npmi_floor: f64,
    /// Links of one page.
    pub max_per_page: u32,
    /// Links followed from each page.
    pub per_seed: u32,
    /// Pages added at most.
    pub cap: u32,
}

/// Tier v3's prune valve.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PruneConfig {
    /// Injected bytes from which it opens.
    pub max_resident_bytes: u32,
    /// Injected bytes that it leaves, below the maximum.
    pub target_resident_bytes: u32,
}

/// Tier v3's gate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GateConfig {
    /// Whether it can close.
    pub enabled: bool,
    /// Similarity that opens it; without a value the one calibrated for the embedding space.
    pub dense_threshold: Option<f64>,
    /// Normalised word score that is a weak signal.
    pub sparse_threshold: f64,
    /// Normalised word score that opens it alone.
    pub sparse_only_threshold: f64,
    /// Similarity at which three close hits open it; without a value the calibrated one.
    pub dense_cluster_threshold: Option<f64>,
    /// How close those three are; without a value the calibrated one.
    pub dense_cluster_max_delta: Option<f64>,
    /// Hits looked at.
    pub top_k: u32,
    /// Word score that normalises to one half; without a value the built-in one.
    pub bm25_norm_k: Option<f64>,
    /// Whether core pages pass it closed.
    pub bypass_for_core: bool,
}

/// Tier v3's audit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolLogConfig {
    /// Whether the selector's exact input is kept.
    pub capture_input: bool,
}

/// Everything that a tier is told when it is created.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TierConfig {
    /// The tier these settings are for.
    pub tier: Tier,
    /// Time zone in which dates are shown.
    pub time_zone: String,
    /// What may be injected.
    pub retrieval: RetrievalConfig,
    /// The substrate's tuning, for tiers that read concept pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub substrate: Option<SubstrateTuning>,
    /// Tier v2's settings, for it alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub v2: Option<V2Config>,
    /// Tier v3's settings, for it alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub v3: Option<V3Config>,
}

/// Fills a struct from the table of settings below a path.
pub(crate) fn table<T: DeserializeOwned>(settings: &Settings, path: &str) -> T {
    let mut root = serde_json::Map::new();
    for spec in KEYS {
        if !schema::is_below(spec.key, path) || spec.is_switch() {
            continue;
        }
        if let Some(value) = settings.value(spec.key) {
            insert(&mut root, &spec.key[path.len() + 1..], value.to_json());
        }
    }
    from_json(serde_json::Value::Object(root))
}

/// Fills a struct from values that the table of settings has checked.
pub(crate) fn from_json<T: DeserializeOwned>(value: serde_json::Value) -> T {
    serde_json::from_value(value)
        .expect("the table of settings admits only what the typed structs hold")
}

/// Returns settings as JSON.
pub(crate) fn to_json<T: Serialize>(value: &T) -> serde_json::Value {
    serde_json::to_value(value).expect("settings are plain data with text keys")
}

fn insert(
    object: &mut serde_json::Map<String, serde_json::Value>,
    path: &str,
    value: serde_json::Value,
) {
    match path.split_once('.') {
        None => {
            object.insert(path.to_owned(), value);
        }
        Some((first, rest)) => {
            let inner = object
                .entry(first)
                .or_insert_with(|| serde_json::Value::Object(serde_json::Map::new()));
            if let serde_json::Value::Object(inner) = inner {
                insert(inner, rest, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::config::tuning::TWINS;

    fn leaves(prefix: &str, value: &serde_json::Value, into: &mut BTreeSet<String>) {
        match value {
            serde_json::Value::Object(object) => {
                for (name, value) in object {
                    leaves(&format!("{prefix}.{name}"), value, into);
                }
            }
            _ => {
                into.insert(prefix.to_owned());
            }
        }
    }

    fn keys_below(path: &str, skip: impl Fn(&str) -> bool) -> BTreeSet<String> {
        KEYS.iter()
            .filter(|spec| schema::is_below(spec.key, path) && !spec.is_switch() && !skip(spec.key))
            .map(|spec| spec.key.to_owned())
            .collect()
    }

    fn check_struct<T: Serialize>(path: &str, value: &T, skip: impl Fn(&str) -> bool) {
        let mut found = BTreeSet::new();
        leaves(path, &to_json(value), &mut found);
        assert_eq!(found, keys_below(path, skip));
    }

    #[test]
    fn every_key_has_a_field_and_every_field_a_key() {
        let settings = Settings::default();
        let memory = MemoryConfig::resolve(&settings);
        check_struct(
            "plugins",
            &table::<PluginsConfig>(&settings, "plugins"),
            |_| false,
        );
        check_struct("memory.embeddings", &memory.embeddings, |_| false);
        check_struct("memory.segmentation", &memory.segmentation, |_| false);
        check_struct("memory.retrieval", &memory.retrieval, |_| false);
        check_struct("memory.substrate", &memory.substrate, |_| false);
        check_struct("memory.v3", &memory.v3, |_| false);
        check_struct("memory.v2", &memory.v2, |key| {
            TWINS
                .iter()
                .any(|twin| twin.fallback == key && !twin.read_by_v2)
        });
    }
}
