//! What went wrong, in our words: without the key, and without anything of what was asked.

use std::time::Duration;

use genai::webc::Error as WebError;
use memory_core::llm::LlmError;
use reqwest::StatusCode;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use serde_json::Value;

use super::Key;

/// Characters of what a provider says that are kept.
const LONGEST: usize = 300;

/// The longest wait that a provider may ask for and get.
const LONGEST_WAIT: Duration = Duration::from_hours(1);

/// Returns what an error of genai means.
pub(super) fn of(error: &genai::Error, key: Option<&Key>) -> LlmError {
    use genai::Error as E;
    match error {
        E::WebAdapterCall { webc_error, .. } | E::WebModelCall { webc_error, .. } => {
            web(webc_error, key)
        }
        E::HttpError {
            status,
            body,
            headers,
            ..
        } => status_of(*status, body, headers, key),
        E::ChatResponseGeneration { .. }
        | E::NoChatResponse { .. }
        | E::InvalidJsonResponseElement { .. }
        | E::StreamParse { .. } => bad("it is not what the wire of this provider looks like"),
        // What else there is says what the request is made of, which is nobody's business.
        _ => LlmError::Refused {
            reason: "the request cannot be made for this provider".to_owned(),
        },
    }
}

fn bad(reason: &str) -> LlmError {
    LlmError::BadAnswer {
        reason: reason.to_owned(),
    }
}

fn web(error: &WebError, key: Option<&Key>) -> LlmError {
    match error {
        WebError::ResponseFailedStatus {
            status,
            body,
            headers,
        } => status_of(*status, body, headers, key),
        WebError::ResponseFailedNotJson { content_type, .. } => bad(&format!(
            "it is `{}` and no JSON; is the address that of a model's server?",
            cleaned(content_type, key)
        )),
        WebError::ResponseFailedInvalidJson { .. } => bad("it is no JSON"),
        WebError::JsonValueExt(_) => bad("it is not what the wire of this provider looks like"),
        WebError::Reqwest(error) => {
            let reason = if error.is_connect() {
                "no connection to it can be made"
            } else if error.is_timeout() {
                "the connection was silent for too long"
            } else {
                "the connection broke off"
            };
            LlmError::Unavailable {
                reason: reason.to_owned(),
                retry_after: None,
            }
        }
    }
}

fn status_of(status: StatusCode, body: &str, headers: &HeaderMap, key: Option<&Key>) -> LlmError {
    let said = said(body);
    let reason = format!("{}: {}", status.as_u16(), cleaned(&said, key));
    let retry_after = retry_after(headers);
    if status == StatusCode::PAYMENT_REQUIRED || is_billing(body) {
        return LlmError::Billing { reason };
    }
    match status.as_u16() {
        429 => LlmError::RateLimited {
            reason,
            retry_after,
        },
        408 | 409 | 425 | 500..=599 => LlmError::Unavailable {
            reason,
            retry_after,
        },
        _ => LlmError::Refused { reason },
    }
}

/// Returns the message in what a provider answered; what is no JSON says nothing that anybody should repeat.
fn said(body: &str) -> String {
    let body: Value = serde_json::from_str(body).unwrap_or_default();
    let error = body.get("error").unwrap_or(&body);
    error
        .get("message")
        .or(Some(error))
        .and_then(Value::as_str)
        .unwrap_or("no reason was given")
        .to_owned()
}

/// Returns whether a provider says that nobody pays.
fn is_billing(body: &str) -> bool {
    let body: Value = serde_json::from_str(body).unwrap_or_default();
    let error = body.get("error").unwrap_or(&body);
    let codes = ["type", "code"]
        .iter()
        .filter_map(|key| error.get(key).and_then(Value::as_str))
        .any(|code| ["insufficient_quota", "billing_error", "billing_not_active"].contains(&code));
    let message = error.get("message").and_then(Value::as_str);
    codes || message.is_some_and(|text| text.to_lowercase().contains("credit balance"))
}

/// Returns when a provider wants to be asked again: in seconds, as all of them say it.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<f64>().ok();
    let seconds = text("retry-after-ms")
        .map(|millis| millis / 1000.0)
        .or_else(|| text(RETRY_AFTER.as_str()))?;
    let wait = Duration::try_from_secs_f64(seconds).ok()?;
    Some(wait.min(LONGEST_WAIT))
}

/// Returns a text on one line, without the key and not too long.
fn cleaned(text: &str, key: Option<&Key>) -> String {
    let mut line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some(key) = key.map(Key::expose).filter(|key| !key.is_empty()) {
        line = line.replace(key, "…");
    }
    // A provider may repeat a part of the key, or of what it was asked.
    let line = crate::screen::redact(&line).text;
    let mut short: String = line.chars().take(LONGEST).collect();
    if short.len() < line.len() {
        short.push('…');
    }
    short
}
