//! What an index store promises of its answers.

use super::super::{Verdict, bad_request, equal, wrong};
use super::{TOLERANCE, add, at_cosine, axis, dims, found, names, put, row};
use crate::store::IndexStore;

/// What is nearest comes first, with its cosine, whatever the length of the question.
pub async fn vectors_are_found_nearest_first(store: &dyn IndexStore) -> Verdict {
    let near = [("b", 1.0), ("d", 0.9), ("a", 0.5), ("e", 0.0), ("c", -0.8)];
    for (page, cosine) in near {
        let mut row = row(store, page, "", "kiwi");
        row.vector = Some(at_cosine(store, cosine));
        put(store, &[page], &[row]).await?;
    }
    for length in [1.0, 3.0] {
        let question: Vec<f32> = axis(store, 0).iter().map(|part| part * length).collect();
        let answer = store.search_vector(&question, 9).await?;
        let expected: Vec<&str> = near.iter().map(|(page, _)| *page).collect();
        equal("nearest first", &names(&answer), &expected[..])?;
        for ((id, found), (_, cosine)) in answer.iter().zip(near) {
            if (found - cosine).abs() > TOLERANCE {
                return Err(wrong(format!(
                    "cosine of `{id}`: expected {cosine}, found {found}"
                )));
            }
        }
    }
    Ok(())
}

/// Sections that are equally near are in the order of their names.
pub async fn equal_vectors_are_in_the_order_of_their_sections(store: &dyn IndexStore) -> Verdict {
    for page in ["c", "a", "d", "b"] {
        add(store, page, "kiwi").await?;
    }
    let parts = [
        row(store, "e", "two", "kiwi"),
        row(store, "e", "one", "kiwi"),
    ];
    put(store, &["e"], &parts).await?;
    let answer = store.search_vector(&axis(store, 0), 9).await?;
    equal(
        "all equal",
        &names(&answer),
        &["a", "b", "c", "d", "e#one", "e#two"][..],
    )
}

/// A section that has no vector is found by its terms only.
pub async fn rows_without_a_vector_are_never_near(store: &dyn IndexStore) -> Verdict {
    let mut without = row(store, "without", "", "kiwi");
    without.vector = None;
    put(store, &["without"], &[without]).await?;
    equal(
        "near",
        &store.search_vector(&axis(store, 0), 9).await?.len(),
        &0,
    )?;
    add(store, "with", "kiwi").await?;
    let answer = store.search_vector(&axis(store, 1), 9).await?;
    equal("near", &names(&answer), &["with"][..])?;
    // Which of them is the better answer is the store's to judge.
    let mut found = found(store, "kiwi", 9).await?;
    found.sort_unstable();
    equal("found", &found, &["with", "without"][..])
}

/// A question must have the length of the index's vectors.
pub async fn a_question_of_another_length_is_refused(store: &dyn IndexStore) -> Verdict {
    for length in [0, dims(store) - 1, dims(store) + 1] {
        let answer = store.search_vector(&vec![1.0; length], 9).await;
        bad_request("a question of another length", answer)?;
    }
    Ok(())
}

/// Terms are compared as they are: nothing is folded, stemmed, split further or left out, in any script.
pub async fn terms_are_found_as_they_are(store: &dyn IndexStore) -> Verdict {
    equal(
        "found in nothing",
        &found(store, "kiwi", 9).await?.len(),
        &0,
    )?;
    let long = "x".repeat(200);
    let pages = [
        ("a", "kiwi"),
        ("b", "Kiwi"),
        ("c", "kiwis"),
        ("d", "the"),
        ("e", "日本 本語"),
        ("f", "हिन्दी"),
        ("g", "naïve"),
        ("h", "naive"),
        ("i", "c++ foo-bar foo_bar it's"),
        ("j", &long),
    ];
    for (page, terms) in pages {
        add(store, page, terms).await?;
    }
    let mut headed = row(store, "k", "", "body");
    "head".clone_into(&mut headed.head_terms);
    put(store, &["k"], &[headed]).await?;
    let questions: [(&str, &[&str]); 17] = [
        ("kiwi", &["a"]),
        ("Kiwi", &["b"]),
        ("kiwis", &["c"]),
        ("the", &["d"]),
        ("日本", &["e"]),
        ("日", &[]),
        ("हिन्दी", &["f"]),
        ("naïve", &["g"]),
        ("naive", &["h"]),
        ("c++", &["i"]),
        ("foo-bar", &["i"]),
        ("it's", &["i"]),
        ("foo", &[]),
        (&long, &["j"]),
        ("head", &["k"]),
        ("body", &["k"]),
        ("plum", &[]),
    ];
    for (question, expected) in questions {
        equal(question, &found(store, question, 9).await?, expected)?;
    }
    for blank in ["", " ", " \t\n "] {
        equal("a blank question", &found(store, blank, 9).await?.len(), &0)?;
    }
    Ok(())
}

/// A section with more of the terms, or with a rarer one, comes before others.
pub async fn more_of_what_was_asked_for_comes_first(store: &dyn IndexStore) -> Verdict {
    for number in 0..6 {
        add(store, &format!("filler-{number}"), "plum pear").await?;
    }
    add(store, "a", "kiwi pear").await?;
    add(store, "b", "plum pear").await?;
    add(store, "c", "kiwi plum").await?;
    let answer = found(store, "kiwi plum", 99).await?;
    equal("the best", &answer[..2], &["c", "a"][..])?;
    equal("all that share a term", &answer.len(), &9)
}

/// Sections that match equally well are in the order of their names.
pub async fn equal_matches_are_in_the_order_of_their_sections(store: &dyn IndexStore) -> Verdict {
    for page in ["c", "a", "d", "b"] {
        add(store, page, "kiwi plum").await?;
    }
    store.maintain().await?;
    equal(
        "all equal",
        &found(store, "plum kiwi", 9).await?,
        &["a", "b", "c", "d"][..],
    )
}

/// No answer waits for maintenance.
pub async fn what_was_written_is_found_at_once(store: &dyn IndexStore) -> Verdict {
    for (number, page) in ["a", "b", "c"].into_iter().enumerate() {
        let term = format!("term{page}");
        add(store, page, &term).await?;
        equal("found", &found(store, &term, 9).await?, &[page][..])?;
        let near = store.search_vector(&axis(store, 0), 9).await?;
        equal("near", &near.len(), &(number + 1))?;
        if number == 1 {
            store.maintain().await?;
        }
    }
    // A page that changes is found by what it says now, and not by what it said.
    add(store, "a", "changed").await?;
    equal("found", &found(store, "changed", 9).await?, &["a"][..])?;
    equal(
        "found by what it said",
        &found(store, "terma", 9).await?.len(),
        &0,
    )
}

/// A page that was removed is in no answer, before and after maintenance.
pub async fn what_was_removed_is_never_found(store: &dyn IndexStore) -> Verdict {
    add(store, "kept", "kiwi").await?;
    add(store, "gone", "kiwi").await?;
    store.maintain().await?;
    put(store, &["gone"], &[]).await?;
    for _ in 0..2 {
        equal("found", &found(store, "kiwi", 9).await?, &["kept"][..])?;
        let near = store.search_vector(&axis(store, 0), 9).await?;
        equal("near", &names(&near), &["kept"][..])?;
        equal("rows", &store.all_rows().await?.len(), &1)?;
        store.maintain().await?;
    }
    Ok(())
}

/// No answer is longer than was asked for, and the best are kept.
pub async fn limits_are_kept(store: &dyn IndexStore) -> Verdict {
    for (page, cosine, terms) in [
        ("a", 0.2, "kiwi pear pear"),
        ("b", 0.9, "kiwi plum pear"),
        ("c", 0.5, "pear pear pear"),
    ] {
        let mut row = row(store, page, "", terms);
        row.vector = Some(at_cosine(store, cosine));
        put(store, &[page], &[row]).await?;
    }
    let question = axis(store, 0);
    for (limit, near, by_terms) in [
        (0, &[][..], &[][..]),
        (1, &["b"], &["b"]),
        (2, &["b", "c"], &["b", "a"]),
        (u32::MAX, &["b", "c", "a"], &["b", "a"]),
    ] {
        let answer = store.search_vector(&question, limit).await?;
        equal("near", &names(&answer), near)?;
        equal("found", &found(store, "kiwi plum", limit).await?, by_terms)?;
    }
    Ok(())
}
