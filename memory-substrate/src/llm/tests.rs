//! The real client against a scripted server, over both wires.

use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use memory_core::env::ManualClock;
use memory_core::llm::{
    AnswerForm, LlmAnswer, LlmMessage, LlmRequest, SystemPart, ToolResult, ToolSpec,
};
use serde::Deserialize;
use serde_json::json;

use super::scripted::{Reply, ScriptedServer};
use super::*;
use crate::assistant::testing::runtime;

const KEY: &str = "sk-test-4f9d8c7b6a5e";

const WIRES: [Wire; 2] = [Wire::OpenAi, Wire::Anthropic];

fn settings(wire: Wire, server: &ScriptedServer) -> LlmSettings {
    LlmSettings {
        wire,
        model: "scripted".to_owned(),
        base_url: Some(server.base_url()),
        key: Some(Key::new(KEY)),
        concurrency: 2,
        patience: Patience {
            first: Duration::from_millis(1),
            longest: Duration::from_millis(2),
            tries: 3,
        },
    }
}

fn client(wire: Wire, server: &ScriptedServer) -> Arc<dyn LlmClient> {
    let clock = Arc::new(ManualClock::default());
    connect(&settings(wire, server), clock).expect("set up").0
}

fn request(text: &str) -> LlmRequest {
    LlmRequest {
        call_site: "test".to_owned(),
        system: vec![SystemPart {
            text: "Be brief.".to_owned(),
            is_cached: true,
        }],
        messages: vec![LlmMessage::User(text.to_owned())],
        tools: Vec::new(),
        form: None,
        max_tokens: 64,
        timeout: Duration::from_mins(1),
    }
}

fn tool() -> ToolSpec {
    ToolSpec {
        name: "add".to_owned(),
        description: "Adds.".to_owned(),
        schema: json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": false}),
    }
}

fn status(code: u16, headers: &[(&str, &str)], message: &str) -> Reply {
    let headers = headers
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let body = json!({"error": {"message": message, "type": "some_error"}});
    Reply::Status(code, headers.collect(), body.to_string())
}

#[test]
fn both_wires_carry_words_tools_and_what_they_cost() {
    for wire in WIRES {
        runtime(async {
            let server = ScriptedServer::with(vec![
                Reply::Calls(vec![("add".to_owned(), json!({"a": 2}))]),
                Reply::Text("five".to_owned()),
                Reply::Cut("fi".to_owned()),
            ])
            .await;
            let client = client(wire, &server);
            let mut asked = request("add");
            asked.tools = vec![tool()];
            let first = client.complete(asked.clone()).await.expect("answered");
            assert_eq!(
                (first.calls[0].name.as_str(), &first.calls[0].arguments),
                ("add", &json!({"a": 2}))
            );
            assert_eq!(
                (first.usage.input, first.usage.output, first.usage.cached),
                (100, 10, 40)
            );
            asked.messages.push(LlmMessage::Assistant {
                text: String::new(),
                calls: first.calls.clone(),
            });
            asked.messages.push(LlmMessage::Results(vec![ToolResult {
                id: first.calls[0].id.clone(),
                text: "no".to_owned(),
                is_error: true,
            }]));
            let second = client.complete(asked.clone()).await.expect("answered");
            assert_eq!((second.text.as_str(), second.is_cut), ("five", false));
            assert!(client.complete(asked).await.expect("answered").is_cut);
            let heard = server.asked();
            let body = heard[1].body.to_string();
            assert!(
                body.contains("Error: no") && body.contains("Be brief."),
                "{body}"
            );
            let (path, header, sent) = match wire {
                Wire::OpenAi => (
                    "/v1/chat/completions",
                    "authorization",
                    format!("Bearer {KEY}"),
                ),
                Wire::Anthropic => ("/v1/messages", "x-api-key", KEY.to_owned()),
            };
            assert_eq!(heard[0].path, path);
            assert!(
                heard[0].headers.contains(&(header.to_owned(), sent)),
                "{:?}",
                heard[0].headers
            );
            assert_eq!(body.contains("cache_control"), wire == Wire::Anthropic);
        });
    }
}

#[derive(Debug, Deserialize, PartialEq, Eq)]
struct Sum {
    sum: i64,
}

fn form() -> AnswerForm {
    AnswerForm {
        name: "sum".to_owned(),
        schema: json!({"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"], "additionalProperties": false}),
    }
}

#[test]
fn an_answer_that_misses_its_form_is_mended_once() {
    for wire in WIRES {
        runtime(async {
            let server = ScriptedServer::with(vec![
                Reply::Text("The sum is five.".to_owned()),
                Reply::Text("```json\n{\"sum\": 5}\n```".to_owned()),
                Reply::Text("{\"sum\": \"five\"}".to_owned()),
                Reply::Text("{\"sum\": 5, \"more\": 1}".to_owned()),
            ])
            .await;
            let client = client(wire, &server);
            let (sum, usage) = ask_json::<Sum>(&*client, request("2 + 3"), form())
                .await
                .expect("mended");
            assert_eq!((sum, usage.calls), (Sum { sum: 5 }, 2));
            let error = ask_json::<Sum>(&*client, request("2 + 3"), form())
                .await
                .expect_err("twice");
            assert!(matches!(error, LlmError::BadAnswer { .. }), "{error}");
            let heard = server.asked();
            assert_eq!(heard.len(), 4);
            let told = heard[1].body.to_string();
            assert!(
                told.contains("cannot be used") && told.contains("no JSON"),
                "{told}"
            );
            let asked = heard[0].body.to_string();
            assert!(
                asked.contains("additionalProperties"),
                "the schema is on the wire: {asked}"
            );
        });
    }
}

#[test]
fn what_may_pass_is_tried_again_and_nothing_else() {
    for wire in WIRES {
        runtime(async {
            let server = ScriptedServer::with(vec![
                status(500, &[], "broken"),
                status(429, &[("retry-after", "0")], "slow down"),
                Reply::Text("there".to_owned()),
                status(401, &[], &format!("wrong key {KEY}")),
                status(400, &[], "context too long"),
                status(402, &[], "pay"),
                Reply::Status(
                    429,
                    Vec::new(),
                    json!({"error": {"type": "insufficient_quota", "message": "quota"}})
                        .to_string(),
                ),
                status(400, &[], "Your credit balance is too low"),
                Reply::Garbage("<html>".to_owned()),
                Reply::Hangup,
                Reply::Hangup,
                status(503, &[("retry-after", "0")], "down"),
            ])
            .await;
            let client = client(wire, &server);
            assert_eq!(
                client
                    .complete(request("a"))
                    .await
                    .expect("third time")
                    .text,
                "there"
            );
            assert_eq!(server.asked().len(), 3);
            let refused = client.complete(request("b")).await.expect_err("refused");
            assert!(matches!(refused, LlmError::Refused { .. }), "{refused}");
            assert!(!refused.to_string().contains(KEY), "{refused}");
            assert!(matches!(
                client.complete(request("c")).await,
                Err(LlmError::Refused { .. })
            ));
            for _ in 0..3 {
                let error = client.complete(request("d")).await.expect_err("unpaid");
                assert!(matches!(error, LlmError::Billing { .. }), "{error}");
            }
            let error = client.complete(request("e")).await.expect_err("no answer");
            assert!(matches!(error, LlmError::BadAnswer { .. }), "{error}");
            assert_eq!(server.asked().len(), 9);
            let error = client.complete(request("f")).await.expect_err("gone");
            assert_eq!(
                error,
                LlmError::Unavailable {
                    reason: "503: down".to_owned(),
                    retry_after: Some(Duration::ZERO)
                }
            );
            assert_eq!(server.asked().len(), 12);
        });
    }
}

#[test]
fn nobody_waits_for_longer_than_they_want() {
    runtime(async {
        let server = ScriptedServer::with(vec![Reply::Silence]).await;
        let client = client(Wire::OpenAi, &server);
        let mut asked = request("a");
        asked.timeout = Duration::from_millis(50);
        let error = client.complete(asked).await.expect_err("no answer");
        assert!(matches!(error, LlmError::TimedOut { .. }), "{error}");
    });
}

#[test]
fn after_failures_in_a_row_nothing_is_asked_for_a_while() {
    runtime(async {
        let server = ScriptedServer::start(Box::new(|_| status(500, &[], "broken"))).await;
        let clock = Arc::new(ManualClock::default());
        let (client, account) =
            connect(&settings(Wire::OpenAi, &server), clock.clone()).expect("set up");
        for _ in 0..3 {
            client.complete(request("a")).await.expect_err("broken");
        }
        let asked = server.asked().len();
        let error = client.complete(request("a")).await.expect_err("left alone");
        assert!(
            error
                .retry_after()
                .is_some_and(|wait| wait > Duration::ZERO),
            "{error}"
        );
        assert_eq!(server.asked().len(), asked);
        clock.advance_millis(30_000);
        client
            .complete(request("a"))
            .await
            .expect_err("still broken");
        assert!(server.asked().len() > asked);
        assert!(account.totals().is_empty());
    });
}

#[test]
fn a_server_on_this_machine_needs_no_key_and_a_key_is_never_sent_in_the_clear() {
    runtime(async {
        let server = ScriptedServer::with(vec![Reply::Text("ready".to_owned())]).await;
        let mut local = settings(Wire::OpenAi, &server);
        local.key = None;
        let (client, account) = connect(&local, Arc::new(ManualClock::default())).expect("set up");
        client.complete(request("a")).await.expect("answered");
        let total = account.totals()["test"];
        assert_eq!((total.calls, total.input, total.output), (1, 100, 10));
        let shown = format!("{client:?} {:?}", settings(Wire::OpenAi, &server));
        assert!(!shown.contains(KEY), "{shown}");
        let mut far = settings(Wire::OpenAi, &server);
        for (address, is_safe) in [
            ("http://models.example/v1", false),
            ("https://models.example/v1", true),
            ("http://[::1]:8080/v1", true),
            ("http://localhost.example/v1", false),
            ("ftp://127.0.0.1/", false),
            ("nowhere", false),
        ] {
            far.base_url = Some(address.to_owned());
            let made = connect(&far, Arc::new(ManualClock::default()));
            assert_eq!(made.is_ok(), is_safe, "{address}");
        }
    });
}

#[test]
fn a_probe_says_what_a_model_can_do() {
    for wire in WIRES {
        runtime(async {
            let server = ScriptedServer::with(vec![
                Reply::Text("ready".to_owned()),
                Reply::Text("I cannot".to_owned()),
                Reply::Text("{\"sum\": 5}".to_owned()),
            ])
            .await;
            let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
            let probes = probe(&*client(wire, &server), &clock, Duration::from_mins(1)).await;
            let ended: Vec<bool> = probes.iter().map(|probe| probe.ended.is_ok()).collect();
            assert_eq!(ended, [true, false, true]);
        });
    }
}

/// Counts how many calls are at work.
#[derive(Debug, Default)]
struct Counting {
    now: AtomicUsize,
    most: AtomicUsize,
}

#[async_trait]
impl LlmClient for Counting {
    fn model(&self) -> &'static str {
        "counting"
    }

    async fn complete(&self, _: LlmRequest) -> Result<LlmAnswer, LlmError> {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        self.now.fetch_sub(1, Ordering::SeqCst);
        Ok(LlmAnswer::default())
    }
}

#[test]
fn no_more_calls_are_made_at_a_time_than_may_be() {
    runtime(async {
        let counting = Arc::new(Counting::default());
        let clock = Arc::new(ManualClock::default());
        let patient = Patient::new(
            counting.clone(),
            2,
            Patience::default(),
            clock,
            Arc::default(),
        );
        let calls = (0..8).map(|_| patient.complete(request("a")));
        let answers = futures_util::future::join_all(calls).await;
        assert!(answers.iter().all(Result::is_ok));
        assert_eq!(counting.most.load(Ordering::SeqCst), 2);
    });
}
