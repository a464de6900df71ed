//! Everything that needs more than one crate, in one binary, because each binary links the database.

mod child;
mod conform;
mod crash;
mod loader;
mod minors;
mod misbehave;
mod six;
mod swap;
mod told;
mod vault;
