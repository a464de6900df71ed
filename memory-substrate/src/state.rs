//! The state database: turns, residency, logs, what was remembered, in one SQLite file.
//!
//! There is one writing connection and one reading connection, each behind a lock and used on blocking threads only, so
//! that readers never wait for a writer (the file is in WAL mode) and two writers never meet. Every write is one
//! immediate transaction, flushed before it is reported as done unless what it holds can be found out again. Opening an
//! existing file changes nothing in it unless the schema is older than this program.

use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use memory_core::env::Clock;
use memory_core::predicates::Tier;
use memory_core::services::{KvScope, LogKind, LogRow, Resident, ResidentEntry};
use memory_core::store::{PageOrigin, StateStore, StoreError, StoreResult, TurnNode};
use memory_core::time::Timestamp;
use rusqlite::{Connection, Transaction, TransactionBehavior};

use self::sql::sql;
use crate::blocking;

pub use self::history::PastOperation;
pub use self::remembered::BufferReader;

pub(crate) mod backup;
pub(crate) mod cache;
pub(crate) mod checkpoints;
pub(crate) mod erase;
pub(crate) mod evidence;
pub(crate) mod history;
pub(crate) mod indexed;
pub(crate) mod items;
pub(crate) mod jobs;
pub(crate) mod kv;
mod log;
mod migrate;
mod open;
pub(crate) mod ops;
pub(crate) mod origins;
mod purge;
pub(crate) mod remembered;
pub(crate) mod rescue;
mod residency;
pub(crate) mod runs;
mod schema;
mod sql;
mod tree;
mod turns;

/// The state database of one assistant.
pub struct SqliteState {
    connections: Arc<Connections>,
}

struct Connections {
    path: PathBuf,
    /// Absent when the file was opened for reading only.
    writer: Option<Mutex<Writer>>,
    reader: Mutex<Connection>,
    #[cfg(test)]
    faults: crate::fs::faulty::Faults,
}

/// The writing connection.
struct Writer {
    connection: Connection,
    /// Whether commits may return before they are on disk. Set before the connection is told so and cleared after it
    /// was told otherwise, so a panic or an error in between never makes a flushed write an unflushed one.
    relaxed: bool,
}

impl Writer {
    fn flushing(&mut self) -> StoreResult<&mut Connection> {
        if self.relaxed {
            self.connection
                .pragma_update(None, "synchronous", "FULL")
                .map_err(sql("restore flushing"))?;
            self.relaxed = false;
        }
        Ok(&mut self.connection)
    }

    fn relaxed(&mut self) -> StoreResult<&mut Connection> {
        if !self.relaxed {
            self.relaxed = true;
            self.connection
                .pragma_update(None, "synchronous", "NORMAL")
                .map_err(sql("relax flushing"))?;
        }
        Ok(&mut self.connection)
    }
}

impl SqliteState {
    /// Opens the database for reading and writing, creating it when there is none and upgrading it when it is older.
    ///
    /// The caller holds the assistant's writer lock. The clock dates the upgrades.
    pub fn open(path: &Path, clock: &dyn Clock) -> StoreResult<Self> {
        let writer = open::for_writing(path, schema::MIGRATIONS, clock.now())?;
        let reader = open::reader(path)?;
        Ok(Self::of(path, Some(writer), reader))
    }

    /// Opens an existing database for reading only. Nothing is created, locked or upgraded, and writes are refused.
    pub fn open_read_only(path: &Path) -> StoreResult<Self> {
        let reader = open::for_reading(path, schema::MIGRATIONS)?;
        Ok(Self::of(path, None, reader))
    }

    /// Opens the database on a disk that fails.
    #[cfg(test)]
    pub(crate) fn open_faulty(
        path: &Path,
        clock: &dyn Clock,
        faults: crate::fs::faulty::Faults,
    ) -> StoreResult<Self> {
        let mut state = Self::open(path, clock)?;
        let connections = Arc::get_mut(&mut state.connections);
        connections.expect("nobody else has it yet").faults = faults;
        Ok(state)
    }

    fn of(path: &Path, writer: Option<Connection>, reader: Connection) -> Self {
        let writer = writer.map(|connection| {
            Mutex::new(Writer {
                connection,
                relaxed: false,
            })
        });
        Self {
            connections: Arc::new(Connections {
                path: path.to_owned(),
                writer,
                reader: Mutex::new(reader),
                #[cfg(test)]
                faults: crate::fs::faulty::Faults::default(),
            }),
        }
    }

    /// Returns whether writes are refused.
    pub fn is_read_only(&self) -> bool {
        self.connections.writer.is_none()
    }

    /// Checks the whole file for damage. Reads every page of it.
    pub async fn check(&self) -> StoreResult<()> {
        self.read(open::check).await
    }

    /// Returns one of the assistant's own small facts, such as which index is current.
    pub async fn meta(&self, key: &str) -> StoreResult<Option<String>> {
        let key = key.to_owned();
        self.read(move |connection| kv::meta(connection, &key))
            .await
    }

    /// Sets one of the assistant's own small facts, or removes it with `None`.
    pub async fn put_meta(&self, key: &str, value: Option<String>) -> StoreResult<()> {
        let key = key.to_owned();
        self.write(move |transaction| kv::put_meta(transaction, &key, value.as_deref()))
            .await
    }

    /// Returns those of some entries of the buffer that must not be shown to a reader. It blocks.
    pub(crate) fn withheld_entries(
        &self,
        reader: &BufferReader,
        ids: &HashSet<String>,
    ) -> StoreResult<HashSet<String>> {
        self.read_blocking(|connection| remembered::withheld(connection, reader, ids))
    }

    /// Forgets what is in context and what tiers keep, for every conversation at once. What was said stays.
    pub async fn clear_conversations(&self) -> StoreResult<()> {
        self.write(move |transaction| {
            residency::clear_all(transaction)?;
            kv::clear_conversations(transaction)
        })
        .await
    }

    /// Returns the newest operations on files, newest first.
    pub async fn past_operations(&self, limit: u32) -> StoreResult<Vec<PastOperation>> {
        self.read(move |connection| history::newest(connection, limit))
            .await
    }

    /// Runs a query on the calling thread, which may block.
    pub(crate) fn read_blocking<T>(
        &self,
        query: impl FnOnce(&Connection) -> StoreResult<T>,
    ) -> StoreResult<T> {
        self.connections.read(query)
    }

    /// Runs one flushed transaction on the calling thread, which may block.
    pub(crate) fn write_blocking<T>(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> StoreResult<T>,
    ) -> StoreResult<T> {
        self.connections.write(change)
    }

    /// Runs one transaction that is not flushed by itself, on the calling thread.
    ///
    /// It keeps its place in the log, so a later flushed transaction makes it durable too. Only for what can be found
    /// out again when the power fails first.
    pub(crate) fn write_unflushed_blocking<T>(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> StoreResult<T>,
    ) -> StoreResult<T> {
        self.connections.write_unflushed(change)
    }

    pub(crate) async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        let connections = Arc::clone(&self.connections);
        blocking::run(move || connections.read(query)).await
    }

    pub(crate) async fn write<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        let connections = Arc::clone(&self.connections);
        blocking::run(move || connections.write(change)).await
    }

    /// Runs one transaction that becomes durable with the next flushed one, such as the one that ends the turn.
    async fn write_unflushed<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        let connections = Arc::clone(&self.connections);
        blocking::run(move || connections.write_unflushed(change)).await
    }
}

impl Connections {
    fn read<T>(&self, query: impl FnOnce(&Connection) -> StoreResult<T>) -> StoreResult<T> {
        // A panic while the lock was held left no transaction open: dropping it rolled back.
        let connection = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        // All statements of a query see one moment, however much is committed between them.
        let moment = connection
            .unchecked_transaction()
            .map_err(sql("begin to read"))?;
        query(&moment)
    }

    fn write<T>(&self, change: impl FnOnce(&Transaction<'_>) -> StoreResult<T>) -> StoreResult<T> {
        self.in_transaction(self.writer()?.flushing()?, change)
    }

    fn write_unflushed<T>(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> StoreResult<T>,
    ) -> StoreResult<T> {
        self.in_transaction(self.writer()?.relaxed()?, change)
    }

    fn in_transaction<T>(
        &self,
        connection: &mut Connection,
        change: impl FnOnce(&Transaction<'_>) -> StoreResult<T>,
    ) -> StoreResult<T> {
        let transaction = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(sql("begin a transaction"))?;
        let value = change(&transaction)?;
        self.commit(transaction)?;
        Ok(value)
    }

    #[cfg(not(test))]
    #[expect(clippy::unused_self, reason = "tests let a commit fail here")]
    fn commit(&self, transaction: Transaction<'_>) -> StoreResult<()> {
        transaction.commit().map_err(sql("commit a transaction"))
    }

    #[cfg(test)]
    fn commit(&self, transaction: Transaction<'_>) -> StoreResult<()> {
        self.faults
            .step(
                || {},
                || transaction.commit().map_err(std::io::Error::other),
            )
            .map_err(|error| StoreError::engine("commit a transaction", error))
    }

    fn writer(&self) -> StoreResult<MutexGuard<'_, Writer>> {
        let writer = self.writer.as_ref().ok_or_else(|| read_only(&self.path))?;
        Ok(writer.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Runs a part of a transaction that may fail alone. The outer result is an error if the whole transaction is lost.
pub(crate) fn savepoint<T>(
    transaction: &Transaction<'_>,
    work: impl FnOnce(&Connection) -> StoreResult<T>,
) -> StoreResult<StoreResult<T>> {
    let step = |statement| {
        transaction
            .execute_batch(statement)
            .map_err(sql("divide a transaction"))
    };
    step("SAVEPOINT part")?;
    match work(transaction) {
        Ok(value) => {
            step("RELEASE part")?;
            Ok(Ok(value))
        }
        // Some failures, such as a full disk, undo everything by themselves.
        Err(error) if transaction.is_autocommit() => Err(error),
        Err(error) => {
            step("ROLLBACK TO part; RELEASE part")?;
            Ok(Err(error))
        }
    }
}

fn read_only(path: &Path) -> StoreError {
    StoreError::BadRequest {
        reason: format!("`{}` was opened for reading only", path.display()),
    }
}

impl Drop for Connections {
    fn drop(&mut self) {
        if let Some(writer) = &mut self.writer {
            let writer = writer.get_mut().unwrap_or_else(PoisonError::into_inner);
            // With nothing left in the log, a copy of the one file is a whole copy.
            if let Err(error) = writer
                .connection
                .execute_batch("PRAGMA optimize; PRAGMA wal_checkpoint(TRUNCATE)")
            {
                tracing::debug!(%error, "the state database was closed without tidying up");
            }
        }
    }
}

impl fmt::Debug for SqliteState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("SqliteState")
            .field("path", &self.connections.path)
            .field("read_only", &self.is_read_only())
            .finish()
    }
}

#[async_trait]
impl StateStore for SqliteState {
    async fn put_turn_node(&self, node: TurnNode) -> StoreResult<()> {
        self.write(move |transaction| turns::put(transaction, &node))
            .await
    }

    async fn turn_node(&self, id: &str) -> StoreResult<Option<TurnNode>> {
        let id = id.to_owned();
        self.read(move |connection| turns::get(connection, &id))
            .await
    }

    async fn recent_turn_nodes(
        &self,
        conversation: &str,
        branch: &str,
        limit: u32,
    ) -> StoreResult<Vec<TurnNode>> {
        let (conversation, branch) = (conversation.to_owned(), branch.to_owned());
        self.read(move |connection| turns::recent(connection, &conversation, &branch, limit))
            .await
    }

    async fn last_turn(&self, conversation: &str, branch: &str) -> StoreResult<u64> {
        let (conversation, branch) = (conversation.to_owned(), branch.to_owned());
        self.read(move |connection| turns::last_turn(connection, &conversation, &branch))
            .await
    }

    async fn attach_blocks(&self, message: &str, blocks: Vec<(String, String)>) -> StoreResult<()> {
        let message = message.to_owned();
        self.write(move |transaction| turns::attach(transaction, &message, &blocks))
            .await
    }

    async fn resident(&self, conversation: &str) -> StoreResult<Vec<ResidentEntry>> {
        let conversation = conversation.to_owned();
        self.read(move |connection| residency::of(connection, &conversation))
            .await
    }

    async fn record_resident(
        &self,
        conversation: &str,
        message: &str,
        tier: Tier,
        shown: Vec<Resident>,
        at: Timestamp,
    ) -> StoreResult<()> {
        let (conversation, message) = (conversation.to_owned(), message.to_owned());
        self.write(move |transaction| {
            residency::record(transaction, &conversation, &message, tier, &shown, at)
        })
        .await
    }

    async fn clear_resident(&self, conversation: &str) -> StoreResult<()> {
        let conversation = conversation.to_owned();
        self.write(move |transaction| residency::clear(transaction, &conversation))
            .await
    }

    async fn append_log(
        &self,
        conversation: &str,
        turn: u64,
        tier: Tier,
        rows: Vec<LogRow>,
        at: Timestamp,
    ) -> StoreResult<()> {
        let conversation = conversation.to_owned();
        // Written while a turn waits: the turn's own end flushes it.
        self.write_unflushed(move |transaction| {
            log::append(transaction, &conversation, turn, tier, &rows, at)
        })
        .await
    }

    async fn newest_log(
        &self,
        conversation: &str,
        kind: LogKind,
        limit: u32,
    ) -> StoreResult<Vec<LogRow>> {
        let conversation = conversation.to_owned();
        self.read(move |connection| log::newest(connection, &conversation, kind, limit))
            .await
    }

    async fn kv_get(
        &self,
        namespace: &str,
        scope: KvScope,
        owner: &str,
        key: &str,
    ) -> StoreResult<Option<String>> {
        let place = kv::Place::new(namespace, scope, owner, key)?;
        self.read(move |connection| kv::get(connection, &place))
            .await
    }

    async fn kv_put(
        &self,
        namespace: &str,
        scope: KvScope,
        owner: &str,
        key: &str,
        value: Option<String>,
    ) -> StoreResult<()> {
        let place = kv::Place::new(namespace, scope, owner, key)?;
        // As above: what a tier keeps for itself is worth no flush of its own.
        self.write_unflushed(move |transaction| kv::put(transaction, &place, value.as_deref()))
            .await
    }

    async fn page_origins(&self) -> StoreResult<Vec<PageOrigin>> {
        self.read(origins::all).await
    }

    async fn put_page_origins(&self, origins: Vec<PageOrigin>) -> StoreResult<()> {
        self.write(move |transaction| origins::put(transaction, &origins))
            .await
    }
}

#[cfg(test)]
mod tests;
