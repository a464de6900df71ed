//! `demo`: one real path from documents to injected memory, through all tiers.
//!
//! It uses the same calls as any host, on a workspace in a temporary folder, with a clock and ids that repeat. The tier
//! is changed the way a person would change it, by writing the settings file while the assistant is open.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use memory_core::config::{self, Layers};
use memory_core::env::{CountingIds, ManualClock};
use memory_core::predicates::registry::BUILT;
use memory_substrate::pages::hash_bytes;
use serde_json::{Value, json};
use strata::{
    Access, Assistant, EmbedderChoice, IngestOptions, IngestSource, InitOptions, Injection,
    Severity, Strata, StrataError, StrataOptions, Tier, Timestamp, TurnEnd, TurnInput,
};

use super::Session;
use super::args::DemoArgs;
use super::output::{Exit, Failure, Report};
use super::progress::Progress;
use script::ScriptTurn;
use show::{describe, micros, print, summary};

mod script;
mod show;
mod stage;

/// When the conversation begins: 16 November 2026, 07:40 UTC.
const BEGIN: Timestamp = Timestamp::from_millis(1_794_814_800_000);

/// The time that every page which names none is dated from: 1 June 2026, noon UTC.
const DOCUMENTS: Timestamp = Timestamp::from_millis(1_780_315_200_000);

/// How much time passes between two turns.
const BETWEEN_TURNS_MS: i64 = 180_000;

const ASSISTANT: &str = "demo";
const CONVERSATION: &str = "demo";

/// What a turn came to.
struct Played {
    turn: ScriptTurn,
    text: String,
    data: Value,
    time: Duration,
    sections: usize,
    resident: usize,
    found: usize,
    /// Why the turn is not as it must be.
    faults: Vec<String>,
}

pub(crate) async fn run(session: &Session, args: DemoArgs) -> Result<Report, Failure> {
    let repo = std::path::absolute(&args.repo).map_err(Failure::Stream)?;
    let turns = script::read(&repo.join("examples/demo/conversation.toml"))?;
    let scratch = tempfile::tempdir().map_err(Failure::Stream)?;
    let home = args
        .keep
        .clone()
        .unwrap_or_else(|| scratch.path().join("home"));
    let clock = Arc::new(ManualClock::at(BEGIN));
    let strata = Strata::open(options(session, &repo, home, &clock)?)?;
    let quiet = args.digest || session.console.json;

    let root = strata
        .init(
            ASSISTANT,
            InitOptions {
                time_zone: Some("Europe/Berlin".to_owned()),
            },
        )
        .await?;
    let assistant = strata.assistant(ASSISTANT, Access::ReadWrite).await?;
    let ingested = ingest(session, &assistant, &repo, scratch.path()).await?;
    if !quiet {
        let title = "Strata: one conversation, and the tier changed between its turns";
        let seconds = ingested.time.as_secs_f64();
        print(&format!(
            "{}\n{}, {seconds:.1} s",
            session.console.style.bold(title),
            ingested.text
        ))?;
    }

    let mut in_context = BTreeSet::new();
    let (mut played, mut left_out) = (Vec::new(), Vec::new());
    for (number, turn) in (1..).zip(turns) {
        // The numbers are those of the script, whatever tiers this build has.
        if let Err(removed) = BUILT.require(turn.tier) {
            left_out.push(format!("turn {number} is left out: {removed}"));
            continue;
        }
        switch(&root, turn.tier).map_err(Failure::Strata)?;
        let one = play(session, &assistant, number, turn, &mut in_context).await?;
        if !quiet {
            print(&one.text)?;
        }
        played.push(one);
        clock.advance_millis(BETWEEN_TURNS_MS);
    }
    let digest = digest(&played);
    let faults: Vec<String> = played.iter().flat_map(|one| one.faults.clone()).collect();
    let exit = if faults.is_empty() {
        Exit::Done
    } else {
        Exit::Failed
    };
    let times: Vec<u64> = played.iter().map(|one| micros(one.time)).collect();
    let text = if args.digest {
        digest.clone()
    } else {
        summary(session, &played, &digest)
    };
    let data = json!({
        "ingested": ingested.text,
        "turns": played.iter().map(|one| &one.data).collect::<Vec<_>>(),
        "digest": digest,
        "faults": faults,
        "left_out": left_out,
        // Apart from everything else, so that the rest of two runs can be compared.
        "timings": { "ingest_us": micros(ingested.time), "begin_turn_us": times },
    });
    let warnings = faults.into_iter().chain(left_out);
    Ok(Report::done(data, text).warn(warnings).exit(exit))
}

/// Returns options that make two runs equal: own clock, counted ids, one time for all files, no settings from outside.
fn options(
    session: &Session,
    repo: &Path,
    home: PathBuf,
    clock: &Arc<ManualClock>,
) -> Result<StrataOptions, Failure> {
    let built = repo.join("target/plugins");
    let named = session.environment.contains_key("STRATA_PLUGIN_DIR");
    let plugins = session
        .global
        .plugins
        .clone()
        .or_else(|| (!named && built.is_dir()).then_some(built));
    // The user's own home says which plugins are trusted, and holds nothing else of this.
    let mut options = StrataOptions::from_environment(
        session.environment.clone(),
        session.global.home.clone(),
        plugins,
    )?;
    options
        .environment
        .retain(|name, _| !name.starts_with("STRATA_"));
    Ok(StrataOptions {
        home,
        clock: Arc::<ManualClock>::clone(clock),
        ids: Arc::new(CountingIds::new("demo")),
        fs: Arc::new(stage::TimelessFs { time: DOCUMENTS }),
        embedder: session.embedder(),
        // A first turn that waits for the model on a busy machine must not change what is injected.
        tier_deadline: Duration::from_mins(1),
        // Nobody else has a folder open that goes away with the demonstration.
        socket: strata::SocketUse::Off,
        ..options
    })
}

/// Ingests the documentation and the example corpus, and says what that came to.
async fn ingest(
    session: &Session,
    assistant: &Assistant,
    repo: &Path,
    scratch: &Path,
) -> Result<Ingested, Failure> {
    let staged = scratch.join("documentation");
    stage::documentation(repo, &staged).map_err(|source| StrataError::Io {
        action: "gather the documentation of",
        path: repo.to_owned(),
        source,
    })?;
    let (progress, started) = (Progress::new(session), Instant::now());
    let sources = [
        IngestSource::Folder(staged),
        IngestSource::MemoryFolder(repo.join("examples/corpus")),
    ];
    let (mut pages, mut files) = (0, 0);
    let mut failure = None;
    for source in sources {
        match assistant
            .ingest(source, IngestOptions::default(), &mut |at| {
                progress.engine(&at)
            })
            .await
        {
            Ok((report, _)) => {
                pages += report.pages.len();
                files += report.files.len();
            }
            Err(error) => {
                failure = Some(error);
                break;
            }
        }
    }
    progress.finish();
    if let Some(error) = failure {
        return Err(error.into());
    }
    let stats = assistant.store().await?.stats().await?;
    let how = match (&stats.space, session.embedder()) {
        (Some(space), _) => format!("vectors of {space}"),
        (None, EmbedderChoice::None) => "found by words only, as asked".to_owned(),
        (None, _) => {
            "FOUND BY WORDS ONLY: no model is there, `cargo xtask setup` fetches it".to_owned()
        }
    };
    Ok(Ingested {
        text: format!(
            "ingested {pages} pages and {files} other files: {} sections, {how}",
            stats.sections
        ),
        time: started.elapsed(),
    })
}

/// What ingesting came to.
struct Ingested {
    text: String,
    time: Duration,
}

/// Switches the tier as a person would: by writing the settings file.
fn switch(root: &Path, tier: Tier) -> Result<(), StrataError> {
    let path = root.join("assistant.toml");
    let failed = |action| {
        let path = path.clone();
        move |source| StrataError::Io {
            action,
            path,
            source,
        }
    };
    let text = std::fs::read_to_string(&path).map_err(failed("read"))?;
    let (text, _) = config::set_tier(&Layers::of_assistant(text), tier)?;
    std::fs::write(&path, text).map_err(failed("write"))
}

async fn play(
    session: &Session,
    assistant: &Assistant,
    number: usize,
    turn: ScriptTurn,
    in_context: &mut BTreeSet<String>,
) -> Result<Played, Failure> {
    let started = Instant::now();
    let injection = assistant
        .begin_turn(TurnInput::owner(CONVERSATION, turn.user.clone()))
        .await;
    let time = started.elapsed();
    let trace = &injection.trace;
    let faults = faults(number, &turn, &injection, in_context);
    in_context.extend(trace.sections.iter().map(|shown| shown.section.key()));
    let pages: BTreeSet<&str> = in_context
        .iter()
        .map(|key| key.split('#').next().unwrap_or(key))
        .collect();
    let hits: Vec<(String, bool)> = turn
        .expect
        .iter()
        .map(|page| (page.clone(), pages.contains(page.as_str())))
        .collect();
    let data = json!({
        "turn": number,
        "configured": trace.configured,
        "serving": trace.serving,
        "message": turn.user,
        "sections": trace.sections,
        "already_resident": trace.already_resident,
        "pool_size": trace.pool_size,
        "dropped": trace.dropped,
        "degraded": trace.degraded,
        "tokens": trace.used_tokens,
        "text": injection.text(),
        "expected": hits.iter().map(|(page, hit)| json!({ "page": page, "in_context": hit })).collect::<Vec<_>>(),
        "notices": injection.notices,
    });
    let text = describe(session, number, &turn, &injection, &hits);
    let (sections, resident) = (trace.sections.len(), trace.already_resident.len());
    let found = hits.iter().filter(|(_, hit)| *hit).count();
    assistant.attached(&injection).await?;
    let reply = turn.reply.clone();
    assistant
        .end_turn(&injection, TurnEnd::reply(reply))
        .await?;
    Ok(Played {
        turn,
        text,
        data,
        time,
        sections,
        resident,
        found,
        faults,
    })
}

/// Returns what must never be so.
fn faults(
    number: usize,
    turn: &ScriptTurn,
    injection: &Injection,
    in_context: &BTreeSet<String>,
) -> Vec<String> {
    let trace = &injection.trace;
    let mut faults = Vec::new();
    if trace.configured != turn.tier {
        faults.push(format!(
            "turn {number}: the settings say {} and {} is configured",
            turn.tier, trace.configured
        ));
    }
    let serving = trace
        .serving
        .as_ref()
        .map_or(Tier::Off, |serving| serving.tier);
    if serving != turn.tier {
        faults.push(format!(
            "turn {number}: tier {} is configured and {serving} serves",
            turn.tier
        ));
    }
    let errors = injection
        .notices
        .iter()
        .filter(|notice| notice.severity == Severity::Error);
    faults.extend(errors.map(|notice| format!("turn {number}: {}", notice.message)));
    if turn.tier == Tier::Off && !injection.blocks.is_empty() {
        faults.push(format!(
            "turn {number}: memory is off and something was injected"
        ));
    }
    for shown in trace
        .sections
        .iter()
        .filter(|shown| in_context.contains(&shown.section.key()))
    {
        faults.push(format!(
            "turn {number}: `{}` was in context already",
            shown.section
        ));
    }
    faults
}

/// Returns the fingerprint of everything that was injected, turn by turn.
fn digest(played: &[Played]) -> String {
    let mut all = Vec::new();
    for one in played {
        let text = one.data["text"].as_str().unwrap_or_default();
        all.extend(format!("{}\n{text}\n", text.len()).into_bytes());
    }
    hash_bytes(&all)
}
