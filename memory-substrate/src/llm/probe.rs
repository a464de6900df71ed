//! Looking whether a model can do what is asked of it.

use std::sync::Arc;
use std::time::Duration;

use memory_core::env::Clock;
use memory_core::llm::{AnswerForm, LlmClient, LlmError, LlmMessage, LlmRequest, ToolSpec, Usage};
use serde::Deserialize;
use serde_json::json;

use super::form::ask_json;

/// What a probe is known as in the account of tokens.
const CALL_SITE: &str = "doctor";

/// One thing that was tried.
#[derive(Clone, Debug)]
pub struct Probe {
    /// What it was.
    pub what: &'static str,
    /// What it cost, or what went wrong.
    pub ended: Result<Usage, LlmError>,
    /// How long it took, in milliseconds.
    pub millis: i64,
}

#[derive(Debug, Deserialize)]
struct Sum {
    sum: i64,
}

/// Tries a plain answer, a call and a form. It stops at the first failure that would befall the others too.
pub async fn probe(
    client: &dyn LlmClient,
    clock: &Arc<dyn Clock>,
    timeout: Duration,
) -> Vec<Probe> {
    let mut probes = Vec::new();
    let request = |text: &str| LlmRequest {
        call_site: CALL_SITE.to_owned(),
        system: Vec::new(),
        messages: vec![LlmMessage::User(text.to_owned())],
        tools: Vec::new(),
        form: None,
        max_tokens: 512,
        timeout,
    };
    let began = clock.now();
    let since = |began: memory_core::time::Timestamp| {
        clock.now().as_millis().saturating_sub(began.as_millis())
    };
    let ended = plain(client, request("Answer with the word `ready`.")).await;
    let is_there = ended.is_ok();
    probes.push(Probe {
        what: "a plain answer",
        ended,
        millis: since(began),
    });
    if !is_there {
        return probes;
    }
    let began = clock.now();
    let mut asked = request("Call the tool `add` with 2 and 3.");
    asked.tools = vec![ToolSpec {
        name: "add".to_owned(),
        description: "Adds two numbers.".to_owned(),
        schema: json!({
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
            "additionalProperties": false,
        }),
    }];
    probes.push(Probe {
        what: "a call of a tool",
        ended: call(client, asked).await,
        millis: since(began),
    });
    let began = clock.now();
    let form = AnswerForm {
        name: "sum".to_owned(),
        schema: json!({
            "type": "object",
            "properties": {"sum": {"type": "integer"}},
            "required": ["sum"],
            "additionalProperties": false,
        }),
    };
    let asked = request("What is 2 + 3? Answer as JSON of the form {\"sum\": number}.");
    let ended = ask_json::<Sum>(client, asked, form).await;
    probes.push(Probe {
        what: "an answer of a form",
        ended: ended.map(|(sum, usage)| {
            tracing::debug!(sum.sum, "a model added");
            usage
        }),
        millis: since(began),
    });
    probes
}

async fn plain(client: &dyn LlmClient, request: LlmRequest) -> Result<Usage, LlmError> {
    let answer = client.complete(request).await?;
    if answer.text.trim().is_empty() {
        return Err(LlmError::BadAnswer {
            reason: "it is empty".to_owned(),
        });
    }
    Ok(answer.usage)
}

async fn call(client: &dyn LlmClient, request: LlmRequest) -> Result<Usage, LlmError> {
    let answer = client.complete(request).await?;
    if answer.calls.iter().any(|call| call.name == "add") {
        Ok(answer.usage)
    } else {
        Err(LlmError::BadAnswer {
            reason: "it called nothing, so it cannot file notes".to_owned(),
        })
    }
}
