//! A tier that keeps to the contract but for the one rule that its configuration names.
//!
//! The conformance program is only worth something if it notices each fault, so there is a fault for each of its rules.
//! Without a fault this tier passes, which proves that nothing else about it is wrong.

#![forbid(unsafe_code)]

mod config;
mod faults;
mod tier;

use tier::BadTier;

memory_core::export_tier!(BadTier);
