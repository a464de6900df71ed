//! What goes wrong in a world on purpose.

use std::time::Duration;

use memory_core::services::Capability;

/// One way in which a world misbehaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    /// None.
    #[default]
    None,
    /// A capability fails at every call.
    Fails(Capability),
    /// A capability cannot answer now.
    Unavailable(Capability),
    /// A capability panics at every call.
    Panics(Capability),
    /// A capability answers with nothing.
    Empty(Capability),
    /// A capability answers with nonsense.
    Nonsense(Capability, Nonsense),
    /// Nothing can be written, as when an assistant is opened for reading only.
    ReadOnly,
    /// What is in context cannot be recorded.
    RecordFails,
    /// Every answer takes this long, or until the call is over.
    Slow(Duration),
}

/// One kind of nonsense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nonsense {
    /// Lists are shorter than what was asked for.
    Short,
    /// Lists hold things twice, things nobody has heard of, and more than was asked for.
    Long,
    /// Numbers are no numbers, or as extreme as they can be.
    Numbers,
    /// Texts have megabytes, or are not what they should be.
    Texts,
}

impl Nonsense {
    pub(crate) const ALL: [Self; 4] = [Self::Short, Self::Long, Self::Numbers, Self::Texts];
}
