//! Measuring retrieval against public judgements.
//!
//! A set becomes pages in a real workspace, a question becomes the message of a turn, and what the loaded tier ranks is
//! held against what people judged relevant. No language model is involved, so the numbers can be reproduced.

pub mod cranfield;
pub mod locomo;
pub mod longmemeval;
pub mod metrics;
pub mod report;
pub mod run;
pub mod set;
pub mod tagged;
pub mod vaswani;
pub mod xquad;
