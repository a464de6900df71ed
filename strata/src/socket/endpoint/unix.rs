//! Unix domain sockets: finding a place, taking it over from a dead process, and asking the system who is there.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};

use memory_substrate::workspace::Workspace;
use tokio::net::{UnixListener, UnixStream};

/// Longest path of a socket; the shortest limit of any system is 104 bytes with a zero at the end.
const LONGEST_PATH: usize = 103;

/// A socket that is listened on.
#[derive(Debug)]
pub(in super::super) struct Listener {
    socket: UnixListener,
    path: PathBuf,
    /// Which file it is, so that another of the same name is left alone.
    file: (u64, u64),
    user: u32,
}

impl Listener {
    /// Listens at the first place that can be used. The caller holds the writer's lock. It blocks, and must be called
    /// inside a tokio runtime.
    pub(in super::super) fn bind(
        workspace: &Workspace,
        runtime: Option<&Path>,
    ) -> io::Result<Self> {
        let user = own_user()?;
        let mut last = io::Error::from(io::ErrorKind::InvalidFilename);
        for path in places(workspace, runtime, user)? {
            if path.as_os_str().len() > LONGEST_PATH {
                continue;
            }
            match Self::bind_at(&path, user) {
                Ok(listener) => return Ok(listener),
                Err(error) => {
                    tracing::debug!(path = %path.display(), %error, "no socket can be here");
                    last = error;
                }
            }
        }
        Err(last)
    }

    fn bind_at(path: &Path, user: u32) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            make_private(folder, user)?;
        }
        let listener = match UnixListener::bind(path) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                remove_dead(path)?;
                UnixListener::bind(path)?
            }
            other => other?,
        };
        fs::set_permissions(path, Permissions::from_mode(0o600))?;
        let file = identity(path)?;
        Ok(Self {
            socket: listener,
            path: path.to_owned(),
            file,
            user,
        })
    }

    /// Returns where it is.
    pub(in super::super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the next client that is a process of the same user. One of another user is sent away.
    pub(in super::super) async fn accept(&self) -> io::Result<UnixStream> {
        loop {
            let (stream, _) = self.socket.accept().await?;
            match admit(&stream, self.user) {
                Ok(()) => return Ok(stream),
                Err(error) => tracing::warn!(%error, "a client was sent away"),
            }
        }
    }

    /// Takes the file away, unless it is another's by now.
    pub(in super::super) fn remove(&self) {
        if identity(&self.path).is_ok_and(|file| file == self.file)
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "a socket could not be removed");
        }
    }
}

/// Connects to a socket of the same user.
pub(in super::super) async fn connect(path: &Path) -> io::Result<UnixStream> {
    let stream = UnixStream::connect(path).await?;
    admit(&stream, own_user()?)?;
    Ok(stream)
}

/// Returns what an assistant's folder is called on its disk.
pub(in super::super) fn root_of(workspace: &Workspace) -> Option<(u64, u64)> {
    let root = fs::metadata(workspace.root()).ok()?;
    Some((root.dev(), root.ino()))
}

/// Returns where a socket may be, the best place first. The names are those of the folder on its disk, so that two
/// assistants never share one, whatever their folders are called.
fn places(workspace: &Workspace, runtime: Option<&Path>, user: u32) -> io::Result<Vec<PathBuf>> {
    let root = fs::metadata(workspace.root())?;
    let name = format!("{:x}-{:x}.sock", root.dev(), root.ino());
    let runtime = runtime
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join("strata").join(&name));
    let shared = PathBuf::from(format!("/tmp/strata-{user}")).join(&name);
    Ok(runtime
        .into_iter()
        // Whoever asks may stand in another folder.
        .chain([
            std::path::absolute(workspace.run_dir().join("socket"))?,
            shared,
        ])
        .collect())
}

/// Makes a folder that is this user's alone, or makes sure that it is.
fn make_private(folder: &Path, user: u32) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        other => return other,
    }
    let found = fs::symlink_metadata(folder)?;
    if !found.is_dir() || found.uid() != user {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("`{}` is not a folder of this user", folder.display()),
        ));
    }
    if found.mode() & 0o077 != 0 {
        fs::set_permissions(folder, Permissions::from_mode(0o700))?;
    }
    Ok(())
}

/// Removes what a process that is gone left here; an error if it is alive or no socket.
fn remove_dead(path: &Path) -> io::Result<()> {
    if !fs::symlink_metadata(path)?.file_type().is_socket() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Ok(_) => Err(io::ErrorKind::AddrInUse.into()),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            tracing::debug!(path = %path.display(), "the socket of a process that is gone is replaced");
            fs::remove_file(path)
        }
        Err(error) => Err(error),
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

/// Returns the user of this process, as the system tells it to the other end of a socket.
fn own_user() -> io::Result<u32> {
    let (one, _other) = UnixStream::pair()?;
    Ok(one.peer_cred()?.uid())
}

/// Fails unless the process at the other end is one of this user. Not even the administrator's may come: what it wrote
/// would belong to somebody else.
fn admit(stream: &UnixStream, user: u32) -> io::Result<()> {
    let other = stream.peer_cred()?.uid();
    if other == user {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!("the other process belongs to user {other}, this one to user {user}"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_process_of_another_user_is_not_let_in() {
        let (one, _other) = UnixStream::pair().unwrap();
        let user = own_user().unwrap();
        admit(&one, user).unwrap();
        for stranger in [user + 1, user.wrapping_sub(1)] {
            let refused = admit(&one, stranger).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        }
    }

    #[test]
    fn a_folder_of_another_user_or_a_link_is_not_used() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("private");
        let user = fs::metadata(place.path()).unwrap().uid();
        make_private(&folder, user).unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
        make_private(&folder, user).unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
        make_private(&folder, user + 1).unwrap_err();
        let link = place.path().join("link");
        std::os::unix::fs::symlink(&folder, &link).unwrap();
        make_private(&link, user).unwrap_err();
    }
}
