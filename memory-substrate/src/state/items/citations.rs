//! Which page states which item, and on what evidence.

use memory_core::item::{Citation, EvidenceId, ItemId};
use memory_core::store::StoreResult;
use memory_core::text::section::SectionId;
use memory_core::text::slug::Slug;
use rusqlite::{Connection, Row, params};

use super::super::sql::{Named, sql};

const COLUMNS: &str = "item, page, nullif(section, '') AS section, evidence";

/// Returns where an item is cited, sorted.
pub(crate) fn of(connection: &Connection, item: &ItemId) -> StoreResult<Vec<Citation>> {
    let query = format!("SELECT {COLUMNS} FROM item_citation WHERE item = ?1");
    let mut cited: Vec<Citation> = connection
        .prepare_cached(&query)
        .and_then(|mut statement| {
            statement
                .query_map([item.as_str()], |row| Ok(read(row)?.1))?
                .collect()
        })
        .map_err(sql("read an item's citations"))?;
    cited.sort();
    Ok(cited)
}

/// Returns what a page cites, sorted.
pub(super) fn on(connection: &Connection, page: &Slug) -> StoreResult<Vec<(ItemId, Citation)>> {
    let query = format!("SELECT {COLUMNS} FROM item_citation WHERE page = ?1");
    let mut cited: Vec<(ItemId, Citation)> = connection
        .prepare_cached(&query)
        .and_then(|mut statement| statement.query_map([page.as_str()], read)?.collect())
        .map_err(sql("read a page's citations"))?;
    cited.sort();
    Ok(cited)
}

/// Returns the pages that cite an item, sorted.
pub(crate) fn citing_pages(connection: &Connection, item: &ItemId) -> StoreResult<Vec<Slug>> {
    let mut pages: Vec<Slug> = of(connection, item)?
        .into_iter()
        .map(|citation| citation.page)
        .collect();
    pages.dedup();
    Ok(pages)
}

/// Replaces where an item is cited.
pub(super) fn replace(
    connection: &Connection,
    item: &ItemId,
    citations: &[Citation],
) -> StoreResult<()> {
    connection
        .prepare_cached("DELETE FROM item_citation WHERE item = ?1")
        .and_then(|mut statement| statement.execute([item.as_str()]))
        .map_err(sql("replace an item's citations"))?;
    for citation in citations {
        let section = citation
            .section
            .as_ref()
            .map(SectionId::key)
            .unwrap_or_default();
        connection
            .prepare_cached(
                "INSERT INTO item_citation (item, page, section, evidence) VALUES (?1, ?2, ?3, ?4) \
                 ON CONFLICT DO NOTHING",
            )
            .and_then(|mut statement| {
                statement.execute(params![
                    item.as_str(),
                    citation.page.as_str(),
                    section,
                    citation.evidence.as_ref().map(EvidenceId::as_str),
                ])
            })
            .map_err(sql("cite an item"))?;
    }
    Ok(())
}

fn read(row: &Row<'_>) -> rusqlite::Result<(ItemId, Citation)> {
    let citation = Citation {
        page: row.get::<_, Named<Slug>>("page")?.0,
        section: row
            .get::<_, Option<Named<SectionId>>>("section")?
            .map(|Named(section)| section),
        evidence: row
            .get::<_, Option<Named<EvidenceId>>>("evidence")?
            .map(|Named(evidence)| evidence),
    };
    Ok((row.get::<_, Named<ItemId>>("item")?.0, citation))
}
