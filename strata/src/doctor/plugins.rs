//! Checks of the model and the plugin folder.

use memory_core::config::Config;
use memory_substrate::blocking;
use memory_substrate::embed::LocalEmbedder;

use super::{DoctorOptions, DoctorReport, Finding};
use crate::embedding;
use crate::error::StrataError;
use crate::options::{EmbedderChoice, StrataOptions};
use crate::plugins::{PluginState, Plugins};

/// Looks at the embedding model.
pub(super) async fn model(
    options: &StrataOptions,
    config: Option<&Config>,
    wanted: DoctorOptions,
    report: &mut DoctorReport,
) {
    match &options.embedder {
        EmbedderChoice::None => report.add(
            "model",
            Finding::Info,
            "no model is wanted: search goes by words",
            None,
        ),
        EmbedderChoice::Given(embedder) => {
            report.ok("model", format!("the host's own: {}", embedder.space()));
        }
        EmbedderChoice::Auto => {
            let required = config.is_none_or(|config| config.memory.embeddings.required);
            let severity = if required {
                Finding::Warning
            } else {
                Finding::Info
            };
            match embedding::find(options) {
                Err(error) => report.add(
                    "model",
                    severity,
                    error.to_string(),
                    Some("cargo xtask setup"),
                ),
                Ok(provisioned) if !wanted.deep => {
                    report.ok(
                        "model",
                        format!(
                            "{} is in place; `--deep` reads its files",
                            provisioned.space
                        ),
                    );
                }
                Ok(provisioned) => {
                    let checked = provisioned.clone();
                    let verified = blocking::run(move || {
                        Ok::<_, StrataError>(
                            checked
                                .verify()
                                .map_err(memory_core::embed::EmbedError::from)?,
                        )
                    });
                    let tried = async {
                        verified.await?;
                        Ok::<_, StrataError>(
                            LocalEmbedder::load(provisioned.clone())
                                .await?
                                .self_check()
                                .await?,
                        )
                    };
                    match tried.await {
                        Ok(cosine) => {
                            report.ok(
                                "model",
                                format!(
                                    "{} answers as it should (cosine {cosine:.5})",
                                    provisioned.space
                                ),
                            );
                        }
                        Err(error) => report.failed("model", &error, Some("cargo xtask setup")),
                    }
                }
            }
        }
    }
}

/// Looks at the plugin folder and every plugin in it.
pub(super) async fn folder(options: &StrataOptions, plugins: &Plugins, report: &mut DoctorReport) {
    let source = &options.plugins;
    let Some(directory) = &source.directory else {
        let evidence = format!("plugin folder {}", source.found_by);
        report.add(
            "plugins.folder",
            Finding::Problem,
            evidence,
            Some("cargo xtask build-plugins"),
        );
        return;
    };
    let lists: Vec<String> = source
        .allow_files
        .iter()
        .map(|file| {
            format!(
                "`{}`{}",
                file.display(),
                if file.is_file() { "" } else { " (absent)" }
            )
        })
        .collect();
    let evidence = format!(
        "`{}`, {}; allow-lists: {}",
        directory.display(),
        source.found_by,
        lists.join(", ")
    );
    report.ok("plugins.folder", evidence);
    match plugins.warnings().await {
        Ok(warnings) => {
            for warning in warnings {
                let fix = Some("repair the file by hand; the other lists count meanwhile");
                report.add("plugins.allow", Finding::Warning, warning, fix);
            }
        }
        Err(error) => report.failed("plugins.allow", &error, None),
    }
    let plugins = match plugins.reports().await {
        Ok(plugins) => plugins,
        Err(error) => return report.failed("plugins", &error, None),
    };
    if plugins.is_empty() {
        report.add(
            "plugins",
            Finding::Problem,
            "the folder holds no plugin",
            Some("cargo xtask build-plugins"),
        );
    }
    for plugin in plugins {
        match &plugin.state {
            PluginState::Trusted => report.ok("plugins", format!("`{}` is trusted", plugin.id)),
            PluginState::NotTrusted { reason } => {
                let fix = format!("strata plugins trust {}", plugin.id);
                report.add("plugins", Finding::Warning, reason.clone(), Some(&fix));
            }
            PluginState::Refused { reason } => {
                report.add(
                    "plugins",
                    Finding::Problem,
                    reason.clone(),
                    Some("cargo xtask build-plugins"),
                );
            }
        }
    }
}
