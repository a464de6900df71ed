//! One revision of an item as a row, with what hangs on it.

use std::collections::{BTreeMap, BTreeSet};

use memory_core::item::{
    Claim, Evidence, EvidenceId, ForgetReason, Interval, Item, ItemId, ItemRecord, ItemState,
    Layer, LayerName, Processing, Receipt, Revision, ServedLayer, Status, Tombstone,
};
use memory_core::provenance::{Authority, Channel, Origin, Trust};
use memory_core::store::StoreResult;
use memory_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::super::sql::{Count, Named, damaged, sql};

/// The columns that [`read`] needs.
pub(super) const COLUMNS: &str = "item, revision, channel, learnt, layer, status, status_at, expires_at, archived_from, superseded_by, \
     reopens, processing, receipt, blocked_reason, claim, origin, authority, trust, endorsed, valid_from, valid_to, \
     forget_reason";

/// Returns the newest revision of an item.
pub(crate) fn current(connection: &Connection, id: &ItemId) -> StoreResult<Option<ItemState>> {
    let query =
        format!("SELECT {COLUMNS} FROM item_revisions WHERE item = ?1 AND known_to IS NULL");
    let found = connection
        .prepare_cached(&query)
        .and_then(|mut statement| statement.query_row([id.as_str()], read).optional())
        .map_err(sql("read an item"))?;
    found.map(|row| hydrate(connection, row)).transpose()
}

/// Returns one revision of an item.
pub(super) fn of(
    connection: &Connection,
    item: &str,
    revision: u32,
) -> StoreResult<Option<ItemState>> {
    let query = format!("SELECT {COLUMNS} FROM item_revisions WHERE item = ?1 AND revision = ?2");
    let found = connection
        .prepare_cached(&query)
        .and_then(|mut statement| {
            statement
                .query_row(params![item, revision], read)
                .optional()
        })
        .map_err(sql("read a revision"))?;
    found.map(|row| hydrate(connection, row)).transpose()
}

/// A row, before what hangs on it was read.
pub(super) enum Bare {
    Live(Box<ItemRecord>),
    Forgotten(Tombstone),
}

/// Returns a row's revision with its evidence and shadows, validated.
pub(super) fn hydrate(connection: &Connection, row: Bare) -> StoreResult<ItemState> {
    let mut record = match row {
        Bare::Forgotten(tombstone) => return Ok(ItemState::Forgotten(tombstone)),
        Bare::Live(record) => record,
    };
    let key = params![record.id.as_str(), record.revision];
    record.evidence = connection
        .prepare_cached(
            "SELECT evidence, source, trust FROM item_evidence WHERE item = ?1 AND since <= ?2",
        )
        .and_then(|mut statement| {
            statement
                .query_map(key, |row| {
                    let piece = Evidence {
                        source: row.get(1)?,
                        trust: row.get::<_, Named<Trust>>(2)?.0,
                    };
                    Ok((row.get::<_, Named<EvidenceId>>(0)?.0, piece))
                })?
                .collect::<rusqlite::Result<BTreeMap<_, _>>>()
        })
        .map_err(sql("read an item's evidence"))?;
    record.shadows = connection
        .prepare_cached("SELECT shadowed FROM item_shadows WHERE item = ?1 AND since <= ?2")
        .and_then(|mut statement| {
            statement
                .query_map(key, |row| Ok(row.get::<_, Named<ItemId>>(0)?.0))?
                .collect::<rusqlite::Result<BTreeSet<_>>>()
        })
        .map_err(sql("read what an item shadows"))?;
    let id = record.id.clone();
    Item::new(*record)
        .map(ItemState::Live)
        .map_err(|error| damaged(&format!("`{id}` is in no legal state ({error})")))
}

/// Reads a row that was selected with [`COLUMNS`].
pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Bare> {
    let id = row.get::<_, Named<ItemId>>("item")?.0;
    let revision: Revision = row.get("revision")?;
    let channel = row.get::<_, Named<Channel>>("channel")?.0;
    let learnt = Timestamp::from_millis(row.get("learnt")?);
    let layer_name = row.get::<_, Named<LayerName>>("layer")?.0;
    let status: String = row.get("status")?;
    if status == "forgotten" {
        return Ok(Bare::Forgotten(Tombstone {
            id,
            revision,
            channel,
            layer: layer_name,
            learnt,
            forgotten_at: Timestamp::from_millis(row.get("status_at")?),
            reason: row.get::<_, Named<ForgetReason>>("forget_reason")?.0,
        }));
    }
    let layer = match layer_name {
        LayerName::ShortTerm => Layer::ShortTerm {
            expires_at: Timestamp::from_millis(row.get("expires_at")?),
        },
        LayerName::LongTerm => Layer::LongTerm,
        LayerName::Archive => Layer::Archive {
            from: row.get::<_, Named<ServedLayer>>("archived_from")?.0,
        },
    };
    let processing: String = row.get("processing")?;
    let processing = match processing.as_str() {
        "processed" => Processing::Processed {
            receipt: row.get::<_, Json<Receipt>>("receipt")?.0,
        },
        "blocked" => Processing::Blocked {
            reason: row.get("blocked_reason")?,
        },
        _ => Processing::Pending,
    };
    let status = match status.as_str() {
        "superseded" => Status::Superseded {
            by: row.get::<_, Named<ItemId>>("superseded_by")?.0,
            at: Timestamp::from_millis(row.get("status_at")?),
            reopens: instant(row, "reopens")?,
        },
        "expired" => Status::Expired {
            at: Timestamp::from_millis(row.get("status_at")?),
        },
        _ => Status::Active,
    };
    let valid = Interval::new(instant(row, "valid_from")?, instant(row, "valid_to")?);
    Ok(Bare::Live(Box::new(ItemRecord {
        id,
        revision,
        claim: row.get::<_, Named<Claim>>("claim")?.0,
        channel,
        origin: row.get::<_, Named<Origin>>("origin")?.0,
        authority: row.get::<_, Named<Authority>>("authority")?.0,
        trust: row.get::<_, Named<Trust>>("trust")?.0,
        endorsed: row.get("endorsed")?,
        valid: valid.map_err(unreadable)?,
        learnt,
        layer,
        processing,
        status,
        evidence: BTreeMap::new(),
        shadows: BTreeSet::new(),
    })))
}

/// Makes a revision the newest one of its item.
pub(super) fn write(
    connection: &Connection,
    state: &ItemState,
    operation: u64,
    at: Timestamp,
) -> StoreResult<()> {
    connection
        .prepare_cached(
            "UPDATE item_revisions SET known_to = ?2 WHERE item = ?1 AND known_to IS NULL",
        )
        .and_then(|mut statement| statement.execute(params![state.id().as_str(), at.as_millis()]))
        .map_err(sql("end a revision"))?;
    match state {
        ItemState::Live(item) => {
            insert(connection, item, operation, at)?;
            link(connection, item)
        }
        ItemState::Forgotten(tombstone) => bury(connection, tombstone, operation, at),
    }
}

/// Takes away what an item said: its older revisions, what hangs on them, and the salts of its operations.
pub(super) fn scrub(connection: &Connection, state: &ItemState) -> StoreResult<()> {
    let (id, revision) = (state.id().as_str(), state.revision());
    for statement in [
        "DELETE FROM item_revisions WHERE item = ?1 AND revision < ?2",
        "DELETE FROM item_citation WHERE item = ?1 AND ?2 > 0",
        "DELETE FROM item_evidence WHERE item = ?1 AND ?2 > 0",
        "DELETE FROM item_shadows WHERE item = ?1 AND ?2 > 0",
        "UPDATE item_operations SET salt = NULL WHERE item = ?1 AND revision < ?2",
    ] {
        connection
            .execute(statement, params![id, revision])
            .map_err(sql("forget an item"))?;
    }
    Ok(())
}

fn insert(connection: &Connection, item: &Item, operation: u64, at: Timestamp) -> StoreResult<()> {
    let archived_from = match item.layer {
        Layer::Archive { from } => Some(Named(from)),
        Layer::ShortTerm { .. } | Layer::LongTerm => None,
    };
    let (receipt, blocked) = match &item.processing {
        Processing::Pending => (None, None),
        Processing::Processed { receipt } => (Some(Json(receipt)), None),
        Processing::Blocked { reason } => (None, Some(reason)),
    };
    let (status_at, by, reopens) = match &item.status {
        Status::Active => (None, None, None),
        Status::Superseded { by, at, reopens } => (Some(*at), Some(by.as_str()), *reopens),
        Status::Expired { at } => (Some(*at), None, None),
    };
    let millis = |instant: Option<Timestamp>| instant.map(Timestamp::as_millis);
    connection
        .prepare_cached(
            "INSERT INTO item_revisions (item, revision, operation, known_from, channel, learnt, layer, status, status_at, \
             expires_at, archived_from, superseded_by, reopens, processing, receipt, blocked_reason, claim, claim_hash, \
             text_hash, origin, authority, trust, endorsed, valid_from, valid_to) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, \
             ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25)",
        )
        .and_then(|mut statement| {
            statement.execute(params![
                item.id.as_str(),
                item.revision,
                Count(operation),
                at.as_millis(),
                item.channel.to_string(),
                item.learnt.as_millis(),
                item.layer.name().as_str(),
                item.status.as_str(),
                millis(status_at),
                millis(item.layer.expires_at()),
                archived_from,
                by,
                millis(reopens),
                item.processing.as_str(),
                receipt,
                blocked,
                item.claim.as_str(),
                item.claim.claim_hash(),
                item.claim.text_hash(),
                Named(item.origin),
                Named(item.authority),
                Named(item.trust),
                item.endorsed,
                millis(item.valid.from()),
                millis(item.valid.to()),
            ])
        })
        .map(drop)
        .map_err(sql("write a revision"))
}

fn bury(
    connection: &Connection,
    tombstone: &Tombstone,
    operation: u64,
    at: Timestamp,
) -> StoreResult<()> {
    connection
        .prepare_cached(
            "INSERT INTO item_revisions (item, revision, operation, known_from, channel, learnt, layer, status, status_at, \
             forget_reason) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 'forgotten', ?8, ?9)",
        )
        .and_then(|mut statement| {
            statement.execute(params![
                tombstone.id.as_str(),
                tombstone.revision,
                Count(operation),
                at.as_millis(),
                tombstone.channel.to_string(),
                tombstone.learnt.as_millis(),
                tombstone.layer.as_str(),
                tombstone.forgotten_at.as_millis(),
                Named(tombstone.reason),
            ])
        })
        .map(drop)
        .map_err(sql("write a tombstone"))
}

/// Adds the links that the item did not have before.
fn link(connection: &Connection, item: &Item) -> StoreResult<()> {
    for (id, piece) in &item.evidence {
        connection
            .prepare_cached(
                "INSERT INTO item_evidence (item, evidence, source, trust, since) VALUES (?1, ?2, ?3, ?4, ?5) \
                 ON CONFLICT (item, evidence) DO NOTHING",
            )
            .and_then(|mut statement| {
                statement.execute(params![
                    item.id.as_str(),
                    id.as_str(),
                    piece.source,
                    Named(piece.trust),
                    item.revision,
                ])
            })
            .map_err(sql("link evidence"))?;
    }
    for shadowed in &item.shadows {
        connection
            .prepare_cached(
                "INSERT INTO item_shadows (item, shadowed, since) VALUES (?1, ?2, ?3) \
                 ON CONFLICT (item, shadowed) DO NOTHING",
            )
            .and_then(|mut statement| {
                statement.execute(params![item.id.as_str(), shadowed.as_str(), item.revision])
            })
            .map_err(sql("link what an item shadows"))?;
    }
    Ok(())
}

fn instant(row: &Row<'_>, column: &str) -> rusqlite::Result<Option<Timestamp>> {
    Ok(row
        .get::<_, Option<i64>>(column)?
        .map(Timestamp::from_millis))
}

fn unreadable(error: impl std::error::Error + Send + Sync + 'static) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, Box::new(error))
}

/// A structure, stored as JSON.
struct Json<T>(T);

impl<T: serde::Serialize> rusqlite::ToSql for Json<T> {
    fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
        serde_json::to_string(&self.0)
            .map(Into::into)
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
    }
}

impl<T: serde::de::DeserializeOwned> rusqlite::types::FromSql for Json<T> {
    fn column_result(value: rusqlite::types::ValueRef<'_>) -> rusqlite::types::FromSqlResult<Self> {
        serde_json::from_str(value.as_str()?)
            .map(Self)
            .map_err(rusqlite::types::FromSqlError::other)
    }
}
