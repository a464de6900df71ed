//! Where in the journal's files each record is.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use memory_core::item::EvidenceId;
use memory_core::store::{
    Erasure, EvidenceFault, EvidenceRecord, EvidenceStream, StoreError, StoreResult, StreamHead,
};

use super::frame;

/// What follows the number in a file's name.
const ENDING: &str = ".journal";

/// Digits of the number in a file's name.
const DIGITS: usize = 8;

/// Returns the name of a file.
pub(super) fn name_of(file: u64) -> String {
    format!("{file:0DIGITS$}{ENDING}")
}

/// Returns the number of the file that has a name; `None` when it is none of the journal's.
pub(super) fn number_of(name: &str) -> Option<u64> {
    let number = name.strip_suffix(ENDING)?.parse().ok()?;
    (name_of(number) == name).then_some(number)
}

/// The place of a record's line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Spot {
    pub(super) file: u64,
    pub(super) offset: u64,
    length: u64,
}

impl Spot {
    /// Returns where the line is in its file's bytes.
    pub(super) fn range(self) -> Option<Range<usize>> {
        let start = usize::try_from(self.offset).ok()?;
        Some(start..start.checked_add(usize::try_from(self.length).ok()?)?)
    }
}

/// What is known of the files.
#[derive(Debug, Default)]
pub(super) struct Catalogue {
    /// How long each file is.
    files: BTreeMap<u64, Length>,
    spots: HashMap<EvidenceId, Spot>,
    /// The records of each stream with their numbers, in their order, and where it ends.
    streams: BTreeMap<EvidenceStream, Stream>,
}

#[derive(Clone, Copy, Debug)]
struct Length {
    bytes: u64,
    /// Up to here there are whole lines.
    whole: u64,
}

#[derive(Debug)]
struct Stream {
    records: Vec<(u64, EvidenceId)>,
    head: StreamHead,
}

impl Catalogue {
    /// Takes in a file that comes after those that are known.
    pub(super) fn add_file(&mut self, file: u64, bytes: &[u8]) {
        self.measure(file, bytes);
        for (offset, line) in frame::lines(bytes) {
            if let Ok(record) = frame::read(line) {
                self.place(file, offset, line.len() as u64, &record);
            }
        }
    }

    /// Takes in the new bytes of a file, in which the same records are at other places.
    pub(super) fn replace_file(&mut self, file: u64, bytes: &[u8]) {
        self.measure(file, bytes);
        for (offset, line) in frame::lines(bytes) {
            if let Ok(record) = frame::read(line) {
                let length = line.len() as u64;
                let spot = Spot {
                    file,
                    offset,
                    length,
                };
                self.spots.insert(record.id, spot);
            }
        }
    }

    /// Takes in a record that was just appended to a file.
    pub(super) fn added(&mut self, file: u64, length: u64, record: &EvidenceRecord) {
        let known = self
            .files
            .entry(file)
            .or_insert(Length { bytes: 0, whole: 0 });
        let offset = known.bytes;
        known.bytes += length;
        known.whole = known.bytes;
        self.place(file, offset, length, record);
    }

    fn measure(&mut self, file: u64, bytes: &[u8]) {
        let whole = bytes.iter().rposition(|byte| *byte == b'\n');
        let length = Length {
            bytes: bytes.len() as u64,
            whole: whole.map_or(0, |last| last as u64 + 1),
        };
        self.files.insert(file, length);
    }

    fn place(&mut self, file: u64, offset: u64, length: u64, record: &EvidenceRecord) {
        let spot = Spot {
            file,
            offset,
            length,
        };
        self.spots.insert(record.id.clone(), spot);
        let head = record.head();
        let entry = (record.number, record.id.clone());
        if let Some(stream) = self.streams.get_mut(&record.stream) {
            stream.records.push(entry);
            stream.head = head;
        } else {
            let records = vec![entry];
            self.streams
                .insert(record.stream.clone(), Stream { records, head });
        }
    }

    /// Returns whether these are the files that are known.
    pub(super) fn is_of(&self, files: &[(u64, u64)]) -> bool {
        let known = self
            .files
            .iter()
            .map(|(file, length)| (*file, length.bytes));
        known.eq(files.iter().copied())
    }

    /// Returns the last file and its length.
    pub(super) fn last_file(&self) -> Option<(u64, u64)> {
        let (file, length) = self.files.last_key_value()?;
        Some((*file, length.bytes))
    }

    /// Returns how much of a file are whole lines.
    pub(super) fn whole_length(&self, file: u64) -> u64 {
        self.files.get(&file).map_or(0, |length| length.whole)
    }

    /// Takes note that a file was cut.
    pub(super) fn cut(&mut self, file: u64, bytes: u64) {
        let whole = bytes;
        self.files.insert(file, Length { bytes, whole });
    }

    /// Returns the file to which a line of some length is to be appended.
    pub(super) fn file_for(&self, length: u64, most: u64) -> u64 {
        match self.last_file() {
            Some((file, 0)) => file,
            Some((file, there)) if there + length <= most => file,
            Some((file, _)) => file + 1,
            None => 1,
        }
    }

    /// Returns where a record is.
    pub(super) fn spot(&self, id: &EvidenceId) -> Option<Spot> {
        self.spots.get(id).copied()
    }

    /// Returns where a stream ends.
    pub(super) fn head(&self, stream: &EvidenceStream) -> Option<StreamHead> {
        self.streams.get(stream).map(|stream| stream.head.clone())
    }

    /// Returns where every stream ends.
    pub(super) fn heads(&self) -> Vec<StreamHead> {
        let streams = self.streams.values();
        streams.map(|stream| stream.head.clone()).collect()
    }

    /// Returns where the records of a stream are whose numbers are greater.
    pub(super) fn after(&self, stream: &EvidenceStream, after: u64, limit: u32) -> Vec<Spot> {
        let records = self
            .streams
            .get(stream)
            .map_or(&[][..], |stream| stream.records.as_slice());
        let first = records.partition_point(|(number, _)| *number <= after);
        records[first..]
            .iter()
            .take(limit as usize)
            .filter_map(|(_, id)| self.spot(id))
            .collect()
    }

    /// Returns the files and offsets of what is to be erased.
    pub(super) fn files_of(&self, what: &Erasure) -> StoreResult<BTreeMap<u64, BTreeSet<u64>>> {
        let mut files: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
        let mut add = |spot: Spot| files.entry(spot.file).or_default().insert(spot.offset);
        match what {
            Erasure::Records(ids) => {
                for id in ids {
                    let spot = self.spot(id).ok_or_else(|| StoreError::NotFound {
                        what: format!("evidence {id}"),
                    })?;
                    add(spot);
                }
            }
            Erasure::Streams(streams) => {
                let known = streams.iter().filter_map(|stream| self.streams.get(stream));
                for (_, id) in known.flat_map(|stream| &stream.records) {
                    if let Some(spot) = self.spot(id) {
                        add(spot);
                    }
                }
            }
        }
        Ok(files)
    }

    /// Returns a fault for each stream that ends earlier in the files than it did when they were read.
    pub(super) fn missing_from(
        &self,
        found: &BTreeMap<EvidenceStream, Vec<EvidenceRecord>>,
    ) -> Vec<EvidenceFault> {
        let last = |stream: &EvidenceStream| {
            let records = found.get(stream)?;
            records.iter().map(|record| record.number).max()
        };
        let heads = self.streams.values().map(|stream| &stream.head);
        let gone = heads.filter(|head| last(&head.stream).unwrap_or(0) < head.number);
        gone.map(|head| EvidenceFault {
            place: format!("record {} of {}", head.number, head.stream),
            reason: "it was there and is gone".to_owned(),
        })
        .collect()
    }
}
