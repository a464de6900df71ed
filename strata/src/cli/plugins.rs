//! `plugins`: what is there, what is sound, what is trusted and by whom.

use std::path::{Path, PathBuf};

use serde_json::json;
use strata::{PluginReport, PluginState, Trust};

use super::Session;
use super::args::PluginsCommand;
use super::output::{Exit, Failure, Lines, Report, columns};

pub(crate) async fn run(session: &Session, command: PluginsCommand) -> Result<Report, Failure> {
    match command {
        PluginsCommand::List => list(session, false).await,
        PluginsCommand::Verify => list(session, true).await,
        PluginsCommand::Trust {
            key: Some(key),
            id: Some(id),
            only,
            ..
        } => trust_key(session, key, id, only).await,
        // The command line is refused without one of the two.
        PluginsCommand::Trust { plugin, .. } => trust(session, plugin.unwrap_or_default()).await,
        PluginsCommand::Keygen { file } => keygen(&file),
        PluginsCommand::Sign { plugin, key } => sign(session, plugin, key).await,
    }
}

async fn list(session: &Session, strict: bool) -> Result<Report, Failure> {
    let strata = session.strata()?;
    let (plugins, warnings) = (strata.plugins().await?, strata.plugin_warnings().await?);
    Ok(report(session, &plugins, warnings, strict))
}

async fn trust(session: &Session, plugin: PathBuf) -> Result<Report, Failure> {
    let trusted = session.strata()?.trust_plugin(plugin).await?;
    let text = format!(
        "`{}` {}: sha256 {} in `{}`",
        trusted.id,
        was_trusted(trusted.added),
        trusted.sha256,
        trusted.allow_file.display()
    );
    Ok(Report::done(json!(trusted), text))
}

async fn trust_key(
    session: &Session,
    key: String,
    id: String,
    only: Vec<String>,
) -> Result<Report, Failure> {
    let only = Some(only).filter(|only| !only.is_empty());
    let trusted = session.strata()?.trust_key(key, id, only).await?;
    let plugins = match &trusted.plugins {
        Some(plugins) => format!("`{}`", plugins.join("`, `")),
        None => "all plugins".to_owned(),
    };
    let text = format!(
        "key `{}` {} for {plugins}: {} in `{}`",
        trusted.id,
        was_trusted(trusted.added),
        trusted.key,
        trusted.allow_file.display()
    );
    Ok(Report::done(json!(trusted), text))
}

async fn sign(session: &Session, plugin: PathBuf, key: PathBuf) -> Result<Report, Failure> {
    let signed = session.strata()?.sign_plugin(plugin, key).await?;
    let text = format!(
        "signed `{}` with key {}: `{}`",
        signed.id,
        signed.key,
        signed.signature.display()
    );
    Ok(Report::done(json!(signed), text))
}

fn was_trusted(added: bool) -> &'static str {
    if added {
        "trusted"
    } else {
        "was trusted already"
    }
}

fn keygen(file: &Path) -> Result<Report, Failure> {
    let key = strata::make_signing_key(file).map_err(strata::StrataError::from)?;
    let text = format!(
        "made `{}`; keep it secret\nwhoever is to trust it runs `strata plugins trust --key {key} --id NAME`",
        file.display()
    );
    Ok(Report::done(json!({ "file": file, "key": key }), text))
}

fn report(
    session: &Session,
    plugins: &[PluginReport],
    warnings: Vec<String>,
    strict: bool,
) -> Report {
    let style = session.console.style;
    let mut rows = Vec::new();
    let mut reasons = warnings;
    let mut sound = true;
    for plugin in plugins {
        let state = match &plugin.state {
            PluginState::Trusted => match &plugin.trust {
                Some(Trust::Key { id, .. }) => style.green(format!("trusted by key `{id}`")),
                Some(Trust::Hash) | None => style.green("trusted by checksum"),
            },
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
