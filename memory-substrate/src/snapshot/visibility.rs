//! Which sections a requester may be shown.
//!
//! It is decided here, below every search and before any cut, so that what is hidden never takes a place from what is
//! not, and no caller can forget it.

use std::collections::BTreeSet;

use memory_core::provenance::{Authority, Channel, Trust};
use memory_core::services::CallScope;

/// What one requester may see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visibility {
    channels: Option<BTreeSet<Channel>>,
}

impl Visibility {
    /// Returns what the requester of a call may see: trusted text of the call's channels and the global one, and
    /// nothing at all for nobody known.
    pub fn of(scope: &CallScope) -> Self {
        match scope.requester.authority {
            Authority::None => Self::nothing(),
            Authority::Owner | Authority::Paired => Self::channels(scope.channels.iter().cloned()),
        }
    }

    /// Returns the sight of somebody who may see nothing.
    pub const fn nothing() -> Self {
        Self { channels: None }
    }

    /// Returns the sight of somebody who may see these channels and the global one.
    pub fn channels(channels: impl IntoIterator<Item = Channel>) -> Self {
        Self {
            channels: Some(channels.into_iter().chain([Channel::Global]).collect()),
        }
    }

    /// Returns whether text of this channel and trust may be shown.
    pub fn allows(&self, channel: &Channel, trust: Trust) -> bool {
        trust == Trust::Trusted && self.allows_channel(channel)
    }

    /// Returns whether anything of this channel may be shown.
    pub fn allows_channel(&self, channel: &Channel) -> bool {
        self.channels
            .as_ref()
            .is_some_and(|channels| channels.contains(channel))
    }

    /// Returns whether nothing may be shown.
    pub const fn is_nothing(&self) -> bool {
        self.channels.is_none()
    }
}

#[cfg(test)]
mod tests {
    use memory_core::services::Requester;

    use super::*;

    fn scope(authority: Authority, channels: &[&str]) -> CallScope {
        CallScope {
            requester: Requester {
                authority,
                ..Requester::default()
            },
            channels: channels.iter().map(|name| Channel::parse(name)).collect(),
            ..CallScope::default()
        }
    }

    #[test]
    fn nobody_known_sees_nothing_and_untrusted_text_is_seen_by_nobody() {
        let nobody = Visibility::of(&scope(Authority::None, &["_global"]));
        assert!(!nobody.allows(&Channel::Global, Trust::Trusted));
        let owner = Visibility::of(&scope(Authority::Owner, &[]));
        assert!(owner.allows(&Channel::Global, Trust::Trusted));
        assert!(!owner.allows(&Channel::Global, Trust::Untrusted));
    }

    #[test]
    fn a_channel_is_seen_only_when_it_was_named() {
        let ada = Visibility::of(&scope(Authority::Paired, &["ada"]));
        assert!(ada.allows(&Channel::User("ada".to_owned()), Trust::Trusted));
        assert!(ada.allows(&Channel::Global, Trust::Trusted));
        assert!(!ada.allows(&Channel::User("bob".to_owned()), Trust::Trusted));
    }
}
