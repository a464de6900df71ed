//! Between our words and those of genai.

use genai::chat::{
    CacheControl, ChatMessage, ChatOptions, ChatRequest, ChatResponse, ContentPart, JsonSpec,
    MessageContent, StopReason, Tool, ToolCall as GenaiCall, ToolResponse,
};
use memory_core::llm::{LlmAnswer, LlmMessage, LlmRequest, ToolCall, Usage};

use super::Wire;

/// Before what a tool answered that failed; not every wire has a mark for that.
const FAILED: &str = "Error: ";

/// Returns how a request is to be answered.
pub(super) fn options(request: &LlmRequest) -> ChatOptions {
    let mut options = ChatOptions::default()
        .with_max_tokens(request.max_tokens)
        .with_capture_usage(true);
    if let Some(form) = &request.form {
        let spec = JsonSpec::new(form.name.clone(), form.schema.clone());
        options = options.with_response_format(spec);
    }
    options
}

/// Returns what is asked.
pub(super) fn request(request: LlmRequest, wire: Wire) -> ChatRequest {
    let mut messages = Vec::new();
    for part in request.system {
        let mut message = ChatMessage::system(part.text);
        // Others find out by themselves what they have seen before.
        if part.is_cached && wire == Wire::Anthropic {
            message = message.with_options(CacheControl::Ephemeral);
        }
        messages.push(message);
    }
    for message in request.messages {
        match message {
            LlmMessage::User(text) => messages.push(ChatMessage::user(text)),
            LlmMessage::Assistant { text, calls } => {
                let mut parts = Vec::new();
                if !text.is_empty() {
                    parts.push(ContentPart::Text(text));
                }
                parts.extend(calls.into_iter().map(|call| {
                    ContentPart::ToolCall(GenaiCall {
                        call_id: call.id,
                        fn_name: call.name,
                        fn_arguments: call.arguments,
                        thought_signatures: None,
                    })
                }));
                messages.push(ChatMessage::assistant(MessageContent::from_parts(parts)));
            }
            LlmMessage::Results(results) => {
                let results = results.into_iter().map(|result| {
                    let mark = if result.is_error { FAILED } else { "" };
                    ToolResponse::new(result.id, format!("{mark}{}", result.text))
                });
                messages.push(ChatMessage::from(results.collect::<Vec<_>>()));
            }
        }
    }
    let tools = request.tools.into_iter().map(|tool| {
        Tool::new(tool.name)
            .with_description(tool.description)
            .with_schema(tool.schema)
    });
    let tools: Vec<Tool> = tools.collect();
    let asked = ChatRequest::new(messages);
    if tools.is_empty() {
        asked
    } else {
        asked.with_tools(tools)
    }
}

/// Returns what was answered.
pub(super) fn answer(response: ChatResponse) -> LlmAnswer {
    let is_cut = response
        .stop_reason
        .as_ref()
        .is_some_and(StopReason::is_max_tokens);
    let count = |tokens: Option<i32>| u64::try_from(tokens.unwrap_or(0)).unwrap_or(0);
    let cached = response
        .usage
        .prompt_tokens_details
        .as_ref()
        .and_then(|details| details.cached_tokens);
    let usage = Usage {
        calls: 1,
        input: count(response.usage.prompt_tokens),
        output: count(response.usage.completion_tokens),
        cached: count(cached),
    };
    let text = response.texts().concat();
    let calls = response.into_tool_calls().into_iter();
    LlmAnswer {
        text,
        calls: calls
            .map(|call| ToolCall {
                id: call.call_id,
                name: call.fn_name,
                arguments: call.fn_arguments,
            })
            .collect(),
        is_cut,
        usage,
    }
}
