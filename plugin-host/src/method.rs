//! The methods of a tier by which its counters and incidents are kept.

/// Something of a tier that is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Method {
    Create,
    Health,
    BeginTurn,
    Commit,
    Discard,
    OnEvent,
    Explain,
    Stats,
    Shutdown,
}

impl Method {
    pub(crate) const ALL: [Self; 9] = [
        Self::Create,
        Self::Health,
        Self::BeginTurn,
        Self::Commit,
        Self::Discard,
        Self::OnEvent,
        Self::Explain,
        Self::Stats,
        Self::Shutdown,
    ];

    /// Returns the name as authors of tiers know it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Health => "health",
            Self::BeginTurn => "begin_turn",
            Self::Commit => "commit",
            Self::Discard => "discard",
            Self::OnEvent => "on_event",
            Self::Explain => "explain",
            Self::Stats => "stats",
            Self::Shutdown => "shutdown",
        }
    }
}
