//! A model that is a script: a server on loopback that speaks the wires of the providers, and remembers what it was asked.
//!
//! It has a file of its own, so that the tests of other crates can take it in.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What the server answers to one request.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// Words.
    Text(String),
    /// Calls of tools: name and arguments.
    Calls(Vec<(String, Value)>),
    /// Words that were cut off.
    Cut(String),
    /// A status other than 200, with headers and a body.
    Status(u16, Vec<(String, String)>, String),
    /// These bytes instead of an answer.
    Garbage(String),
    /// The connection ends without an answer.
    Hangup,
    /// No answer ever.
    Silence,
}

/// What the server was asked.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// The path, such as `/v1/messages`.
    pub(crate) path: String,
    /// The headers, by lower-case names.
    pub(crate) headers: Vec<(String, String)>,
    /// The body.
    pub(crate) body: Value,
}

type Script = Box<dyn FnMut(&Asked) -> Reply + Send>;

/// The server. It ends with this value.
#[derive(Debug)]
pub(crate) struct ScriptedServer {
    address: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    task: JoinHandle<()>,
}

impl ScriptedServer {
    /// Starts a server that gives these answers, and refuses whatever comes after them.
    pub(crate) async fn with(replies: Vec<Reply>) -> Self {
        let mut replies = VecDeque::from(replies);
        let exhausted = || {
            Reply::Status(
                418,
                Vec::new(),
                "{\"error\":{\"message\":\"the script has ended\"}}".to_owned(),
            )
        };
        Self::start(Box::new(move |_| {
            replies.pop_front().unwrap_or_else(exhausted)
        }))
        .await
    }

    /// Starts a server that answers by a script.
    pub(crate) async fn start(script: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port is free");
        let address = listener.local_addr().expect("bound").to_string();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (heard, script) = (Arc::clone(&asked), Arc::new(Mutex::new(script)));
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (heard, script) = (Arc::clone(&heard), Arc::clone(&script));
                tokio::spawn(async move {
                    // Whoever hangs up early has heard enough.
                    let _ended = serve(stream, &heard, &script).await;
                });
            }
        });
        Self {
            address,
            asked,
            task,
        }
    }

    /// Returns where it is.
    pub(crate) fn base_url(&self) -> String {
        format!("http://{}/v1/", self.address)
    }

    /// Returns what it was asked so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(
    mut stream: TcpStream,
    heard: &Mutex<Vec<Asked>>,
    script: &Mutex<Script>,
) -> std::io::Result<()> {
    let Some(asked) = read(&mut stream).await? else {
        return Ok(());
    };
    let reply = {
        let mut script = script.lock().unwrap_or_else(PoisonError::into_inner);
        let reply = script(&asked);
        heard
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(asked.clone());
        reply
    };
    let is_anthropic = asked.path.ends_with("/messages");
    let answer = |text: &str, calls: &[(String, Value)], is_cut: bool| {
        let body = if is_anthropic {
            anthropic(text, calls, is_cut)
        } else {
            openai(text, calls, is_cut)
        };
        (200, Vec::new(), body.to_string())
    };
    let (status, headers, body) = match reply {
        Reply::Text(text) => answer(&text, &[], false),
        Reply::Calls(calls) => answer("", &calls, false),
        Reply::Cut(text) => answer(&text, &[], true),
        Reply::Status(status, headers, body) => (status, headers, body),
        Reply::Garbage(text) => (200, Vec::new(), text),
        Reply::Hangup => return Ok(()),
        Reply::Silence => std::future::pending().await,
    };
    let mut top = format!(
        "HTTP/1.1 {status} Scripted\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n",
        body.len()
    );
    for (name, value) in headers {
        top.push_str(&name);
        top.push_str(": ");
        top.push_str(&value);
        top.push_str("\r\n");
    }
    top.push_str("\r\n");
    stream.write_all(top.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}

async fn read(stream: &mut TcpStream) -> std::io::Result<Option<Asked>> {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|part| part == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(&mut bytes).await? == 0 {
            return Ok(None);
        }
    };
    let text = String::from_utf8_lossy(&bytes[..head]).into_owned();
    let mut lines = text.lines();
    let path = lines
        .next()
        .and_then(|line| line.split(' ').nth(1))
        .unwrap_or_default()
        .to_owned();
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers
        .iter()
        .find(|(name, _)| name == "content-length")
        .and_then(|(_, value)| value.parse().ok())
        .unwrap_or(0);
    let mut body = bytes.split_off(head + 4);
    while body.len() < length {
        if stream.read_buf(&mut body).await? == 0 {
            break;
        }
    }
    Ok(Some(Asked {
        path,
        headers,
        body: serde_json::from_slice(&body).unwrap_or_default(),
    }))
}

fn openai(text: &str, calls: &[(String, Value)], is_cut: bool) -> Value {
    let calls: Vec<Value> = calls
        .iter()
        .enumerate()
        .map(|(number, (name, arguments))| {
            let arguments = match arguments {
                Value::String(raw) => raw.clone(),
                other => other.to_string(),
            };
            json!({"id": format!("call_{number}"), "type": "function", "function": {"name": name, "arguments": arguments}})
        })
        .collect();
    let reason = match (is_cut, calls.is_empty()) {
        (true, _) => "length",
        (false, true) => "stop",
        (false, false) => "tool_calls",
    };
    let mut message = json!({"role": "assistant", "content": text});
    if !calls.is_empty() {
        message["tool_calls"] = json!(calls);
    }
    json!({
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": "scripted",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110, "prompt_tokens_details": {"cached_tokens": 40}},
    })
}

fn anthropic(text: &str, calls: &[(String, Value)], is_cut: bool) -> Value {
    let mut content = Vec::new();
    if !text.is_empty() {
        content.push(json!({"type": "text", "text": text}));
    }
    for (number, (name, input)) in calls.iter().enumerate() {
        content.push(json!({"type": "tool_use", "id": format!("toolu_{number}"), "name": name, "input": input}));
    }
    let reason = match (is_cut, calls.is_empty()) {
        (true, _) => "max_tokens",
        (false, true) => "end_turn",
        (false, false) => "tool_use",
    };
    json!({
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": content,
        "stop_reason": reason,
        "usage": {"input_tokens": 60, "output_tokens": 10, "cache_read_input_tokens": 40, "cache_creation_input_tokens": 0},
    })
}
