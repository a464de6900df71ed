//! Choosing the index to open, and what to do when it is not what it should be.
//!
//! The index is derived, so nothing about it may keep an assistant from opening: whatever is missing is found by keyword
//! straight from the files until it has been made again. Vectors of two models are never mixed: with another model's
//! index there, search is by keyword until `reindex` has made the new one.

use std::sync::Arc;

use memory_core::embed::Embedder;
use memory_core::services::{Notice, Severity};
use memory_core::store::{IndexSpace, StoreError};

use crate::blocking;
use crate::index::{IndexHome, LanceIndex, Opened, ROW_SCHEMA};
use crate::segment::SEGMENTATION_VERSION;
use crate::snapshot::Snapshot;
use crate::sync::describe;

/// How often a reader looks before it believes that an index is damaged.
const READER_TRIES: u32 = 3;

/// An index that was chosen.
#[derive(Debug)]
pub(crate) struct Chosen {
    pub(crate) index: Option<Arc<LanceIndex>>,
    pub(crate) snapshot: Snapshot,
    pub(crate) notices: Vec<Notice>,
}

/// Returns the space of an index made with this model, or of one without vectors.
pub(crate) fn space_of(embedder: Option<&dyn Embedder>) -> IndexSpace {
    IndexSpace {
        segmentation: SEGMENTATION_VERSION.to_owned(),
        embedding: embedder.map(|embedder| embedder.space().clone()),
        dims: embedder.map_or(0, |embedder| {
            u32::try_from(embedder.dims()).unwrap_or(u32::MAX)
        }),
        schema: ROW_SCHEMA,
    }
}

/// Opens the index that fits the model, or makes an empty one.
pub(crate) async fn choose(
    home: &IndexHome,
    embedder: Option<&dyn Embedder>,
    writable: bool,
) -> Chosen {
    let mut notices = Vec::new();
    let mut space = space_of(embedder);
    match home.spaces() {
        Ok(spaces)
            if !spaces.contains(&space)
                && spaces
                    .iter()
                    .any(|other| is_of_another_model(other, &space)) =>
        {
            notices.push(notice(
                "index_of_another_space",
                Severity::Warning,
                "the index was made with another embedding model or with none: search is by keyword until `strata reindex` has run".to_owned(),
            ));
            space = space_of(None);
        }
        Ok(_) => {}
        Err(error) => notices.push(unavailable(&error)),
    }
    let dims = usize::try_from(space.dims).unwrap_or(0);
    let opened = match open(home, &space, writable).await {
        Ok(opened) => opened,
        Err(StoreError::Damaged { reason, .. }) => {
            notices.push(notice(
                "index_damaged",
                Severity::Error,
                format!("the section index is damaged ({reason}): search is by keyword until it has been made again"),
            ));
            if writable {
                set_aside(home, &space).await;
            }
            None
        }
        Err(error) => {
            // Not damaged but not to be had: perhaps a matter of permissions. It must not be replaced by an empty one.
            notices.push(unavailable(&error));
            return Chosen {
                index: None,
                snapshot: Snapshot::empty(dims),
                notices,
            };
        }
    };
    match opened {
        Some(Opened {
            index,
            segments,
            mended,
        }) => {
            notices.extend(mended.map(|lost| {
                let what = if writable { "written anew" } else { "passed over" };
                notice(
                    "index_mended",
                    Severity::Info,
                    format!("the file that names the section index in use was {what} from its record, because {lost}"),
                )
            }));
            Chosen {
                index: Some(Arc::new(index)),
                snapshot: Snapshot::of(dims, segments),
                notices,
            }
        }
        None if writable => match LanceIndex::create(home, &space).await {
            Ok(index) => Chosen {
                index: Some(Arc::new(index)),
                snapshot: Snapshot::empty(dims),
                notices,
            },
            Err(error) => {
                notices.push(unavailable(&error));
                Chosen {
                    index: None,
                    snapshot: Snapshot::empty(dims),
                    notices,
                }
            }
        },
        None => Chosen {
            index: None,
            snapshot: Snapshot::empty(dims),
            notices,
        },
    }
}

async fn open(
    home: &IndexHome,
    space: &IndexSpace,
    writable: bool,
) -> Result<Option<Opened>, StoreError> {
    let mut tries = if writable { 1 } else { READER_TRIES };
    loop {
        tries -= 1;
        match LanceIndex::open(home, space, writable).await {
            // A writer in another process may have removed a version while it was being read here.
            Err(StoreError::Damaged { .. }) if tries > 0 => {}
            other => return other,
        }
    }
}

/// Moves a damaged index out of the way; one that cannot be moved is removed when its replacement is put into use.
async fn set_aside(home: &IndexHome, space: &IndexSpace) {
    let (home, space) = (home.clone(), space.clone());
    if let Err(error) = blocking::run(move || home.set_aside(&space)).await {
        tracing::warn!(
            error = describe(&error),
            "a damaged index stays where it is"
        );
    }
}

/// An index of the same model, made under older rules, is simply made again; any other is left alone until the owner
/// says so, because making it again takes long.
fn is_of_another_model(other: &IndexSpace, wanted: &IndexSpace) -> bool {
    wanted.embedding.is_some() && other.embedding != wanted.embedding
}

pub(crate) fn notice(code: &str, severity: Severity, message: String) -> Notice {
    Notice {
        code: code.to_owned(),
        severity,
        message,
    }
}

fn unavailable(error: &StoreError) -> Notice {
    notice(
        "index_unavailable",
        Severity::Error,
        format!(
            "the section index cannot be used ({}): search is by keyword, see `strata doctor`",
            describe(error)
        ),
    )
}
