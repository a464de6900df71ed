//! Figures of a running process: times, percentiles, memory.

use std::io;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// One measured figure.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Figure {
    /// Its name, words joined by `_`.
    pub name: String,
    /// Its value.
    pub value: f64,
    /// Its unit.
    pub unit: String,
}

impl Figure {
    /// Returns a figure.
    pub fn new(name: impl Into<String>, value: f64, unit: &str) -> Self {
        Self {
            name: name.into(),
            value,
            unit: unit.to_owned(),
        }
    }

    /// Returns a duration as milliseconds.
    pub fn millis(name: impl Into<String>, value: Duration) -> Self {
        Self::new(name, value.as_secs_f64() * 1e3, "ms")
    }
}

/// Returns the value below which a share of the durations lies, by the nearest rank.
pub fn percentile(durations: &mut [Duration], share: f64) -> Duration {
    durations.sort_unstable();
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "there are a few thousand measurements and the share is between 0 and 1"
    )]
    let rank = (share * durations.len() as f64).ceil() as usize;
    durations
        .get(rank.saturating_sub(1))
        .copied()
        .unwrap_or_default()
}

/// Returns this process's resident memory in megabytes (10^6 bytes), 0 where the system does not tell.
pub fn resident_megabytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kilobytes = status
        .lines()
        .find_map(|line| {
            line.strip_prefix("VmRSS:")?
                .trim()
                .strip_suffix("kB")?
                .trim()
                .parse::<f64>()
                .ok()
        })
        .unwrap_or_default();
    kilobytes * 1024.0 / 1e6
}

/// Returns how much the files below a folder hold, in megabytes.
pub fn folder_megabytes(folder: &Path) -> io::Result<f64> {
    let (mut folders, mut bytes) = (vec![folder.to_owned()], 0);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            // A link is not followed, and counts as nothing.
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            } else {
                bytes += entry.metadata()?.len();
            }
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "the size of a folder")]
    let bytes = bytes as f64;
    Ok(bytes / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_measured_values() {
        let mut durations: Vec<_> = (1..=100).rev().map(Duration::from_millis).collect();
        assert_eq!(percentile(&mut durations, 0.5), Duration::from_millis(50));
        assert_eq!(percentile(&mut durations, 0.95), Duration::from_millis(95));
        assert_eq!(percentile(&mut durations, 1.0), Duration::from_millis(100));
        assert_eq!(percentile(&mut [], 0.5), Duration::ZERO);
    }
}
