//! Where text came from, who may speak, and what may rest on it.
//!
//! These values are set by our code at the boundary and never read from text. Every function here can lower trust;
//! none can raise it, because only an owner's explicit promotion may.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How text got here, strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A person said it to the assistant.
    UserDirect,
    /// The owner's own notes, or an import the owner approved.
    UserFile,
    /// The assistant concluded it.
    AssistantInferred,
    /// A tool returned it.
    ToolOutput,
    /// A document from outside said it.
    ExternalDoc,
    /// It came with an import that nobody has reviewed.
    Import,
    /// Another agent said it.
    OtherAgent,
}

/// Who speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Authority {
    /// The person the memory belongs to.
    Owner,
    /// A person the owner paired with this assistant.
    Paired,
    /// Nobody known. Gets nothing.
    #[default]
    None,
}

/// Whether text may be injected and built upon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// Must not be injected until the owner endorses it.
    Untrusted,
    /// May be injected.
    Trusted,
}

impl Trust {
    /// Returns the lower of two trusts, which is the trust of anything derived from both.
    #[must_use]
    pub fn lowest(self, other: Self) -> Self {
        self.min(other)
    }
}

/// What the trust table says about one (origin, authority) pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrustVerdict {
    /// Trust of the text.
    pub trust: Trust,
    /// Whether the text may become more than evidence.
    pub beyond_evidence: bool,
    /// Whether standing instructions, identity, permissions, commands and payment data must wait for review.
    pub quarantine_high_impact: bool,
}

/// Returns what may be done with text of an origin spoken under an authority; `None` where the pair cannot occur.
pub fn trust_of(origin: Origin, authority: Authority) -> Option<TrustVerdict> {
    let verdict = |trust, beyond_evidence, quarantine_high_impact| {
        Some(TrustVerdict {
            trust,
            beyond_evidence,
            quarantine_high_impact,
        })
    };
    match (origin, authority) {
        (Origin::UserDirect | Origin::UserFile, Authority::Owner) => {
            verdict(Trust::Trusted, true, false)
        }
        (Origin::UserDirect, Authority::Paired)
        | (Origin::AssistantInferred, Authority::Owner | Authority::Paired) => {
            verdict(Trust::Trusted, true, true)
        }
        (Origin::UserFile, Authority::Paired | Authority::None)
        | (Origin::AssistantInferred, Authority::None) => None,
        (
            Origin::ToolOutput | Origin::ExternalDoc | Origin::Import | Origin::OtherAgent,
            Authority::Owner | Authority::Paired,
        ) => verdict(Trust::Untrusted, true, true),
        (
            Origin::UserDirect
            | Origin::ToolOutput
            | Origin::ExternalDoc
            | Origin::Import
            | Origin::OtherAgent,
            Authority::None,
        ) => verdict(Trust::Untrusted, false, true),
    }
}

/// Where knowledge belongs.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
pub enum Channel {
    /// Everyone who may read this assistant's memory.
    #[default]
    Global,
    /// One project.
    Project(String),
    /// One agent's knowledge of itself.
    SelfAgent(String),
    /// One person.
    User(String),
    /// One conversation.
    Conversation(String),
}

impl Channel {
    /// Returns the channel a frontmatter or buffer value names.
    pub fn parse(text: &str) -> Self {
        let text = text.trim();
        if text.is_empty() || text == "_global" {
            Self::Global
        } else if let Some(id) = text.strip_prefix("_project_") {
            Self::Project(id.to_owned())
        } else if let Some(id) = text.strip_prefix("_self_") {
            Self::SelfAgent(id.to_owned())
        } else if let Some(id) = text.strip_prefix("_conversation_") {
            Self::Conversation(id.to_owned())
        } else {
            Self::User(text.to_owned())
        }
    }
}

impl fmt::Display for Channel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Global => formatter.write_str("_global"),
            Self::Project(id) => write!(formatter, "_project_{id}"),
            Self::SelfAgent(id) => write!(formatter, "_self_{id}"),
            Self::User(id) => formatter.write_str(id),
            Self::Conversation(id) => write!(formatter, "_conversation_{id}"),
        }
    }
}

impl From<Channel> for String {
    fn from(channel: Channel) -> Self {
        channel.to_string()
    }
}

impl From<String> for Channel {
    fn from(text: String) -> Self {
        Self::parse(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORIGINS: [Origin; 7] = [
        Origin::UserDirect,
        Origin::UserFile,
        Origin::AssistantInferred,
        Origin::ToolOutput,
        Origin::ExternalDoc,
        Origin::Import,
        Origin::OtherAgent,
    ];

    #[test]
    fn only_people_and_inference_are_trusted() {
        for origin in ORIGINS {
            for authority in [Authority::Owner, Authority::Paired, Authority::None] {
                let trusted = trust_of(origin, authority)
                    .is_some_and(|verdict| verdict.trust == Trust::Trusted);
                let expected = match origin {
                    Origin::UserDirect | Origin::AssistantInferred => authority != Authority::None,
                    Origin::UserFile => authority == Authority::Owner,
                    _ => false,
                };
                assert_eq!(trusted, expected, "{origin:?} {authority:?}");
            }
        }
    }

    #[test]
    fn nobody_known_never_gets_beyond_evidence() {
        for origin in ORIGINS {
            assert!(
                trust_of(origin, Authority::None).is_none_or(|verdict| !verdict.beyond_evidence)
            );
        }
    }

    #[test]
    fn channels_survive_their_text_form() {
        for text in [
            "_global",
            "_project_atlas",
            "_self_coder",
            "ada",
            "_conversation_c1",
        ] {
            assert_eq!(Channel::parse(text).to_string(), text);
        }
        assert_eq!(Channel::parse("  "), Channel::Global);
    }
}
