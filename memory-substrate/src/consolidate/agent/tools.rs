//! What a model may call, and doing it.

use memory_core::llm::{ToolCall, ToolSpec};
use serde_json::{Value, json};

use super::arguments::{self, Answered};
use super::desk::Desk;
use crate::consolidate::filing::Filing;

/// What a call came to.
pub(super) enum Called {
    /// The model goes on with this.
    Answer(String),
    /// Something about the call was wrong; the model goes on with this.
    Wrong(String),
    /// What was made is good.
    Done(Box<Filing>),
    /// It is not, for these reasons.
    Refused(Vec<String>),
}

/// Returns what a model may call.
pub(super) fn specs() -> Vec<ToolSpec> {
    let text = |about: &str| json!({"type": "string", "description": about});
    let object = |properties: Value, required: &[&str]| {
        json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        })
    };
    let spec = |name: &str, description: &str, schema: Value| ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        schema,
    };
    let page = || text("Name of the page, such as `people/nora`.");
    vec![
        spec(
            "list",
            "Tells the pages in the order of their names, two hundred at a time.",
            object(json!({"after": text("Go on after this page.")}), &[]),
        ),
        spec(
            "search",
            "Tells the pages that have most of these words, with a line of each.",
            object(json!({"query": text("Words.")}), &["query"]),
        ),
        spec(
            "read",
            "Tells the whole text of a page.",
            object(json!({"page": page()}), &["page"]),
        ),
        spec(
            "file",
            "Puts a note on a page, in its own words and with its mark. Give `page` for a page that exists, or `title` to begin one.",
            object(
                json!({
                    "note": text("Identifier of the note."),
                    "page": page(),
                    "title": text("Title of a new page."),
                }),
                &["note"],
            ),
        ),
        spec(
            "edit",
            "Replaces a passage that occurs once on a page.",
            object(
                json!({
                    "page": page(),
                    "old": text("The passage as it stands."),
                    "new": text("What stands there instead."),
                }),
                &["page", "old", "new"],
            ),
        ),
        spec(
            "write",
            "Gives a page a new text as a whole, or begins a page. Everything that it said has to be in the new text or on another page.",
            object(
                json!({"page": page(), "text": text("The text, in Markdown.")}),
                &["page", "text"],
            ),
        ),
        spec(
            "done",
            "Ends the work. It is refused, with the reasons, while something does not hold.",
            object(
                json!({
                    "doubts": {
                        "type": "array",
                        "description": "Statements that may contradict each other.",
                        "items": object(
                            json!({
                                "note": text("Identifier of the note."),
                                "page": page(),
                                "statement": text("What the page says."),
                                "why": text("Why both may not be so."),
                            }),
                            &["note", "page", "statement", "why"],
                        ),
                    },
                }),
                &[],
            ),
        ),
    ]
}

/// Does what a model calls.
pub(super) fn call(desk: &mut Desk, call: &ToolCall) -> Called {
    match answer(desk, call) {
        Ok(called) => called,
        Err(problem) => Called::Wrong(problem),
    }
}

fn answer(desk: &mut Desk, call: &ToolCall) -> Answered<Called> {
    let given = &call.arguments;
    let told = match call.name.as_str() {
        "list" => {
            let list: arguments::List = arguments::read(given)?;
            desk.list(list.after.as_deref())
        }
        "search" => {
            let search: arguments::Search = arguments::read(given)?;
            desk.search(&search.query)
        }
        "read" => {
            let read: arguments::Read = arguments::read(given)?;
            desk.read(&read.page)?
        }
        "file" => {
            let file: arguments::File = arguments::read(given)?;
            desk.file(&file.note, file.page.as_deref(), file.title.as_deref())?
        }
        "edit" => {
            let edit: arguments::Edit = arguments::read(given)?;
            desk.edit(&edit.page, &edit.old, &edit.new)?
        }
        "write" => {
            let write: arguments::Write = arguments::read(given)?;
            desk.write(&write.page, &write.text)?
        }
        "done" => {
            let done: arguments::Done = arguments::read(given)?;
            return Ok(match desk.done(&done.doubts) {
                Ok(filing) => Called::Done(Box::new(filing)),
                Err(problems) => Called::Refused(problems),
            });
        }
        other => {
            let names: Vec<String> = specs().into_iter().map(|spec| spec.name).collect();
            return Err(format!(
                "there is no tool `{}`, only {}",
                crate::consolidate::check::shortened(other),
                names.join(", ")
            ));
        }
    };
    Ok(Called::Answer(told))
}
