//! Reads `origin_date`: the date that a page's content is from, as opposed to when it was written down.
//!
//! The grammar is one narrow slice of ISO 8601 and nothing else, because a guess between day and month would put
//! a memory into the wrong month for good. A time without an offset is UTC, so that the zone of the process that
//! reads the file never matters.

use jiff::civil::Date;
use jiff::tz::Offset;

const MINUTE_MS: i64 = 60_000;

/// Returns the instant, in milliseconds since 1970 UTC, that `text` names.
///
/// Accepted are `YYYY-MM-DD` and `YYYY-MM-DDThh:mm[:ss[.fraction]][Z|±hh[:]mm]`. The written day has to exist.
/// Digits of a fraction past the millisecond are dropped.
#[must_use]
pub fn parse(text: &str) -> Option<i64> {
    let text = text.trim();
    let day = date(text.get(..10)?)?;
    let midnight = Offset::UTC
        .to_timestamp(day.at(0, 0, 0, 0))
        .ok()?
        .as_millisecond();
    let rest = &text[10..];
    if rest.is_empty() {
        return Some(midnight);
    }
    let (clock, offset) = split_offset(rest.strip_prefix('T')?)?;
    Some(midnight + milliseconds(clock)? - offset)
}

/// Returns the day as it is written, if the whole of `text` is a date we read.
#[must_use]
pub fn day(text: &str) -> Option<&str> {
    parse(text)?;
    text.trim().get(..10)
}

fn date(text: &str) -> Option<Date> {
    let mut parts = text.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    let year = i16::try_from(number(year, 4)?).ok()?;
    let month = i8::try_from(number(month, 2)?).ok()?;
    Date::new(year, month, i8::try_from(number(day, 2)?).ok()?).ok()
}

/// Splits the offset, in milliseconds east of Greenwich, from the end of a clock reading.
fn split_offset(text: &str) -> Option<(&str, i64)> {
    if let Some(clock) = text.strip_suffix('Z') {
        return Some((clock, 0));
    }
    let Some(at) = text.find(['+', '-']) else {
        return Some((text, 0));
    };
    let (clock, offset) = text.split_at(at);
    let digits = &offset[1..];
    let (hours, minutes) = digits
        .split_once(':')
        .or_else(|| digits.split_at_checked(2))?;
    let east = (below(hours, 24)? * 60 + below(minutes, 60)?) * MINUTE_MS;
    Some((clock, if offset.starts_with('-') { -east } else { east }))
}

/// Returns the milliseconds since midnight of `hh:mm[:ss[.fraction]]`.
fn milliseconds(clock: &str) -> Option<i64> {
    let (hours, rest) = clock.split_once(':')?;
    let (minutes, seconds) = rest
        .split_once(':')
        .map_or((rest, None), |(minutes, seconds)| (minutes, Some(seconds)));
    let mut total = (below(hours, 24)? * 60 + below(minutes, 60)?) * MINUTE_MS;
    if let Some(seconds) = seconds {
        let (whole, fraction) = seconds
            .split_once('.')
            .map_or((seconds, None), |(whole, rest)| (whole, Some(rest)));
        total += below(whole, 60)? * 1_000;
        if let Some(fraction) = fraction {
            if fraction.is_empty() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
                return None;
            }
            let digits: String = fraction.chars().chain("00".chars()).take(3).collect();
            total += digits.parse::<i64>().ok()?;
        }
    }
    Some(total)
}

fn below(text: &str, limit: i64) -> Option<i64> {
    number(text, 2).filter(|value| *value < limit)
}

fn number(text: &str, digits: usize) -> Option<i64> {
    if text.len() != digits || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_the_grammar() {
        for (text, expected) in [
            ("1970-01-01", 0),
            ("1969-12-31", -86_400_000),
            ("2025-03-14", 1_741_910_400_000),
            ("2025-03-14T12:00", 1_741_953_600_000),
            ("2025-03-14T12:00Z", 1_741_953_600_000),
            ("2025-03-14T12:00:01.5Z", 1_741_953_601_500),
            ("2025-03-14T12:00:01.123456", 1_741_953_601_123),
            ("2025-03-14T12:00+05:30", 1_741_933_800_000),
            ("2025-03-14T12:00-0100", 1_741_957_200_000),
            ("2024-02-29T00:00:00+14:00", 1_709_114_400_000),
            (" 1970-01-01 ", 0),
        ] {
            assert_eq!(parse(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn refuses_everything_else() {
        for text in [
            "",
            "2025",
            "2025-3-4",
            "03/04/2025",
            "Apr 3 2025",
            "2025-02-30",
            "2025-02-30T23:00-05:00",
            "2025-13-01",
            "2025-03-14t12:00",
            "2025-03-14 12:00",
            "2025-03-14T",
            "2025-03-14T12",
            "2025-03-14T24:00",
            "2025-03-14T12:60",
            "2025-03-14T12:00:60",
            "2025-03-14T12:00:",
            "2025-03-14T12:00:00.",
            "2025-03-14T12:00z",
            "2025-03-14T12:00+5",
            "2025-03-14T12:00+05:3",
            "2025-03-14T12:00+99:00",
            "2025-03-14T12:00ZZ",
            "2025-03-14Z",
            "-001-01-01",
            "２０２５-03-14",
            "2025-03-1é",
        ] {
            assert_eq!(parse(text), None, "{text}");
            assert_eq!(day(text), None, "{text}");
        }
        assert_eq!(day("2025-03-14T23:00-05:00"), Some("2025-03-14"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn never_panics(text in "\\PC{0,40}|[0-9T:Z+.-]{0,30}") {
            let _ = parse(&text);
        }
    }
}
