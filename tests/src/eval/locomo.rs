//! `LoCoMo`: long conversations, a corpus a conversation, a page a session, a section a turn.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Deserialize;
use serde_json::Value;

use super::set::{Corpus, EvalPage, EvalSet, Question, Unit, plain, quoted, read_text};

/// The category of questions that cannot be answered; they measure abstention, not retrieval.
const ADVERSARIAL: u64 = 5;

#[derive(Deserialize)]
struct Sample {
    #[serde(rename = "sample_id")]
    id: String,
    conversation: BTreeMap<String, Value>,
    qa: Vec<Asked>,
}

#[derive(Deserialize)]
struct Asked {
    question: String,
    #[serde(default)]
    evidence: Vec<String>,
    category: u64,
}

#[derive(Deserialize)]
struct Spoken {
    speaker: String,
    dia_id: String,
    text: String,
    blip_caption: Option<String>,
}

/// Reads the conversations and returns two sets: turns judged, and sessions judged.
pub fn read(folder: &Path) -> Result<[EvalSet; 2]> {
    let text = read_text(&folder.join("locomo5.json.gz"))?;
    let samples: Vec<Sample> = serde_json::from_str(&text).context("LoCoMo is not as expected")?;
    let mut turns = EvalSet {
        name: "LoCoMo turn".to_owned(),
        unit: Unit::Section,
        corpora: Vec::new(),
        dropped: 0,
    };
    let mut sessions = EvalSet {
        name: "LoCoMo session".to_owned(),
        unit: Unit::Page,
        corpora: Vec::new(),
        dropped: 0,
    };
    for sample in samples {
        let pages = pages(&sample.conversation)?;
        let known: BTreeMap<&str, &str> = pages
            .iter()
            .flat_map(|page| {
                page.units
                    .iter()
                    .map(|unit| (unit.as_str(), page.name.as_str()))
            })
            .collect();
        let (mut by_turn, mut by_session) = (Vec::new(), Vec::new());
        for asked in sample
            .qa
            .iter()
            .filter(|asked| asked.category != ADVERSARIAL)
        {
            let mut gold = BTreeSet::new();
            for written in &asked.evidence {
                for one in written.split([';', ',', ' ']).filter(|one| !one.is_empty()) {
                    match turn_id(one).filter(|id| known.contains_key(id.as_str())) {
                        Some(id) => {
                            gold.insert(id);
                        }
                        None => turns.dropped += 1,
                    }
                }
            }
            if gold.is_empty() {
                continue;
            }
            let pages = gold
                .iter()
                .filter_map(|id| known.get(id.as_str()))
                .map(|page| (*page).to_owned())
                .collect();
            by_session.push(Question {
                text: asked.question.clone(),
                gold: pages,
            });
            by_turn.push(Question {
                text: asked.question.clone(),
                gold,
            });
        }
        turns.corpora.push(Corpus {
            name: sample.id.clone(),
            pages: pages.clone(),
            questions: by_turn,
        });
        sessions.corpora.push(Corpus {
            name: sample.id,
            pages,
            questions: by_session,
        });
    }
    sessions.dropped = turns.dropped;
    Ok([turns, sessions])
}

fn pages(conversation: &BTreeMap<String, Value>) -> Result<Vec<EvalPage>> {
    let mut pages = Vec::new();
    for number in 1.. {
        let Some(session) = conversation.get(&format!("session_{number}")) else {
            // A conversation may name a date for a session that was cut off.
            if conversation.contains_key(&format!("session_{}", number + 1)) {
                continue;
            }
            break;
        };
        let spoken: Vec<Spoken> =
            serde_json::from_value(session.clone()).context("a LoCoMo session is not a list")?;
        let date = conversation
            .get(&format!("session_{number}_date_time"))
            .and_then(Value::as_str)
            .unwrap_or_default();
        let mut text = format!(
            "---\ntitle: {}\n---\n",
            quoted(&format!("Session {number} on {date}"))
        );
        let mut units = Vec::new();
        for turn in spoken {
            let Some(id) = turn_id(&turn.dia_id) else {
                continue;
            };
            write!(
                text,
                "\n## {} on {date}\n\n{}\n",
                turn.speaker,
                plain(&turn.text)
            )
            .context("writing to a string cannot fail")?;
            if let Some(caption) = turn.blip_caption {
                write!(text, "\nPicture: {}\n", plain(&caption))
                    .context("writing to a string cannot fail")?;
            }
            units.push(id);
        }
        pages.push(EvalPage {
            name: format!("session-{number:02}"),
            text,
            units,
        });
    }
    Ok(pages)
}

/// Returns `D8:06` as `D8:6`, and nothing for what is not a turn.
fn turn_id(written: &str) -> Option<String> {
    let (session, turn) = written.trim().strip_prefix('D')?.split_once(':')?;
    let (session, turn): (u32, u32) = (session.parse().ok()?, turn.parse().ok()?);
    Some(format!("D{session}:{turn}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turn_ids_are_read_or_refused() {
        assert_eq!(turn_id("D8:06").as_deref(), Some("D8:6"));
        assert_eq!(turn_id(" D1:12").as_deref(), Some("D1:12"));
        for bad in ["D:11:26", "D8", "8:6", "D8:x"] {
            assert_eq!(turn_id(bad), None, "{bad}");
        }
    }
}
