//! Folding several segments into one.
//!
//! Every change adds a small segment, and a search pays for each. Folding works on the finished tables, because the
//! texts the terms came from are not kept.

use std::collections::HashMap;

use super::matrix::Matrix;
use super::part::Part;
use super::postings::{Posting, narrow};
use super::segment::{Segment, channel_number, compare, push_row};

const GONE: u32 = u32::MAX;

/// Returns one segment of every live row of these parts.
pub(crate) fn merge(parts: &[Part], dims: usize) -> Segment {
    let mut live: Vec<(usize, usize)> = Vec::new();
    for (number, part) in parts.iter().enumerate() {
        live.extend(
            (0..part.segment.rows.len())
                .filter(|row| part.is_live(*row))
                .map(|row| (number, row)),
        );
    }
    live.sort_by(|left, right| {
        compare(
            (&parts[left.0].segment, left.1),
            (&parts[right.0].segment, right.1),
        )
    });

    let mut new_rows: Vec<Vec<u32>> = parts
        .iter()
        .map(|part| vec![GONE; part.segment.rows.len()])
        .collect();
    let mut merged = Segment {
        vectors: Matrix::gather(
            dims,
            live.iter()
                .map(|(part, row)| parts[*part].segment.vectors.row(*row)),
        ),
        ..Segment::default()
    };
    merged.rows.reserve_exact(live.len());
    merged.lengths.reserve_exact(live.len());
    let mut numbers = HashMap::new();
    for (new, (number, old)) in live.iter().enumerate() {
        new_rows[*number][*old] = narrow(new);
        let segment = &parts[*number].segment;
        let mut row = segment.rows[*old].clone();
        let page = &segment.pages[row.page as usize];
        row.channel = channel_number(&mut merged.channels, &mut numbers, segment.channel(*old));
        push_row(&mut merged, &page.slug, &page.hash, page.expected_rows, row);
        merged.lengths.push(segment.lengths[*old]);
    }
    merge_postings(parts, &new_rows, &mut merged);
    merged
}

fn merge_postings(parts: &[Part], new_rows: &[Vec<u32>], merged: &mut Segment) {
    let mut cursors: Vec<_> = parts
        .iter()
        .map(|part| part.segment.postings.iter().peekable())
        .collect();
    let mut list: Vec<Posting> = Vec::new();
    while let Some(term) = cursors
        .iter_mut()
        .filter_map(|cursor| cursor.peek().map(|(term, _)| *term))
        .min()
    {
        list.clear();
        for (number, cursor) in cursors.iter_mut().enumerate() {
            if let Some((_, postings)) = cursor.next_if(|(next, _)| *next == term) {
                list.extend(postings.iter().filter_map(|posting| {
                    let row = new_rows[number][posting.row as usize];
                    (row != GONE).then_some(Posting { row, ..*posting })
                }));
            }
        }
        list.sort_unstable_by_key(|posting| posting.row);
        merged.postings.push(term, list.iter().copied());
    }
    merged.postings.shrink();
}
