//! Rows for tests: made from plain text the way a page's would be.

use memory_core::provenance::{Channel, Trust};
use memory_core::store::IndexRow;
use memory_core::text::section::SectionId;
use memory_core::text::slug::Slug;
use memory_core::time::Timestamp;

use crate::pages::hash_bytes;
use crate::segment;

/// Returns the slug of a name that is one already.
pub(crate) fn slug(name: &str) -> Slug {
    Slug::parse(name).expect("the test names a canonical slug")
}

/// Returns a section of a page, without a vector.
pub(crate) fn row(page: &str, heading: &str, body: &str) -> IndexRow {
    let head = format!("{page} {heading}");
    let text = format!("{head}\n{body}");
    IndexRow {
        id: SectionId {
            heading: heading.to_lowercase(),
            ..SectionId::lead(slug(page))
        },
        heading: heading.to_owned(),
        ordinal: u32::from(!heading.is_empty()),
        page_hash: hash_bytes(text.as_bytes()),
        page_rows: 1,
        title: page.to_owned(),
        modified_at: Timestamp::from_millis(1_000),
        dated: None,
        text_hash: hash_bytes(text.as_bytes())[..32].to_owned(),
        head_terms: segment::index_text(&head),
        body_terms: segment::index_text(body),
        text,
        channel: Channel::Global,
        trust: Trust::Trusted,
        vector: None,
    }
}

/// Returns a unit vector that depends only on a seed.
pub(crate) fn vector(seed: u64, dims: usize) -> Vec<f32> {
    let mut state = seed
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(0x1234_5678_9abc_def1);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        f32::from(u16::try_from(state >> 48).unwrap_or(0)) / 32_768.0 - 1.0
    };
    let raw: Vec<f32> = (0..dims).map(|_| next()).collect();
    let length = raw.iter().map(|value| value * value).sum::<f32>().sqrt();
    raw.iter().map(|value| value / length).collect()
}

/// A small vocabulary in which some words are common and most are rare.
pub(crate) fn words(seed: u64, count: usize) -> String {
    let mut state = seed.wrapping_add(77);
    let mut words = Vec::new();
    for _ in 0..count {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let (left, right) = ((state >> 33) % 97, (state >> 45) % 97);
        words.push(format!("w{}", left * right % 512));
    }
    words.join(" ")
}
