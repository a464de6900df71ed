//! Changing pages: compare, commit, apply.
//!
//! The comparison is part of the request, made inside its transaction, so a request that is repeated under its key gets
//! the first answer instead of a conflict with itself. How a page came in follows its bytes: a page that somebody else
//! than the owner wrote is trusted as that somebody is, and a page keeps its record under every name.

use std::sync::Arc;

use memory_core::provenance::{Authority, Origin, trust_of};
use memory_core::store::{Expected, PageOrigin, StoreError, StoreResult};
use memory_core::text::slug::Slug;
use rusqlite::Connection;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Shared;
use super::hash::hash_bytes;
use crate::oplog::{
    Change, OperationKind, OriginChange, Part, Plan, Request, WriteContext, less_trusted,
};
use crate::state::origins;

/// What a conflict shows in place of a hash when there is no page.
pub(super) const NOTHING: &str = "nothing";

/// Writes a page and returns its new hash.
pub(super) fn write(
    shared: &Arc<Shared>,
    slug: Slug,
    bytes: Vec<u8>,
    expected: Expected,
    context: WriteContext,
) -> StoreResult<String> {
    let hash = hash_bytes(&bytes);
    if !trust_of(context.origin, context.authority).is_some_and(|verdict| verdict.beyond_evidence) {
        return Err(StoreError::BadRequest {
            reason: format!(
                "text of origin `{:?}` under authority `{:?}` may be kept as evidence only",
                context.origin, context.authority
            ),
        });
    }
    let request = (&slug, &hash, expected_name(&expected));
    let request = requested(shared, OperationKind::Write, &request, context)?;
    let (origin, authority, at) = (
        request.context.origin,
        request.context.authority,
        request.at,
    );
    carry_out(shared, request, move |shared, connection, id| {
        let path = shared.place_of(&slug)?;
        let base = compare(shared, &slug, &expected)?;
        if base.as_deref() == Some(&bytes) {
            return Ok((hash, id, Vec::new()));
        }
        let before = origins::of(connection, &slug)?;
        // What the owner says about a page does not make the rest of it the owner's.
        let after = if (origin, authority) == (Origin::UserDirect, Authority::Owner) {
            before.clone()
        } else {
            let original_name = before.as_ref().map_or_else(
                || slug.to_relative_path(),
                |before| before.original_name.clone(),
            );
            let written = PageOrigin {
                slug: slug.clone(),
                original_name,
                origin,
                authority,
                at,
            };
            less_trusted(before.as_ref(), Some(&written)).cloned()
        };
        let origin = OriginChange::of(slug, before, after);
        if let Some(lower) = origin.as_ref().and_then(OriginChange::meanwhile) {
            origins::put(connection, std::slice::from_ref(lower))?;
        }
        let change = Change::Write {
            base,
            content: bytes,
            merged: false,
        };
        let part = Part {
            path,
            change,
            origin,
        };
        Ok((hash, id, vec![part]))
    })
}

/// Deletes a page.
pub(super) fn delete(
    shared: &Arc<Shared>,
    slug: Slug,
    expected: Expected,
    context: WriteContext,
) -> StoreResult<()> {
    let request = (&slug, expected_name(&expected));
    let request = requested(shared, OperationKind::Delete, &request, context)?;
    carry_out(shared, request, move |shared, connection, id| {
        let Some(base) = compare(shared, &slug, &expected)? else {
            return Ok(((), id, Vec::new()));
        };
        let path = shared.place_of(&slug)?;
        let before = origins::of(connection, &slug)?;
        let part = Part {
            path,
            change: Change::Delete { base },
            origin: OriginChange::of(slug, before, None),
        };
        Ok(((), id, vec![part]))
    })
}

/// Gives a page another slug.
pub(super) fn rename(
    shared: &Arc<Shared>,
    from: Slug,
    to: Slug,
    expected: Expected,
    context: WriteContext,
) -> StoreResult<()> {
    let request = (&from, &to, expected_name(&expected));
    let request = requested(shared, OperationKind::Rename, &request, context)?;
    let old = from.clone();
    carry_out(shared, request, move |shared, connection, id| {
        let Some(bytes) = compare(shared, &from, &expected)? else {
            return Err(StoreError::NotFound {
                what: from.to_string(),
            });
        };
        if from == to {
            return Ok(((), id, Vec::new()));
        }
        let (path, target) = (shared.place_of(&from)?, shared.place_of(&to)?);
        compare(shared, &to, &Expected::Absent)?;
        let before = origins::of(connection, &from)?;
        if let Some(before) = &before {
            // Under no name may the page look like the owner's own, not even for a moment.
            let under_new_name = PageOrigin {
                slug: to,
                ..before.clone()
            };
            origins::put(connection, &[under_new_name])?;
        }
        let part = Part {
            path,
            change: Change::Rename {
                to: target,
                content: bytes,
            },
            origin: OriginChange::of(from, before, None),
        };
        Ok(((), id, vec![part]))
    })?;
    shared.forget_name(&old);
    Ok(())
}

/// Commits a change and brings it into its file.
fn carry_out<T>(
    shared: &Arc<Shared>,
    request: Request,
    plan: impl FnOnce(&Shared, &Connection, String) -> StoreResult<(T, String, Vec<Part>)>
    + Send
    + 'static,
) -> StoreResult<T>
where
    T: Serialize + DeserializeOwned + Send + 'static,
{
    let writing = shared.writing()?;
    let _turn = shared.take_turn()?;
    let (planning, id) = (Arc::clone(shared), writing.ids.next_id());
    let outcome = writing.log.commit(request, move |connection| {
        let (outcome, id, parts) = plan(&planning, connection, id)?;
        Ok(Plan { id, outcome, parts })
    })?;
    // It is safe and seen by every reader even if its file cannot have it yet.
    if let Err(error) = writing.log.settle() {
        tracing::warn!(%error, "a page is safe but could not be brought into its file");
    }
    Ok(outcome)
}

fn requested(
    shared: &Shared,
    kind: OperationKind,
    what: &impl Serialize,
    context: WriteContext,
) -> StoreResult<Request> {
    let name =
        serde_json::to_vec(what).map_err(|error| StoreError::engine("name a request", error))?;
    Ok(Request {
        kind,
        context,
        hash: hash_bytes(&name),
        at: shared.writing()?.clock.now(),
    })
}

fn expected_name(expected: &Expected) -> &str {
    match expected {
        Expected::Absent => NOTHING,
        Expected::Any => "anything",
        Expected::Hash(hash) => hash,
    }
}

/// Compares what is there with what is expected, and returns it.
fn compare(shared: &Shared, slug: &Slug, expected: &Expected) -> StoreResult<Option<Vec<u8>>> {
    let found = shared.read(slug)?;
    let agrees = match expected {
        Expected::Any => true,
        Expected::Absent => found.is_none(),
        Expected::Hash(hash) => found.as_ref().is_some_and(|page| page.hash == *hash),
    };
    if agrees {
        return Ok(found.map(|page| page.bytes));
    }
    Err(StoreError::Conflict {
        what: slug.to_string(),
        expected: expected_name(expected).to_owned(),
        found: found.map_or_else(|| NOTHING.to_owned(), |page| page.hash),
    })
}
