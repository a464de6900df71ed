//! The outcome of a run, for people and for programs.

use std::fmt;

use serde::Serialize;

use super::rig::Target;
use super::rule::Rule;

/// How one rule came out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Status {
    /// It holds.
    Passed {
        /// What was seen.
        note: String,
    },
    /// It is broken.
    Failed {
        /// What was seen.
        seen: String,
        /// What to do about it.
        advice: String,
    },
    /// It was not checked.
    NotRun {
        /// Why not.
        because: String,
    },
}

/// The outcome of one rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// The rule.
    pub rule: &'static str,
    /// What it asks for.
    pub means: &'static str,
    /// How it came out.
    #[serde(flatten)]
    pub status: Status,
}

/// The outcome of every rule for one library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The plugin.
    pub plugin: String,
    /// The tier it serves.
    pub tier: String,
    /// The hash of its library.
    pub sha256: String,
    /// The rules, in order.
    pub verdicts: Vec<Verdict>,
}

impl Report {
    pub(super) fn new(target: &Target) -> Self {
        Self {
            plugin: target.sidecar().id.clone(),
            tier: target.sidecar().tier.to_string(),
            sha256: target.sidecar().sha256.clone(),
            verdicts: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, rule: &Rule, status: Status) {
        self.verdicts.push(Verdict {
            rule: rule.name,
            means: rule.means,
            status,
        });
    }

    /// Returns whether every rule holds.
    pub fn conforms(&self) -> bool {
        let passed = |verdict: &Verdict| matches!(verdict.status, Status::Passed { .. });
        self.verdicts.iter().all(passed)
    }

    /// Returns the names of the rules that are broken.
    pub fn failed(&self) -> Vec<&'static str> {
        let failed = self
            .verdicts
            .iter()
            .filter(|verdict| matches!(verdict.status, Status::Failed { .. }));
        failed.map(|verdict| verdict.rule).collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.verdicts.iter().map(|verdict| verdict.rule.len()).max();
        let width = width.unwrap_or_default();
        writeln!(
            formatter,
            "{}, tier {}, sha256 {}\n",
            self.plugin, self.tier, self.sha256
        )?;
        for verdict in &self.verdicts {
            let (mark, line) = match &verdict.status {
                Status::Passed { note } => ("ok  ", note),
                Status::Failed { seen, .. } => ("FAIL", seen),
                Status::NotRun { because } => ("-   ", because),
            };
            writeln!(formatter, "{mark}  {:width$}  {line}", verdict.rule)?;
            if let Status::Failed { advice, .. } = &verdict.status {
                writeln!(
                    formatter,
                    "      {:width$}  asked for: {}",
                    "", verdict.means
                )?;
                writeln!(formatter, "      {:width$}  to do: {advice}", "")?;
            }
        }
        let count = |pick: fn(&Status) -> bool| {
            let picked = self.verdicts.iter().filter(|verdict| pick(&verdict.status));
            picked.count()
        };
        write!(
            formatter,
            "\n{} rules: {} hold, {} broken, {} not checked",
            self.verdicts.len(),
            count(|status| matches!(status, Status::Passed { .. })),
            count(|status| matches!(status, Status::Failed { .. })),
            count(|status| matches!(status, Status::NotRun { .. })),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_rule_says_what_was_seen_and_what_to_do() {
        let verdict = |status| Verdict {
            rule: "some-rule",
            means: "It holds.",
            status,
        };
        let report = Report {
            plugin: "tier-x".to_owned(),
            tier: "v3".to_owned(),
            sha256: "00".to_owned(),
            verdicts: vec![
                verdict(Status::Passed {
                    note: "3 turns".to_owned(),
                }),
                verdict(Status::Failed {
                    seen: "none".to_owned(),
                    advice: "begin".to_owned(),
                }),
            ],
        };
        assert_eq!(
            report.to_string(),
            "tier-x, tier v3, sha256 00\n\n\
             ok    some-rule  3 turns\n\
             FAIL  some-rule  none\n\
             \x20                asked for: It holds.\n\
             \x20                to do: begin\n\n\
             2 rules: 1 hold, 1 broken, 0 not checked"
        );
        assert!(!report.conforms());
        assert_eq!(report.failed(), ["some-rule"]);
        let json = serde_json::to_value(&report).expect("plain data");
        assert_eq!(json["verdicts"][1]["status"], "failed");
        assert_eq!(json["verdicts"][1]["advice"], "begin");
    }
}
