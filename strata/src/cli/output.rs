//! What a command has to say, and how it is printed.
//!
//! A command returns its result as data and as text, and only this module prints it: as text for people, or as the one
//! JSON object that scripts read. A reader that goes away is not a failure, so a closed pipe ends the program quietly.

use std::fmt::{self, Display};
use std::io::{self, IsTerminal as _, Write as _};

use serde_json::{Value, json};
use strata::{ErrorKind, StrataError, cause_chain};

use super::terminal::{escaped, for_terminal, wants_colour};

pub(crate) use super::terminal::Style;

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
    /// Whether the result was printed already, because something had to come after it.
    printed: bool,
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
            printed: false,
        }
    }

    /// Returns the report of a command whose result was printed already.
    pub(crate) fn printed() -> Self {
        Self {
            printed: true,
            ..Self::done(Value::Null, "")
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

    /// Returns what a person can do.
    fn next_step(&self) -> &str {
        match self {
            Self::Strata(error) => error.advice(),
            Self::Own {
                kind: ErrorKind::NotFound,
                ..
            } => Some("check how it is written"),
            Self::Own { .. } => None,
            Self::Stream(_) => Some("check where the output goes and whether there is room"),
        }
        .unwrap_or_else(|| next_step(self.kind()))
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
        ErrorKind::NotFound => "check how it is written; `-v` logs more",
        ErrorKind::Conflict => "nothing was changed",
        ErrorKind::NotPermitted => "check who owns the files below the home folder",
        ErrorKind::Unavailable => "try again later, or `strata doctor` to see what is missing",
        ErrorKind::Damaged => "`strata doctor` names what is damaged and what helps",
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
        let style = |terminal: bool| Style::new(!json && wants_colour(terminal, &variable));
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

    /// Prints a result at once, for a command that has something to do once it can be read.
    pub(crate) fn print_now(&self, command: &str, report: &Report) -> Result<(), Failure> {
        self.print_report(command, report).map_err(Failure::Stream)
    }

    fn print_report(&self, command: &str, report: &Report) -> io::Result<()> {
        if report.printed {
            return self.print_remarks(report);
        }
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
            writeln!(out, "{}", for_terminal(&report.text))?;
            out.flush()?;
        }
        Ok(())
    }

    /// Prints what is not the result itself.
    fn print_remarks(&self, report: &Report) -> io::Result<()> {
        let mut out = io::stderr().lock();
        for warning in &report.warnings {
            let label = for_terminal(&self.error_style.yellow("warning:"));
            writeln!(out, "{label} {}", escaped(warning))?;
        }
        for note in &report.notes {
            let label = for_terminal(&self.error_style.dim("note:"));
            writeln!(out, "{label} {}", escaped(note))?;
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
                "error": { "code": kind.name(), "message": message, "causes": causes, "next": failure.next_step() },
                "warnings": [],
            }));
        }
        let mut out = io::stderr().lock();
        let label = for_terminal(&self.error_style.red("error:"));
        writeln!(out, "{label} {}", escaped(&message))?;
        for cause in causes {
            writeln!(out, "  because: {}", escaped(cause))?;
        }
        writeln!(out, "  next: {}", failure.next_step())
    }
}

fn print_json(value: &Value) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, value).map_err(io::Error::from)?;
    writeln!(out)?;
    out.flush()
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
    // Escaped here already, because that makes a cell longer.
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| row.iter().map(|cell| escaped(cell).into_owned()).collect())
        .collect();
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
    fn columns_line_up() {
        let rows = [
            vec!["a".to_owned(), "b".to_owned()],
            vec!["ccc".to_owned(), "dd".to_owned()],
        ];
        assert_eq!(columns(&rows), ["a    b", "ccc  dd"]);
    }
}
