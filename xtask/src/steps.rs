//! A run of steps that shows what each came to and cost.
//!
//! A failing step does not stop the others, so that one run shows everything; only steps without which the rest cannot
//! work do, and that is the caller's to know.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::output::say;

/// How a step ended.
pub(crate) enum Outcome {
    Passed,
    Skipped(&'static str),
    Failed(anyhow::Error),
}

/// A step that has been run.
struct Done {
    name: String,
    outcome: Outcome,
    took: Duration,
}

/// The steps that have been run.
#[derive(Default)]
pub(crate) struct Steps(Vec<Done>);

impl Steps {
    /// Runs one step and returns whether it did not fail.
    pub(crate) fn run(
        &mut self,
        name: impl Into<String>,
        work: impl FnOnce() -> Result<Outcome>,
    ) -> bool {
        let name = name.into();
        say(format_args!("\n=== {name}"));
        let start = Instant::now();
        let outcome = work().unwrap_or_else(Outcome::Failed);
        let took = start.elapsed();
        say(format_args!(
            "=== {name}: {} after {}",
            describe(&outcome),
            seconds(took)
        ));
        let passed = !matches!(outcome, Outcome::Failed(_));
        self.0.push(Done {
            name,
            outcome,
            took,
        });
        passed
    }

    /// Runs a step that passes unless it fails.
    pub(crate) fn check(
        &mut self,
        name: impl Into<String>,
        work: impl FnOnce() -> Result<()>,
    ) -> bool {
        self.run(name, || work().map(|()| Outcome::Passed))
    }

    /// Prints the table of all steps, and fails if one did; `complete` says that none was left out for want of an earlier
    /// one.
    pub(crate) fn finish(&self, what: &str, complete: bool) -> Result<()> {
        say(format_args!("\n{}", self.table()));
        self.verdict(what, complete)
    }

    fn table(&self) -> String {
        let names = self.0.iter().map(|step| step.name.len());
        let width = names.max().unwrap_or_default().max(14);
        let line = |name: &str, took: Duration, result: &str| {
            format!("{name:<width$} {:>9}  {result}", seconds(took))
        };
        let mut lines = vec![format!("{:<width$} {:>9}  result", "step", "time")];
        lines.extend(
            self.0
                .iter()
                .map(|step| line(&step.name, step.took, &describe(&step.outcome))),
        );
        lines.push(line("total", self.0.iter().map(|step| step.took).sum(), ""));
        lines.join("\n")
    }

    fn verdict(&self, what: &str, complete: bool) -> Result<()> {
        let failed: Vec<&str> = self
            .0
            .iter()
            .filter(|step| matches!(step.outcome, Outcome::Failed(_)))
            .map(|step| step.name.as_str())
            .collect();
        match (failed.is_empty(), complete) {
            (true, true) => Ok(()),
            (_, false) => bail!(
                "{what} stopped early: {} failed and the other steps need it",
                failed.join(", ")
            ),
            (false, true) => bail!("{what} failed: {}", failed.join(", ")),
        }
    }
}

fn describe(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Passed => "passed".to_owned(),
        Outcome::Skipped(reason) => format!("skipped: {reason}"),
        Outcome::Failed(error) => format!("FAILED: {error:#}"),
    }
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use anyhow::anyhow;

    use super::{Done, Outcome, Steps};

    fn steps() -> Steps {
        let step = |name: &str, outcome, millis| Done {
            name: name.to_owned(),
            outcome,
            took: Duration::from_millis(millis),
        };
        Steps(vec![
            step("first", Outcome::Failed(anyhow!("broken")), 1500),
            step("second", Outcome::Skipped("no tool"), 0),
            step("third", Outcome::Passed, 250),
        ])
    }

    #[test]
    fn one_failure_fails_the_run() {
        let mut steps = steps();
        let error = steps.verdict("ci", true).expect_err("a step failed");
        assert_eq!(error.to_string(), "ci failed: first");
        steps.0.remove(0);
        assert!(steps.verdict("ci", true).is_ok());
        assert!(steps.verdict("ci", false).is_err());
    }

    #[test]
    fn table_shows_time_and_result() {
        let table = steps().table();
        let lines: Vec<&str> = table.lines().map(str::trim_end).collect();
        assert_eq!(
            lines,
            [
                "step                time  result",
                "first              1.5 s  FAILED: broken",
                "second             0.0 s  skipped: no tool",
                "third              0.2 s  passed",
                "total              1.8 s",
            ]
        );
    }
}
