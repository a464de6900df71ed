//! `plugins`: what is there, what is sound, what is trusted.

use serde_json::json;
use strata::{PluginReport, PluginState};

use super::Session;
use super::args::PluginsCommand;
use super::output::{Exit, Failure, Lines, Report, columns};

pub(crate) async fn run(session: &Session, command: PluginsCommand) -> Result<Report, Failure> {
    let strata = session.strata()?;
    match command {
        PluginsCommand::List => {
            let plugins = strata.plugins().await?;
            Ok(report(session, &plugins, false))
        }
        PluginsCommand::Verify => {
            let plugins = strata.plugins().await?;
            Ok(report(session, &plugins, true))
        }
        PluginsCommand::Trust { plugin } => {
            let trusted = strata.trust_plugin(plugin).await?;
            let what = if trusted.added {
                "trusted"
            } else {
                "was trusted already"
            };
            let text = format!(
                "`{}` {what}: sha256 {} in `{}`",
                trusted.id,
                trusted.sha256,
                trusted.allow_file.display()
            );
            Ok(Report::done(json!(trusted), text))
        }
    }
}

fn report(session: &Session, plugins: &[PluginReport], strict: bool) -> Report {
    let style = session.console.style;
    let mut rows = Vec::new();
    let mut reasons = Vec::new();
    let mut sound = true;
    for plugin in plugins {
        let state = match &plugin.state {
            PluginState::Trusted => style.green("trusted"),
            PluginState::NotTrusted { reason } => {
                reasons.push(reason.clone());
                sound = false;
                style.yellow("not trusted")
            }
            PluginState::Refused { reason } => {
                reasons.push(reason.clone());
                sound = false;
                style.red("refused")
            }
        };
        let tier = plugin.tier.map_or("-", strata::Tier::as_str);
        let checksum = plugin.sha256.clone().unwrap_or_else(|| "-".to_owned());
        rows.push(vec![
            plugin.id.clone(),
            tier.to_owned(),
            plugin.abi.clone().unwrap_or_else(|| "-".to_owned()),
            checksum,
            state,
        ]);
    }
    let mut text = Lines::default();
    for line in columns(&rows) {
        text.push(line);
    }
    let source = session
        .options()
        .map(|options| options.plugins)
        .unwrap_or_default();
    match &source.directory {
        Some(folder) => {
            text.push(style.dim(format!("from `{}`, {}", folder.display(), source.found_by)));
        }
        None => text.push(format!("no plugin folder: {}", source.found_by)),
    }
    let exit = if strict && !sound {
        Exit::Damage
    } else {
        Exit::Done
    };
    let data =
        json!({ "folder": source.directory, "found_by": source.found_by, "plugins": plugins });
    Report::done(data, text.finish()).warn(reasons).exit(exit)
}
