//! What a page store promises: whole pages, compared and swapped.

use std::ops::Deref;

use futures_util::future::join_all;

use super::{CALLERS, Report, Verdict, bad_request, conflict, equal, hold, not_found, one_winner};
use crate::store::{Expected, PageStore, content_hash};
use crate::text::slug::{MAX_SEGMENT_BYTES, Slug};

/// What a conflict names in place of a hash when there is no page.
const NOTHING: &str = "nothing";

/// Bytes of a page that is larger than any buffer on its way.
const LARGE: usize = 2 << 20;

/// Holds page stores to every rule. Each gets an empty one.
pub async fn suite<P>(make: impl AsyncFn() -> P) -> Report
where
    P: Deref<Target: PageStore + Sized>,
{
    hold!(
        make,
        [
            what_is_written_is_read,
            any_bytes_are_kept,
            a_write_compares_first,
            a_delete_compares_first,
            a_rename_compares_first,
            a_rename_takes_no_page_away,
            a_renamed_page_is_whole_and_frees_its_name,
            the_same_bytes_again_are_no_change,
            a_deleted_page_can_come_again,
            listings_are_complete_and_sorted,
            names_of_every_script_are_pages,
            a_page_may_stand_beside_its_namesake_folder,
            synthetic_names_are_refused,
            of_several_writers_one_wins,
            writers_of_different_pages_do_not_meet,
        ]
    )
}

/// Holds a page store to what must survive its end. `reopen` ends it and opens it again.
pub async fn survives<P>(make: impl AsyncFn() -> P, reopen: impl AsyncFn(P) -> P) -> Report
where
    P: Deref<Target: PageStore + Sized>,
{
    let mut report = Report::default();
    let verdict = async {
        let store = make().await;
        let kept = put(&*store, "kept", b"one").await?;
        let changed = put(&*store, "changed", b"one").await?;
        put(&*store, "gone", b"one").await?;
        put(&*store, "old-name", b"moved").await?;
        let expected = Expected::Hash(changed);
        store
            .write(&slug("changed"), b"two".to_vec(), expected)
            .await?;
        store.delete(&slug("gone"), Expected::Any).await?;
        store
            .rename(&slug("old-name"), &slug("new-name"), Expected::Any)
            .await?;
        let store = reopen(store).await;
        equal(
            "pages after opening again",
            &names(&*store).await?,
            &["changed", "kept", "new-name"][..],
        )?;
        check_text(&*store, "changed", Some(b"two")).await?;
        check_text(&*store, "new-name", Some(b"moved")).await?;
        // What was seen before is still what a writer may expect.
        let expected = Expected::Hash(kept);
        store
            .write(&slug("kept"), b"three".to_vec(), expected)
            .await?;
        Ok(())
    };
    report.note("what_was_acknowledged_survives", verdict.await);
    report
}

fn slug(name: &str) -> Slug {
    Slug::from_path(name)
}

async fn put(store: &dyn PageStore, name: &str, bytes: &[u8]) -> Result<String, super::Breach> {
    let hash = store
        .write(&slug(name), bytes.to_vec(), Expected::Absent)
        .await?;
    Ok(hash)
}

async fn names(store: &dyn PageStore) -> Result<Vec<String>, super::Breach> {
    let listed = store.list().await?;
    Ok(listed
        .into_iter()
        .map(|stamp| stamp.slug.as_str().to_owned())
        .collect())
}

async fn check_text(store: &dyn PageStore, name: &str, expected: Option<&[u8]>) -> Verdict {
    let found = store.read(&slug(name)).await?.map(|page| page.bytes);
    equal(&format!("bytes of `{name}`"), &found.as_deref(), &expected)
}

/// A page comes back with its bytes, their SHA-256 and its own name; one that was never written is nothing.
pub async fn what_is_written_is_read(store: &dyn PageStore) -> Verdict {
    equal(
        "a page of an empty store",
        &store.read(&slug("ada")).await?,
        &None,
    )?;
    equal("pages of an empty store", &store.list().await?.len(), &0)?;
    let returned = put(store, "people/ada", b"# Ada\n").await?;
    equal("the hash returned", &returned, &content_hash(b"# Ada\n"))?;
    let Some(page) = store.read(&slug("people/ada")).await? else {
        return Err(super::wrong("a page that was written is not there"));
    };
    equal("its name", &page.slug, &slug("people/ada"))?;
    equal("its bytes", page.bytes.as_slice(), &b"# Ada\n"[..])?;
    equal("its hash", &page.hash, &returned)?;
    let listed = store.list().await?;
    let stamps: Vec<_> = listed
        .iter()
        .map(|stamp| (stamp.slug.as_str(), stamp.bytes, stamp.modified_at))
        .collect();
    equal(
        "the listing",
        &stamps[..],
        &[("people/ada", 6, page.modified_at)][..],
    )
}

/// Bytes are not looked into: none, zeros, what is not text, either kind of line end, and more than fits a buffer.
pub async fn any_bytes_are_kept(store: &dyn PageStore) -> Verdict {
    let large: Vec<u8> = (0..LARGE)
        .map(|at| u8::try_from(at % 251).unwrap_or_default())
        .collect();
    let cases: [(&str, &[u8]); 6] = [
        ("empty", b""),
        ("zeros", b"\0\0\n\0"),
        ("not-text", b"\xff\xfe\x80 text"),
        ("line-ends", b"\xef\xbb\xbfone\r\ntwo\rthree\n\n"),
        ("scripts", "日本語 — кириллица — e\u{301}".as_bytes()),
        ("large", &large),
    ];
    for (name, bytes) in cases {
        let hash = put(store, name, bytes).await?;
        equal(name, &hash, &content_hash(bytes))?;
        check_text(store, name, Some(bytes)).await?;
    }
    for stamp in store.list().await? {
        let bytes = cases.iter().find(|(name, _)| *name == stamp.slug.as_str());
        let length = bytes.map(|(_, bytes)| bytes.len() as u64);
        equal("a listed length", &Some(stamp.bytes), &length)?;
    }
    Ok(())
}

/// A write that expected something else changes nothing, and says what it expected and what is there.
pub async fn a_write_compares_first(store: &dyn PageStore) -> Verdict {
    let page = slug("kiwi");
    let (one, other) = (content_hash(b"one"), content_hash(b"other"));
    let write = |bytes: &[u8], expected| store.write(&page, bytes.to_vec(), expected);
    let answer = write(b"two", Expected::Hash(other.clone())).await;
    conflict(
        "a hash where there is nothing",
        answer,
        Some((&other, NOTHING)),
    )?;
    check_text(store, "kiwi", None).await?;
    write(b"one", Expected::Absent).await?;
    let answer = write(b"two", Expected::Absent).await;
    conflict(
        "nothing where there is a page",
        answer,
        Some((NOTHING, &one)),
    )?;
    let answer = write(b"two", Expected::Hash(other.clone())).await;
    conflict("another hash", answer, Some((&other, &one)))?;
    check_text(store, "kiwi", Some(b"one")).await?;
    write(b"two", Expected::Hash(one.clone())).await?;
    let answer = write(b"three", Expected::Hash(one.clone())).await;
    conflict(
        "the hash before",
        answer,
        Some((&one, &content_hash(b"two"))),
    )?;
    write(b"three", Expected::Any).await?;
    check_text(store, "kiwi", Some(b"three")).await?;
    store
        .write(&slug("new"), b"n".to_vec(), Expected::Any)
        .await?;
    check_text(store, "new", Some(b"n")).await
}

/// A deletion compares like a write. Deleting what is not there is done already, unless something was expected.
pub async fn a_delete_compares_first(store: &dyn PageStore) -> Verdict {
    let page = slug("kiwi");
    let (one, other) = (content_hash(b"one"), content_hash(b"other"));
    for expected in [Expected::Any, Expected::Absent] {
        store.delete(&page, expected).await?;
    }
    let answer = store.delete(&page, Expected::Hash(one.clone())).await;
    conflict(
        "a hash where there is nothing",
        answer,
        Some((&one, NOTHING)),
    )?;
    put(store, "kiwi", b"one").await?;
    let answer = store.delete(&page, Expected::Absent).await;
    conflict(
        "nothing where there is a page",
        answer,
        Some((NOTHING, &one)),
    )?;
    let answer = store.delete(&page, Expected::Hash(other.clone())).await;
    conflict("another hash", answer, Some((&other, &one)))?;
    check_text(store, "kiwi", Some(b"one")).await?;
    store.delete(&page, Expected::Hash(one)).await?;
    check_text(store, "kiwi", None).await?;
    equal("pages left", &store.list().await?.len(), &0)
}

/// A rename compares like a write, and needs a page.
pub async fn a_rename_compares_first(store: &dyn PageStore) -> Verdict {
    let (from, to) = (slug("kiwi"), slug("plum"));
    let (one, other) = (content_hash(b"one"), content_hash(b"other"));
    for expected in [Expected::Any, Expected::Absent] {
        let answer = store.rename(&from, &to, expected).await;
        not_found("a page that is not there", answer)?;
    }
    let answer = store.rename(&from, &to, Expected::Hash(one.clone())).await;
    conflict(
        "a hash where there is nothing",
        answer,
        Some((&one, NOTHING)),
    )?;
    put(store, "kiwi", b"one").await?;
    let answer = store
        .rename(&from, &to, Expected::Hash(other.clone()))
        .await;
    conflict("another hash", answer, Some((&other, &one)))?;
    let answer = store.rename(&from, &to, Expected::Absent).await;
    conflict(
        "nothing where there is a page",
        answer,
        Some((NOTHING, &one)),
    )?;
    equal("pages", &names(store).await?, &["kiwi"][..])
}

/// A rename onto another page is refused, and both stay.
pub async fn a_rename_takes_no_page_away(store: &dyn PageStore) -> Verdict {
    put(store, "kiwi", b"one").await?;
    let there = put(store, "plum", b"two").await?;
    let answer = store
        .rename(&slug("kiwi"), &slug("plum"), Expected::Any)
        .await;
    conflict("a name that is taken", answer, Some((NOTHING, &there)))?;
    check_text(store, "kiwi", Some(b"one")).await?;
    check_text(store, "plum", Some(b"two")).await
}

/// A renamed page has the same bytes and hash, its old name is free, and its own name is no other one.
pub async fn a_renamed_page_is_whole_and_frees_its_name(store: &dyn PageStore) -> Verdict {
    let hash = put(store, "people/kiwi", b"one").await?;
    let from = slug("people/kiwi");
    store
        .rename(&from, &from, Expected::Hash(hash.clone()))
        .await?;
    check_text(store, "people/kiwi", Some(b"one")).await?;
    let to = slug("fruit/deep/plum");
    store
        .rename(&from, &to, Expected::Hash(hash.clone()))
        .await?;
    check_text(store, "people/kiwi", None).await?;
    let moved = store.read(&to).await?.map(|page| (page.slug, page.hash));
    equal("the renamed page", &moved, &Some((to, hash)))?;
    put(store, "people/kiwi", b"another").await?;
    equal(
        "pages",
        &names(store).await?,
        &["fruit/deep/plum", "people/kiwi"][..],
    )
}

/// Writing what is there already succeeds and returns the hash it has.
pub async fn the_same_bytes_again_are_no_change(store: &dyn PageStore) -> Verdict {
    let hash = put(store, "kiwi", b"one").await?;
    for expected in [Expected::Hash(hash.clone()), Expected::Any] {
        let again = store
            .write(&slug("kiwi"), b"one".to_vec(), expected)
            .await?;
        equal("the hash", &again, &hash)?;
    }
    equal("pages", &names(store).await?, &["kiwi"][..])
}

/// A deleted page is like one that never was.
pub async fn a_deleted_page_can_come_again(store: &dyn PageStore) -> Verdict {
    for bytes in [b"one", b"two"] {
        let hash = put(store, "kiwi", bytes).await?;
        check_text(store, "kiwi", Some(bytes)).await?;
        store.delete(&slug("kiwi"), Expected::Hash(hash)).await?;
    }
    equal("pages", &store.list().await?.len(), &0)
}

/// A listing has every page once, ordered by the bytes of its name.
pub async fn listings_are_complete_and_sorted(store: &dyn PageStore) -> Verdict {
    // A folder's separator stands between the hyphen and the digits.
    let sorted = ["a", "a-b", "a/b", "a/b/c", "a0", "b", "z", "é", "日本"];
    for name in sorted.iter().rev() {
        put(store, name, name.as_bytes()).await?;
    }
    equal("pages", &names(store).await?, &sorted[..])?;
    let sizes: Vec<u64> = store
        .list()
        .await?
        .iter()
        .map(|stamp| stamp.bytes)
        .collect();
    let expected: Vec<u64> = sorted.iter().map(|name| name.len() as u64).collect();
    equal("their lengths", &sizes, &expected)
}

/// Names are compared composed and folded: every spelling of one name is one page, and no two names fall together.
pub async fn names_of_every_script_are_pages(store: &dyn PageStore) -> Verdict {
    put(store, "Cafe\u{301}/O\u{308}konomie.md", b"one").await?;
    check_text(store, "CAFÉ/Ökonomie", Some(b"one")).await?;
    let answer = store
        .write(&slug("café/ÖKONOMIE"), b"two".to_vec(), Expected::Absent)
        .await;
    conflict("another spelling of a name", answer, None)?;
    let longest = "長".repeat(MAX_SEGMENT_BYTES / "長".len());
    let others = [
        "straße",
        "strasse",
        "हिन्दी",
        "العربية",
        "한국어",
        "i",
        "ı",
        &longest,
    ];
    for name in others {
        put(store, name, name.as_bytes()).await?;
    }
    for name in others {
        check_text(store, name, Some(name.as_bytes())).await?;
    }
    let mut expected: Vec<String> = others.iter().map(|name| (*name).to_owned()).collect();
    expected.push("café/ökonomie".to_owned());
    expected.sort();
    equal("pages", &names(store).await?, &expected)
}

/// A page and the folder of the same name do not get in each other's way, whichever was first.
pub async fn a_page_may_stand_beside_its_namesake_folder(store: &dyn PageStore) -> Verdict {
    for name in ["fruit/kiwi", "fruit", "plum", "plum/stone"] {
        put(store, name, name.as_bytes()).await?;
    }
    store
        .rename(&slug("plum/stone"), &slug("plum/stone/half"), Expected::Any)
        .await?;
    store.delete(&slug("fruit"), Expected::Any).await?;
    equal(
        "pages",
        &names(store).await?,
        &["fruit/kiwi", "plum", "plum/stone/half"][..],
    )
}

/// Names that stand for what is no page are neither written nor renamed to, and there is nothing under them.
pub async fn synthetic_names_are_refused(store: &dyn PageStore) -> Verdict {
    put(store, "kiwi", b"one").await?;
    for name in ["skills/cook", "cli-commands/ls"] {
        let name = slug(name);
        let answer = store.write(&name, b"x".to_vec(), Expected::Any).await;
        bad_request("writing a synthetic page", answer)?;
        let answer = store.rename(&slug("kiwi"), &name, Expected::Any).await;
        bad_request("renaming to a synthetic page", answer)?;
        equal("a synthetic page", &store.read(&name).await?, &None)?;
    }
    equal("pages", &names(store).await?, &["kiwi"][..])
}

/// Of writers that expect the same, one succeeds and the others are told; the page is that one's.
pub async fn of_several_writers_one_wins(store: &dyn PageStore) -> Verdict {
    let page = slug("kiwi");
    let mut expected = Expected::Absent;
    for round in 0..3 {
        let text = |writer: usize| format!("round {round}, writer {writer}");
        let writes = (0..CALLERS)
            .map(|writer| store.write(&page, text(writer).into_bytes(), expected.clone()));
        let winner = one_winner("writers of one page", join_all(writes).await)?;
        check_text(store, "kiwi", Some(text(winner).as_bytes())).await?;
        expected = Expected::Hash(content_hash(text(winner).as_bytes()));
    }
    for name in 0..CALLERS {
        put(store, &format!("from-{name}"), b"x").await?;
    }
    let (sources, target) = (
        (0..CALLERS).map(|name| slug(&format!("from-{name}"))),
        slug("target"),
    );
    let sources: Vec<Slug> = sources.collect();
    let renames = sources
        .iter()
        .map(|from| store.rename(from, &target, Expected::Any));
    one_winner("renames to one name", join_all(renames).await)?;
    equal("pages", &names(store).await?.len(), &(CALLERS + 1))
}

/// Writers of different pages all succeed, and each finds its own.
pub async fn writers_of_different_pages_do_not_meet(store: &dyn PageStore) -> Verdict {
    let pages: Vec<Slug> = (0..CALLERS)
        .map(|writer| slug(&format!("pages/{writer}")))
        .collect();
    let writes = pages
        .iter()
        .map(|page| store.write(page, page.as_str().into(), Expected::Absent));
    for written in join_all(writes).await {
        written?;
    }
    for page in &pages {
        check_text(store, page.as_str(), Some(page.as_str().as_bytes())).await?;
    }
    equal("pages", &names(store).await?.len(), &CALLERS)
}
