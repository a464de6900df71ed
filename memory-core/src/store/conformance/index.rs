//! What an index store promises: whole pages of rows replaced at once, found by vector and by term.
//!
//! How high a term scores is the engine's own affair. What is promised is which sections are found, that more of what was
//! asked for comes first, and that equal scores are in the order of the sections.

use std::ops::Deref;

use futures_util::future::join_all;

use super::{Breach, CALLERS, Report, Verdict, bad_request, equal, hold, require};
use crate::provenance::{Channel, Trust};
use crate::store::{IndexRow, IndexStore, content_hash};
use crate::text::section::SectionId;
use crate::text::slug::Slug;
use crate::time::Timestamp;

pub use self::search::{
    a_question_of_another_length_is_refused, equal_matches_are_in_the_order_of_their_sections,
    equal_vectors_are_in_the_order_of_their_sections, limits_are_kept,
    more_of_what_was_asked_for_comes_first, rows_without_a_vector_are_never_near,
    terms_are_found_as_they_are, vectors_are_found_nearest_first, what_was_removed_is_never_found,
    what_was_written_is_found_at_once,
};

mod search;

/// More pages than an engine takes in one statement.
const MANY_PAGES: usize = 300;

/// How far a cosine may be off.
const TOLERANCE: f32 = 1e-4;

/// Holds section indexes to every rule. Each gets an empty one with vectors of at least four numbers.
pub async fn suite<I>(make: impl AsyncFn() -> I) -> Report
where
    I: Deref<Target: IndexStore + Sized>,
{
    hold!(
        make,
        [
            rows_come_back_as_they_went_in,
            a_page_is_replaced_whole,
            a_page_without_rows_is_removed,
            a_batch_that_makes_no_sense_changes_nothing,
            large_batches_and_texts_are_kept,
            vectors_are_found_nearest_first,
            equal_vectors_are_in_the_order_of_their_sections,
            rows_without_a_vector_are_never_near,
            a_question_of_another_length_is_refused,
            terms_are_found_as_they_are,
            more_of_what_was_asked_for_comes_first,
            equal_matches_are_in_the_order_of_their_sections,
            what_was_written_is_found_at_once,
            what_was_removed_is_never_found,
            limits_are_kept,
            maintenance_changes_no_answer,
            writers_of_different_pages_do_not_meet,
            of_several_writers_of_a_page_one_is_whole,
        ]
    )
}

/// Holds section indexes without vectors to what is different about them. Each gets an empty one.
pub async fn suite_without_vectors<I>(make: impl AsyncFn() -> I) -> Report
where
    I: Deref<Target: IndexStore + Sized>,
{
    hold!(make, [an_index_without_vectors_still_finds_terms])
}

/// Holds an index to what must survive its end. `reopen` ends it and opens it again.
pub async fn survives<I>(make: impl AsyncFn() -> I, reopen: impl AsyncFn(I) -> I) -> Report
where
    I: Deref<Target: IndexStore + Sized>,
{
    let mut report = Report::default();
    let verdict = async {
        let store = make().await;
        let rows = vec![
            row(&*store, "kept", "", "kiwi"),
            row(&*store, "kept", "part", "plum"),
        ];
        put(&*store, &["kept"], &rows).await?;
        put(&*store, &["gone"], &[row(&*store, "gone", "", "plum")]).await?;
        put(&*store, &["gone"], &[]).await?;
        let store = reopen(store).await;
        equal("rows", &store.all_rows().await?, &rows)?;
        equal(
            "found",
            &found(&*store, "plum", 9).await?,
            &["kept#part"][..],
        )?;
        let near = store.search_vector(&axis(&*store, 0), 9).await?;
        equal("near", &near.len(), &2)
    };
    report.note("what_was_acknowledged_survives", verdict.await);
    report
}

fn dims(store: &dyn IndexStore) -> usize {
    usize::try_from(store.space().dims).unwrap_or(0)
}

/// Returns the unit vector along one axis.
fn axis(store: &dyn IndexStore, axis: usize) -> Vec<f32> {
    (0..dims(store))
        .map(|at| if at == axis { 1.0 } else { 0.0 })
        .collect()
}

/// Returns the unit vector between the first two axes whose cosine with the first one is this.
fn at_cosine(store: &dyn IndexStore, cosine: f32) -> Vec<f32> {
    let mut vector = axis(store, 0);
    vector[0] = cosine;
    vector[1] = (1.0 - cosine * cosine).sqrt();
    vector
}

fn row(store: &dyn IndexStore, page: &str, heading: &str, body: &str) -> IndexRow {
    IndexRow {
        id: SectionId {
            heading: heading.to_owned(),
            ..SectionId::lead(Slug::from_path(page))
        },
        heading: heading.to_owned(),
        ordinal: u32::from(!heading.is_empty()),
        page_hash: content_hash(page.as_bytes()),
        page_rows: 1,
        title: page.to_owned(),
        modified_at: Timestamp::from_millis(1),
        dated: None,
        text_hash: content_hash(body.as_bytes()),
        text: body.to_owned(),
        head_terms: String::new(),
        body_terms: body.to_owned(),
        channel: Channel::Global,
        trust: Trust::Trusted,
        vector: (dims(store) > 0).then(|| axis(store, 0)),
    }
}

async fn put(store: &dyn IndexStore, pages: &[&str], rows: &[IndexRow]) -> Verdict {
    let pages = pages.iter().map(|page| Slug::from_path(page)).collect();
    Ok(store.replace_pages(pages, rows.to_vec()).await?)
}

/// Adds one page of one row, found by these terms.
async fn add(store: &dyn IndexStore, page: &str, terms: &str) -> Verdict {
    put(store, &[page], &[row(store, page, "", terms)]).await
}

fn names(found: &[(SectionId, f32)]) -> Vec<String> {
    let name = |(id, _): &(SectionId, f32)| match id.heading.as_str() {
        "" => id.slug.as_str().to_owned(),
        heading => format!("{}#{heading}", id.slug),
    };
    found.iter().map(name).collect()
}

async fn found(store: &dyn IndexStore, terms: &str, limit: u32) -> Result<Vec<String>, Breach> {
    let found = store.search_terms(terms, limit).await?;
    let descends = found.is_sorted_by(|first, second| first.1 >= second.1);
    require(descends, "scores should descend")?;
    Ok(names(&found))
}

/// Every field of a row comes back, sorted by section.
pub async fn rows_come_back_as_they_went_in(store: &dyn IndexStore) -> Verdict {
    equal("rows of nothing", &store.all_rows().await?.len(), &0)?;
    equal("counted rows", &store.stats().await?.rows, &0)?;
    let mut lead = row(store, "a/日本", "", "kiwi");
    lead.dated = Some(Timestamp::from_millis(-5));
    lead.modified_at = Timestamp::from_millis(-7);
    lead.channel = Channel::Project("atlas".to_owned());
    lead.page_rows = 3;
    let mut part = row(store, "a/日本", "it's #1 \"part\"", "plum");
    part.trust = Trust::Untrusted;
    "quotes ' \" zero \0 lines\r\n é e\u{301}".clone_into(&mut part.text);
    "head terms".clone_into(&mut part.head_terms);
    let mut second = row(store, "a/日本", "it's #1 \"part\"", "plum");
    second.id.occurrence = 2;
    second.id.chunk = 1;
    second.vector = None;
    second.text = String::new();
    second.body_terms = String::new();
    let other = row(store, "a-b", "", "kiwi");
    let sorted = [other, lead, part, second];
    let mut mixed = sorted.to_vec();
    mixed.reverse();
    put(store, &["a/日本", "a-b"], &mixed).await?;
    equal("rows", &store.all_rows().await?, &sorted[..])?;
    equal("counted rows", &store.stats().await?.rows, &4)
}

/// A page has the rows it was last given and no other, and other pages keep theirs.
pub async fn a_page_is_replaced_whole(store: &dyn IndexStore) -> Verdict {
    let other = row(store, "other", "", "plum");
    put(store, &["other"], std::slice::from_ref(&other)).await?;
    let shapes: [&[&str]; 4] = [&["", "one", "two"], &["", "three"], &["four"], &["", "one"]];
    for headings in shapes {
        let mut rows: Vec<IndexRow> = headings
            .iter()
            .map(|heading| row(store, "kiwi", heading, "kiwi"))
            .collect();
        // The second time nothing changes.
        for _ in 0..2 {
            put(store, &["kiwi"], &rows).await?;
        }
        rows.push(other.clone());
        equal("rows", &store.all_rows().await?, &rows)?;
    }
    Ok(())
}

/// Pages that are named without rows are gone, whether they were there or not; naming none changes nothing.
pub async fn a_page_without_rows_is_removed(store: &dyn IndexStore) -> Verdict {
    for page in ["a", "a/b", "ab", "b"] {
        add(store, page, "kiwi").await?;
    }
    put(store, &[], &[]).await?;
    put(store, &["a", "never-there", "a"], &[]).await?;
    equal(
        "found",
        &found(store, "kiwi", 9).await?,
        &["a/b", "ab", "b"][..],
    )?;
    put(store, &["a/b", "ab", "b"], &[]).await?;
    equal("rows", &store.all_rows().await?.len(), &0)?;
    equal("counted rows", &store.stats().await?.rows, &0)?;
    equal("found", &found(store, "kiwi", 9).await?.len(), &0)?;
    add(store, "a", "kiwi").await?;
    equal("found", &found(store, "kiwi", 9).await?, &["a"][..])
}

/// Rows of a page that is not replaced, a section given twice, and a vector of another length are refused whole.
pub async fn a_batch_that_makes_no_sense_changes_nothing(store: &dyn IndexStore) -> Verdict {
    let there = row(store, "there", "", "kiwi");
    put(store, &["there"], std::slice::from_ref(&there)).await?;
    let new = |page: &str| row(store, page, "", "plum");
    let twisted = IndexRow {
        vector: Some(vec![1.0; dims(store) + 1]),
        ..new("new")
    };
    let batches: [(&str, &[&str], Vec<IndexRow>); 3] = [
        (
            "a row of another page",
            &["new"],
            vec![new("new"), new("there")],
        ),
        ("a section twice", &["new"], vec![new("new"), new("new")]),
        (
            "a vector of another length",
            &["there", "new"],
            vec![new("there"), twisted],
        ),
    ];
    for (what, pages, rows) in batches {
        let pages = pages.iter().map(|page| Slug::from_path(page)).collect();
        bad_request(what, store.replace_pages(pages, rows).await)?;
        equal("rows", &store.all_rows().await?, &[there.clone()][..])?;
    }
    Ok(())
}

/// A batch may hold more pages than fit one statement of an engine, and a text more than fits a buffer.
pub async fn large_batches_and_texts_are_kept(store: &dyn IndexStore) -> Verdict {
    let pages: Vec<String> = (0..MANY_PAGES)
        .map(|number| format!("page-{number:03}"))
        .collect();
    let pages: Vec<&str> = pages.iter().map(String::as_str).collect();
    let mut rows: Vec<IndexRow> = pages
        .iter()
        .map(|page| row(store, page, "", "kiwi"))
        .collect();
    rows[7].text = "x".repeat(1 << 20);
    put(store, &pages, &rows).await?;
    equal("rows", &store.all_rows().await?, &rows)?;
    // Every second page goes, in one batch.
    let (gone, kept): (Vec<_>, Vec<_>) = pages
        .iter()
        .enumerate()
        .partition(|(number, _)| number % 2 == 0);
    let gone: Vec<&str> = gone.into_iter().map(|(_, page)| *page).collect();
    put(store, &gone, &[]).await?;
    equal(
        "counted rows",
        &store.stats().await?.rows,
        &(kept.len() as u64),
    )
}

/// Maintenance may be asked for at any time, also of an empty index, and changes neither rows nor what is found.
pub async fn maintenance_changes_no_answer(store: &dyn IndexStore) -> Verdict {
    store.maintain().await?;
    for number in 0..9 {
        add(
            store,
            &format!("page-{number}"),
            &format!("kiwi term{number}"),
        )
        .await?;
    }
    put(store, &["page-3"], &[]).await?;
    let question = axis(store, 0);
    let before = (
        store.all_rows().await?,
        names(&store.search_vector(&question, 99).await?),
        found(store, "term5 kiwi", 99).await?,
    );
    for _ in 0..2 {
        store.maintain().await?;
        let after = (
            store.all_rows().await?,
            names(&store.search_vector(&question, 99).await?),
            found(store, "term5 kiwi", 99).await?,
        );
        equal("answers", &after, &before)?;
    }
    equal("counted rows", &store.stats().await?.rows, &8)
}

/// Pages that are written beside each other are all there, once.
pub async fn writers_of_different_pages_do_not_meet(store: &dyn IndexStore) -> Verdict {
    let pages: Vec<String> = (0..CALLERS)
        .map(|writer| format!("page-{writer}"))
        .collect();
    let writes = pages.iter().map(|page| add(store, page, "kiwi"));
    for written in join_all(writes).await {
        written?;
    }
    equal("found", &found(store, "kiwi", 99).await?, &pages)?;
    equal("rows", &store.all_rows().await?.len(), &CALLERS)
}

/// A page that several write at once is one writer's, whole, and no row is there twice.
pub async fn of_several_writers_of_a_page_one_is_whole(store: &dyn IndexStore) -> Verdict {
    let version = |writer: usize| {
        let of = |heading: &str| row(store, "kiwi", heading, &format!("writer{writer}"));
        let mut rows: Vec<IndexRow> = ["", "one", "two", "zoo"].map(of).into();
        rows.truncate(2 + writer % 3);
        rows
    };
    let versions: Vec<Vec<IndexRow>> = (0..CALLERS).map(version).collect();
    let writes = versions.iter().map(|rows| put(store, &["kiwi"], rows));
    for written in join_all(writes).await {
        written?;
    }
    let rows = store.all_rows().await?;
    require(
        versions.contains(&rows),
        "the rows should be those of one writer",
    )
}

/// Without vectors, rows have none, a search by vector is refused, and terms are found.
pub async fn an_index_without_vectors_still_finds_terms(store: &dyn IndexStore) -> Verdict {
    equal("the length of its vectors", &store.space().dims, &0)?;
    add(store, "kiwi", "kiwi").await?;
    let rows = store.all_rows().await?;
    equal("rows", &rows, &[row(store, "kiwi", "", "kiwi")][..])?;
    for question in [vec![], vec![1.0; 4]] {
        let answer = store.search_vector(&question, 9).await;
        bad_request("a search by vector", answer)?;
    }
    equal("found", &found(store, "kiwi", 9).await?, &["kiwi"][..])
}
