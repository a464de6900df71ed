//! Reads the header of a safetensors file: which tensor lies where.
//!
//! Only the header is parsed. The numbers stay where they are, because the graph points at them by file offset.

use std::collections::HashMap;
use std::io::Read;
use std::ops::Range;

use serde::Deserialize;

use super::GraphError;

/// Longest header that is read; a larger claim is a damaged file, not a model.
const MAX_HEADER: u64 = 16 * 1024 * 1024;

/// Where the tensors of a file lie.
#[derive(Debug)]
pub(super) struct Weights {
    tensors: HashMap<String, Entry>,
    prefix: &'static str,
    body: Range<u64>,
}

#[derive(Debug, Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

impl Weights {
    /// Reads the header of a file of `length` bytes from its start.
    pub(super) fn read(mut file: impl Read, length: u64) -> Result<Self, GraphError> {
        let mut size = [0; 8];
        file.read_exact(&mut size)
            .map_err(|error| header(error.to_string()))?;
        let size = u64::from_le_bytes(size);
        let body = size.saturating_add(8)..length;
        if size > MAX_HEADER || body.start > body.end {
            return Err(header(format!(
                "it claims {size} bytes of a file of {length}"
            )));
        }
        let mut fields: HashMap<String, serde_json::Value> =
            serde_json::from_reader(file.take(size)).map_err(|error| header(error.to_string()))?;
        fields.remove("__metadata__");
        let mut tensors = HashMap::with_capacity(fields.len());
        for (name, value) in fields {
            let entry = serde_json::from_value(value)
                .map_err(|error| header(format!("`{name}`: {error}")))?;
            tensors.insert(name, entry);
        }
        // A checkpoint saved from a model with a task head keeps the encoder one level down.
        let nested = tensors.contains_key("bert.embeddings.word_embeddings.weight");
        Ok(Self {
            tensors,
            prefix: if nested { "bert." } else { "" },
            body,
        })
    }

    /// Returns the place in the file of a float tensor of exactly this shape.
    pub(super) fn locate(&self, name: &str, shape: &[u64]) -> Result<Range<u64>, GraphError> {
        let fault = |reason: String| GraphError::Tensor {
            name: name.to_owned(),
            reason,
        };
        let entry = self
            .tensors
            .get(&format!("{}{name}", self.prefix))
            .ok_or_else(|| fault("it is not in the file".into()))?;
        if entry.dtype != "F32" {
            return Err(fault(format!(
                "its element type is `{}`, only `F32` is supported",
                entry.dtype
            )));
        }
        if entry.shape != shape {
            return Err(fault(format!(
                "its shape is {:?}, the configuration implies {shape:?}",
                entry.shape
            )));
        }
        let (start, end) = entry.data_offsets;
        let bytes = shape
            .iter()
            .try_fold(4_u64, |product, size| product.checked_mul(*size));
        if start > end || end > self.body.end - self.body.start || bytes != Some(end - start) {
            return Err(fault(format!(
                "its bytes {start}..{end} do not fit its shape or the file"
            )));
        }
        Ok(self.body.start + start..self.body.start + end)
    }
}

fn header(reason: String) -> GraphError {
    GraphError::Header { reason }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns a file with the header given as JSON and a body of zeros.
    pub(in super::super) fn file(header: &str, body: usize) -> Vec<u8> {
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend_from_slice(header.as_bytes());
        file.resize(file.len() + body, 0);
        file
    }

    fn read(file: &[u8]) -> Result<Weights, GraphError> {
        Weights::read(file, file.len() as u64)
    }

    fn check_refused(entry: &str, body: usize, expected: &str) {
        let weights = read(&file(&format!(r#"{{"w":{entry}}}"#), body)).unwrap();
        let error = weights.locate("w", &[2, 2]).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn a_tensor_is_found_behind_the_header() {
        let json = r#"{"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[2,2],"data_offsets":[4,20]}}"#;
        let weights = read(&file(json, 20)).unwrap();
        let start = 8 + json.len() as u64 + 4;
        assert_eq!(weights.locate("w", &[2, 2]).unwrap(), start..start + 16);
    }

    #[test]
    fn unusable_tensors_are_refused() {
        check_refused(
            r#"{"dtype":"F16","shape":[2,2],"data_offsets":[0,8]}"#,
            8,
            "F16",
        );
        check_refused(
            r#"{"dtype":"F32","shape":[4],"data_offsets":[0,16]}"#,
            16,
            "shape",
        );
        check_refused(
            r#"{"dtype":"F32","shape":[2,2],"data_offsets":[8,24]}"#,
            16,
            "do not fit",
        );
        check_refused(
            r#"{"dtype":"F32","shape":[2,2],"data_offsets":[0,12]}"#,
            16,
            "do not fit",
        );
        check_refused(
            r#"{"dtype":"F32","shape":[2,2],"data_offsets":[16,0]}"#,
            16,
            "do not fit",
        );
        let empty = read(&file("{}", 0)).unwrap();
        assert!(
            empty
                .locate("w", &[1])
                .unwrap_err()
                .to_string()
                .contains("not in the file")
        );
    }

    #[test]
    fn a_header_longer_than_the_file_is_refused() {
        for bytes in [
            &b""[..],
            b"\xff\xff\xff\xff\xff\xff\xff\xff",
            b"\x03\0\0\0\0\0\0\0{}",
        ] {
            assert!(matches!(read(bytes), Err(GraphError::Header { .. })));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_answer_not_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            drop(read(&bytes));
        }
    }
}
