//! One record as one line: its length, its checksum and itself.
//!
//! JSON has no line break of its own, so a damaged line never takes the next one along.

use memory_core::store::{EvidenceRecord, StoreError, StoreResult, content_hash};

/// Digits of the length.
const LENGTH_DIGITS: usize = 8;

/// Digits of the checksum.
const CHECKSUM_DIGITS: usize = 16;

/// Bytes before the record itself: length, blank, checksum, blank.
const HEAD: usize = LENGTH_DIGITS + CHECKSUM_DIGITS + 2;

/// Returns a record's line, its line break included.
pub(super) fn write(record: &EvidenceRecord) -> StoreResult<Vec<u8>> {
    let body = serde_json::to_string(record)
        .map_err(|error| StoreError::engine("write down evidence", error))?;
    let line = format!("{:08x} {} {body}\n", body.len(), checksum(body.as_bytes()));
    Ok(line.into_bytes())
}

/// Returns the record of a line, or what is wrong with it.
pub(super) fn read(line: &[u8]) -> Result<EvidenceRecord, &'static str> {
    let Some(line) = line.strip_suffix(b"\n") else {
        return Err("it ends in the middle of a record");
    };
    if line.len() < HEAD {
        return Err("it is too short for a record");
    }
    let (head, body) = line.split_at(HEAD);
    let expected = format!("{:08x} {} ", body.len(), checksum(body));
    if head != expected.as_bytes() {
        return Err("its length or its checksum is another one");
    }
    serde_json::from_slice(body).map_err(|_| "it holds no record that this version knows")
}

/// Returns whether a line is what a write that was cut off leaves: one without an end.
pub(super) fn is_unfinished(line: &[u8]) -> bool {
    !line.ends_with(b"\n")
}

/// Returns the lines of a file with their offsets. The last one may lack its line break.
pub(super) fn lines(bytes: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let mut offset = 0;
    bytes
        .split_inclusive(|byte| *byte == b'\n')
        .map(move |line| {
            let at = offset;
            offset += line.len() as u64;
            (at, line)
        })
}

fn checksum(bytes: &[u8]) -> String {
    let mut hash = content_hash(bytes);
    hash.truncate(CHECKSUM_DIGITS);
    hash
}
