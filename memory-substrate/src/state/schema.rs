//! The shape of the state database, as the list of steps that lead to it.
//!
//! A step that was released is never edited: its checksum is stored in every database it was applied to, and a
//! difference is refused. A change is a new step at the end.

use super::migrate::Migration;

/// Marks our files among all SQLite files: "STRA" in ASCII.
pub(super) const APPLICATION_ID: i32 = 0x5354_5241;

/// Every step, oldest first.
pub(super) const MIGRATIONS: &[Migration] = &[
    Migration {
        id: 1,
        name: "turns, residency, logs, origins, intake",
        sql: include_str!("schema/0001.sql"),
    },
    Migration {
        id: 2,
        name: "operations on files",
        sql: include_str!("schema/0002.sql"),
    },
    Migration {
        id: 3,
        name: "items, their ledger, branches",
        sql: include_str!("schema/0003.sql"),
    },
    Migration {
        id: 4,
        name: "what the index holds",
        sql: include_str!("schema/0004.sql"),
    },
    Migration {
        id: 5,
        name: "forgetting entries",
        sql: include_str!("schema/0005.sql"),
    },
    Migration {
        id: 6,
        name: "evidence on its way",
        sql: include_str!("schema/0006.sql"),
    },
    Migration {
        id: 7,
        name: "background work",
        sql: include_str!("schema/0007.sql"),
    },
];
