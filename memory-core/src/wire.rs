//! The frozen names: every string that other programs, stored data or prompts already rely on.
//!
//! They stand in one module so that renaming one is a visible act, and a test pins each value. Several still say `v2`
//! although the thing they name serves every tier; the name is kept because data and callers out there carry it. New
//! names that nobody depends on yet do not belong here.

/// Declares one group of names and a list of them for the test that pins the values.
macro_rules! names {
    ($(#[$group_doc:meta])* $group:ident { $($(#[$doc:meta])* $name:ident = $value:literal;)* }) => {
        $(#[$group_doc])*
        pub mod $group {
            $($(#[$doc])* pub const $name: &str = $value;)*

            /// All names of this group, in the order above.
            pub const ALL: &[&str] = &[$($name),*];
        }
    };
}

names! {
    /// Tags of the blocks a host puts into a prompt.
    tag {
        /// Retrieved memory.
        MEMORY = "memory";
        /// Paths of selected sections that are in context already.
        MEMORY_POINTER = "memory_pointer";
        /// Static context from the workspace's views.
        INFO = "info";
        /// The personal knowledge base of tier v1.
        KNOWLEDGE_BASE = "knowledge_base";
        /// The reminder of tier v1.
        SYSTEM_REMINDER = "system_reminder";
        /// A picture recalled by tier v1.
        MEMORY_IMAGE = "memory_image";
        /// Per-turn excerpts that older histories may still hold; recognised so that they can be stripped.
        MEMORY_SPOTLIGHT = "memory_spotlight";
    }
}

names! {
    /// Identifiers of blocks, on which host code switches.
    block {
        /// The static `<info>` block.
        STATIC_INFO = "memory-v2-static";
        /// The `<memory>` block of tier v3.
        V3_MEMORY = "memory-v3";
        /// The knowledge base of tier v1.
        PKB_CONTEXT = "pkb-context";
        /// The reminder of tier v1.
        PKB_REMINDER = "pkb-reminder";
    }
}

names! {
    /// Keys of message metadata under which attached blocks are kept.
    metadata {
        /// The dynamic block of tiers v1 and v2, unwrapped.
        INJECTED_BLOCK = "memoryInjectedBlock";
        /// The block of tier v3, unwrapped.
        V3_INJECTED_BLOCK = "memoryV3InjectedBlock";
        /// The static `<info>` block, unwrapped.
        STATIC_BLOCK = "memoryV2StaticBlock";
        /// The token with which tier v3 learns that its block was attached.
        V3_COMMIT = "memoryV3Commit";
        /// The knowledge base of tier v1, unwrapped.
        PKB_CONTEXT_BLOCK = "pkbContextBlock";
        /// The reminder of tier v1.
        PKB_REMINDER_BLOCK = "pkbSystemReminderBlock";
    }
}

names! {
    /// Tables of the state database whose names are kept.
    table {
        /// Nodes of the memory graph.
        GRAPH_NODES = "memory_graph_nodes";
        /// Edges of the memory graph.
        GRAPH_EDGES = "memory_graph_edges";
        /// Triggers of the memory graph.
        GRAPH_TRIGGERS = "memory_graph_triggers";
        /// Edits of graph nodes.
        GRAPH_NODE_EDITS = "memory_graph_node_edits";
        /// Named points that recurring work has reached.
        CHECKPOINTS = "memory_checkpoints";
        /// The job queue.
        JOBS = "memory_jobs";
        /// Calls of recall.
        RECALL_LOGS = "memory_recall_logs";
        /// Activation of tier v2 by conversation.
        ACTIVATION_STATE = "activation_state";
        /// Activation of tier v2 by turn.
        V2_ACTIVATION_LOGS = "memory_v2_activation_logs";
        /// Pages that tier v2 injected.
        V2_INJECTION_EVENTS = "memory_v2_injection_events";
        /// Selections of tier v3.
        V3_SELECTIONS = "memory_v3_selections";
        /// How far retrospectives have read each conversation.
        RETROSPECTIVE_STATE = "memory_retrospective_state";
    }
}

names! {
    /// Types of background jobs.
    job {
        /// Files the buffer into pages.
        CONSOLIDATE = "memory_v2_consolidate";
        /// Extracts what conversations left unsaid into the buffer.
        SWEEP = "memory_v2_sweep";
        /// Rebuilds all vectors.
        REEMBED = "memory_v2_reembed";
        /// Embeds one page.
        EMBED_CONCEPT_PAGE = "embed_concept_page";
        /// Moves a v1 assistant to concept pages.
        V2_MIGRATE = "memory_v2_migrate";
        /// Recomputes the activation of tier v2.
        V2_ACTIVATION_RECOMPUTE = "memory_v2_activation_recompute";
        /// Keeps the section index of tier v3 in step.
        V3_MAINTAIN = "memory_v3_maintain";
        /// Reviews one conversation for what was missed.
        RETROSPECTIVE = "memory_retrospective";
        /// Finds conversations that are due for a review.
        RETROSPECTIVE_SWEEP = "memory_retrospective_sweep";
        /// Shows a card about a skill that a review wrote.
        SKILL_CARD_INSERT = "skill_card_insert";
        /// Extracts graph nodes of tier v1.
        GRAPH_EXTRACT = "graph_extract";
        /// Lets graph nodes of tier v1 fade.
        GRAPH_DECAY = "graph_decay";
        /// Merges graph nodes of tier v1.
        GRAPH_CONSOLIDATE = "graph_consolidate";
        /// Looks for patterns in the graph of tier v1.
        GRAPH_PATTERN_SCAN = "graph_pattern_scan";
        /// Refines the narrative of tier v1.
        GRAPH_NARRATIVE_REFINE = "graph_narrative_refine";
        /// Fills the graph of tier v1 for the first time.
        GRAPH_BOOTSTRAP = "graph_bootstrap";
        /// Embeds one graph node.
        EMBED_GRAPH_NODE = "embed_graph_node";
        /// Embeds one graph trigger.
        GRAPH_TRIGGER_EMBED = "graph_trigger_embed";
        /// Embeds one file of the knowledge base.
        EMBED_PKB_FILE = "embed_pkb_file";
        /// Files notes into the knowledge base.
        PKB_FILING = "pkb_filing";
        /// Compacts the knowledge base.
        PKB_COMPACTION = "pkb_compaction";
        /// Rebuilds the index.
        REBUILD_INDEX = "rebuild_index";
    }
}

names! {
    /// Keys of checkpoints.
    checkpoint {
        /// Time of the last consolidation.
        CONSOLIDATE_LAST_RUN = "memory_v2_consolidate_last_run";
        /// Failures of consolidation in a row, and the wait they cause.
        CONSOLIDATE_FAILURE_STATE = "memory_v2_consolidate_failure_state";
        /// Time of the last upkeep of tier v3.
        V3_MAINTAIN_LAST_RUN = "memory_v3_maintain_last_run";
        /// Point up to which sections are embedded; its absence forces a complete pass.
        V3_SECTIONS_EMBEDDED_THROUGH = "memory_v3_maintain:sections_embedded_through_ms";
        /// Time of the last look for due reviews.
        RETROSPECTIVE_SWEEP_LAST_RUN = "retro_sweep:last_run";
    }
}

names! {
    /// Sources and origins of background conversations.
    source {
        /// A consolidation run.
        CONSOLIDATION = "memory_v2_consolidation";
        /// A review of a conversation.
        RETROSPECTIVE = "memory-retrospective";
        /// The fork on which a review works.
        RETROSPECTIVE_FORK = "memory-retrospective-fork";
        /// Origin of what a review saved.
        ORIGIN_RETROSPECTIVE = "memory_retrospective";
        /// Origin of what consolidation saved.
        ORIGIN_CONSOLIDATION = "memory_consolidation";
    }
}

names! {
    /// Call sites of model calls.
    call_site {
        /// Consolidation.
        CONSOLIDATION = "memoryV2Consolidation";
        /// Review of a conversation.
        RETROSPECTIVE = "memoryRetrospective";
        /// Extraction into the buffer.
        SWEEP = "memoryV2Sweep";
        /// The voice front door, which never waits for retrieval.
        VOICE_FRONT_DOOR = "voiceFrontDoor";
    }
}

names! {
    /// Kinds of messages that the host shows or hides specially.
    message_kind {
        /// The card about a skill that a review wrote.
        SKILL_AUTHORED_CARD = "skill-authored-card";
        /// The instruction that starts a review.
        RETROSPECTIVE_INSTRUCTION = "memory_retrospective_instruction";
    }
}

names! {
    /// Codes of errors on the wire.
    error_code {
        /// The route needs concept pages and the assistant has none.
        V2_DISABLED = "MEMORY_V2_DISABLED";
        /// The page is there and could not be read.
        PAGE_READ_FAILED = "MEMORY_V2_PAGE_READ_FAILED";
        /// There is no such page.
        PAGE_NOT_FOUND = "MEMORY_V2_PAGE_NOT_FOUND";
        /// The model's provider refuses for reasons of billing.
        PROVIDER_BILLING = "PROVIDER_BILLING";
    }
}

names! {
    /// Tools that a model may call.
    tool {
        /// Saves a fact.
        REMEMBER = "remember";
        /// Searches memory.
        RECALL = "recall";
        /// Deletes a page.
        DELETE_MEMORY_PAGE = "delete_memory_page";
        /// Hands over what a sweep found.
        EMIT_REMEMBER_ENTRIES = "emit_remember_entries";
    }
}

names! {
    /// Routes of the HTTP surface that keep their names.
    route {
        /// Saves a fact.
        REMEMBER = "/v1/memory/remember";
        /// Writes finished pages.
        INGEST = "/v1/memory/ingest";
        /// Returns the memory graph.
        GRAPH = "/v1/memory-graph";
        /// Returns counts and the tier.
        STATS = "/v1/memory/stats";
        /// Starts a consolidation.
        CONSOLIDATE_NOW = "/v1/consolidation/run-now";
    }
}

/// Positions of blocks in the prompt; smaller comes first.
pub mod order {
    /// The knowledge base of tier v1.
    pub const PKB_CONTEXT: i32 = 30;
    /// The reminder of tier v1.
    pub const PKB_REMINDER: i32 = 35;
    /// The static `<info>` block.
    pub const STATIC_INFO: i32 = 38;
    /// The `<memory>` block of tier v3.
    pub const V3_MEMORY: i32 = 1000;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A second copy of every value: changing a name has to be said twice.
    #[test]
    fn every_name_is_pinned() {
        let pinned: [(&[&str], &str); 11] = [
            (
                tag::ALL,
                "memory memory_pointer info knowledge_base system_reminder memory_image memory_spotlight",
            ),
            (
                block::ALL,
                "memory-v2-static memory-v3 pkb-context pkb-reminder",
            ),
            (
                metadata::ALL,
                "memoryInjectedBlock memoryV3InjectedBlock memoryV2StaticBlock memoryV3Commit pkbContextBlock \
                 pkbSystemReminderBlock",
            ),
            (
                table::ALL,
                "memory_graph_nodes memory_graph_edges memory_graph_triggers memory_graph_node_edits memory_checkpoints \
                 memory_jobs memory_recall_logs activation_state memory_v2_activation_logs memory_v2_injection_events \
                 memory_v3_selections memory_retrospective_state",
            ),
            (
                job::ALL,
                "memory_v2_consolidate memory_v2_sweep memory_v2_reembed embed_concept_page memory_v2_migrate \
                 memory_v2_activation_recompute memory_v3_maintain memory_retrospective memory_retrospective_sweep \
                 skill_card_insert graph_extract graph_decay graph_consolidate graph_pattern_scan graph_narrative_refine \
                 graph_bootstrap embed_graph_node graph_trigger_embed embed_pkb_file pkb_filing pkb_compaction rebuild_index",
            ),
            (
                checkpoint::ALL,
                "memory_v2_consolidate_last_run memory_v2_consolidate_failure_state memory_v3_maintain_last_run \
                 memory_v3_maintain:sections_embedded_through_ms retro_sweep:last_run",
            ),
            (
                source::ALL,
                "memory_v2_consolidation memory-retrospective memory-retrospective-fork memory_retrospective \
                 memory_consolidation",
            ),
            (
                call_site::ALL,
                "memoryV2Consolidation memoryRetrospective memoryV2Sweep voiceFrontDoor",
            ),
            (
                message_kind::ALL,
                "skill-authored-card memory_retrospective_instruction",
            ),
            (
                error_code::ALL,
                "MEMORY_V2_DISABLED MEMORY_V2_PAGE_READ_FAILED MEMORY_V2_PAGE_NOT_FOUND PROVIDER_BILLING",
            ),
            (
                tool::ALL,
                "remember recall delete_memory_page emit_remember_entries",
            ),
        ];
        for (names, expected) in pinned {
            assert_eq!(names.join(" "), expected);
        }
        assert_eq!(
            route::ALL.join(" "),
            "/v1/memory/remember /v1/memory/ingest /v1/memory-graph /v1/memory/stats /v1/consolidation/run-now"
        );
        assert_eq!(
            [
                order::PKB_CONTEXT,
                order::PKB_REMINDER,
                order::STATIC_INFO,
                order::V3_MEMORY
            ],
            [30, 35, 38, 1000]
        );
    }

    #[test]
    fn names_of_a_group_are_distinct() {
        for group in [
            tag::ALL,
            block::ALL,
            metadata::ALL,
            table::ALL,
            job::ALL,
            checkpoint::ALL,
            source::ALL,
        ] {
            let mut sorted = group.to_vec();
            sorted.sort_unstable();
            sorted.dedup();
            assert_eq!(sorted.len(), group.len());
        }
    }

    #[test]
    fn tiers_keep_their_bucket_names() {
        let names = crate::predicates::Tier::ALL.map(crate::predicates::Tier::as_str);
        assert_eq!(names, ["off", "v1", "v2", "v3"]);
    }
}
