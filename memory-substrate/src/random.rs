//! The operating system's randomness.

use memory_core::env::Rng;

/// Randomness that nobody can guess.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemRng;

impl Rng for SystemRng {
    fn next_u64(&self) -> u64 {
        getrandom::u64().expect("an operating system that runs programs supplies randomness")
    }
}
