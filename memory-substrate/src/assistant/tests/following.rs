//! The index follows the files, whoever changes them and however: no page is missing, and none that is gone is left.

use std::collections::HashSet;
use std::path::Path;

use memory_core::env::{Rng as _, SeededRng};
use memory_core::store::{Expected, PageStore as _};
use memory_core::text::slug::Slug;

use super::*;

/// Returns the pages that the files are, as a person sees them.
fn pages_on_disk(folder: &Path, prefix: &str) -> BTreeSet<String> {
    let mut pages = BTreeSet::new();
    for entry in std::fs::read_dir(folder).expect("listed") {
        let entry = entry.expect("an entry");
        let name = entry.file_name().into_string().expect("text");
        if entry.path().is_dir() {
            pages.append(&mut pages_on_disk(
                &entry.path(),
                &format!("{prefix}{name}/"),
            ));
        } else if let Some(name) = name.strip_suffix(".md") {
            pages.insert(format!("{prefix}{name}"));
        }
    }
    pages
}

/// Compares what is on disk with what is indexed and what is searched.
async fn check(fixture: &Fixture, store: &AssistantStore, after: &str) {
    let expected = pages_on_disk(&fixture.workspace.concepts_dir(), "");
    let index = store.engine.index.load_full().expect("an index");
    let rows = index.all_rows().await.expect("rows");
    let indexed = rows.iter().map(|row| row.id.slug.to_string());
    assert_eq!(indexed.collect::<BTreeSet<_>>(), expected, "{after}");
    let searched = store.snapshot();
    let searched = searched.pages().map(|page| page.slug.to_string());
    assert_eq!(searched.collect::<BTreeSet<_>>(), expected, "{after}");
    let listed = store.pages();
    let listed = listed.pages().iter().map(|page| page.slug.to_string());
    assert_eq!(listed.collect::<BTreeSet<_>>(), expected, "{after}");
}

#[test]
fn whatever_tools_and_editors_do_what_is_indexed_are_the_files() {
    runtime(async {
        let fixture = Fixture::new();
        let mut store = fixture.open().await;
        let numbers = SeededRng::new(7);
        let below =
            |limit: usize| usize::try_from(numbers.next_u64() % limit as u64).expect("small");
        let name = || format!("{}page-{}", ["", "area/", "deep/er/"][below(3)], below(6));
        for step in 0..120 {
            let (one, two) = (name(), name());
            let (slug, other) = (
                Slug::parse(&one).expect("a slug"),
                Slug::parse(&two).expect("a slug"),
            );
            let (path, target) = (
                fixture.page(&format!("{one}.md")),
                fixture.page(&format!("{two}.md")),
            );
            let text =
                format!("# {one}\n\nAs of step{step}.\n\n## More\n\nAnd more of step{step}.\n");
            let files = store.files().clone();
            let what = below(8);
            match what {
                0 | 1 => drop(
                    files
                        .write(&slug, text.into_bytes(), Expected::Any)
                        .await
                        .expect("written"),
                ),
                2 => files.delete(&slug, Expected::Any).await.expect("deleted"),
                // There may be nothing to rename, or something in its place.
                3 => drop(files.rename(&slug, &other, Expected::Any).await),
                4 | 5 => fixture.write(&format!("{one}.md"), &text),
                6 if path.exists() && !target.exists() => {
                    std::fs::create_dir_all(target.parent().expect("a folder")).expect("made");
                    std::fs::rename(path, target).expect("moved");
                }
                7 if path.exists() => std::fs::remove_file(path).expect("removed"),
                _ => {}
            }
            let after = format!("step {step}: {what} of {one} and {two}");
            if step % 5 == 4 {
                store.look(true).await.expect("looked");
                store.sync(&mut go_on).await.expect("synchronised");
                check(&fixture, &store, &after).await;
            }
            if step % 30 == 29 {
                drop(files);
                drop(store);
                store = fixture.open().await;
                store.sync(&mut go_on).await.expect("synchronised");
                check(&fixture, &store, &format!("{after}, and a restart")).await;
            }
        }
        assert!(store.integrity().await.expect("compared").is_clean());
    });
}

#[test]
fn what_is_deleted_takes_no_place_among_what_is_found() {
    runtime(async {
        let fixture = Fixture::new();
        for number in 0..20 {
            let text =
                format!("# Page {number}\n\nThe harbour of town {number} has a token{number}.\n");
            fixture.write(&format!("page-{number:02}.md"), &text);
        }
        let store = fixture.open().await;
        store.sync(&mut go_on).await.expect("synchronised");
        let question = "The harbour of town 3 has a token3.";
        assert_eq!(near(&store, question).await[0].slug.as_str(), "page-03");
        // Some by a tool, some in the file manager.
        for number in 0..12 {
            let name = format!("page-{number:02}");
            if number % 2 == 0 {
                let slug = Slug::parse(&name).expect("a slug");
                store
                    .files()
                    .delete(&slug, Expected::Any)
                    .await
                    .expect("deleted");
            } else {
                std::fs::remove_file(fixture.page(&format!("{name}.md"))).expect("removed");
            }
        }
        store.refresh().await.expect("refreshed");
        // Of eight that are left, five are asked for.
        let live = |found: Vec<SectionId>| {
            let slugs: HashSet<String> = found.iter().map(|id| id.slug.to_string()).collect();
            assert_eq!((found.len(), slugs.len()), (5, 5), "{found:?}");
            assert!(
                slugs
                    .iter()
                    .all(|slug| fixture.page(&format!("{slug}.md")).exists()),
                "{slugs:?}"
            );
        };
        live(found(&store, "harbour"));
        live(near(&store, question).await);
        let index = store.engine.index.load_full().expect("an index");
        let terms = index.search_terms("harbour", 5).await.expect("searched");
        live(terms.into_iter().map(|(id, _)| id).collect());
        let embedder = store.embedder().expect("a model");
        let vector = embedder
            .embed(vec![question.to_owned()])
            .await
            .expect("embedded");
        let vectors = index
            .search_vector(vector.row(0), 5)
            .await
            .expect("searched");
        live(vectors.into_iter().map(|(id, _)| id).collect());
        for number in 0..12 {
            let word = format!("token{number}");
            assert!(found(&store, &word).is_empty(), "{word}");
            assert!(
                index
                    .search_terms(&word, 5)
                    .await
                    .expect("searched")
                    .is_empty(),
                "{word}"
            );
        }
        assert_eq!(row_set(&store).await.len(), 8);
        drop((store, index));
        let reader = fixture.open_read_only().await;
        live(found(&reader, "harbour"));
    });
}
