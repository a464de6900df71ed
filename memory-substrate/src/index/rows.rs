//! The shape of the `sections` table and the way to and from it.
//!
//! Terms are stored segmented by our own rules and joined by blanks, so the database only ever splits at blanks and every
//! script is found alike. The vector column may hold nothing, for sections that say nothing below their heading.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::builder::{FixedSizeListBuilder, Float32Builder};
use arrow_array::{
    Array as _, ArrayRef, FixedSizeListArray, Float32Array, Int64Array, RecordBatch, StringArray,
    UInt32Array,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use memory_core::provenance::{Channel, Trust};
use memory_core::store::{IndexRow, StoreError, StoreResult};
use memory_core::text::section::SectionId;
use memory_core::time::Timestamp;

use super::generation::damaged;
use crate::snapshot::{SegmentBuilder, Source};

/// Version of this shape; part of the index's space.
pub const ROW_SCHEMA: u32 = 1;

/// The columns a snapshot is made of: everything but the texts.
pub(crate) const SNAPSHOT_COLUMNS: [&str; 9] = [
    "id",
    "page_hash",
    "page_rows",
    "text_hash",
    "channel",
    "trust",
    "head_terms",
    "body_terms",
    "vector",
];

/// Declares a column as the key. Without it, two writers of one new section would both insert it.
const PRIMARY_KEY: &str = "lance-schema:unenforced-primary-key";

/// Returns the table's schema for vectors of a length; 0 for a table without.
pub(crate) fn schema(dims: usize) -> StoreResult<SchemaRef> {
    let text = |name: &str| Field::new(name, DataType::Utf8, false);
    let number = |name: &str| Field::new(name, DataType::UInt32, false);
    let mut fields = vec![
        text("id").with_metadata(HashMap::from([(PRIMARY_KEY.to_owned(), "true".to_owned())])),
        text("slug"),
        text("heading"),
        number("ordinal"),
        text("page_hash"),
        number("page_rows"),
        text("title"),
        Field::new("modified_at", DataType::Int64, false),
        Field::new("dated", DataType::Int64, true),
        text("text_hash"),
        text("text"),
        text("head_terms"),
        text("body_terms"),
        text("terms"),
        text("channel"),
        text("trust"),
    ];
    if dims > 0 {
        fields.push(Field::new("vector", vector_type(dims)?, true));
    }
    Ok(Arc::new(Schema::new(fields)))
}

fn vector_type(dims: usize) -> StoreResult<DataType> {
    let length = i32::try_from(dims).map_err(|_| StoreError::BadRequest {
        reason: format!("vectors of {dims} numbers are too long"),
    })?;
    Ok(DataType::FixedSizeList(
        Arc::new(Field::new("item", DataType::Float32, true)),
        length,
    ))
}

/// Returns rows as one batch of the table.
pub(crate) fn to_batch(
    schema: &SchemaRef,
    dims: usize,
    rows: &[IndexRow],
) -> StoreResult<RecordBatch> {
    let text = |value: &dyn Fn(&IndexRow) -> String| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(rows.iter().map(value)))
    };
    let number = |value: &dyn Fn(&IndexRow) -> u32| -> ArrayRef {
        Arc::new(UInt32Array::from_iter_values(rows.iter().map(value)))
    };
    let mut columns: Vec<ArrayRef> = vec![
        text(&|row| row.id.key()),
        text(&|row| row.id.slug.as_str().to_owned()),
        text(&|row| row.heading.clone()),
        number(&|row| row.ordinal),
        text(&|row| row.page_hash.clone()),
        number(&|row| row.page_rows),
        text(&|row| row.title.clone()),
        Arc::new(Int64Array::from_iter_values(
            rows.iter().map(|row| row.modified_at.as_millis()),
        )),
        Arc::new(
            rows.iter()
                .map(|row| row.dated.map(Timestamp::as_millis))
                .collect::<Int64Array>(),
        ),
        text(&|row| row.text_hash.clone()),
        text(&|row| row.text.clone()),
        text(&|row| row.head_terms.clone()),
        text(&|row| row.body_terms.clone()),
        text(&|row| {
            format!("{} {}", row.head_terms, row.body_terms)
                .trim()
                .to_owned()
        }),
        text(&|row| row.channel.to_string()),
        text(&|row| trust_name(row.trust).to_owned()),
    ];
    if dims > 0 {
        columns.push(Arc::new(vectors(dims, rows)?));
    }
    RecordBatch::try_new(schema.clone(), columns)
        .map_err(|error| StoreError::engine("laying out index rows", error))
}

fn vectors(dims: usize, rows: &[IndexRow]) -> StoreResult<FixedSizeListArray> {
    let length = i32::try_from(dims).unwrap_or(i32::MAX);
    let mut builder =
        FixedSizeListBuilder::new(Float32Builder::with_capacity(rows.len() * dims), length);
    for row in rows {
        match &row.vector {
            Some(vector) if vector.len() == dims => {
                builder.values().append_slice(vector);
                builder.append(true);
            }
            Some(vector) => {
                return Err(StoreError::BadRequest {
                    reason: format!(
                        "a vector of {} numbers for an index of {dims}",
                        vector.len()
                    ),
                });
            }
            None => {
                builder.values().append_nulls(dims);
                builder.append(false);
            }
        }
    }
    Ok(builder.finish())
}

/// Returns a batch's rows.
pub(crate) fn from_batch(batch: &RecordBatch) -> StoreResult<Vec<IndexRow>> {
    let (id, heading) = (texts(batch, "id")?, texts(batch, "heading")?);
    let (ordinal, page_rows) = (numbers(batch, "ordinal")?, numbers(batch, "page_rows")?);
    let (page_hash, title) = (texts(batch, "page_hash")?, texts(batch, "title")?);
    let (modified_at, dated) = (instants(batch, "modified_at")?, instants(batch, "dated")?);
    let (text_hash, text) = (texts(batch, "text_hash")?, texts(batch, "text")?);
    let (head_terms, body_terms) = (texts(batch, "head_terms")?, texts(batch, "body_terms")?);
    let (channel, trust) = (texts(batch, "channel")?, texts(batch, "trust")?);
    let vectors = VectorColumn::of(batch)?;
    (0..batch.num_rows())
        .map(|row| {
            Ok(IndexRow {
                id: section_id(id.value(row))?,
                heading: heading.value(row).to_owned(),
                ordinal: ordinal.value(row),
                page_hash: page_hash.value(row).to_owned(),
                page_rows: page_rows.value(row),
                title: title.value(row).to_owned(),
                modified_at: Timestamp::from_millis(modified_at.value(row)),
                dated: dated
                    .is_valid(row)
                    .then(|| Timestamp::from_millis(dated.value(row))),
                text_hash: text_hash.value(row).to_owned(),
                text: text.value(row).to_owned(),
                head_terms: head_terms.value(row).to_owned(),
                body_terms: body_terms.value(row).to_owned(),
                channel: Channel::parse(channel.value(row)),
                trust: parse_trust(trust.value(row))?,
                vector: vectors.row(row).map(<[f32]>::to_vec),
            })
        })
        .collect()
}

/// Adds those rows of a batch of the snapshot's columns to a segment whose key is wanted.
pub(crate) fn add_to_segment(
    builder: &mut SegmentBuilder,
    batch: &RecordBatch,
    is_wanted: impl Fn(&str) -> bool,
) -> StoreResult<()> {
    let (id, page_rows) = (texts(batch, "id")?, numbers(batch, "page_rows")?);
    let (page_hash, text_hash) = (texts(batch, "page_hash")?, texts(batch, "text_hash")?);
    let (head_terms, body_terms) = (texts(batch, "head_terms")?, texts(batch, "body_terms")?);
    let (channel, trust) = (texts(batch, "channel")?, texts(batch, "trust")?);
    let vectors = VectorColumn::of(batch)?;
    for row in (0..batch.num_rows()).filter(|row| is_wanted(id.value(*row))) {
        builder.add(Source {
            id: &section_id(id.value(row))?,
            text_hash: text_hash.value(row),
            page_hash: page_hash.value(row),
            page_rows: page_rows.value(row),
            channel: &Channel::parse(channel.value(row)),
            trust: parse_trust(trust.value(row))?,
            head_terms: head_terms.value(row),
            body_terms: body_terms.value(row),
            vector: vectors.row(row),
        });
    }
    Ok(())
}

/// Returns the sections of a result with a score of each.
pub(crate) fn scored(
    batch: &RecordBatch,
    column: &str,
    score: impl Fn(f32) -> f32,
) -> StoreResult<Vec<(SectionId, f32)>> {
    let id = texts(batch, "id")?;
    let found = column_of::<Float32Array>(batch, column)?;
    (0..batch.num_rows())
        .map(|row| Ok((section_id(id.value(row))?, score(found.value(row)))))
        .collect()
}

struct VectorColumn<'a> {
    lists: Option<&'a FixedSizeListArray>,
    values: &'a [f32],
    dims: usize,
}

impl<'a> VectorColumn<'a> {
    fn of(batch: &'a RecordBatch) -> StoreResult<Self> {
        let Some(column) = batch.column_by_name("vector") else {
            return Ok(Self {
                lists: None,
                values: &[],
                dims: 0,
            });
        };
        let lists = column
            .as_any()
            .downcast_ref::<FixedSizeListArray>()
            .ok_or_else(|| damaged("column `vector` has another type"))?;
        let values = lists
            .values()
            .as_any()
            .downcast_ref::<Float32Array>()
            .ok_or_else(|| damaged("column `vector` holds no numbers"))?;
        Ok(Self {
            lists: Some(lists),
            values: values.values(),
            dims: usize::try_from(lists.value_length()).unwrap_or(0),
        })
    }

    fn row(&self, row: usize) -> Option<&'a [f32]> {
        let lists = self.lists.filter(|lists| lists.is_valid(row))?;
        let start = usize::try_from(lists.value_offset(row)).ok()?;
        self.values.get(start..start + self.dims)
    }
}

fn column_of<'a, T: 'static>(batch: &'a RecordBatch, name: &str) -> StoreResult<&'a T> {
    batch
        .column_by_name(name)
        .and_then(|column| column.as_any().downcast_ref::<T>())
        .ok_or_else(|| damaged(format!("column `{name}` is missing or has another type")))
}

fn texts<'a>(batch: &'a RecordBatch, name: &str) -> StoreResult<&'a StringArray> {
    column_of(batch, name)
}

fn numbers<'a>(batch: &'a RecordBatch, name: &str) -> StoreResult<&'a UInt32Array> {
    column_of(batch, name)
}

fn instants<'a>(batch: &'a RecordBatch, name: &str) -> StoreResult<&'a Int64Array> {
    column_of(batch, name)
}

fn section_id(key: &str) -> StoreResult<SectionId> {
    SectionId::parse_key(key).map_err(|_| damaged(format!("`{key}` is not a section")))
}

const fn trust_name(trust: Trust) -> &'static str {
    match trust {
        Trust::Trusted => "trusted",
        Trust::Untrusted => "untrusted",
    }
}

fn parse_trust(name: &str) -> StoreResult<Trust> {
    match name {
        "trusted" => Ok(Trust::Trusted),
        "untrusted" => Ok(Trust::Untrusted),
        _ => Err(damaged(format!("`{name}` is no trust"))),
    }
}
