//! A tier that does what a test tells it to, good or bad.
//!
//! Its configuration fixes how it comes up, and the text of a user message how one turn goes, so that a single library
//! serves every test of the loader, of deadlines and of containment.

#![forbid(unsafe_code)]

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use memory_core::predicates::Tier;
use memory_core::services::{
    Call, Capability, KvScope, LexicalQuery, LogKind, LogRow, Notice, Services, Severity,
};
use memory_core::text::section::SectionId;
use memory_core::tier::{
    Block, CommitToken, Explanation, MemoryTier, Placement, ShownSection, TierError, TierEvent,
    TierHealth, TierManifest, TierStats, TurnPlan, TurnRequest,
};
use serde::Deserialize;

memory_core::export_tier!(Probe);

/// How an instance comes up.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one independent fault a test asks for"
)]
struct Config {
    /// Shown in every block, to tell instances apart.
    label: String,
    /// `create` panics.
    panic_in_create: bool,
    /// `create` takes this long.
    create_ms: u64,
    /// `create` ends when this file is there.
    create_until: Option<PathBuf>,
    /// A turn that is told to block holds its thread until this file is there.
    block_until: Option<PathBuf>,
    /// `health` says that it cannot serve.
    unhealthy: bool,
    /// `health` never answers.
    health_hangs: bool,
    /// Dropping the instance panics.
    panic_in_drop: bool,
    /// `health` blocks its thread for this long.
    block_health_ms: u64,
    /// Dropping the instance blocks its thread for this long.
    block_drop_ms: u64,
    /// What each call does wrong: `<how>_in_<method>`, where `how` is `panic`, `panic_later`, `hang` or `spin`.
    fault: String,
}

impl Config {
    /// Reads a configuration. One as a real host writes it has no room for faults, so there the time zone names one, as
    /// in `Probe/hang_in_commit`.
    fn read(text: &str) -> Result<Self, serde_json::Error> {
        let json: serde_json::Value = serde_json::from_str(text)?;
        let Some(zone) = json["time_zone"].as_str() else {
            return serde_json::from_value(json);
        };
        let fault = zone.strip_prefix("Probe/").unwrap_or_default();
        Ok(Self {
            panic_in_create: fault == "panic_in_create",
            unhealthy: fault == "unhealthy",
            panic_in_drop: fault == "panic_in_drop",
            fault: fault.to_owned(),
            ..Self::default()
        })
    }
}

/// The tier.
struct Probe {
    services: Services,
    config: Config,
    turns: AtomicU64,
    committed: AtomicU64,
}

impl fmt::Debug for Probe {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Probe")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        block_thread(self.config.block_drop_ms);
        assert!(!self.config.panic_in_drop, "told to panic in drop");
    }
}

/// Holds the thread, as code does that knows nothing of waiting.
fn block_thread(milliseconds: u64) {
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(milliseconds) {
        std::hint::spin_loop();
    }
}

/// Holds the thread until a file is there, as code does that waits for a lock.
fn block_until(file: Option<&Path>) {
    while file.is_some_and(|file| !file.exists()) {
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// Logs without measure: many events, one that is very long, and spans that are never closed.
fn flood() {
    tracing::warn!(field = "f".repeat(100_000), "{}", "ä".repeat(1_000_000));
    for number in 0..5_000 {
        std::mem::forget(tracing::warn_span!("leak", number));
    }
    for number in 0..100_000 {
        tracing::warn!(number, "one of too many");
    }
}

/// Panics when it is dropped before it was finished.
struct DropBomb;

impl Drop for DropBomb {
    fn drop(&mut self) {
        panic!("told to panic when cancelled");
    }
}

/// Waits without the help of a timer: a plugin has none of its own.
async fn wait(call: &Call, time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        call.yield_now().await;
    }
}

/// Blocks its thread for longer than any deadline of a test, then lets go, so that the test can end.
fn spin() {
    block_thread(3_000);
}

fn block(text: String, token: Option<CommitToken>) -> Block {
    Block {
        id: "probe".to_owned(),
        tag: "memory".to_owned(),
        placement: Placement::Prepend,
        order: 0,
        priority: 0,
        mandatory: false,
        persistence_key: Some("memory".to_owned()),
        text,
        variants: vec!["short".to_owned()],
        minimum_tokens: 1,
        shows: Vec::new(),
        commit: token,
    }
}

fn show<T: fmt::Debug, E: fmt::Display>(name: &str, answer: Result<T, E>) -> String {
    match answer {
        Ok(value) => format!("{name}: {value:?}"),
        Err(error) => format!("{name}: error: {error}"),
    }
}

impl Probe {
    /// Does what the configuration says is wrong with a method.
    async fn misbehave(&self, method: &str, call: &Call) {
        let how = self.config.fault.strip_suffix(method);
        match how.and_then(|how| how.strip_suffix("_in_")) {
            Some("panic") => panic!("told to panic in {method}"),
            Some("panic_later") => {
                call.yield_now().await;
                panic!("told to panic in {method} after an await");
            }
            Some("hang") => std::future::pending().await,
            Some("spin") => spin(),
            _ => {}
        }
    }

    /// Asks every service that was handed out, and returns a line for each.
    async fn ask_everything(&self, call: &Call, request: &TurnRequest) -> Vec<String> {
        let mut lines = vec![format!("offered: {:?}", self.services.offered())];
        if let Some(clock) = &self.services.clock {
            lines.push(format!("clock: {}", clock.now().as_millis()));
        }
        if let Some(pages) = &self.services.pages {
            lines.push(show("pages.count", pages.count(call).await));
            let core = pages.core(call).await;
            lines.push(show(
                "pages.links",
                pages.links(call, core.clone().unwrap_or_default()).await,
            ));
            lines.push(show(
                "pages.read",
                pages.read(call, core.unwrap_or_default()).await,
            ));
            lines.push(show("pages.freshest", pages.freshest(call, 3).await));
            lines.push(show("pages.now_text", pages.now_text(call).await));
        }
        if let Some(dense) = &self.services.dense {
            lines.push(show("dense.space", dense.space(call).await));
            match dense.embed(call, vec![request.user_message.clone()]).await {
                Ok(vector) => lines.push(show("dense.search", dense.search(call, vector, 3).await)),
                Err(error) => lines.push(format!("dense.embed: error: {error}")),
            }
        }
        if let Some(lexical) = &self.services.lexical {
            let query = LexicalQuery {
                text: request.user_message.clone(),
                head_weight: 2.0,
                body_weight: 1.0,
                k1: 1.2,
                b: 0.75,
                limit: 3,
                best_per_page: true,
            };
            lines.push(show("lexical.search", lexical.search(call, query).await));
            lines.push(show(
                "lexical.idf",
                lexical.idf(call, request.user_message.clone()).await,
            ));
        }
        if let Some(residency) = &self.services.residency {
            lines.push(show("residency.active", residency.active(call).await));
        }
        if let Some(log) = &self.services.log {
            let row = LogRow {
                kind: LogKind::PoolAudit,
                slug: None,
                body: "{}".to_owned(),
            };
            lines.push(show("log.append", log.append(call, vec![row]).await));
            lines.push(show(
                "log.newest",
                log.newest(call, LogKind::PoolAudit, 1).await,
            ));
        }
        if let Some(kv) = &self.services.kv {
            let put = kv
                .put(
                    call,
                    KvScope::Assistant,
                    "seen".to_owned(),
                    Some("yes".to_owned()),
                )
                .await;
            lines.push(show("kv.put", put));
            lines.push(show(
                "kv.get",
                kv.get(call, KvScope::Assistant, "seen".to_owned()).await,
            ));
        }
        if let Some(messages) = &self.services.messages {
            lines.push(show("messages.recent", messages.recent(call, 2).await));
        }
        if let Some(notices) = &self.services.notices {
            let notice = Notice {
                code: "probe".to_owned(),
                severity: Severity::Info,
                message: "hello".to_owned(),
            };
            lines.push(show("notices.post", notices.post(call, notice).await));
        }
        lines
    }

    /// Asks the method that the next minor version of the border has, where the plugin is built for that.
    #[cfg(feature = "newer")]
    async fn ask_newer(&self, call: &Call) -> String {
        match &self.services.messages {
            Some(messages) => show("messages.total", messages.total(call).await),
            None => "messages: not offered".to_owned(),
        }
    }

    #[cfg(not(feature = "newer"))]
    async fn ask_newer(&self, _call: &Call) -> String {
        "messages.total: not in this border".to_owned()
    }
}

#[async_trait]
impl MemoryTier for Probe {
    #[cfg(feature = "newer")]
    async fn prepare(&self, call: &Call) -> Result<String, TierError> {
        Ok(format!("prepared {}", call.scope().conversation))
    }

    fn manifest() -> TierManifest {
        assert!(
            std::env::var_os("STRATA_PROBE_PANICS_IN_MANIFEST").is_none(),
            "told to panic in manifest"
        );
        let until = std::env::var_os("STRATA_PROBE_MANIFEST_UNTIL").map(PathBuf::from);
        block_until(until.as_deref());
        TierManifest {
            id: "probe".to_owned(),
            tier: Tier::V3,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            requires: vec![Capability::Clock],
            uses: vec![
                Capability::Pages,
                Capability::Sections,
                Capability::Dense,
                Capability::Lexical,
                Capability::Residency,
                Capability::Log,
                Capability::Kv,
                Capability::Messages,
                Capability::Notices,
            ],
        }
    }

    fn create(services: Services, config: &str) -> Result<Self, TierError> {
        let config = Config::read(config).map_err(|error| TierError::BadConfig {
            reason: error.to_string(),
        })?;
        assert!(!config.panic_in_create, "told to panic in create");
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(config.create_ms) {
            std::thread::yield_now();
        }
        block_until(config.create_until.as_deref());
        tracing::info!(label = %config.label, "probe created");
        Ok(Self {
            services,
            config,
            turns: AtomicU64::new(0),
            committed: AtomicU64::new(0),
        })
    }

    async fn begin_turn(&self, call: &Call, request: TurnRequest) -> Result<TurnPlan, TierError> {
        self.misbehave("begin_turn", call).await;
        let turn = self.turns.fetch_add(1, Ordering::Relaxed) + 1;
        let span = tracing::info_span!("turn", conversation = %call.scope().conversation);
        span.in_scope(|| tracing::debug!(turn, "asked"));
        let mut lines = vec![format!("label: {}", self.config.label)];
        match request.user_message.as_str() {
            // What follows the word is what is searched for.
            message if message.starts_with("echo") => {
                lines.extend(self.ask_everything(call, &request).await);
            }
            "newer" => lines.push(self.ask_newer(call).await),
            "panic" => panic!("told to panic in begin_turn"),
            "panic after await" => {
                call.yield_now().await;
                panic!("told to panic after an await");
            }
            "panic when cancelled" => {
                let _bomb = DropBomb;
                std::future::pending::<()>().await;
            }
            "never" => std::future::pending::<()>().await,
            "spin" => spin(),
            "block" => block_until(self.config.block_until.as_deref()),
            "yield for ever" => loop {
                call.yield_now().await;
            },
            "100 000 events" => flood(),
            "slow" => wait(call, Duration::from_millis(50)).await,
            "until cancelled" => {
                while !call.is_cancelled() {
                    call.yield_now().await;
                }
                return Err(TierError::Cancelled);
            }
            "fail" => {
                return Err(TierError::Internal {
                    reason: "told to fail".to_owned(),
                });
            }
            "wrong blocks" => {
                let mut wrong = block(String::new(), None);
                "</memory>".clone_into(&mut wrong.tag);
                wrong.minimum_tokens = u32::MAX;
                return Ok(TurnPlan {
                    blocks: vec![wrong.clone(), wrong],
                    ..TurnPlan::default()
                });
            }
            "same id twice" => {
                return Ok(TurnPlan {
                    blocks: vec![block("a".to_owned(), None), block("b".to_owned(), None)],
                    ..TurnPlan::default()
                });
            }
            "huge" => {
                let mut huge = block("x".repeat(10 << 20), None);
                huge.mandatory = true;
                return Ok(TurnPlan {
                    blocks: vec![huge],
                    ..TurnPlan::default()
                });
            }
            "no number" => {
                let mut wrong = block("text".to_owned(), None);
                wrong.shows = vec![ShownSection {
                    section: SectionId::parse_key("page#1.0#").expect("it is a key"),
                    lane: "probe".to_owned(),
                    score: f32::NAN,
                    bytes: 4,
                }];
                return Ok(TurnPlan {
                    blocks: vec![wrong],
                    ..TurnPlan::default()
                });
            }
            _ => {}
        }
        let token = CommitToken(format!("{}/{turn}", self.config.label));
        Ok(TurnPlan {
            blocks: vec![block(lines.join("\n"), Some(token))],
            pool_size: 1,
            ..TurnPlan::default()
        })
    }

    async fn commit(
        &self,
        call: &Call,
        token: CommitToken,
        _message: String,
    ) -> Result<(), TierError> {
        self.misbehave("commit", call).await;
        if token.0.split('/').next() != Some(&self.config.label) {
            return Err(TierError::Internal {
                reason: format!("`{}` is not a token of this instance", token.0),
            });
        }
        self.committed.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    async fn discard(&self, call: &Call, token: CommitToken) -> Result<(), TierError> {
        self.misbehave("discard", call).await;
        if token.0.split('/').next() == Some(&self.config.label) {
            Ok(())
        } else {
            Err(TierError::Internal {
                reason: format!("`{}` is not a token of this instance", token.0),
            })
        }
    }

    async fn on_event(&self, call: &Call, event: TierEvent) -> Result<(), TierError> {
        self.misbehave("on_event", call).await;
        tracing::debug!(?event, "told");
        // Kept where a test can read it even after the instance is gone.
        if let Some(kv) = &self.services.kv {
            let told = Some(format!("{event:?}"));
            kv.put(call, KvScope::Assistant, "told".to_owned(), told)
                .await?;
        }
        Ok(())
    }

    async fn explain(&self, call: &Call, request: TurnRequest) -> Result<Explanation, TierError> {
        self.misbehave("explain", call).await;
        Ok(Explanation {
            candidates: Vec::new(),
            notes: vec![request.user_message],
        })
    }

    async fn stats(&self, call: &Call) -> Result<TierStats, TierError> {
        self.misbehave("stats", call).await;
        Ok(TierStats {
            turns: self.turns.load(Ordering::Relaxed),
            committed_sections: self.committed.load(Ordering::Relaxed),
            degraded_turns: 0,
        })
    }

    async fn health(&self, call: &Call) -> Result<TierHealth, TierError> {
        self.misbehave("health", call).await;
        block_thread(self.config.block_health_ms);
        if self.config.health_hangs {
            std::future::pending::<()>().await;
        }
        Ok(TierHealth {
            ok: !self.config.unhealthy,
            detail: self.config.label.clone(),
        })
    }
}
