//! Finding what there is to take in, without reading it yet.

use std::path::{Path, PathBuf};

use memory_core::text::slug::Slug;

use super::{IngestSource, IngestedPage, ManifestPage};
use crate::error::{SubstrateError, SubstrateResult};
use crate::pages::{is_page_name, wanted_slug};

/// A file to take in.
#[derive(Debug)]
pub(super) struct SourceFile {
    /// Its name relative to the source, with forward slashes.
    pub(super) name: String,
    /// The slug it asks for.
    pub(super) wanted: Slug,
    /// Whether no other slug will do.
    pub(super) is_exact: bool,
    /// Where its bytes are.
    pub(super) content: Content,
}

/// Where bytes are.
#[derive(Debug)]
pub(super) enum Content {
    /// In a file.
    File(PathBuf),
    /// Here.
    Bytes(Vec<u8>),
}

/// Everything that was found.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Files to take in, sorted by name.
    pub(super) files: Vec<SourceFile>,
    /// What could not even be listed.
    pub(super) unusable: Vec<IngestedPage>,
    /// Files that are no markdown, and links.
    pub(super) other_files: usize,
}

/// Finds everything in a source.
pub(super) fn find(source: &IngestSource) -> SubstrateResult<Found> {
    match source {
        IngestSource::Folder(folder) => walk(folder),
        IngestSource::MemoryFolder(folder) => {
            let concepts = folder.join("concepts");
            // A folder may hold only views or only a knowledge base.
            if folder.is_dir() && !concepts.exists() {
                Ok(Found::default())
            } else {
                walk(&concepts)
            }
        }
        IngestSource::File(path) => {
            let metadata = std::fs::metadata(path).map_err(SubstrateError::io("read", path))?;
            let name = path
                .file_name()
                .map(|name| name.to_string_lossy().into_owned());
            match name {
                Some(name) if metadata.is_file() => Ok(Found {
                    files: vec![SourceFile {
                        wanted: wanted_slug(&name),
                        is_exact: false,
                        name,
                        content: Content::File(path.clone()),
                    }],
                    ..Found::default()
                }),
                _ => Err(SubstrateError::Refused {
                    reason: format!("`{}` is not a file", path.display()),
                }),
            }
        }
        IngestSource::Text { name, text } => {
            let wanted = Slug::parse(name).unwrap_or_else(|_| Slug::from_title(name));
            if wanted.is_reserved() {
                return Err(SubstrateError::Refused {
                    reason: format!("no page may be named `{wanted}`"),
                });
            }
            let content = Content::Bytes(text.clone().into_bytes());
            Ok(Found {
                files: vec![SourceFile {
                    name: name.clone(),
                    wanted,
                    is_exact: false,
                    content,
                }],
                ..Found::default()
            })
        }
        IngestSource::Manifest(pages) => Ok(named(pages)),
    }
}

/// Returns the pages of a manifest, those apart whose slug no page may have.
fn named(pages: &[ManifestPage]) -> Found {
    let mut found = Found::default();
    for page in pages {
        let reason = match Slug::parse(&page.slug) {
            Ok(slug) if slug.is_reserved() => format!("no page may be named `{slug}`"),
            Ok(slug) => {
                found.files.push(SourceFile {
                    name: slug.to_string(),
                    wanted: slug,
                    is_exact: true,
                    content: Content::Bytes(page.content.clone().into_bytes()),
                });
                continue;
            }
            Err(error) => error.to_string(),
        };
        let page = IngestedPage::invalid(page.slug.clone(), Some(reason));
        found.unusable.push(page);
    }
    found
}

/// Walks a folder. Hidden entries are skipped, links are not followed, and no ignore file has a say: a note that its
/// owner keeps out of version control is still a note.
fn walk(folder: &Path) -> SubstrateResult<Found> {
    let metadata = std::fs::metadata(folder).map_err(SubstrateError::io("read", folder))?;
    if !metadata.is_dir() {
        return Err(SubstrateError::Refused {
            reason: format!("`{}` is not a folder", folder.display()),
        });
    }
    let mut found = Found::default();
    let walk = ignore::WalkBuilder::new(folder)
        .standard_filters(false)
        .hidden(true)
        .follow_links(false)
        .build();
    for entry in walk {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                found.unusable.push(unusable(&error, folder));
                continue;
            }
        };
        let Some(kind) = entry.file_type().filter(|kind| !kind.is_dir()) else {
            continue;
        };
        let name = relative_name(entry.path(), folder);
        let is_page = kind.is_file() && name.rsplit('/').next().is_some_and(is_page_name);
        if is_page {
            found.files.push(SourceFile {
                wanted: wanted_slug(&name),
                is_exact: false,
                name,
                content: Content::File(entry.into_path()),
            });
        } else {
            found.other_files += 1;
        }
    }
    found
        .files
        .sort_by(|left, right| left.name.cmp(&right.name));
    Ok(found)
}

fn unusable(error: &ignore::Error, folder: &Path) -> IngestedPage {
    let place = match error {
        ignore::Error::WithPath { path, .. } => relative_name(path, folder),
        ignore::Error::WithDepth { err, .. } => match err.as_ref() {
            ignore::Error::WithPath { path, .. } => relative_name(path, folder),
            _ => String::new(),
        },
        _ => String::new(),
    };
    IngestedPage::invalid(place, Some(error.to_string()))
}

fn relative_name(path: &Path, folder: &Path) -> String {
    let relative = path.strip_prefix(folder).unwrap_or(path);
    let parts: Vec<_> = relative
        .components()
        .map(|part| part.as_os_str().to_string_lossy())
        .collect();
    parts.join("/")
}
