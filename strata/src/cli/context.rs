//! `context`: what would be injected for a message.

use serde_json::json;
use strata::{Access, Authority, Explanation, Injection, Notice, Severity, TurnEnd, TurnInput};

use super::args::{AuthorityArg, ContextArgs};
use super::output::{Failure, Lines, Report, Style, columns};
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
    let explanation = if args.explain {
        Some(assistant.explain(input.clone()).await?)
    } else {
        None
    };
    let injection = assistant.begin_turn(input).await;
    let style = session.console.style;
    let mut text = Lines::default();
    if !injection.blocks.is_empty() {
        text.push(injection.text());
    }
    if let Some(explanation) = &explanation {
        explain(&injection, explanation, style, &mut text);
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
    let (mut notes, warnings): (Vec<String>, Vec<String>) =
        (messages(good_to_know), messages(serious));
    if injection.blocks.is_empty() && notes.is_empty() && warnings.is_empty() {
        notes.push(format!(
            "nothing to inject (tier {})",
            injection.trace.configured
        ));
    }
    let data = json!({
        "blocks": injection.blocks,
        "text": injection.text(),
        "trace": injection.trace,
        "notices": injection.notices,
        "explanation": explanation,
        "attached": args.attach,
    });
    if args.attach {
        assistant.attached(&injection).await?;
        assistant.end_turn(injection, TurnEnd::default()).await?;
    }
    Ok(Report::done(data, text.finish()).warn(warnings).note(notes))
}

fn explain(injection: &Injection, explanation: &Explanation, style: Style, text: &mut Lines) {
    let trace = &injection.trace;
    text.push("");
    let serving = trace.serving.as_ref().map_or_else(
        || "served by none".to_owned(),
        |serving| format!("served by `{}` {}", serving.plugin, serving.version),
    );
    text.push(style.bold(format!(
        "tier {}, {serving}, turn {}",
        trace.configured, trace.turn
    )));
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
