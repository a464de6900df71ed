//! Conversion between domain types and what crosses the border, in both directions.
//!
//! Going out cannot fail. Coming in can, because the other side may be newer or broken: every number, slug and section is
//! checked, and a bad one is an error that says which. A container made by the other side is copied into one of ours on
//! the way in, because each side frees what it made.

use std::fmt;

use abi_stable::std_types::{ROption, RString, RVec, Tuple2};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::embed::SpaceId;
use crate::predicates::Tier;
use crate::provenance::{Authority, Channel, Trust};
use crate::services::{
    CallScope, DenseSpace, KvScope, LexicalQuery, LogKind, LogRow, Message, Notice, PageEntry,
    PageLink, PageText, PkbFile, PkbHit, Requester, Resident, ResidentEntry, Role, SectionEntry,
    SectionHit, SectionText, Severity,
};
use crate::text::section::SectionId;
use crate::text::slug::Slug;
use crate::tier::{
    Block, CommitToken, Explanation, Placement, ShownSection, TierEvent, TierHealth, TierStats,
    TurnPlan, TurnRequest,
};
use crate::time::Timestamp;

use super::types;

/// The other side sent a value that means nothing here. Report it; a newer version may know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadValue {
    /// The type that was expected.
    pub expected: &'static str,
    /// What came instead.
    pub found: String,
}

impl fmt::Display for BadValue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "the other side sent a bad {}: {}",
            self.expected, self.found
        )
    }
}

impl std::error::Error for BadValue {}

/// A domain type with a form that crosses the border.
pub(crate) trait Cross: Sized {
    /// The form that crosses.
    type Abi;

    /// Returns the form that crosses.
    fn into_abi(self) -> Self::Abi;

    /// Returns the domain value, or what is wrong with the form that came.
    fn from_abi(abi: Self::Abi) -> Result<Self, BadValue>;
}

macro_rules! cross_as_is {
    ($($plain:ty),+) => {$(
        impl Cross for $plain {
            type Abi = Self;

            fn into_abi(self) -> Self {
                self
            }

            fn from_abi(abi: Self) -> Result<Self, BadValue> {
                Ok(abi)
            }
        }
    )+};
}

cross_as_is!((), bool, i32, u32, u64, f32, f64);

impl Cross for String {
    type Abi = RString;

    fn into_abi(self) -> RString {
        RString::from(self)
    }

    fn from_abi(abi: RString) -> Result<Self, BadValue> {
        Ok(abi.into_string())
    }
}

impl<T: Cross> Cross for Option<T> {
    type Abi = ROption<T::Abi>;

    fn into_abi(self) -> Self::Abi {
        self.map(T::into_abi).into()
    }

    fn from_abi(abi: Self::Abi) -> Result<Self, BadValue> {
        abi.into_option().map(T::from_abi).transpose()
    }
}

impl<T: Cross> Cross for Vec<T> {
    type Abi = RVec<T::Abi>;

    fn into_abi(self) -> Self::Abi {
        // The standard library collects in place when the layouts agree, so a run of floats is not copied here.
        RVec::from(self.into_iter().map(T::into_abi).collect::<Vec<_>>())
    }

    fn from_abi(abi: Self::Abi) -> Result<Self, BadValue> {
        abi.into_vec().into_iter().map(T::from_abi).collect()
    }
}

impl<A: Cross, B: Cross> Cross for (A, B) {
    type Abi = Tuple2<A::Abi, B::Abi>;

    fn into_abi(self) -> Self::Abi {
        Tuple2(self.0.into_abi(), self.1.into_abi())
    }

    fn from_abi(abi: Self::Abi) -> Result<Self, BadValue> {
        Ok((A::from_abi(abi.0)?, B::from_abi(abi.1)?))
    }
}

impl Cross for Timestamp {
    type Abi = i64;

    fn into_abi(self) -> i64 {
        self.as_millis()
    }

    fn from_abi(abi: i64) -> Result<Self, BadValue> {
        Ok(Self::from_millis(abi))
    }
}

impl Cross for Slug {
    type Abi = RString;

    fn into_abi(self) -> RString {
        RString::from(self.as_str())
    }

    fn from_abi(abi: RString) -> Result<Self, BadValue> {
        Self::parse(&abi).map_err(|error| BadValue {
            expected: "slug",
            found: format!("`{abi}`: {error}"),
        })
    }
}

impl Cross for SectionId {
    type Abi = RString;

    fn into_abi(self) -> RString {
        RString::from(self.key())
    }

    fn from_abi(abi: RString) -> Result<Self, BadValue> {
        Self::parse_key(&abi).map_err(|error| BadValue {
            expected: "section",
            found: format!("`{abi}`: {error}"),
        })
    }
}

impl Cross for Channel {
    type Abi = RString;

    fn into_abi(self) -> RString {
        RString::from(self.to_string())
    }

    fn from_abi(abi: RString) -> Result<Self, BadValue> {
        Ok(Self::parse(&abi))
    }
}

impl Cross for SpaceId {
    type Abi = RString;

    fn into_abi(self) -> RString {
        RString::from(self.as_str())
    }

    fn from_abi(abi: RString) -> Result<Self, BadValue> {
        Ok(Self::new(abi.into_string()))
    }
}

impl Cross for CommitToken {
    type Abi = RString;

    fn into_abi(self) -> RString {
        RString::from(self.0)
    }

    fn from_abi(abi: RString) -> Result<Self, BadValue> {
        Ok(Self(abi.into_string()))
    }
}

macro_rules! cross_codes {
    ($($domain:ident as $code:ident { $($variant:ident = $constant:ident),+ $(,)? })+) => {$(
        impl Cross for $domain {
            type Abi = types::$code;

            fn into_abi(self) -> Self::Abi {
                match self {
                    $(Self::$variant => types::$code::$constant,)+
                }
            }

            fn from_abi(abi: Self::Abi) -> Result<Self, BadValue> {
                match abi {
                    $(types::$code::$constant => Ok(Self::$variant),)+
                    types::$code(number) => Err(BadValue { expected: stringify!($domain), found: number.to_string() }),
                }
            }
        }
    )+};
}

cross_codes! {
    Tier as TierCode { Off = OFF, V1 = V1, V2 = V2, V3 = V3 }
    Authority as AuthorityCode { None = NONE, Owner = OWNER, Paired = PAIRED }
    Trust as TrustCode { Untrusted = UNTRUSTED, Trusted = TRUSTED }
    Placement as PlacementCode { Prepend = PREPEND, AfterMemoryPrefix = AFTER_MEMORY_PREFIX, Append = APPEND }
    LogKind as LogKindCode { Selection = SELECTION, PoolAudit = POOL_AUDIT, Activation = ACTIVATION }
    KvScope as KvScopeCode { Conversation = CONVERSATION, Assistant = ASSISTANT }
    Role as RoleCode { User = USER, Assistant = ASSISTANT, Tool = TOOL }
    Severity as SeverityCode { Info = INFO, Warning = WARNING, Error = ERROR }
}

macro_rules! cross_fields {
    ($($name:ident { $($field:ident),+ $(; $ext:ident)? })+) => {$(
        impl Cross for $name {
            type Abi = types::$name;

            fn into_abi(self) -> Self::Abi {
                types::$name { $($field: self.$field.into_abi(),)+ $($ext: RVec::new(),)? }
            }

            fn from_abi(abi: Self::Abi) -> Result<Self, BadValue> {
                Ok(Self { $($field: Cross::from_abi(abi.$field)?,)+ })
            }
        }
    )+};
}

cross_fields! {
    TurnRequest { user_message, previous_reply, recent, situation, context_lost; ext }
    ShownSection { section, lane, score, bytes }
    Block {
        id, tag, placement, order, priority, mandatory, persistence_key, text, variants, minimum_tokens, shows, commit; ext
    }
    TurnPlan { blocks, pool_size, already_resident, degraded; ext }
    PageEntry { slug, title, modified_at, fresh_at, sections }
    PageText { slug, title, summary, body }
    PageLink { target, description, target_in_degree }
    SectionEntry { id, heading, ordinal, hash, bytes, trust }
    SectionText { entry, page_title, dated, text }
    SectionHit { id, score }
    DenseSpace { space, dims }
    LexicalQuery { text, head_weight, body_weight, k1, b, limit, best_per_page; ext }
    PkbFile { path, text }
    PkbHit { path, chunk, text, dense, lexical, fused }
    ResidentEntry { slug, section, message, tier, bytes, at }
    Resident { slug, section, bytes }
    LogRow { kind, slug, body }
    Message { id, role, text, at }
    Notice { code, severity, message; ext }
}

impl Cross for CallScope {
    type Abi = types::CallScope;

    fn into_abi(self) -> Self::Abi {
        types::CallScope {
            principal: self.requester.principal.into_abi(),
            authority: self.requester.authority.into_abi(),
            consumer: self.requester.consumer.into_abi(),
            channels: self.channels.into_abi(),
            as_of: self.as_of.into_abi(),
            known_at: self.known_at.into_abi(),
            conversation: self.conversation.into_abi(),
            turn: self.turn,
            trace_parent: self.trace_parent.into_abi(),
            ext: RVec::new(),
        }
    }

    fn from_abi(abi: Self::Abi) -> Result<Self, BadValue> {
        Ok(Self {
            requester: Requester {
                principal: Cross::from_abi(abi.principal)?,
                authority: Cross::from_abi(abi.authority)?,
                consumer: Cross::from_abi(abi.consumer)?,
            },
            channels: Cross::from_abi(abi.channels)?,
            as_of: Cross::from_abi(abi.as_of)?,
            known_at: Cross::from_abi(abi.known_at)?,
            conversation: Cross::from_abi(abi.conversation)?,
            turn: abi.turn,
            trace_parent: Cross::from_abi(abi.trace_parent)?,
        })
    }
}

fn to_json<T: Serialize>(value: &T) -> RString {
    RString::from(
        serde_json::to_string(value)
            .expect("a value made of strings, numbers and lists has a JSON form"),
    )
}

fn from_json<T: DeserializeOwned>(expected: &'static str, json: &RString) -> Result<T, BadValue> {
    serde_json::from_str(json).map_err(|error| BadValue {
        expected,
        found: error.to_string(),
    })
}

macro_rules! cross_as_json {
    ($($name:ident),+) => {$(
        impl Cross for $name {
            type Abi = RString;

            fn into_abi(self) -> RString {
                to_json(&self)
            }

            fn from_abi(abi: RString) -> Result<Self, BadValue> {
                from_json(stringify!($name), &abi)
            }
        }
    )+};
}

cross_as_json!(TierEvent, Explanation, TierStats, TierHealth);

#[cfg(test)]
mod tests;
