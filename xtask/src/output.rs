//! The two ways xtask talks: results on standard output, progress and complaints on standard error.
//!
//! The split lets `cargo xtask bench --json` be piped. Both ignore a closed pipe, because `println!` panics on one and
//! `cargo xtask tidy | head` is a normal thing to type.

use std::fmt::Display;
use std::io::Write as _;

/// Writes one line of result to standard output.
pub(crate) fn say(line: impl Display) {
    writeln!(std::io::stdout().lock(), "{line}").ok();
}

/// Writes one line of progress or complaint to standard error.
pub(crate) fn note(line: impl Display) {
    writeln!(std::io::stderr().lock(), "{line}").ok();
}

/// Returns a byte count as people read it.
pub(crate) fn human_bytes(bytes: u64) -> String {
    let (divisor, unit) = match bytes {
        0..1_000 => return format!("{bytes} B"),
        1_000..1_000_000 => (1_000, "kB"),
        _ => (1_000_000, "MB"),
    };
    format!(
        "{}.{} {unit}",
        bytes / divisor,
        bytes % divisor * 10 / divisor
    )
}

#[cfg(test)]
mod tests {
    use super::human_bytes;

    #[test]
    fn sizes_read_well() {
        assert_eq!(human_bytes(512), "512 B");
        assert_eq!(human_bytes(495_700), "495.7 kB");
        assert_eq!(human_bytes(90_868_376), "90.8 MB");
    }
}
