//! `config`: the settings of an assistant.

use memory_core::config::Origin;
use serde_json::{Value, json};
use strata::{Access, Assistant, ConfigWarning, ErrorKind};

use super::Session;
use super::args::ConfigCommand;
use super::output::{Failure, Lines, Report, columns};

pub(crate) async fn run(session: &Session, command: ConfigCommand) -> Result<Report, Failure> {
    // Settings may be changed while a host has the assistant open: it notices at its next turn.
    let assistant = session.assistant(Access::ReadOnly).await?;
    match command {
        ConfigCommand::Show { origin } => Ok(show(session, &assistant, origin)),
        ConfigCommand::Get { key } => get(&assistant, &key).await,
        ConfigCommand::Set { pairs } => {
            let (pairs, rest) = pairs.as_chunks::<2>();
            if let [key] = rest {
                return Err(Failure::new(
                    ErrorKind::Usage,
                    format!("`{key}` has no value: give keys and values in turn"),
                ));
            }
            let pairs: Vec<(String, String)> = pairs
                .iter()
                .map(|[key, value]| (key.clone(), value.clone()))
                .collect();
            let keys = pairs.iter().map(|(key, _)| key.clone()).collect();
            let warnings = assistant.config_set(pairs).await?;
            changed(&assistant, keys, &warnings).await
        }
        ConfigCommand::Unset { keys } => {
            let warnings = assistant.config_unset(keys.clone()).await?;
            changed(&assistant, keys, &warnings).await
        }
    }
}

fn show(session: &Session, assistant: &Assistant, origin: bool) -> Report {
    let (config, kept) = (assistant.config(), assistant.config_kept());
    let origin_of = |key: &str, origin: Origin| origin_name(&kept, key, origin);
    let mut rows = Vec::new();
    let mut data = Vec::new();
    for entry in config.entries() {
        let value = entry
            .value
            .map_or_else(|| "(not set)".to_owned(), ToString::to_string);
        let mut row = vec![entry.spec.key.to_owned(), value];
        if origin {
            let place = entry
                .place
                .map_or_else(String::new, |place| format!(", {place}"));
            row.push(session.console.style.dim(format!(
                "{}{place}",
                origin_of(entry.spec.key, entry.origin)
            )));
        }
        rows.push(row);
        data.push(json!({
            "key": entry.spec.key,
            "value": entry.value.map_or(Value::Null, memory_core::config::Value::to_json),
            "origin": origin_of(entry.spec.key, entry.origin),
            "line": entry.place.map(|place| place.line),
            "column": entry.place.map(|place| place.column),
        }));
    }
    let mut text = Lines::default();
    for line in columns(&rows) {
        text.push(line);
    }
    let warnings = assistant.config_notices();
    // Which tier follows from the settings is only half of what is to be known of it: `tier show` says both.
    Report::done(json!({ "settings": data }), text.finish())
        .warn(warnings.into_iter().map(|notice| notice.message))
}

/// Returns where a value comes from. A switch that is as it was before a fault comes from none of the layers.
fn origin_name(kept: &[&str], key: &str, origin: Origin) -> &'static str {
    if kept.contains(&key) {
        "kept"
    } else {
        origin.as_str()
    }
}

async fn get(assistant: &Assistant, key: &str) -> Result<Report, Failure> {
    let got = assistant.config_get(key).await?;
    let value = got
        .value
        .as_ref()
        .map_or_else(|| "(not set)".to_owned(), ToString::to_string);
    let data = json!({
        "key": got.spec.key,
        "value": got.value.as_ref().map_or(Value::Null, memory_core::config::Value::to_json),
        "origin": origin_name(&assistant.config_kept(), key, got.origin),
        "line": got.place.map(|place| place.line),
        "column": got.place.map(|place| place.column),
        "accepts": got.spec.accepts(),
        "meaning": got.spec.doc,
    });
    Ok(Report::done(data, value).warn(got.shadow.map(|shadow| shadow.to_string())))
}

async fn changed(
    assistant: &Assistant,
    keys: Vec<String>,
    warnings: &[ConfigWarning],
) -> Result<Report, Failure> {
    let mut text = Lines::default();
    let mut data = Vec::new();
    for key in keys {
        let got = assistant.config_get(&key).await?;
        let value = got
            .value
            .as_ref()
            .map_or_else(|| "(not set)".to_owned(), ToString::to_string);
        text.push(format!("{key} = {value}"));
        data.push(json!({
            "key": key,
            "value": got.value.as_ref().map_or(Value::Null, memory_core::config::Value::to_json),
            "origin": origin_name(&assistant.config_kept(), &key, got.origin),
        }));
    }
    let data = json!({ "settings": data });
    Ok(Report::done(data, text.finish()).warn(warnings.iter().map(ToString::to_string)))
}
