//! The checks as a person runs them: the real program over a copy of this workspace with one fault planted in it.
//!
//! The rules have unit tests of their own. These prove that the rules are wired to what cargo really prints, which a
//! hand-made graph cannot.

/// Planted breaches of the crate table.
mod boundary;
/// Tiers removed from a copy.
mod removal;
/// The copy of the workspace.
mod workspace;
