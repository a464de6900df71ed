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
    /// Returns what the requester of a call may see, always trusted text only.
    ///
    /// For the owner it is that of the call's channels and the global one; for a paired person that of the call's
    /// channels without the global one, which is the owner's own; for nobody known nothing at all.
    pub fn of(scope: &CallScope) -> Self {
        match scope.requester.authority {
            Authority::None => Self::nothing(),
            Authority::Owner => Self::channels(scope.channels.iter().cloned()),
            Authority::Paired => {
                let named = scope.channels.iter().cloned();
                let shared: BTreeSet<Channel> = named
                    .filter(|channel| *channel != Channel::Global)
                    .collect();
                Self {
                    channels: (!shared.is_empty()).then_some(shared),
                }
            }
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

    /// Returns whether what belongs to no channel may be shown: the views and the knowledge base.
    pub fn allows_global(&self) -> bool {
        self.allows_channel(&Channel::Global)
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
        let ada = Channel::User("ada".to_owned());
        let bob = Channel::User("bob".to_owned());
        for authority in [Authority::Owner, Authority::Paired] {
            let seen = Visibility::of(&scope(authority, &["ada"]));
            assert!(seen.allows(&ada, Trust::Trusted));
            assert!(!seen.allows(&ada, Trust::Untrusted));
            assert!(!seen.allows(&bob, Trust::Trusted));
        }
    }

    #[test]
    fn a_paired_person_never_sees_the_global_channel() {
        for named in [&["ada"][..], &["ada", "_global"]] {
            let seen = Visibility::of(&scope(Authority::Paired, named));
            assert!(!seen.allows_global() && !seen.is_nothing(), "{named:?}");
        }
        for named in [&[][..], &["_global"]] {
            let seen = Visibility::of(&scope(Authority::Paired, named));
            assert_eq!(seen, Visibility::nothing(), "{named:?}");
        }
        assert!(Visibility::of(&scope(Authority::Owner, &[])).allows_global());
    }
}
