//! `tier`: which engine chooses.

use serde_json::json;
use strata::{Access, ErrorKind, Tier};

use super::Session;
use super::args::TierCommand;
use super::output::{Failure, Lines, Report};

pub(crate) async fn run(session: &Session, command: TierCommand) -> Result<Report, Failure> {
    match command {
        TierCommand::Show => show(session).await,
        TierCommand::Set { tier } => {
            let tier: Tier =
                tier.parse()
                    .map_err(|error: memory_core::predicates::UnknownTier| {
                        Failure::new(ErrorKind::Usage, error.to_string())
                    })?;
            set(session, tier).await
        }
    }
}

async fn show(session: &Session) -> Result<Report, Failure> {
    let assistant = session.assistant(Access::ReadOnly).await?;
    let status = assistant.tier_status().await?;
    let mut text = Lines::default();
    text.push(format!(
        "configured: {}",
        session.console.style.bold(status.configured)
    ));
    match &status.serving {
        Some(serving) => text.push(format!(
            "serving:    {} by `{}` {}, sha256 {}",
            serving.tier, serving.plugin, serving.version, serving.sha256
        )),
        None => text.push("serving:    none"),
    }
    let warnings = assistant
        .config_notices()
        .into_iter()
        .map(|notice| notice.message)
        .chain(status.reason.clone())
        .collect::<Vec<_>>();
    Ok(Report::done(json!(status), text.finish()).warn(warnings))
}

async fn set(session: &Session, tier: Tier) -> Result<Report, Failure> {
    // Settings may be changed while a host has the assistant open: it notices at its next turn.
    let assistant = session.assistant(Access::ReadOnly).await?;
    let warnings = assistant.set_tier(tier).await?;
    let configured = assistant.config().tier();
    let text = format!("configured: {}", session.console.style.bold(configured));
    let data = json!({ "asked": tier, "configured": configured });
    Ok(Report::done(data, text).warn(warnings.iter().map(ToString::to_string)))
}
