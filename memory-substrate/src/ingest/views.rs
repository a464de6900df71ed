//! Putting the views and the knowledge base of a memory folder in their places.
//!
//! They are shown to the assistant as they are and have no origin of their own, so only text that is trusted anyway may
//! become one.

use std::io;
use std::path::Path;

use memory_core::env::Fs;
use memory_core::provenance::Trust;

use super::{IngestAction, IngestOptions, IngestReport, Ingester, PlacedFile};
use crate::error::{SubstrateError, SubstrateResult};
use crate::pages::is_page_name;

const VIEWS: [&str; 4] = ["core-pages.md", "essentials.md", "recent.md", "threads.md"];

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
    for name in names {
        let placed = place_one(ingester, folder, &name, options, trust)?;
        report.files.push(placed);
    }
    Ok(())
}

fn place_one(
    ingester: &Ingester,
    folder: &Path,
    name: &str,
    options: IngestOptions,
    trust: Trust,
) -> SubstrateResult<PlacedFile> {
    let invalid = |error: String| PlacedFile {
        path: name.to_owned(),
        action: IngestAction::Invalid,
        error: Some(error),
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
    let there = match fs.read(&target) {
        Ok(there) => Some(there),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(SubstrateError::io("read", &target)(error)),
    };
    let action = match there {
        Some(there) if there == bytes => IngestAction::Unchanged,
        Some(_) if !options.overwrite => IngestAction::SkippedExists,
        _ => IngestAction::Written,
    };
    if action == IngestAction::Written && !options.dry_run {
        fs.write(&target, &bytes)
            .map_err(SubstrateError::io("write", &target))?;
    }
    Ok(PlacedFile {
        path: name.to_owned(),
        action,
        error: None,
    })
}

fn is_plain_file(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file())
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
