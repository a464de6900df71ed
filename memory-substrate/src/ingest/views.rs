//! Putting the views and the knowledge base of a memory folder in their places.
//!
//! They are shown to the assistant as they are and have no origin of their own, so only text that is trusted anyway may
//! become one.

use std::io;
use std::path::Path;

use memory_core::env::Fs;
use memory_core::provenance::Trust;

use super::{
    IngestAction, IngestOptions, IngestReport, Ingester, MOST_BYTES, MOST_FILES, PlacedFile,
};
use crate::error::{SubstrateError, SubstrateResult};
use crate::oplog::{Change, Part, is_clear};
use crate::pages::is_page_name;

const VIEWS: [&str; 5] = [
    "core-pages.md",
    "core.md",
    "essentials.md",
    "recent.md",
    "threads.md",
];

/// Copies the views and the knowledge base that a folder has.
pub(super) fn place(
    ingester: &Ingester,
    folder: &Path,
    options: IngestOptions,
    trust: Trust,
    report: &mut IngestReport,
) -> SubstrateResult<()> {
    let mut names: Vec<String> = VIEWS
        .into_iter()
        .filter(|name| is_plain_file(&folder.join(name)))
        .map(str::to_owned)
        .collect();
    let pkb = folder.join("pkb");
    if pkb.is_dir() {
        for entry in ignore::WalkBuilder::new(&pkb)
            .standard_filters(false)
            .hidden(true)
            .follow_links(false)
            .build()
        {
            let Ok(entry) = entry else {
                report.other_files += 1;
                continue;
            };
            let relative = entry
                .path()
                .strip_prefix(folder)
                .unwrap_or(entry.path())
                .to_str()
                .map(str::to_owned);
            match (entry.file_type(), relative) {
                (Some(kind), _) if kind.is_dir() => {}
                (Some(kind), Some(name)) if kind.is_file() && is_page_name(file_name(&name)) => {
                    names.push(name);
                }
                _ => report.other_files += 1,
            }
        }
    }
    names.sort();
    let _turn = ingester.pages.take_turn()?;
    let mut names = names.into_iter().peekable();
    while names.peek().is_some() {
        let (mut parts, mut bytes) = (Vec::new(), 0);
        while parts.len() < MOST_FILES
            && bytes < MOST_BYTES
            && let Some(name) = names.next()
        {
            let (placed, part) = place_one(ingester, folder, &name, options, trust)?;
            report.files.push(placed);
            if let Some((part, length)) = part {
                bytes += length;
                parts.push(part);
            }
        }
        if options.dry_run {
            continue;
        }
        for conflict in ingester.write(parts, options)? {
            let was_placed = |file: &&mut PlacedFile| conflict.path == path_of(&file.path);
            if let Some(file) = report.files.iter_mut().find(was_placed) {
                file.action = IngestAction::SkippedExists;
                file.error = Some(format!(
                    "it was edited meanwhile and kept; the new text is in `{}`",
                    conflict.copy.unwrap_or_default()
                ));
            }
        }
    }
    Ok(())
}

/// Returns the path by which operations name a file below `memory`.
fn path_of(name: &str) -> String {
    format!("memory/{name}")
}

fn place_one(
    ingester: &Ingester,
    folder: &Path,
    name: &str,
    options: IngestOptions,
    trust: Trust,
) -> SubstrateResult<(PlacedFile, Option<(Part, usize)>)> {
    let invalid = |error: String| {
        let placed = PlacedFile {
            path: name.to_owned(),
            action: IngestAction::Invalid,
            error: Some(error),
        };
        (placed, None)
    };
    if trust != Trust::Trusted {
        return Ok(invalid(
            "only trusted text may become a view or part of the knowledge base".to_owned(),
        ));
    }
    let bytes = match std::fs::read(folder.join(name)) {
        Ok(bytes) => bytes,
        Err(error) => return Ok(invalid(error.to_string())),
    };
    if std::str::from_utf8(&bytes).is_err() {
        return Ok(invalid("the file is not UTF-8 text".to_owned()));
    }
    let target = ingester.workspace.memory_dir().join(name);
    let fs: &dyn Fs = ingester.workspace.fs().as_ref();
    if !is_clear(fs, ingester.workspace.root(), &path_of(name))
        .map_err(SubstrateError::io("look at", &target))?
    {
        return Ok(invalid(
            "a link or something else is in the way of the file".to_owned(),
        ));
    }
    let there = match fs.read(&target) {
        Ok(there) => Some(there),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(SubstrateError::io("read", &target)(error)),
    };
    let action = match &there {
        Some(there) if *there == bytes => IngestAction::Unchanged,
        Some(_) if !options.overwrite => IngestAction::SkippedExists,
        _ => IngestAction::Written,
    };
    let part = (action == IngestAction::Written).then(|| {
        let length = bytes.len() + there.as_ref().map_or(0, Vec::len);
        let change = Change::Write {
            base: there,
            content: bytes,
            merged: false,
        };
        let part = Part {
            path: path_of(name),
            change,
            origin: None,
        };
        (part, length)
    });
    let placed = PlacedFile {
        path: name.to_owned(),
        action,
        error: None,
    };
    Ok((placed, part))
}

fn is_plain_file(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file())
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
