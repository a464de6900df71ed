//! Instants and the two times of every claim.
//!
//! Instants are UTC milliseconds everywhere; a civil time exists only where a person reads it, and is made with the
//! assistant's own zone, never the process's.

use std::fmt;

use serde::{Deserialize, Serialize};

/// An instant in milliseconds since the Unix epoch, UTC. Negative before 1970.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// Returns the instant that many milliseconds after the epoch.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Returns the milliseconds since the epoch.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Returns this instant moved by a number of milliseconds, saturating.
    #[must_use]
    pub const fn plus_millis(self, millis: i64) -> Self {
        Self(self.0.saturating_add(millis))
    }

    /// Returns the calendar date in UTC as `YYYY-MM-DD`.
    pub fn utc_date(self) -> String {
        self.in_zone("UTC")
            .map_or_else(String::new, |zoned| zoned.strftime("%Y-%m-%d").to_string())
    }

    /// Returns the date and time in UTC as `YYYY-MM-DD HH:MM`.
    pub fn utc_minute(self) -> String {
        self.in_zone("UTC").map_or_else(String::new, |zoned| {
            zoned.strftime("%Y-%m-%d %H:%M").to_string()
        })
    }

    /// Returns the civil time in a zone as `YYYY-MM-DD HH:MM`, falling back to UTC when the zone is unknown.
    pub fn civil_minute(self, zone: &str) -> String {
        self.in_zone(zone).map_or_else(
            || self.utc_minute(),
            |zoned| zoned.strftime("%Y-%m-%d %H:%M").to_string(),
        )
    }

    /// Returns the civil date in a zone as `YYYY-MM-DD`, falling back to UTC when the zone is unknown.
    pub fn civil_date(self, zone: &str) -> String {
        self.in_zone(zone).map_or_else(
            || self.utc_date(),
            |zoned| zoned.strftime("%Y-%m-%d").to_string(),
        )
    }

    fn in_zone(self, zone: &str) -> Option<jiff::ZonedDateTime> {
        let instant = jiff::Timestamp::from_millisecond(self.0).ok()?;
        let zone = if zone == "UTC" {
            jiff::tz::TimeZone::UTC
        } else {
            jiff::tz::TimeZone::get(zone).ok()?
        };
        Some(instant.to_zoned_datetime(zone))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(instant) => write!(formatter, "{instant}"),
            Err(_) => write!(formatter, "{} ms", self.0),
        }
    }
}

/// Returns whether a zone name is one the time-zone database knows.
pub fn is_known_zone(zone: &str) -> bool {
    zone == "UTC" || jiff::tz::TimeZone::get(zone).is_ok()
}

/// When a claim was so, and when it was learnt. Both intervals are half open; a missing end means "still".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TwoTimes {
    /// Start of the event-time interval; `None` when unknown.
    pub valid_from: Option<Timestamp>,
    /// End of the event-time interval; `None` while it holds.
    pub valid_to: Option<Timestamp>,
    /// When the claim was learnt.
    pub learnt: Timestamp,
    /// When the claim was superseded; `None` while it is current.
    pub superseded: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn civil_time_uses_the_named_zone() {
        let instant = Timestamp::from_millis(1_796_050_800_000);
        assert_eq!(instant.utc_minute(), "2026-11-30 15:00");
        assert_eq!(instant.civil_minute("Asia/Tokyo"), "2026-12-01 00:00");
        assert_eq!(instant.civil_date("Asia/Tokyo"), "2026-12-01");
        assert_eq!(instant.civil_minute("No/Where"), instant.utc_minute());
    }

    #[test]
    fn instants_outside_the_calendar_still_print() {
        assert_eq!(
            Timestamp::from_millis(i64::MAX).to_string(),
            format!("{} ms", i64::MAX)
        );
        assert_eq!(Timestamp::from_millis(i64::MAX).utc_date(), "");
    }
}
