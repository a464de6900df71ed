//! Tests of the store: what it refuses, what it repairs, and that nothing in use is ever removed.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::prune::prune;
use super::*;

const DAY: Duration = Duration::from_hours(24);

fn sha256(digit: char) -> String {
    digit.to_string().repeat(64)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("listed");
    let names = entries.map(|entry| entry.expect("listed").file_name());
    let mut names: Vec<String> = names
        .map(|name| name.into_string().expect("UTF-8"))
        .collect();
    names.sort();
    names
}

fn inode(path: &Path) -> u64 {
    fs::metadata(path).expect("there").ino()
}

#[test]
fn a_copy_is_written_once_and_repaired_when_damaged() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("deep/store");
    let staged = stage(&store, "00", b"library").expect("staged");
    let path = staged.path().to_owned();
    assert_eq!(fs::read(&path).expect("there"), b"library");
    let before = inode(&path);
    assert_eq!(
        stage(&store, "00", b"library").expect("reused").path(),
        path
    );
    assert_eq!(inode(&path), before);

    fs::remove_file(&path).expect("removed");
    fs::write(&path, b"damaged").expect("written");
    stage(&store, "00", b"library").expect("repaired");
    assert_eq!(fs::read(&path).expect("there"), b"library");
    assert_eq!(names(&store), ["00.so"], "no temporary file is left");
}

#[test]
fn a_folder_that_others_may_write_to_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).expect("set");
    let error = stage(folder.path(), "00", b"library").expect_err("refused");
    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("set");
    stage(folder.path(), "00", b"library").expect("staged");
}

#[test]
fn a_folder_of_somebody_else_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    // Only root can give a folder away; the folder of root is somebody else's for all others.
    let theirs = match std::os::unix::fs::chown(folder.path(), Some(65_534), None) {
        Ok(()) => folder.path(),
        Err(_) => Path::new("/"),
    };
    let error = stage(theirs, "00", b"library").expect_err("refused");
    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    assert!(
        error.to_string().contains("belongs to another user"),
        "{error}"
    );
}

#[test]
fn what_is_old_and_unused_goes_when_a_copy_is_added() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path();
    let start = SystemTime::now();
    let at =
        |days: u32, digit: char| stage_at(store, &sha256(digit), b"library", start + days * DAY);
    drop(at(0, 'a').expect("staged"));
    let in_use = at(0, 'b').expect("staged");
    drop(at(0, 'c').expect("staged"));
    drop(at(20, 'c').expect("used again"));
    let unfinished = format!("{}.1.0{UNFINISHED}", sha256('d'));
    for name in [unfinished.as_str(), "notes.tmp", "other.so"] {
        let file = File::create(store.join(name)).expect("made");
        file.set_modified(start).expect("set");
    }

    drop(at(31, 'c').expect("there"));
    assert_eq!(
        names(store).len(),
        6,
        "only who adds a copy looks at the others"
    );
    drop(at(31, 'e').expect("staged"));
    let mut left = ["b", "c", "e"]
        .map(|digit| format!("{}.so", digit.repeat(64)))
        .to_vec();
    left.extend(["notes.tmp".to_owned(), "other.so".to_owned()]);
    left.sort();
    assert_eq!(names(store), left);

    // Once it is let go, its age decides.
    drop(in_use);
    prune(store, start + 31 * DAY);
    assert!(!store.join(format!("{}.so", sha256('b'))).exists());
}

#[test]
fn what_is_loaded_stays_held() {
    let folder = tempfile::tempdir().expect("a folder");
    let staged = stage(folder.path(), &sha256('a'), b"library").expect("staged");
    let path = staged.path().to_owned();
    staged.keep();
    prune(folder.path(), SystemTime::now() + 365 * DAY);
    assert!(path.exists());
}

#[test]
fn whoever_has_checked_a_copy_can_open_it_while_others_remove() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, sha256) = (folder.path(), sha256('a'));
    let done = AtomicBool::new(false);
    let far = SystemTime::now() + 365 * DAY;
    std::thread::scope(|threads| {
        // To this one every copy is old, however fresh it is: only the lock is in its way.
        let pruner = threads.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                prune(store, far);
            }
        });
        let loaders: Vec<_> = (0..3)
            .map(|_| {
                threads.spawn(|| {
                    for _ in 0..200 {
                        let staged = stage(store, &sha256, b"library").expect("staged");
                        // What the system's loader does next: open the path anew.
                        let read = fs::read(staged.path()).expect("it is still there");
                        assert_eq!(read, b"library");
                    }
                })
            })
            .collect();
        let ended: Vec<_> = loaders
            .into_iter()
            .map(std::thread::ScopedJoinHandle::join)
            .collect();
        done.store(true, Ordering::Relaxed);
        pruner.join().expect("it ends");
        for loader in ended {
            loader.expect("every copy could be opened");
        }
    });
    prune(store, far);
    assert_eq!(names(store), Vec::<String>::new());
}
