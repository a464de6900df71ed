//! What a command has to say, and how it is printed.
//!
//! A command returns its result as data and as text, and only this module prints it: as text for people, or as the one
//! JSON object that scripts read. A reader that goes away is not a failure, so a closed pipe ends the program quietly.

use std::fmt::{self, Display};
use std::io::{self, IsTerminal as _, Write as _};

use serde_json::{Value, json};
use strata::{ErrorKind, StrataError, cause_chain};

/// How a program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Done,
    /// Failed.
    Failed,
    /// The command line is wrong.
    Usage,
    /// What was named does not exist.
    NotFound,
    /// A precondition does not hold.
    Conflict,
    /// Not permitted.
    NotPermitted,
    /// Busy or absent.
    Unavailable,
    /// The rest is listed in the output.
    Partly,
    /// Damage was found.
    Damage,
}

impl Exit {
    /// Returns the number a shell sees.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::NotFound => 3,
            Self::Conflict => 4,
            Self::NotPermitted => 5,
            Self::Unavailable => 6,
            Self::Partly => 7,
            Self::Damage => 8,
        }
    }
}

impl From<ErrorKind> for Exit {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Failed => Self::Failed,
            ErrorKind::Usage => Self::Usage,
            ErrorKind::NotFound => Self::NotFound,
            ErrorKind::Conflict => Self::Conflict,
            ErrorKind::NotPermitted => Self::NotPermitted,
            ErrorKind::Unavailable => Self::Unavailable,
            ErrorKind::Damaged => Self::Damage,
        }
    }
}

/// The result of a command.
#[derive(Debug)]
pub(crate) struct Report {
    /// What scripts read.
    pub(crate) data: Value,
    /// What people read; without a line end at its end.
    pub(crate) text: String,
    /// What is worth a line on standard error.
    pub(crate) warnings: Vec<String>,
    /// What is good to know, for people only.
    pub(crate) notes: Vec<String>,
    /// How the program ends.
    pub(crate) exit: Exit,
}

impl Report {
    /// Returns the report of a command that did what was asked.
    pub(crate) fn done(data: Value, text: impl Into<String>) -> Self {
        Self {
            data,
            text: text.into(),
            warnings: Vec::new(),
            notes: Vec::new(),
            exit: Exit::Done,
        }
    }

    /// Returns this report with more warnings.
    #[must_use]
    pub(crate) fn warn(mut self, warnings: impl IntoIterator<Item = String>) -> Self {
        self.warnings.extend(warnings);
        self
    }

    /// Returns this report with more notes.
    #[must_use]
    pub(crate) fn note(mut self, notes: impl IntoIterator<Item = String>) -> Self {
        self.notes.extend(notes);
        self
    }

    /// Returns this report with another end.
    #[must_use]
    pub(crate) const fn exit(mut self, exit: Exit) -> Self {
        self.exit = exit;
        self
    }
}

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The façade refused or failed.
    Strata(StrataError),
    /// The command itself cannot go on.
    Own {
        /// How the program ends.
        kind: ErrorKind,
        /// What happened and what to do.
        message: String,
    },
    /// Standard input or output failed; a closed pipe among them.
    Stream(io::Error),
}

impl Failure {
    /// Returns a failure of the command itself.
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self::Own {
            kind,
            message: message.into(),
        }
    }

    fn kind(&self) -> ErrorKind {
        match self {
            Self::Strata(error) => error.kind(),
            Self::Own { kind, .. } => *kind,
            Self::Stream(_) => ErrorKind::Failed,
        }
    }

    fn causes(&self) -> Vec<String> {
        match self {
            Self::Strata(error) => cause_chain(error),
            Self::Own { message, .. } => vec![message.clone()],
            Self::Stream(error) => cause_chain(error),
        }
    }
}

impl<E: Into<StrataError>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Strata(error.into())
    }
}

/// Returns what a person can do about a kind of failure.
fn next_step(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Failed => "`strata doctor` checks everything; `-v` logs more",
        ErrorKind::Usage => "`strata help` lists commands and options",
        ErrorKind::NotFound => {
            "`strata init` creates a workspace, `strata config show` lists the settings"
        }
        ErrorKind::Conflict => "nothing was changed",
        ErrorKind::NotPermitted => "check who owns the files below the home folder",
        ErrorKind::Unavailable => "try again later, or `strata doctor` to see what is missing",
        ErrorKind::Damaged => {
            "`strata doctor` names what is damaged; the index can be rebuilt with `strata reindex`"
        }
    }
}

/// Where output goes and how it looks.
#[derive(Debug)]
pub(crate) struct Console {
    /// Whether one JSON object is printed instead of text.
    pub(crate) json: bool,
    /// Style of text on standard output.
    pub(crate) style: Style,
    /// Style of text on standard error.
    error_style: Style,
    /// Whether progress may be drawn.
    pub(crate) progress: bool,
}

impl Console {
    /// Returns the console of this process.
    pub(crate) fn new(json: bool, variable: impl Fn(&str) -> Option<String>) -> Self {
        let style = |terminal: bool| Style {
            on: !json && wants_colour(terminal, &variable),
        };
        let error_terminal = io::stderr().is_terminal();
        Self {
            json,
            style: style(io::stdout().is_terminal()),
            error_style: style(error_terminal),
            progress: error_terminal && !json,
        }
    }

    /// Prints a result and returns how the program ends.
    pub(crate) fn finish(&self, command: &str, result: Result<Report, Failure>) -> Exit {
        let printed = match result {
            Ok(report) => self.print_report(command, &report).map(|()| report.exit),
            Err(Failure::Stream(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
                Ok(Exit::Done)
            }
            Err(failure) => self
                .print_failure(command, &failure)
                .map(|()| failure.kind().into()),
        };
        // Nobody reads any more: that is the reader's choice and no failure. There is no place to report others to.
        printed.unwrap_or_else(|error| {
            if error.kind() == io::ErrorKind::BrokenPipe {
                Exit::Done
            } else {
                Exit::Failed
            }
        })
    }

    fn print_report(&self, command: &str, report: &Report) -> io::Result<()> {
        if self.json {
            return print_json(&json!({
                "schema": format!("strata.{command}/1"),
                "ok": true,
                "data": report.data,
                "warnings": report.warnings,
            }));
        }
        self.print_remarks(report)?;
        if !report.text.is_empty() {
            let mut out = io::stdout().lock();
            writeln!(out, "{}", report.text)?;
            out.flush()?;
        }
        Ok(())
    }

    /// Prints what is not the result itself.
    fn print_remarks(&self, report: &Report) -> io::Result<()> {
        let mut out = io::stderr().lock();
        for warning in &report.warnings {
            writeln!(out, "{} {warning}", self.error_style.yellow("warning:"))?;
        }
        for note in &report.notes {
            writeln!(out, "{} {note}", self.error_style.dim("note:"))?;
        }
        Ok(())
    }

    fn print_failure(&self, command: &str, failure: &Failure) -> io::Result<()> {
        let (kind, causes) = (failure.kind(), failure.causes());
        let (message, causes) = causes
            .split_first()
            .map_or((String::new(), &[][..]), |(first, rest)| {
                (first.clone(), rest)
            });
        if self.json {
            return print_json(&json!({
                "schema": format!("strata.{command}/1"),
                "ok": false,
                "error": { "code": kind.name(), "message": message, "causes": causes, "next": next_step(kind) },
                "warnings": [],
            }));
        }
        let mut out = io::stderr().lock();
        writeln!(out, "{} {message}", self.error_style.red("error:"))?;
        for cause in causes {
            writeln!(out, "  because: {cause}")?;
        }
        writeln!(out, "  next: {}", next_step(kind))
    }
}

fn print_json(value: &Value) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, value).map_err(io::Error::from)?;
    writeln!(out)?;
    out.flush()
}

/// Tells whether text is coloured: never with `NO_COLOR`, always with `CLICOLOR_FORCE`, else on a terminal.
fn wants_colour(terminal: bool, variable: impl Fn(&str) -> Option<String>) -> bool {
    let set = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
    if set("NO_COLOR") {
        return false;
    }
    let forced = variable("CLICOLOR_FORCE").is_some_and(|value| !value.is_empty() && value != "0");
    forced || (terminal && variable("TERM").is_none_or(|term| term != "dumb"))
}

/// Colours text, or leaves it plain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    on: bool,
}

impl Style {
    /// Returns the style that leaves everything plain.
    #[cfg(test)]
    pub(crate) const fn plain() -> Self {
        Self { on: false }
    }

    fn paint(self, code: &str, text: impl Display) -> String {
        if self.on {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_string()
        }
    }

    pub(crate) fn bold(self, text: impl Display) -> String {
        self.paint("1", text)
    }

    pub(crate) fn dim(self, text: impl Display) -> String {
        self.paint("2", text)
    }

    pub(crate) fn red(self, text: impl Display) -> String {
        self.paint("1;31", text)
    }

    pub(crate) fn green(self, text: impl Display) -> String {
        self.paint("32", text)
    }

    pub(crate) fn yellow(self, text: impl Display) -> String {
        self.paint("33", text)
    }

    pub(crate) fn cyan(self, text: impl Display) -> String {
        self.paint("36", text)
    }
}

/// Lines of text that are put together piece by piece.
#[derive(Debug, Default)]
pub(crate) struct Lines(String);

impl Lines {
    /// Adds a line.
    pub(crate) fn push(&mut self, line: impl Display) {
        if !self.0.is_empty() {
            self.0.push('\n');
        }
        fmt::Write::write_fmt(&mut self.0, format_args!("{line}"))
            .expect("writing to a string does not fail");
    }

    /// Returns the text.
    pub(crate) fn finish(self) -> String {
        self.0
    }
}

/// Returns rows as columns that line up. The last column is not padded.
pub(crate) fn columns(rows: &[Vec<String>]) -> Vec<String> {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
    };
    let widths: Vec<usize> = (0..count)
        .map(|column| width(column).unwrap_or(0))
        .collect();
    rows.iter()
        .map(|row| {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                line.push_str(cell);
                if column + 1 < row.len() {
                    let gap = widths[column] - cell.chars().count() + 2;
                    line.extend(std::iter::repeat_n(' ', gap));
                }
            }
            line
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_follows_the_conventions() {
        let with = |pairs: &'static [(&'static str, &'static str)]| {
            move |name: &str| {
                pairs
                    .iter()
                    .find(|(key, _)| *key == name)
                    .map(|(_, value)| (*value).to_owned())
            }
        };
        assert!(wants_colour(true, with(&[])));
        assert!(!wants_colour(false, with(&[])));
        assert!(!wants_colour(true, with(&[("NO_COLOR", "1")])));
        assert!(wants_colour(true, with(&[("NO_COLOR", "")])));
        assert!(wants_colour(false, with(&[("CLICOLOR_FORCE", "1")])));
        assert!(!wants_colour(false, with(&[("CLICOLOR_FORCE", "0")])));
        assert!(!wants_colour(
            true,
            with(&[("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")])
        ));
        assert!(!wants_colour(true, with(&[("TERM", "dumb")])));
    }

    #[test]
    fn columns_line_up() {
        let rows = [
            vec!["a".to_owned(), "b".to_owned()],
            vec!["ccc".to_owned(), "dd".to_owned()],
        ];
        assert_eq!(columns(&rows), ["a    b", "ccc  dd"]);
    }

    #[test]
    fn plain_style_adds_nothing() {
        assert_eq!(Style::plain().red("x"), "x");
        assert_eq!(Style { on: true }.red("x"), "\x1b[1;31mx\x1b[0m");
    }
}
