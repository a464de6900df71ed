//! Evidence in a plain journal: files that records are appended to, and that are otherwise left alone.
//!
//! A record is acknowledged when its line is flushed. The only change that a file ever sees besides is the erasure of what
//! records say, which replaces it whole, and the cutting off of a line that a crash left unfinished at the very end. A file
//! that has grown large is followed by another, so none is ever large to read or to replace. Where things are is kept in
//! memory and found out by reading every file once; after a failed write that knowledge is thrown away and the last
//! file is written anew, because the system may have dropped what it could not flush.
//!
//! A line that cannot be read is left where it is and reported, and everything else goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use memory_core::env::{Fs, Rng};
use memory_core::item::{EvidenceId, ForgetReason};
use memory_core::store::{
    Appended, Erasure, EvidenceCheck, EvidenceFault, EvidenceRecord, EvidenceStore, EvidenceStream,
    ExpectedHead, NewEvidence, StoreError, StoreResult, StreamHead, evidence_id,
    evidence_key_reused, evidence_salt,
};
use memory_core::time::Timestamp;

use self::catalogue::{Catalogue, Spot};
use crate::blocking;
use crate::error::store_io;
use crate::fs::sweep::sweep_tree;

pub use self::recorder::{EvidenceBacklog, Recorder, backlog_of};

mod catalogue;
mod frame;
mod recorder;

/// A file that would grow beyond this many bytes is followed by another. One record may be larger.
const FILE_BYTES: u64 = 1 << 20;

/// Evidence in the files of one folder. Cloning shares it.
#[derive(Clone)]
pub struct EvidenceJournal {
    inner: Arc<Inner>,
}

struct Inner {
    fs: Arc<dyn Fs>,
    folder: PathBuf,
    /// Absent when the journal was opened for reading only.
    rng: Option<Arc<dyn Rng>>,
    file_bytes: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// What is known of the files; `None` before they were read, and after a failure.
    known: Option<Catalogue>,
    /// Whether what is read may not be what is on disk, because a write failed.
    distrust: bool,
    /// The file last read, since a page of records is mostly of one.
    last_read: Option<(u64, Arc<Vec<u8>>)>,
}

impl EvidenceJournal {
    /// Returns the journal of a folder, for the one writer. What is random goes into the hashes of contents.
    ///
    /// Nothing is read or written before it is first used.
    pub fn new(fs: Arc<dyn Fs>, folder: PathBuf, rng: Arc<dyn Rng>) -> Self {
        Self::of(fs, folder, Some(rng), FILE_BYTES)
    }

    /// Returns the journal of a folder to which another process may write, for reading.
    pub fn read_only(fs: Arc<dyn Fs>, folder: PathBuf) -> Self {
        Self::of(fs, folder, None, FILE_BYTES)
    }

    fn of(fs: Arc<dyn Fs>, folder: PathBuf, rng: Option<Arc<dyn Rng>>, file_bytes: u64) -> Self {
        Self {
            inner: Arc::new(Inner {
                fs,
                folder,
                rng,
                file_bytes,
                state: Mutex::default(),
            }),
        }
    }

    /// Does what an async call does, on the calling thread, which may block.
    pub(crate) fn append_blocking(
        &self,
        stream: &EvidenceStream,
        evidence: NewEvidence,
        expected: &ExpectedHead,
    ) -> StoreResult<Appended> {
        self.inner.append(stream, evidence, expected)
    }

    /// Does what an async call does, on the calling thread, which may block.
    pub(crate) fn erase_blocking(
        &self,
        what: &Erasure,
        reason: ForgetReason,
        at: Timestamp,
    ) -> StoreResult<u64> {
        self.inner.erase(what, reason, at)
    }

    /// Does what an async call does, on the calling thread, which may block.
    pub(crate) fn heads_blocking(&self) -> StoreResult<Vec<StreamHead>> {
        Ok(self.inner.known(&mut self.inner.state())?.heads())
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner) -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        let inner = Arc::clone(&self.inner);
        blocking::run(move || work(&inner)).await
    }
}

impl fmt::Debug for EvidenceJournal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("EvidenceJournal")
            .field("folder", &self.inner.folder)
            .finish_non_exhaustive()
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        // Whoever panicked with the lock may have left a write half done.
        self.state.lock().unwrap_or_else(|poisoned| {
            self.state.clear_poison();
            let mut state = PoisonError::into_inner(poisoned);
            *state = State {
                distrust: true,
                ..State::default()
            };
            state
        })
    }

    fn path(&self, file: u64) -> PathBuf {
        self.folder.join(catalogue::name_of(file))
    }

    fn rng(&self) -> StoreResult<&dyn Rng> {
        self.rng.as_deref().ok_or_else(|| StoreError::BadRequest {
            reason: "the evidence was opened for reading only".to_owned(),
        })
    }

    /// Returns what is known of the files, reading them if need be.
    fn known<'a>(&self, state: &'a mut State) -> StoreResult<&'a mut Catalogue> {
        let current = match state.known.take() {
            Some(known) if self.rng.is_some() => known,
            known => {
                // A reader sees by the files' lengths that the writer has added something since.
                let files = self.files()?;
                match known.filter(|known| known.is_of(&files)) {
                    Some(known) => known,
                    None => self.load(state, &files)?,
                }
            }
        };
        Ok(state.known.insert(current))
    }

    /// Returns the numbers and lengths of the journal's files, in their order.
    fn files(&self) -> StoreResult<Vec<(u64, u64)>> {
        match self.fs.list(&self.folder) {
            Ok(entries) => {
                let files = entries
                    .iter()
                    .filter_map(|entry| Some((catalogue::number_of(&entry.name)?, entry.bytes)));
                Ok(files.collect())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(store_io("list", &self.folder)(error)),
        }
    }

    /// Reads every file, and brings their end into order for whoever is to write on.
    fn load(&self, state: &mut State, files: &[(u64, u64)]) -> StoreResult<Catalogue> {
        state.last_read = None;
        let mut known = Catalogue::default();
        for (file, _) in files {
            known.add_file(*file, &self.read(*file)?);
        }
        if self.rng.is_some() {
            self.mend(&mut known, state.distrust)?;
            state.distrust = false;
        }
        Ok(known)
    }

    fn read(&self, file: u64) -> StoreResult<Vec<u8>> {
        let path = self.path(file);
        self.fs.read(&path).map_err(store_io("read", &path))
    }

    /// Brings the end of the last file into order: nothing unfinished stays there, and what is there is on disk.
    fn mend(&self, known: &mut Catalogue, distrust: bool) -> StoreResult<()> {
        if let Err(error) = sweep_tree(self.fs.as_ref(), &self.folder) {
            tracing::warn!(%error, "temporary files of evidence could not be removed");
        }
        let Some((file, length)) = known.last_file() else {
            return Ok(());
        };
        let path = self.path(file);
        let whole = known.whole_length(file);
        if whole < length {
            tracing::warn!(
                file = %path.display(),
                bytes = length - whole,
                "an unfinished record was cut off; it had not been acknowledged"
            );
        }
        if whole < length || distrust {
            let bytes = self.read(file)?;
            let kept = usize::try_from(whole)
                .unwrap_or(usize::MAX)
                .min(bytes.len());
            self.fs
                .write(&path, &bytes[..kept])
                .map_err(store_io("write", &path))?;
            known.cut(file, whole);
            return Ok(());
        }
        // Whoever wrote the last line may have been killed before it was flushed.
        self.fs.append(&path, b"").map_err(store_io("flush", &path))
    }

    /// Runs a change. When it fails, what is known is found out anew.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> StoreResult<T>) -> StoreResult<T> {
        let mut state = self.state();
        let done = change(&mut state);
        if done.as_ref().is_err_and(is_engine) {
            state.known = None;
            state.last_read = None;
            state.distrust = true;
        }
        done
    }

    fn append(
        &self,
        stream: &EvidenceStream,
        evidence: NewEvidence,
        expected: &ExpectedHead,
    ) -> StoreResult<Appended> {
        let rng = self.rng()?;
        let append = |state: &mut State| {
            let id = evidence_id(stream, &evidence.key)?;
            if let Some(record) = self.find(state, &id)? {
                if !record.answers(&evidence) {
                    return Err(evidence_key_reused(stream, &evidence.key));
                }
                return Ok(Appended {
                    record,
                    replayed: true,
                });
            }
            let known = self.known(state)?;
            let head = known.head(stream);
            expected.require(stream, head.as_ref())?;
            let salt = evidence_salt(rng);
            let record = EvidenceRecord::new(stream, head.as_ref(), evidence, salt)?;
            let line = frame::write(&record)?;
            let file = known.file_for(line.len() as u64, self.file_bytes);
            let path = self.path(file);
            self.fs
                .append(&path, &line)
                .map_err(store_io("append to", &path))?;
            known.added(file, line.len() as u64, &record);
            state.last_read = None;
            Ok(Appended {
                record,
                replayed: false,
            })
        };
        self.change(append)
    }

    fn find(&self, state: &mut State, id: &EvidenceId) -> StoreResult<Option<EvidenceRecord>> {
        match self.known(state)?.spot(id) {
            Some(spot) => self.record(state, spot).map(Some),
            None => Ok(None),
        }
    }

    /// Reads the record at a place.
    fn record(&self, state: &mut State, spot: Spot) -> StoreResult<EvidenceRecord> {
        let bytes = match &state.last_read {
            Some((file, bytes)) if *file == spot.file => Arc::clone(bytes),
            _ => Arc::new(self.read(spot.file)?),
        };
        state.last_read = Some((spot.file, Arc::clone(&bytes)));
        let damaged = |reason: String| StoreError::Damaged {
            what: format!(
                "record at {} of `{}`",
                spot.offset,
                self.path(spot.file).display()
            ),
            reason,
        };
        let range = spot.range().filter(|range| range.end <= bytes.len());
        let line = range.map(|range| &bytes[range]);
        let line = line.ok_or_else(|| damaged("the file is shorter than it was".to_owned()))?;
        frame::read(line).map_err(|reason| damaged(reason.to_owned()))
    }

    fn list(
        &self,
        stream: &EvidenceStream,
        after: u64,
        limit: u32,
    ) -> StoreResult<Vec<EvidenceRecord>> {
        let mut state = self.state();
        let spots = self.known(&mut state)?.after(stream, after, limit);
        spots
            .into_iter()
            .map(|spot| self.record(&mut state, spot))
            .collect()
    }

    fn erase(&self, what: &Erasure, reason: ForgetReason, at: Timestamp) -> StoreResult<u64> {
        self.rng()?;
        let erase = |state: &mut State| {
            let files = self.known(state)?.files_of(what)?;
            let mut erased = 0;
            for (file, spots) in files {
                erased += self.erase_in(state, file, &spots, reason, at)?;
            }
            Ok(erased)
        };
        self.change(erase)
    }

    /// Replaces a file by the same one without what some records say.
    fn erase_in(
        &self,
        state: &mut State,
        file: u64,
        offsets: &BTreeSet<u64>,
        reason: ForgetReason,
        at: Timestamp,
    ) -> StoreResult<u64> {
        let bytes = self.read(file)?;
        let mut next = Vec::with_capacity(bytes.len());
        let mut erased = 0;
        for (offset, line) in frame::lines(&bytes) {
            match frame::read(line) {
                Ok(record) if offsets.contains(&offset) && !record.is_erased() => {
                    next.extend(frame::write(&record.erased(reason, at))?);
                    erased += 1;
                }
                // What cannot be read is no record that anybody named; it stays for somebody to look at.
                _ => next.extend_from_slice(line),
            }
        }
        if erased > 0 {
            let path = self.path(file);
            self.fs
                .write(&path, &next)
                .map_err(store_io("erase from", &path))?;
            state.last_read = None;
            self.known(state)?.replace_file(file, &next);
        }
        Ok(erased)
    }

    fn verify(&self) -> StoreResult<EvidenceCheck> {
        let mut state = self.state();
        // What is in memory proves nothing about the files.
        let files = self.files()?;
        state.last_read = None;
        let mut streams: BTreeMap<EvidenceStream, Vec<EvidenceRecord>> = BTreeMap::new();
        let mut check = EvidenceCheck::default();
        let last = files.last().map(|(file, _)| *file);
        for (file, _) in &files {
            let bytes = self.read(*file)?;
            for (offset, line) in frame::lines(&bytes) {
                match frame::read(line) {
                    Ok(record) => streams
                        .entry(record.stream.clone())
                        .or_default()
                        .push(record),
                    // Another process may be writing it, and the next writer cuts it off.
                    Err(_) if frame::is_unfinished(line) && Some(*file) == last => {}
                    Err(reason) => check.faults.push(EvidenceFault {
                        place: format!("`{}` at {offset}", catalogue::name_of(*file)),
                        reason: reason.to_owned(),
                    }),
                }
            }
        }
        for records in streams.values() {
            check.look_at(records);
        }
        if let Some(known) = &state.known {
            let gone = known.missing_from(&streams);
            check.faults.extend(gone);
        }
        Ok(check)
    }
}

/// Returns whether a failure may have left something in a file.
fn is_engine(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Engine { .. } | StoreError::Damaged { .. }
    )
}

#[async_trait]
impl EvidenceStore for EvidenceJournal {
    async fn append(
        &self,
        stream: &EvidenceStream,
        evidence: NewEvidence,
        expected: ExpectedHead,
    ) -> StoreResult<Appended> {
        let stream = stream.clone();
        self.run(move |inner| inner.append(&stream, evidence, &expected))
            .await
    }

    async fn evidence(&self, id: &EvidenceId) -> StoreResult<Option<EvidenceRecord>> {
        let id = id.clone();
        self.run(move |inner| inner.find(&mut inner.state(), &id))
            .await
    }

    async fn list(
        &self,
        stream: &EvidenceStream,
        after: u64,
        limit: u32,
    ) -> StoreResult<Vec<EvidenceRecord>> {
        let stream = stream.clone();
        self.run(move |inner| inner.list(&stream, after, limit))
            .await
    }

    async fn head(&self, stream: &EvidenceStream) -> StoreResult<Option<StreamHead>> {
        let stream = stream.clone();
        self.run(move |inner| Ok(inner.known(&mut inner.state())?.head(&stream)))
            .await
    }

    async fn streams(&self) -> StoreResult<Vec<StreamHead>> {
        self.run(|inner| Ok(inner.known(&mut inner.state())?.heads()))
            .await
    }

    async fn erase(&self, what: Erasure, reason: ForgetReason, at: Timestamp) -> StoreResult<u64> {
        self.run(move |inner| inner.erase(&what, reason, at)).await
    }

    async fn verify(&self) -> StoreResult<EvidenceCheck> {
        self.run(Inner::verify).await
    }
}

#[cfg(test)]
mod tests;
