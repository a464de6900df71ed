//! Removing the temporary files of writes that were cut off.
//!
//! Only the holder of the writer's lock writes below most folders, so whatever temporary file it finds there when it
//! starts was left by a process that is gone. The assistant's own folder is different: settings are written without the
//! lock, so a file there goes only when its process is known to be gone.

use std::io;
use std::path::Path;

use memory_core::env::{EntryKind, Fs};

use super::TEMPORARY_MARK;

/// Removes every temporary file below a folder to which only the lock's holder writes. Returns how many there were.
pub(crate) fn sweep_tree(fs: &dyn Fs, folder: &Path) -> io::Result<usize> {
    sweep(fs, folder, true, &|_| true)
}

/// Removes the temporary files in a folder whose processes are gone.
pub(crate) fn sweep_shared(fs: &dyn Fs, folder: &Path) -> io::Result<usize> {
    sweep(fs, folder, false, &|name| pid_of(name).is_some_and(is_gone))
}

fn sweep(
    fs: &dyn Fs,
    folder: &Path,
    deep: bool,
    is_left: &dyn Fn(&str) -> bool,
) -> io::Result<usize> {
    let mut removed = 0;
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = match fs.list(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        for entry in entries {
            let path = folder.join(&entry.name);
            match entry.kind {
                EntryKind::Directory if deep => folders.push(path),
                EntryKind::File if is_ours(&entry.name) && is_left(&entry.name) => {
                    match fs.remove(&path) {
                        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                        _ => removed += 1,
                    }
                }
                _ => {}
            }
        }
    }
    Ok(removed)
}

/// Returns whether a name is one that our writes give to their temporary files: the mark and numbers.
fn is_ours(name: &str) -> bool {
    name.strip_prefix(TEMPORARY_MARK).is_some_and(|rest| {
        rest.split('.')
            .all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
    })
}

fn pid_of(name: &str) -> Option<u32> {
    name.strip_prefix(TEMPORARY_MARK)?
        .split('.')
        .next()?
        .parse()
        .ok()
}

/// Returns whether a process is known to be gone.
fn is_gone(pid: u32) -> bool {
    let processes = Path::new("/proc");
    pid != std::process::id()
        && processes.join("self").exists()
        && !processes.join(pid.to_string()).exists()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::RealFs;

    #[test]
    fn only_what_was_left_goes() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let own = format!(".tmp.{}.0", std::process::id());
        // No system gives a process this number.
        let gone = ".tmp.4294967295.0";
        for name in [
            "a/b/.tmp.1.7",
            "a/x.tmp.1.md",
            "a/.tmp.notes.md",
            "a/page.md",
        ] {
            RealFs.write(&root.path().join(name), b"x").expect("write");
        }
        assert_eq!(
            sweep_tree(&RealFs, &root.path().join("a")).expect("swept"),
            1
        );
        assert!(root.path().join("a/x.tmp.1.md").exists());
        assert!(root.path().join("a/.tmp.notes.md").exists());
        for name in [own.as_str(), gone] {
            RealFs.write(&root.path().join(name), b"x").expect("write");
        }
        sweep_shared(&RealFs, root.path()).expect("swept");
        assert!(root.path().join(&own).exists());
        assert_eq!(
            root.path().join(gone).exists(),
            !Path::new("/proc/self").exists()
        );
        assert_eq!(
            sweep_tree(&RealFs, &root.path().join("none")).expect("nothing"),
            0
        );
    }
}
