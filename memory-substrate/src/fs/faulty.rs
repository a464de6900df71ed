//! A disk that fails, or loses its process, at a chosen step, for tests.
//!
//! Every call that changes something is a step, and so is every commit of the state database. A test counts the steps
//! of something first and then lets each of them go wrong in each way.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use memory_core::env::{FileInfo, Fs};

use super::RealFs;

/// How far a step gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reached {
    /// Nothing happens.
    Nothing,
    /// Half of it happens.
    Half,
    /// All of it happens, and nobody learns of it.
    All,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The step fails once, and everything after it works.
    Fails(io::ErrorKind, Reached),
    /// The process ends there.
    Dies(Reached),
}

/// Every way in which a step goes wrong.
pub(crate) const FAULTS: [Fault; 6] = [
    Fault::Fails(io::ErrorKind::StorageFull, Reached::Nothing),
    Fault::Fails(io::ErrorKind::StorageFull, Reached::Half),
    Fault::Fails(io::ErrorKind::Other, Reached::All),
    Fault::Dies(Reached::Nothing),
    Fault::Dies(Reached::Half),
    Fault::Dies(Reached::All),
];

/// Counts steps and decides which one goes wrong. Cloning shares it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    steps: AtomicUsize,
    dead: AtomicBool,
    planned: Mutex<Option<(usize, Fault)>>,
}

impl Faults {
    /// Starts counting anew, and lets a step go wrong.
    pub(crate) fn arm(&self, planned: Option<(usize, Fault)>) {
        self.shared.steps.store(0, Ordering::SeqCst);
        *self.lock() = planned;
    }

    /// Returns how many steps there were since.
    pub(crate) fn steps(&self) -> usize {
        self.shared.steps.load(Ordering::SeqCst)
    }

    /// Takes a step. `half` and `all` do so much of it.
    pub(crate) fn step<T>(
        &self,
        half: impl FnOnce(),
        all: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        if self.shared.dead.load(Ordering::SeqCst) {
            return Err(io::Error::other("the process is dead"));
        }
        let number = self.shared.steps.fetch_add(1, Ordering::SeqCst);
        let planned = *self.lock();
        let Some((_, fault)) = planned.filter(|(at, _)| *at == number) else {
            return all();
        };
        let (reached, error) = match fault {
            Fault::Fails(kind, reached) => (reached, io::Error::from(kind)),
            Fault::Dies(reached) => {
                self.shared.dead.store(true, Ordering::SeqCst);
                (reached, io::Error::other("the process dies here"))
            }
        };
        match reached {
            Reached::Nothing => {}
            Reached::Half => half(),
            Reached::All => drop(all()?),
        }
        Err(error)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<(usize, Fault)>> {
        self.shared
            .planned
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The operating system's files on such a disk.
#[derive(Clone, Debug, Default)]
pub(crate) struct FaultyFs(pub(crate) Faults);

impl Fs for FaultyFs {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        RealFs.read(path)
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        // The half of a replacement is a temporary file that was never renamed.
        let half = || {
            let temporary: Option<PathBuf> = path.parent().map(|folder| folder.join(".tmp.1.1"));
            if let Some(temporary) =
                temporary.filter(|path| path.parent().is_some_and(Path::is_dir))
            {
                std::fs::write(temporary, &bytes[..bytes.len() / 2]).expect("half a file");
            }
        };
        self.0.step(half, || RealFs.write(path, bytes))
    }

    fn append(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let half = || {
            if let Ok(mut file) = std::fs::OpenOptions::new()
                .append(true)
                .create(true)
                .open(path)
            {
                file.write_all(&bytes[..bytes.len() / 2])
                    .expect("half an entry");
            }
        };
        self.0.step(half, || RealFs.append(path, bytes))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.step(|| {}, || RealFs.rename(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.step(|| {}, || RealFs.remove(path))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.0.step(|| {}, || RealFs.create_dir_all(path))
    }

    fn info(&self, path: &Path) -> io::Result<FileInfo> {
        RealFs.info(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<FileInfo>> {
        RealFs.list(path)
    }
}
