//! Answers that have a form: asked for, looked at here, and asked for once more with what was wrong.

use jsonschema::Validator;
use memory_core::llm::{AnswerForm, LlmClient, LlmError, LlmMessage, LlmRequest, Usage};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Faults of an answer that are told.
const FAULTS: usize = 8;

/// Asks for an answer of a form, and returns it with what it cost.
///
/// Not every server keeps to a form, so it is checked here, and a model that missed it is told so once. The request's own
/// `form` is replaced.
pub async fn ask_json<T: DeserializeOwned>(
    client: &dyn LlmClient,
    mut request: LlmRequest,
    form: AnswerForm,
) -> Result<(T, Usage), LlmError> {
    let validator = jsonschema::validator_for(&form.schema).map_err(|error| LlmError::Refused {
        reason: format!("the form `{}` is no JSON schema: {error}", form.name),
    })?;
    request.form = Some(form);
    let mut usage = Usage::default();
    let mut is_repaired = false;
    loop {
        let answer = client.complete(request.clone()).await?;
        usage = usage.plus(answer.usage);
        let problem = if answer.is_cut {
            "it was cut off because it was too long".to_owned()
        } else {
            match read(&validator, &answer.text) {
                Ok(value) => return Ok((value, usage)),
                Err(problem) => problem,
            }
        };
        if std::mem::replace(&mut is_repaired, true) {
            return Err(LlmError::BadAnswer { reason: problem });
        }
        let text = match answer.text.trim() {
            "" => "…".to_owned(),
            said => said.to_owned(),
        };
        request.messages.push(LlmMessage::Assistant {
            text,
            calls: Vec::new(),
        });
        request.messages.push(LlmMessage::User(format!(
            "This answer cannot be used: {problem}. Answer again, with nothing but JSON of the form that was asked for."
        )));
    }
}

fn read<T: DeserializeOwned>(validator: &Validator, text: &str) -> Result<T, String> {
    let value: Value = serde_json::from_str(bare(text)).map_err(|error| {
        // Where it is, and nothing of what it says.
        format!(
            "it is no JSON at line {}, column {}",
            error.line(),
            error.column()
        )
    })?;
    let faults: Vec<String> = validator
        .iter_errors(&value)
        .take(FAULTS)
        .map(|error| format!("at `{}`: {}", error.instance_path(), error.masked()))
        .collect();
    if !faults.is_empty() {
        return Err(faults.join("; "));
    }
    T::deserialize(value).map_err(|error| error.to_string())
}

/// Returns the JSON of an answer that has it in a block of code.
fn bare(text: &str) -> &str {
    let text = text.trim();
    let Some(rest) = text.strip_prefix("```") else {
        return text;
    };
    let rest = rest.split_once('\n').map_or(rest, |(_, rest)| rest);
    rest.trim_end().strip_suffix("```").unwrap_or(rest).trim()
}
