//! Systems without local sockets: nobody listens, and whoever asks is told so.

use std::io;
use std::path::Path;

use memory_substrate::workspace::Workspace;
use tokio::io::DuplexStream;

/// A listener that cannot exist.
#[derive(Debug)]
pub(in super::super) enum Listener {}

impl Listener {
    pub(in super::super) fn bind(
        _workspace: &Workspace,
        _runtime: Option<&Path>,
    ) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(in super::super) fn path(&self) -> &Path {
        match *self {}
    }

    #[expect(clippy::unused_async, reason = "it has the form of the one that waits")]
    pub(in super::super) async fn accept(&self) -> io::Result<DuplexStream> {
        match *self {}
    }

    pub(in super::super) fn remove(&self) {
        match *self {}
    }
}

/// Returns what an assistant's folder is called on its disk.
pub(in super::super) fn root_of(_workspace: &Workspace) -> Option<(u64, u64)> {
    None
}

#[expect(clippy::unused_async, reason = "it has the form of the one that waits")]
pub(in super::super) async fn connect(_path: &Path) -> io::Result<DuplexStream> {
    Err(io::ErrorKind::Unsupported.into())
}
