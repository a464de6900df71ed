//! Identifiers for real use.
//!
//! They are UUIDs of version 7, so that they sort by the time they were made and never collide between processes.

use memory_core::env::Ids;

/// Makes UUIDs of version 7, written without hyphens.
#[derive(Clone, Copy, Debug, Default)]
pub struct UuidIds;

impl Ids for UuidIds {
    fn next_id(&self) -> String {
        uuid::Uuid::now_v7().simple().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_short_lower_case_and_distinct() {
        let (first, second) = (UuidIds.next_id(), UuidIds.next_id());
        assert_ne!(first, second);
        assert_eq!(first.len(), 32);
        assert!(
            first
                .chars()
                .all(|letter| letter.is_ascii_digit() || letter.is_ascii_lowercase())
        );
    }
}
