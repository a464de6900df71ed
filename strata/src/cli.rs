//! The command line: reads it, runs one command, prints the result.
//!
//! A command is a function from its arguments to a report. Opening Strata, printing and the exit code are the same for
//! all of them and stand here.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser as _;
use memory_substrate::embed::SeededEmbedder;
use strata::{Access, Assistant, EmbedderChoice, ErrorKind, SocketUse, Strata, StrataOptions};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use self::args::{Cli, Command, EmbedderArg, Global};
use self::output::{Console, Exit, Failure, Report};

mod args;
mod config;
mod consolidate;
mod context;
mod demo;
mod doctor;
mod notes;
mod output;
mod plugins;
mod progress;
mod repair;
mod terminal;
mod tier;
mod work;

/// What every command gets.
pub(crate) struct Session {
    pub(crate) global: Global,
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) console: Console,
}

/// Runs the program.
pub(crate) fn run() -> ExitCode {
    let environment: BTreeMap<String, String> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let variable = |name: &str| environment.get(name).cloned();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refuse(&error, &variable),
    };
    let console = Console::new(cli.global.json, variable);
    start_log(cli.global.verbose, &environment);
    let name = name(&cli.command);
    let session = Session {
        global: cli.global,
        environment,
        console,
    };
    let result = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(Failure::Stream)
        .and_then(|runtime| runtime.block_on(dispatch(&session, cli.command)));
    ExitCode::from(session.console.finish(name, result).code())
}

async fn dispatch(session: &Session, command: Command) -> Result<Report, Failure> {
    match command {
        Command::Init(args) => notes::init(session, args).await,
        Command::Ingest(args) => notes::ingest(session, args).await,
        Command::Remember(args) => notes::remember(session, args).await,
        Command::Forget(args) => notes::forget(session, args).await,
        Command::Context(args) => context::context(session, args).await,
        Command::Tier(command) => tier::run(session, command).await,
        Command::Plugins(command) => plugins::run(session, command).await,
        Command::Doctor(args) => doctor::run(session, args).await,
        Command::Validate => doctor::validate(session).await,
        Command::Reindex => notes::reindex(session).await,
        Command::Rebuild => repair::rebuild(session).await,
        Command::Backup(args) => repair::backup(session, args).await,
        Command::Restore(args) => repair::restore(session, args).await,
        Command::Undo(args) => repair::undo(session, args).await,
        Command::Consolidate(args) => consolidate::consolidate(session, args).await,
        Command::Work => work::work(session).await,
        Command::Jobs(command) => work::jobs(session, command).await,
        Command::Status => work::status(session).await,
        Command::Runs(command) => consolidate::runs(session, command).await,
        Command::Erase(args) => repair::erase(session, args).await,
        Command::Config(command) => config::run(session, command).await,
        Command::Demo(args) => demo::run(session, args).await,
    }
}

/// Returns the name of a command in machine-readable output.
fn name(command: &Command) -> &'static str {
    match command {
        Command::Init(_) => "init",
        Command::Ingest(_) => "ingest",
        Command::Remember(_) => "remember",
        Command::Forget(_) => "forget",
        Command::Context(_) => "context",
        Command::Tier(_) => "tier",
        Command::Plugins(_) => "plugins",
        Command::Doctor(_) => "doctor",
        Command::Validate => "validate",
        Command::Reindex => "reindex",
        Command::Rebuild => "rebuild",
        Command::Backup(_) => "backup",
        Command::Restore(_) => "restore",
        Command::Undo(_) => "undo",
        Command::Consolidate(_) => "consolidate",
        Command::Runs(_) => "runs",
        Command::Work => "work",
        Command::Jobs(_) => "jobs",
        Command::Status => "status",
        Command::Erase(_) => "erase",
        Command::Config(_) => "config",
        Command::Demo(_) => "demo",
    }
}

/// Answers a command line that is wrong, or a question for help.
fn refuse(error: &clap::Error, variable: &dyn Fn(&str) -> Option<String>) -> ExitCode {
    if error.use_stderr() && std::env::args_os().any(|argument| argument == "--json") {
        let text = error.to_string();
        let message = text.trim().trim_start_matches("error: ").to_owned();
        let console = Console::new(true, variable);
        return ExitCode::from(
            console
                .finish("usage", Err(Failure::new(ErrorKind::Usage, message)))
                .code(),
        );
    }
    // A reader that went away does not matter here either.
    drop(error.print());
    ExitCode::from(if error.use_stderr() {
        Exit::Usage.code()
    } else {
        Exit::Done.code()
    })
}

/// Sends the log to standard error: errors only, and more with each `-v`. `STRATA_LOG` takes a filter of its own.
fn start_log(verbose: u8, environment: &BTreeMap<String, String>) {
    let level = match verbose {
        0 => "error",
        1 => "info",
        2 => "debug",
        _ => "trace",
    };
    let ours = [
        "strata",
        "memory_core",
        "memory_substrate",
        "plugin_host",
        "tier",
    ];
    let default = ours.iter().fold("error".to_owned(), |filter, name| {
        format!("{filter},{name}={level}")
    });
    let directives = environment
        .get("STRATA_LOG")
        .filter(|value| !value.is_empty())
        .unwrap_or(&default);
    let filter: Targets = directives
        .parse()
        .or_else(|_| default.parse())
        .unwrap_or_default();
    let colour = environment.get("NO_COLOR").is_none_or(String::is_empty)
        && std::io::IsTerminal::is_terminal(&std::io::stderr());
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(colour)
        .compact();
    tracing_subscriber::registry()
        .with(lines)
        .with(filter)
        .init();
}

impl Session {
    /// Returns the options that the command line and the environment ask for.
    pub(crate) fn options(&self) -> Result<StrataOptions, Failure> {
        let (home, plugins) = (self.global.home.clone(), self.global.plugins.clone());
        let options = StrataOptions::from_environment(self.environment.clone(), home, plugins)?;
        Ok(StrataOptions {
            embedder: self.embedder(),
            // Most commands end at once: whoever waits for one has the lock sooner than a connection.
            socket: SocketUse::Ask,
            ..options
        })
    }

    /// Returns the embedder that the command line asks for.
    pub(crate) fn embedder(&self) -> EmbedderChoice {
        match self.global.embedder {
            EmbedderArg::Auto => EmbedderChoice::Auto,
            EmbedderArg::None => EmbedderChoice::None,
            EmbedderArg::Seeded => EmbedderChoice::Given(Arc::new(SeededEmbedder::default())),
        }
    }

    /// Opens Strata.
    pub(crate) fn strata(&self) -> Result<Strata, Failure> {
        Ok(Strata::open(self.options()?)?)
    }

    /// Opens the assistant that was named.
    pub(crate) async fn assistant(&self, access: Access) -> Result<Assistant, Failure> {
        Ok(self.strata()?.assistant(self.id(), access).await?)
    }

    /// Opens the assistant that was named, for writing that takes a while: meanwhile others can hand in theirs.
    pub(crate) async fn listening_assistant(&self) -> Result<Assistant, Failure> {
        let options = StrataOptions {
            socket: SocketUse::Listen,
            ..self.options()?
        };
        let strata = Strata::open(options)?;
        Ok(strata.assistant(self.id(), Access::ReadWrite).await?)
    }

    /// Returns whose memory this is about.
    pub(crate) fn id(&self) -> &str {
        let variable = self
            .environment
            .get("STRATA_ASSISTANT")
            .filter(|value| !value.is_empty());
        self.global
            .assistant
            .as_deref()
            .or(variable.map(String::as_str))
            .unwrap_or("default")
    }
}

/// Returns an argument, or standard input for `-`.
pub(crate) fn argument_or_input(argument: String) -> Result<String, Failure> {
    if argument != "-" {
        return Ok(argument);
    }
    let mut bytes = Vec::new();
    std::io::stdin()
        .lock()
        .read_to_end(&mut bytes)
        .map_err(Failure::Stream)?;
    String::from_utf8(bytes).map_err(|_| {
        Failure::new(
            ErrorKind::Usage,
            "standard input is not UTF-8 text: convert it first",
        )
    })
}
