//! Small values: each tier's own, and the assistant's.

use memory_core::services::KvScope;
use memory_core::store::{StoreError, StoreResult};
use rusqlite::{Connection, OptionalExtension as _};

use super::sql::sql;

/// Where a tier's value is.
pub(super) struct Place {
    namespace: String,
    scope: &'static str,
    owner: String,
    key: String,
}

impl Place {
    /// Returns the place, unless scope and owner contradict each other.
    pub(super) fn new(
        namespace: &str,
        scope: KvScope,
        owner: &str,
        key: &str,
    ) -> StoreResult<Self> {
        let scope_name = match scope {
            KvScope::Conversation => "conversation",
            KvScope::Assistant => "assistant",
        };
        if (scope == KvScope::Assistant) != owner.is_empty() {
            return Err(StoreError::BadRequest {
                reason: format!("a value of scope `{scope_name}` cannot belong to `{owner}`"),
            });
        }
        Ok(Self {
            namespace: namespace.to_owned(),
            scope: scope_name,
            owner: owner.to_owned(),
            key: key.to_owned(),
        })
    }
}

/// Returns a tier's value.
pub(super) fn get(connection: &Connection, place: &Place) -> StoreResult<Option<String>> {
    connection
        .prepare_cached("SELECT value FROM tier_kv WHERE namespace = ?1 AND scope = ?2 AND owner = ?3 AND key = ?4")
        .and_then(|mut statement| {
            statement
                .query_row([place.namespace.as_str(), place.scope, &place.owner, &place.key], |row| row.get(0))
                .optional()
        })
        .map_err(sql("read a value"))
}

/// Sets a tier's value, or removes it.
pub(super) fn put(connection: &Connection, place: &Place, value: Option<&str>) -> StoreResult<()> {
    let Place {
        namespace,
        scope,
        owner,
        key,
    } = place;
    let changed = match value {
        Some(value) => connection.execute(
            "INSERT INTO tier_kv (namespace, scope, owner, key, value) VALUES (?1, ?2, ?3, ?4, ?5) \
             ON CONFLICT (namespace, scope, owner, key) DO UPDATE SET value = excluded.value",
            [namespace.as_str(), scope, owner, key, value],
        ),
        None => connection.execute(
            "DELETE FROM tier_kv WHERE namespace = ?1 AND scope = ?2 AND owner = ?3 AND key = ?4",
            [namespace.as_str(), scope, owner, key],
        ),
    };
    changed.map(drop).map_err(sql("store a value"))
}

/// Removes every value that belongs to a conversation.
pub(super) fn clear_conversations(connection: &Connection) -> StoreResult<()> {
    connection
        .execute("DELETE FROM tier_kv WHERE scope = 'conversation'", [])
        .map(drop)
        .map_err(sql("remove values"))
}

/// Returns one of the assistant's own values.
pub(crate) fn meta(connection: &Connection, key: &str) -> StoreResult<Option<String>> {
    connection
        .query_row("SELECT value FROM meta WHERE key = ?1", [key], |row| {
            row.get(0)
        })
        .optional()
        .map_err(sql("read a value"))
}

/// Sets one of the assistant's own values, or removes it.
pub(crate) fn put_meta(connection: &Connection, key: &str, value: Option<&str>) -> StoreResult<()> {
    let changed = match value {
        Some(value) => connection.execute(
            "INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            [key, value],
        ),
        None => connection.execute("DELETE FROM meta WHERE key = ?1", [key]),
    };
    changed.map(drop).map_err(sql("store a value"))
}
