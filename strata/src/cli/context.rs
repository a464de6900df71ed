//! `context`: what would be injected for a message.

use serde_json::json;
use strata::{
    Access, Assistant, Authority, Explanation, Injection, Notice, Severity, StrataError, TurnEnd,
    TurnInput, TurnTrace, cause_chain,
};

use super::args::{AuthorityArg, ContextArgs};
use super::output::{Exit, Failure, Lines, Report, Style, columns};
use super::{Session, argument_or_input};

/// Prints the blocks for a message exactly as a host would put them into a prompt.
pub(crate) async fn context(session: &Session, args: ContextArgs) -> Result<Report, Failure> {
    let message = argument_or_input(args.message)?;
    let access = if args.attach {
        Access::ReadWrite
    } else {
        Access::ReadOnly
    };
    let assistant = session.assistant(access).await?;
    let authority = match args.authority {
        AuthorityArg::Owner => Authority::Owner,
        AuthorityArg::Paired => Authority::Paired,
        AuthorityArg::None => Authority::None,
    };
    let input = TurnInput::new(args.conversation, message, authority);
    // Explained first: attaching changes what is in context.
    let mut failed = Vec::new();
    let explanation = if args.explain {
        let explained = assistant.explain(input.clone()).await;
        explained
            .map_err(|error| failed.push(failure("explain the choice", &error)))
            .ok()
    } else {
        None
    };
    let injection = assistant.begin_turn(input).await;
    let style = session.console.style;
    let mut text = Lines::default();
    if !injection.blocks.is_empty() {
        text.push(injection.text());
    }
    if args.explain {
        explain(&injection, explanation.as_ref(), style, &mut text);
    }
    let (good_to_know, serious): (Vec<_>, Vec<_>) = injection
        .notices
        .iter()
        .partition(|notice| notice.severity == Severity::Info);
    let messages = |notices: Vec<&Notice>| {
        notices
            .into_iter()
            .map(|notice| notice.message.clone())
            .collect()
    };
    let (mut notes, mut warnings): (Vec<String>, Vec<String>) =
        (messages(good_to_know), messages(serious));
    if injection.blocks.is_empty() && notes.is_empty() && warnings.is_empty() {
        notes.push(format!(
            "nothing to inject ({})",
            described(&injection.trace)
        ));
    }
    // A notice says it once for each change; a command is always the first to see it.
    warnings.extend(
        injection
            .trace
            .degraded
            .iter()
            .filter(|degraded| {
                let code = degraded.split(':').next().unwrap_or_default();
                injection.notices.iter().all(|notice| notice.code != code)
            })
            .cloned(),
    );
    warnings.extend(failed);
    let data = json!({
        "blocks": injection.blocks,
        "text": injection.text(),
        "trace": injection.trace,
        "notices": injection.notices,
        "explanation": explanation,
        // Comes true once this has been written; the exit code says if it did not.
        "attached": args.attach,
    });
    let report = Report::done(data, text.finish()).warn(warnings).note(notes);
    if !args.attach {
        return Ok(report);
    }
    // What nobody could read must not count as seen.
    session.console.print_now("context", &report)?;
    Ok(match attach(&assistant, &injection).await {
        Ok(()) => Report::printed(),
        Err(error) => Report::printed()
            .warn([failure("record what was shown", &error)])
            .exit(Exit::Partly),
    })
}

async fn attach(assistant: &Assistant, injection: &Injection) -> Result<(), StrataError> {
    assistant.attached(injection).await?;
    assistant.end_turn(injection, TurnEnd::default()).await?;
    Ok(())
}

/// Returns a failure as a warning: a prompt is worth more than what could not be said or recorded about it.
fn failure(action: &str, error: &StrataError) -> String {
    format!("could not {action}: {}", cause_chain(error).join(": "))
}

/// Says which tier is configured and what serves.
pub(super) fn described(trace: &TurnTrace) -> String {
    let configured = trace.configured;
    trace.serving.as_ref().map_or_else(
        || format!("tier {configured} is configured, none serves"),
        |serving| {
            format!(
                "tier {configured} is configured, {} served by `{}` {}",
                serving.tier, serving.plugin, serving.version
            )
        },
    )
}

/// Adds how the blocks were chosen; without an explanation, as far as the turn itself tells.
fn explain(
    injection: &Injection,
    explanation: Option<&Explanation>,
    style: Style,
    text: &mut Lines,
) {
    let trace = &injection.trace;
    text.push("");
    text.push(style.bold(format!("{}, turn {}", described(trace), trace.turn)));
    text.push(format!(
        "{} candidates, {} of {} tokens, {:.1} ms",
        trace.pool_size,
        trace.used_tokens,
        trace.budget_tokens,
        trace.timings.total.as_secs_f64() * 1_000.0
    ));
    for dropped in &trace.dropped {
        text.push(format!(
            "left out: block `{}` {}",
            dropped.id, dropped.reason
        ));
    }
    for code in &trace.degraded {
        text.push(format!("degraded: {code}"));
    }
    let Some(explanation) = explanation else {
        return;
    };
    for note in &explanation.notes {
        text.push(format!("note: {note}"));
    }
    let rows: Vec<Vec<String>> = explanation
        .candidates
        .iter()
        .map(|candidate| {
            let lanes: Vec<String> = candidate
                .lanes
                .iter()
                .map(|(lane, score)| format!("{lane} {score:.3}"))
                .collect();
            let place = candidate
                .section
                .as_ref()
                .map_or_else(|| candidate.slug.to_string(), ToString::to_string);
            vec![
                candidate.outcome.clone(),
                format!("{:.4}", candidate.fused),
                lanes.join(", "),
                place,
            ]
        })
        .collect();
    for line in columns(&rows) {
        text.push(line);
    }
}
