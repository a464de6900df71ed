//! The benchmarks: each measures one thing and returns figures.
//!
//! Pages and questions are made up from fixed seeds and vectors are seeded ones, so that a figure speaks of this code and
//! not of a model. The model is measured by itself.

pub mod ingest;
pub mod plugins;
pub mod remember;
pub mod turn;
pub mod upkeep;
pub mod work;

/// Returns how a number of pages is written in the names of figures.
fn size_label(pages: usize) -> String {
    if pages.is_multiple_of(1_000) {
        format!("{}k", pages / 1_000)
    } else {
        pages.to_string()
    }
}
