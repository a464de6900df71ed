//! The conversation with a model: what it is told, what it calls, and when it has had its chances.

use std::time::Duration;

use memory_core::llm::{
    LlmAnswer, LlmError, LlmMessage, LlmRequest, SystemPart, ToolResult, Usage,
};
use memory_core::store::{StoreError, StoreResult};
use memory_core::wire::call_site;

use super::desk::Desk;
use super::tools::{self, Called};
use super::{Agent, Fault, brief};
use crate::blocking;
use crate::consolidate::filing::Filing;

/// How often a model is asked in one conversation.
const MOST_ROUNDS: usize = 120;

/// Calls that are done of one answer.
const MOST_CALLS: usize = 64;

/// How often `done` may be refused.
const MOST_REFUSALS: usize = 6;

/// Answers in a row that are no answers at all.
const MOST_BAD: usize = 3;

/// Calls in a row that come to nothing.
const MOST_WRONG: usize = 12;

/// Characters that a model is told in one conversation.
const MOST_TOLD: usize = 2_000_000;

/// Tokens of one answer.
const MOST_TOKENS: u32 = 8_192;

/// How long one answer may take.
const PATIENCE: Duration = Duration::from_mins(5);

/// What a model is told that answered without calling anything.
const NUDGE: &str = "Nothing was called, so nothing happened. Go on with the tools, and call `done` when every note is on a page.";

/// What it is told when its answer was cut off.
const CUT: &str = "Your answer was cut off because it was too long, so nothing of it was done. Make smaller steps.";

/// One conversation.
pub(super) struct Talk<'a> {
    agent: &'a Agent,
    /// On loan while a call is done.
    desk: Option<Desk>,
    messages: Vec<LlmMessage>,
    usage: Usage,
    told: usize,
    refusals: usize,
    wrong: usize,
    bad: usize,
}

impl<'a> Talk<'a> {
    pub(super) fn new(agent: &'a Agent, desk: Desk) -> Self {
        let opening = brief::opening(&desk);
        Self {
            agent,
            told: opening.len(),
            messages: vec![LlmMessage::User(opening)],
            desk: Some(desk),
            usage: Usage::default(),
            refusals: 0,
            wrong: 0,
            bad: 0,
        }
    }

    /// Returns what it has cost so far.
    pub(super) const fn usage(&self) -> Usage {
        self.usage
    }

    /// Leads the conversation to its end.
    pub(super) async fn run(&mut self) -> StoreResult<Result<Filing, Fault>> {
        let mut is_nudged = false;
        for _ in 0..MOST_ROUNDS {
            let answer = match self.agent.client.complete(self.request()).await {
                Ok(answer) => answer,
                // The same question may get a better answer.
                Err(LlmError::BadAnswer { .. }) if self.bad + 1 < MOST_BAD => {
                    self.bad += 1;
                    continue;
                }
                Err(error) => return Ok(Err(Fault::Model(error))),
            };
            self.bad = 0;
            self.usage = self.usage.plus(answer.usage);
            if answer.is_cut || answer.calls.is_empty() {
                if !answer.is_cut && std::mem::replace(&mut is_nudged, true) {
                    return Ok(Err(useless("it answered without calling anything")));
                }
                self.wrong += 1;
                self.say(&answer, if answer.is_cut { CUT } else { NUDGE });
            } else {
                is_nudged = false;
                if let Some(ended) = self.calls(answer).await? {
                    return Ok(ended);
                }
            }
            if self.wrong >= MOST_WRONG {
                return Ok(Err(useless(&format!(
                    "{MOST_WRONG} calls in a row came to nothing"
                ))));
            }
            if self.told > MOST_TOLD {
                return Ok(Err(useless(
                    "it had read more than it may and was not done",
                )));
            }
        }
        Ok(Err(useless(&format!(
            "it was not done after {MOST_ROUNDS} answers"
        ))))
    }

    fn request(&self) -> LlmRequest {
        let longest = self.desk.as_ref().map_or(0, |desk| desk.material.longest);
        LlmRequest {
            call_site: call_site::CONSOLIDATION.to_owned(),
            system: vec![SystemPart {
                text: brief::instruction(self.agent.prompt.as_deref(), longest),
                is_cached: true,
            }],
            messages: self.messages.clone(),
            tools: tools::specs(),
            form: None,
            max_tokens: MOST_TOKENS,
            timeout: PATIENCE,
        }
    }

    /// Answers a model that called nothing that can be done.
    fn say(&mut self, answer: &LlmAnswer, text: &str) {
        // What was cut off may end within a call, and no wire takes a call without its result.
        let said = match answer.text.trim() {
            "" => "…",
            said => said,
        };
        self.messages.push(LlmMessage::Assistant {
            text: said.to_owned(),
            calls: Vec::new(),
        });
        self.told += text.len();
        self.messages.push(LlmMessage::User(text.to_owned()));
    }

    /// Does what a model calls. Returns how it ended, if it did.
    async fn calls(&mut self, answer: LlmAnswer) -> StoreResult<Option<Result<Filing, Fault>>> {
        let Some(mut desk) = self.desk.take() else {
            return Err(lost());
        };
        let calls = answer.calls.clone();
        let (desk, called) = blocking::run(move || {
            let mut called = Vec::new();
            for (number, call) in calls.into_iter().enumerate() {
                let result = if number < MOST_CALLS {
                    tools::call(&mut desk, &call)
                } else {
                    Called::Wrong(format!("at most {MOST_CALLS} calls are done of one answer"))
                };
                let is_done = matches!(result, Called::Done(_));
                called.push((call.id, result));
                if is_done {
                    break;
                }
            }
            Ok::<_, StoreError>((desk, called))
        })
        .await?;
        self.desk = Some(desk);
        let mut results = Vec::new();
        for (id, called) in called {
            let (text, is_error) = match called {
                Called::Done(filing) => return Ok(Some(Ok(*filing))),
                Called::Answer(text) => {
                    self.wrong = 0;
                    (text, false)
                }
                Called::Wrong(text) => {
                    self.wrong += 1;
                    (text, true)
                }
                Called::Refused(problems) => {
                    self.refusals += 1;
                    if self.refusals >= MOST_REFUSALS {
                        return Ok(Some(Err(useless(&problems.join("; ")))));
                    }
                    (brief::refusal(&problems), true)
                }
            };
            self.told += text.len();
            results.push(ToolResult { id, text, is_error });
        }
        self.messages.push(LlmMessage::Assistant {
            text: answer.text,
            calls: answer.calls,
        });
        self.messages.push(LlmMessage::Results(results));
        Ok(None)
    }
}

fn useless(reason: &str) -> Fault {
    Fault::Useless(reason.to_owned())
}

fn lost() -> StoreError {
    StoreError::BadRequest {
        reason: "a conversation was led twice at the same time".to_owned(),
    }
}
