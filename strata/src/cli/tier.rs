//! `tier`: which engine chooses.

use serde_json::json;
use strata::{Access, ErrorKind, Tier, TierStatus, cause_chain};

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
    let text = described(session, status.configured, Some(&status));
    let warnings = assistant
        .config_notices()
        .into_iter()
        .map(|notice| notice.message)
        .chain(status.reason.clone())
        .collect::<Vec<_>>();
    Ok(Report::done(json!(status), text).warn(warnings))
}

async fn set(session: &Session, tier: Tier) -> Result<Report, Failure> {
    // Settings may be changed while a host has the assistant open: it notices at its next turn.
    let assistant = session.assistant(Access::ReadOnly).await?;
    let mut warnings: Vec<String> = assistant
        .set_tier(tier)
        .await?
        .iter()
        .map(ToString::to_string)
        .collect();
    let configured = assistant.config().tier();
    // The change is made. That nothing can be said of what serves is no reason to call it a failure.
    let status = match assistant.tier_status().await {
        Ok(status) => {
            warnings.extend(status.reason.clone());
            Some(status)
        }
        Err(error) => {
            let error = cause_chain(&error).join(": ");
            warnings.push(format!("could not find out what serves: {error}"));
            None
        }
    };
    let text = described(session, configured, status.as_ref());
    let data = json!({
        "asked": tier,
        "configured": configured,
        "serving": status.as_ref().and_then(|status| status.serving.as_ref()),
        "reason": status.as_ref().and_then(|status| status.reason.as_ref()),
    });
    Ok(Report::done(data, text).warn(warnings))
}

/// Says which tier is configured and what serves, as far as that is known.
fn described(session: &Session, configured: Tier, status: Option<&TierStatus>) -> String {
    let mut text = Lines::default();
    text.push(format!(
        "configured: {}",
        session.console.style.bold(configured)
    ));
    match status.map(|status| &status.serving) {
        Some(Some(serving)) => text.push(format!(
            "serving:    {} by `{}` {}, sha256 {}",
            serving.tier, serving.plugin, serving.version, serving.sha256
        )),
        Some(None) => text.push("serving:    none"),
        None => text.push("serving:    unknown"),
    }
    text.finish()
}
