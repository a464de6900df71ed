//! Tests of the local embedder with the real model, which pass over it with a notice where it is not provisioned.

use super::*;
use crate::embed::provision::{DEFAULT_DIMS, DEFAULT_SPACE, ProvisionError};

/// Returns the provisioned model, or says that there is none.
async fn model() -> Option<LocalEmbedder> {
    match Provisioned::from_env(|name| std::env::var_os(name)) {
        Ok(provisioned) => Some(LocalEmbedder::load(provisioned).await.unwrap()),
        Err(
            error @ (ProvisionError::Missing { .. }
            | ProvisionError::NoCacheFolder
            | ProvisionError::UnsupportedPlatform),
        ) => {
            notice(&error);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn notice(error: &ProvisionError) {
    eprintln!("skipped: {error}");
}

fn dot(left: &[f32], right: &[f32]) -> f32 {
    left.iter()
        .zip(right)
        .map(|(left, right)| left * right)
        .sum()
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn the_model_agrees_with_the_independent_reference() {
    let Some(model) = model().await else { return };
    assert_eq!(model.space().as_str(), DEFAULT_SPACE);
    assert_eq!(model.dims(), DEFAULT_DIMS);
    let cosine = model.self_check().await.unwrap();
    assert!(cosine > 0.999_999, "{cosine}");
}

#[tokio::test]
async fn neighbours_in_meaning_are_neighbours_in_space() {
    let Some(model) = model().await else { return };
    let pairs = [
        (
            "How do I reset my password?",
            "Steps to recover access to a locked account",
            0.566,
        ),
        (
            "The database migration failed with a timeout",
            "Schema upgrade aborted because the SQL server did not respond",
            0.484,
        ),
        (
            "How to bake sourdough bread",
            "Recipe for a naturally leavened loaf",
            0.509,
        ),
    ];
    let all = pairs
        .iter()
        .flat_map(|(left, right, _)| [(*left).to_owned(), (*right).to_owned()])
        .collect();
    let rows = model.embed(all).await.unwrap();
    for (pair, (_, _, expected)) in pairs.iter().enumerate() {
        let left = rows.row(2 * pair);
        assert!((dot(left, left) - 1.0).abs() < 1e-5);
        assert!((dot(left, rows.row(2 * pair + 1)) - expected).abs() < 2e-3);
        for other in (0..rows.rows()).filter(|row| row / 2 != pair) {
            assert!(dot(left, rows.row(other)) < 0.25);
        }
    }
}

#[tokio::test]
async fn a_vector_does_not_depend_on_its_batch() {
    let Some(model) = model().await else { return };
    let long = "The committee met again on Tuesday and could not agree. ".repeat(60);
    let batch = texts(&[
        "a cat",
        &long,
        "Ein Satz auf Deutsch.",
        "日本語の文",
        "a cat",
        "x",
    ]);
    let together = model.embed(batch.clone()).await.unwrap();
    assert_eq!(together.row(0), together.row(4));
    for (index, text) in batch.into_iter().enumerate() {
        let alone = model.embed(vec![text.clone()]).await.unwrap();
        assert!(dot(alone.row(0), together.row(index)) > 0.999_999, "{text}");
        // The second time the answer comes from memory.
        assert_eq!(model.embed(vec![text]).await.unwrap(), alone);
    }
}

#[tokio::test]
async fn awkward_input_is_answered() {
    let Some(model) = model().await else { return };
    assert_eq!(model.embed(Vec::new()).await.unwrap().rows(), 0);
    let blank = model.embed(texts(&["fine", " \t\n"])).await.unwrap_err();
    assert!(blank.to_string().contains("text 2 of 2"), "{blank}");
    let odd = texts(&[
        "\u{0}",
        "🎉",
        "[CLS] [SEP] [MASK]",
        &"\u{301}".repeat(9),
        &"x".repeat(1 << 20),
    ]);
    assert_eq!(model.embed(odd).await.unwrap().rows(), 5);
}

#[tokio::test]
async fn a_dropped_call_leaves_the_model_usable() {
    let Some(model) = model().await else { return };
    let many: Vec<String> = (0..400)
        .map(|number| format!("{number} {}", "and so on ".repeat(40)))
        .collect();
    let mut call = Box::pin(model.embed(many));
    let first = futures_util::poll!(call.as_mut());
    assert!(first.is_pending());
    drop(call);
    assert_eq!(model.embed(texts(&["after"])).await.unwrap().rows(), 1);
}

#[tokio::test]
async fn a_damaged_model_is_reported_with_the_fix() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["model.safetensors", "config.json"] {
        std::fs::write(folder.path().join(name), "{}").unwrap();
    }
    let provisioned = Provisioned {
        space: SpaceId::new("x"),
        dims: 4,
        max_tokens: 8,
        model_dir: folder.path().to_owned(),
        runtime: crate::embed::provision::Runtime::Pinned(folder.path().join("none")),
    };
    let error = LocalEmbedder::load(provisioned).await.unwrap_err();
    assert!(
        matches!(&error, EmbedError::Unavailable { reason } if reason.contains("cargo xtask setup")),
        "{error}"
    );
}

#[test]
fn only_very_long_text_is_cut() {
    assert_eq!(
        cut("é".repeat(MAX_CHARACTERS)).chars().count(),
        MAX_CHARACTERS
    );
    assert_eq!(
        cut("é".repeat(MAX_CHARACTERS + 5)).chars().count(),
        MAX_CHARACTERS
    );
    assert_eq!(cut("short".into()), "short");
}

#[test]
fn rows_that_are_no_unit_vectors_are_refused() {
    check_row(&[0.6, 0.8], 2).unwrap();
    assert!(check_row(&[0.6, 0.8], 3).is_err());
    assert!(check_row(&[0.0, 0.0], 2).is_err());
    assert!(check_row(&[f32::NAN, 1.0], 2).is_err());
}
