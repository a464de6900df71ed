//! The calls that the façade makes into a tier: who asks, about what, and for how long.

use memory_core::provenance::{Authority, Channel};
use memory_core::services::{Call, CallScope, Requester};
use plugin_host::new_call;

use super::Assistant;
use crate::turn::TurnInput;

/// Returns the channels a turn may read beside the global one.
pub(super) fn channels(input: &TurnInput) -> Vec<Channel> {
    let mut channels = input.channels.clone();
    if input.channel != Channel::Global && !channels.contains(&input.channel) {
        channels.push(input.channel.clone());
    }
    channels
}

impl Assistant {
    /// Returns a call of this scope that may take as long as the options allow. Dropping its future gives it up.
    pub(super) fn call(&self, scope: CallScope) -> Call {
        new_call(scope, self.options.tier_deadline).0
    }

    /// Returns a call that belongs to no turn, made by the host on the owner's behalf.
    pub(super) fn quiet_call(&self, consumer: &str) -> Call {
        self.conversation_call(consumer, String::new())
    }

    /// Returns a call about a conversation as a whole, made by the host on the owner's behalf.
    pub(super) fn conversation_call(&self, consumer: &str, conversation: String) -> Call {
        let requester = Requester {
            principal: None,
            authority: Authority::Owner,
            consumer: consumer.to_owned(),
        };
        self.call(CallScope {
            requester,
            conversation,
            ..CallScope::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_may_read_the_channel_it_is_said_in() {
        let mut input = TurnInput::owner("c", "hi");
        assert!(channels(&input).is_empty());
        input.channel = Channel::Project("atlas".to_owned());
        let expected = vec![input.channel.clone()];
        assert_eq!(channels(&input), expected);
        input.channels.clone_from(&expected);
        assert_eq!(channels(&input), expected);
    }
}
