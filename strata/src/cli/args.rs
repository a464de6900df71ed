//! The command line's grammar.
//!
//! The help texts here are the reference that users see first; `docs/cli.md` says the same at more length.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Long-term memory for AI assistants.
#[derive(Debug, Parser)]
#[command(
    name = "strata",
    version,
    propagate_version = true,
    max_term_width = 100
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of every command.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// Folder that holds the assistants [environment: `STRATA_HOME`]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) home: Option<PathBuf>,
    /// Whose memory [environment: `STRATA_ASSISTANT`; default: default]
    #[arg(long, global = true, value_name = "ID", value_parser = name)]
    pub(crate) assistant: Option<String>,
    /// Folder that holds the tier plugins [environment: `STRATA_PLUGIN_DIR`]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) plugins: Option<PathBuf>,
    /// Print one JSON object instead of text
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Log more to standard error; repeat for still more
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Which embedder to use
    #[arg(long, global = true, hide = true, value_enum, default_value_t = EmbedderArg::Auto)]
    pub(crate) embedder: EmbedderArg,
}

/// Which embedder to use; only tests choose another than the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EmbedderArg {
    /// The provisioned model, or none.
    Auto,
    /// No embedder.
    None,
    /// Vectors made from hashed words.
    Seeded,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create a workspace
    Init(InitArgs),
    /// Read Markdown from folders, files or standard input, and index it
    Ingest(IngestArgs),
    /// Add one entry to the buffer
    Remember(RememberArgs),
    /// Take one entry out of the buffer; the archive keeps it
    Forget(ForgetArgs),
    /// Print what would be injected for a message
    Context(ContextArgs),
    /// Show or change the tier
    #[command(subcommand)]
    Tier(TierCommand),
    /// List, check or trust tier plugins
    #[command(subcommand)]
    Plugins(PluginsCommand),
    /// Check workspace, database, index, model and plugins; repair with --fix only
    Doctor(DoctorArgs),
    /// List what there is to mend in the pages: dangling links, faults, pages that are too long
    Validate,
    /// Make the index again from the pages
    Reindex,
    /// Read every page anew, make everything derived again, and compare
    Rebuild,
    /// Copy the memory into a new folder, and check the copy
    Backup(BackupArgs),
    /// Make a memory from a backup
    Restore(RestoreArgs),
    /// File the oldest entries of the buffer into pages
    Consolidate(ConsolidateArgs),
    /// Do whatever is due, such as a consolidation, and end
    Work,
    /// List jobs, have one tried again, or cancel one
    #[command(subcommand)]
    Jobs(JobsCommand),
    /// Say how the memory stands: what there is, what waits, what was done last
    Status,
    /// List what consolidation did, show one run, or take one back
    #[command(subcommand)]
    Runs(RunsCommand),
    /// List what was done to files, or take an operation back
    Undo(UndoArgs),
    /// Make a page, an entry or a conversation unrecoverable, and search every file afterwards
    Erase(EraseArgs),
    /// Show or change settings
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Play the demonstration
    #[command(hide = true)]
    Demo(DemoArgs),
}

#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Time zone in which dates are shown and written [default: this computer's]
    #[arg(long, value_name = "ZONE")]
    pub(crate) time_zone: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct IngestArgs {
    /// Folders, files, or `-` for standard input
    #[arg(required_unless_present = "manifest", value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Take pages from a JSON list of objects with `slug` and `content`; `-` for standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["paths", "memory_folder", "name"])]
    pub(crate) manifest: Option<PathBuf>,
    /// Replace pages that are there with other content
    #[arg(long)]
    pub(crate) overwrite: bool,
    /// Say what would happen and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// The paths are laid out like a workspace's own `memory` folder
    #[arg(long)]
    pub(crate) memory_folder: bool,
    /// Name of the page that is read from standard input
    #[arg(long, value_name = "NAME", value_parser = name)]
    pub(crate) name: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct RememberArgs {
    /// What to remember, or `-` for standard input
    pub(crate) text: String,
    /// A name for this very request: the same again keeps nothing twice
    #[arg(long, value_name = "KEY", value_parser = name)]
    pub(crate) key: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ForgetArgs {
    /// What stands behind `^m-` at the end of the entry's first line
    #[arg(value_name = "ENTRY")]
    pub(crate) id: String,
}

#[derive(Debug, Args)]
pub(crate) struct ContextArgs {
    /// The user's message, or `-` for standard input
    #[arg(value_name = "MESSAGE")]
    pub(crate) message: String,
    /// Record that the sections have been seen
    #[arg(long)]
    pub(crate) attach: bool,
    /// Also print every candidate with its lanes, scores and outcome
    #[arg(long)]
    pub(crate) explain: bool,
    /// The conversation the message belongs to
    #[arg(long, value_name = "ID", default_value = "default", value_parser = name)]
    pub(crate) conversation: String,
    /// With what authority the message is said
    #[arg(long, value_enum, default_value_t = AuthorityArg::Owner)]
    pub(crate) authority: AuthorityArg,
}

/// With what authority a message is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AuthorityArg {
    /// The person the memory belongs to
    Owner,
    /// A person the owner paired with this assistant: gets only channels that the call names, and this command names none
    Paired,
    /// Nobody known: gets nothing
    None,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TierCommand {
    /// Print the configured tier and the one that serves
    Show,
    /// Change the settings to a tier
    Set {
        /// `off`, `v1`, `v2` or `v3`
        tier: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum PluginsCommand {
    /// Print every plugin found and whether it is trusted
    List,
    /// Check every plugin up to the point where its code would run
    Verify,
    /// Add a plugin's checksum, or a key that signs plugins, to the allow-list
    Trust {
        /// The library, its manifest, or the identifier of a plugin in the folder
        #[arg(required_unless_present = "key", conflicts_with = "key")]
        plugin: Option<PathBuf>,
        /// A public key instead of a plugin: 64 hexadecimal digits
        #[arg(long, value_name = "HEX", requires = "id")]
        key: Option<String>,
        /// What to call the key
        #[arg(long, value_name = "NAME", requires = "key")]
        id: Option<String>,
        /// Trust the key for this plugin only; may be given several times
        #[arg(long, value_name = "PLUGIN", requires = "key")]
        only: Vec<String>,
    },
    /// Make a key for signing plugins, in a new file that only you may read
    Keygen {
        /// The file
        file: PathBuf,
    },
    /// Sign a plugin's manifest
    Sign {
        /// The library, its manifest, or the identifier of a plugin in the folder
        plugin: PathBuf,
        /// The file that `keygen` made
        #[arg(long, value_name = "FILE")]
        key: PathBuf,
    },
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Also compare the checksums of the model's files
    #[arg(long)]
    pub(crate) deep: bool,
    /// Also ask the language model, which costs a few tokens
    #[arg(long)]
    pub(crate) llm: bool,
    /// Repair first what can be made again or finished; nothing that a person wrote is changed
    #[arg(long)]
    pub(crate) fix: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// The folder to make, which must not exist
    #[arg(value_name = "DIR")]
    pub(crate) to: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// The folder that `backup` made
    #[arg(value_name = "DIR")]
    pub(crate) from: PathBuf,
    /// Replace the memory that is there, and keep it under another name
    #[arg(long)]
    pub(crate) replace: bool,
}

#[derive(Debug, Args)]
pub(crate) struct EraseArgs {
    /// A page, with every version of it that is kept
    #[arg(long, value_name = "SLUG", value_parser = name, required_unless_present_any = ["entry", "conversation"],
          conflicts_with_all = ["entry", "conversation"])]
    pub(crate) page: Option<String>,
    /// An entry of the buffer and the archive: what `remember` printed, or what follows `^m-`
    #[arg(long, value_name = "ID", value_parser = name, conflicts_with = "conversation")]
    pub(crate) entry: Option<String>,
    /// A conversation
    #[arg(long, value_name = "ID", value_parser = name)]
    pub(crate) conversation: Option<String>,
    /// Really do it: it cannot be taken back
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ConsolidateArgs {
    /// Show what would be filed where, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum JobsCommand {
    /// List the newest jobs
    List,
    /// Have a job tried again that failed or was cancelled
    Retry {
        /// The job
        #[arg(value_name = "JOB", value_parser = name)]
        job: String,
    },
    /// Cancel a job that waits, and ask one at work to end
    Cancel {
        /// The job
        #[arg(value_name = "JOB", value_parser = name)]
        job: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum RunsCommand {
    /// List the newest runs
    List {
        /// How many to list
        #[arg(long, value_name = "N", default_value_t = 20)]
        limit: u32,
    },
    /// Show what a run did, with every change
    Show {
        /// The run
        #[arg(value_name = "RUN", value_parser = name)]
        run: String,
    },
    /// Take a run back: its entries stand in the buffer again
    Undo {
        /// The run
        #[arg(value_name = "RUN", value_parser = name)]
        run: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct UndoArgs {
    /// The operation to take back; without one the newest are listed
    #[arg(value_name = "OPERATION", value_parser = name)]
    pub(crate) operation: Option<String>,
    /// How many to list
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) limit: u32,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print every setting
    Show {
        /// Also print where each value comes from
        #[arg(long)]
        origin: bool,
    },
    /// Print one setting
    Get {
        /// The dotted key
        #[arg(value_parser = name)]
        key: String,
    },
    /// Change settings in `assistant.toml`, keeping comments and order
    Set {
        /// Keys, each followed by its value; several change together
        #[arg(required = true, num_args = 2.., value_names = ["KEY", "VALUE"], allow_negative_numbers = true)]
        pairs: Vec<String>,
    },
    /// Remove settings from `assistant.toml`, so that their defaults apply
    Unset {
        /// The dotted keys
        #[arg(required = true, value_name = "KEY")]
        keys: Vec<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// The checkout whose documentation and examples are used
    #[arg(long, value_name = "DIR")]
    pub(crate) repo: PathBuf,
    /// Print only the SHA-256 of everything that was injected
    #[arg(long)]
    pub(crate) digest: bool,
    /// Keep the workspace in this folder, which must be empty or absent
    #[arg(long, value_name = "DIR")]
    pub(crate) keep: Option<PathBuf>,
}

/// Reads a name, which may be anything but blank.
fn name(text: &str) -> Result<String, &'static str> {
    if text.trim().is_empty() {
        return Err("it must not be blank");
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_grammar_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn global_options_may_follow_the_command() {
        let cli =
            Cli::try_parse_from(["strata", "context", "hi", "--json", "--home", "/h"]).unwrap();
        assert!(cli.global.json && cli.global.home == Some("/h".into()));
    }

    #[test]
    fn what_names_something_must_not_be_blank() {
        for blank in [
            ["strata", "context", "hi", "--conversation", ""],
            ["strata", "context", "hi", "--assistant", " "],
            ["strata", "context", "hi", "--home", ""],
            ["strata", "context", "hi", "--plugins", ""],
            ["strata", "ingest", "-", "--name", ""],
        ] {
            assert!(Cli::try_parse_from(blank).is_err(), "{blank:?}");
        }
        assert!(Cli::try_parse_from(["strata", "ingest", ""]).is_err());
        assert!(Cli::try_parse_from(["strata", "ingest"]).is_err());
        assert!(Cli::try_parse_from(["strata", "ingest", "--manifest", "-"]).is_ok());
        assert!(Cli::try_parse_from(["strata", "ingest", "a", "--manifest", "-"]).is_err());
        assert!(Cli::try_parse_from(["strata", "config", "get", ""]).is_err());
    }

    #[test]
    fn one_thing_is_erased_at_a_time() {
        let parses = |rest: &[&str]| {
            let line: Vec<&str> = ["strata", "erase"]
                .into_iter()
                .chain(rest.iter().copied())
                .collect();
            Cli::try_parse_from(line).is_ok()
        };
        assert!(parses(&["--page", "a", "--yes"]) && parses(&["--entry", "a"]));
        assert!(!parses(&["--yes"]) && !parses(&["--page", "a", "--entry", "b"]));
    }

    #[test]
    fn settings_come_in_pairs() {
        let cli = Cli::try_parse_from(["strata", "config", "set", "a", "1", "b", "-2"]).unwrap();
        let Command::Config(ConfigCommand::Set { pairs }) = cli.command else {
            panic!("another command")
        };
        assert_eq!(pairs, ["a", "1", "b", "-2"]);
        assert!(Cli::try_parse_from(["strata", "config", "set", "a"]).is_err());
    }
}
