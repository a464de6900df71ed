//! Looking whether the language model that the settings name is there and can do what is asked of it.

use std::sync::Arc;
use std::time::Duration;

use memory_core::config::Config;
use memory_core::llm::LlmError;
use memory_substrate::blocking;
use memory_substrate::llm::probe;

use super::{DoctorOptions, DoctorReport, Finding};
use crate::error::StrataError;
use crate::model::LiveModel;
use crate::options::StrataOptions;

pub(super) async fn examine(
    options: &StrataOptions,
    config: Option<&Config>,
    wanted: DoctorOptions,
    report: &mut DoctorReport,
) {
    let Some(config) = config else {
        return;
    };
    let (model, llm) = (LiveModel::new(options), config.llm.clone());
    let timeout = Duration::from_secs(u64::from(llm.timeout_seconds));
    let made = blocking::run(move || Ok::<_, StrataError>(model.client(&llm))).await;
    let client = match made {
        Ok(Ok(Some(client))) => client,
        Ok(Ok(None)) => {
            return report.ok("llm", "none is configured: notes are filed by rules");
        }
        Ok(Err(error)) => {
            return report.failed("llm", &error, Some("see the settings below `llm`"));
        }
        Err(error) => return report.failed("llm", &error, None),
    };
    if !wanted.llm {
        let evidence = format!("`{}` is configured and was not asked", client.model());
        return report.add(
            "llm",
            Finding::Info,
            evidence,
            Some("`strata doctor --llm` asks it"),
        );
    }
    let clock = Arc::clone(&options.clock);
    for probe in probe(client.as_ref(), &clock, timeout).await {
        let what = probe.what;
        match &probe.ended {
            Ok(usage) => report.ok(
                "llm",
                format!(
                    "`{}` gave {what} in {} ms, for {} tokens read and {} written",
                    client.model(),
                    probe.millis,
                    usage.input,
                    usage.output
                ),
            ),
            Err(error) => report.add(
                "llm",
                Finding::Problem,
                format!("`{}` did not give {what}: {error}", client.model()),
                Some(help(error)),
            ),
        }
    }
}

/// Returns what helps against an error.
const fn help(error: &LlmError) -> &'static str {
    match error {
        LlmError::Billing { .. } => "see to the account with the provider",
        LlmError::RateLimited { .. } => "ask less often, or have the provider allow more",
        LlmError::Unavailable { .. } => "see whether the server runs and `llm.baseUrl` leads to it",
        LlmError::TimedOut { .. } => "give it more time with `llm.timeoutSeconds`",
        LlmError::Refused { .. } => "see `llm.model`, `llm.baseUrl` and the key",
        LlmError::BadAnswer { .. } => "choose a model that can call tools and keep to a form",
    }
}
