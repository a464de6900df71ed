//! What people see of the demonstration.

use std::io::Write as _;
use std::time::Duration;

use strata::Injection;

use super::Played;
use super::script::ScriptTurn;
use crate::cli::Session;
use crate::cli::context::described;
use crate::cli::output::{Failure, Lines, columns};
use crate::cli::terminal::for_terminal;

/// Describes a turn.
pub(super) fn describe(
    session: &Session,
    number: usize,
    turn: &ScriptTurn,
    injection: &Injection,
    hits: &[(String, bool)],
) -> String {
    let style = session.console.style;
    let trace = &injection.trace;
    let embedding = trace.timings.embedding.map_or_else(String::new, |time| {
        format!(", {} of it embedding", millis(time))
    });
    let mut lines = Lines::default();
    lines.push("");
    lines.push(format!(
        "{} {}, {}{embedding}",
        style.bold(format!("turn {number}")),
        style.cyan(described(trace)),
        millis(trace.timings.total)
    ));
    lines.push(format!("  {} {}", style.dim("user:"), turn.user));
    for block in &injection.blocks {
        lines.push(format!(
            "  {} <{}> {} tokens",
            style.green("+"),
            block.tag,
            block.tokens
        ));
        let rows: Vec<Vec<String>> = block
            .shows
            .iter()
            .map(|shown| {
                vec![
                    shown.lane.clone(),
                    format!("{:.3}", shown.score),
                    shown.section.to_string(),
                ]
            })
            .collect();
        for row in columns(&rows) {
            lines.push(format!("      {row}"));
        }
    }
    if injection.blocks.is_empty() {
        lines.push(format!("  {}", style.dim("nothing is injected")));
    }
    if !trace.already_resident.is_empty() {
        lines.push(format!(
            "  {} {} chosen sections are in context already",
            style.dim("="),
            trace.already_resident.len()
        ));
    }
    for notice in &injection.notices {
        lines.push(format!("  {} {}", style.yellow("!"), notice.message));
    }
    if !hits.is_empty() {
        let marks: Vec<String> = hits
            .iter()
            .map(|(page, hit)| {
                if *hit {
                    style.green(format!("{page} yes"))
                } else {
                    style.yellow(format!("{page} no"))
                }
            })
            .collect();
        lines.push(format!(
            "  {} {}",
            style.dim("expected in context:"),
            marks.join(", ")
        ));
    }
    lines.finish()
}

/// Sums the conversation up.
pub(super) fn summary(session: &Session, played: &[Played], digest: &str) -> String {
    let style = session.console.style;
    let expected: usize = played.iter().map(|one| one.turn.expect.len()).sum();
    let sum = |part: fn(&Played) -> usize| played.iter().map(part).sum::<usize>();
    let changes = played
        .windows(2)
        .filter(|pair| pair[0].turn.tier != pair[1].turn.tier)
        .count();
    let mut times: Vec<Duration> = played.iter().map(|one| one.time).collect();
    times.sort_unstable();
    let middle = times.get(times.len() / 2).copied().unwrap_or_default();
    let slowest = times.last().copied().unwrap_or_default();
    let mut lines = Lines::default();
    lines.push("");
    lines.push(style.bold("summary"));
    lines.push(format!(
        "  {} turns, {changes} changes of tier, none of them lost a turn",
        played.len()
    ));
    lines.push(format!(
        "  {} sections injected, none twice; {} more were chosen and in context already",
        sum(|one| one.sections),
        sum(|one| one.resident)
    ));
    lines.push(format!(
        "  {} of {expected} expected pages in context",
        sum(|one| one.found)
    ));
    lines.push(format!(
        "  begin_turn: {} in the middle, {} at most",
        millis(middle),
        millis(slowest)
    ));
    lines.push(format!("  sha256 of all that was injected: {digest}"));
    let mut text = lines.finish();
    let faults: Vec<&str> = played
        .iter()
        .flat_map(|one| &one.faults)
        .map(String::as_str)
        .collect();
    if !faults.is_empty() {
        text = text
            .replace(", none of them lost a turn", "")
            .replace(", none twice", "");
    }
    text
}

/// Prints a piece at once, because the next one takes a while.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", for_terminal(text))
        .and_then(|()| out.flush())
        .map_err(Failure::Stream)
}

fn millis(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1_000.0)
}

pub(super) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
