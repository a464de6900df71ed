//! Writes the few protocol-buffer messages that an ONNX model consists of.
//!
//! A model file is nested length-prefixed messages, and we only ever write them. The encoder needs three of the wire
//! types, so it is shorter than the build step that a protobuf library would bring.

use std::ops::Range;

/// Element type numbers of the ONNX tensor format.
pub(super) const FLOAT: u64 = 1;
/// 64-bit signed integers in the ONNX tensor format.
pub(super) const INT64: u64 = 7;

/// A message under construction.
#[derive(Debug, Default)]
pub(super) struct Message(Vec<u8>);

impl Message {
    /// Returns the encoded message.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Appends an integer field.
    pub(super) fn integer(&mut self, field: u32, value: u64) -> &mut Self {
        self.raw(u64::from(field) << 3);
        self.raw(value);
        self
    }

    /// Appends a 32-bit float field.
    pub(super) fn float(&mut self, field: u32, value: f32) -> &mut Self {
        self.raw(u64::from(field) << 3 | 5);
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Appends a string or bytes field.
    pub(super) fn bytes(&mut self, field: u32, value: &[u8]) -> &mut Self {
        self.raw(u64::from(field) << 3 | 2);
        self.raw(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    /// Appends a nested message field.
    pub(super) fn message(&mut self, field: u32, value: &Self) -> &mut Self {
        self.bytes(field, &value.0)
    }

    fn raw(&mut self, mut value: u64) {
        loop {
            let [low, ..] = value.to_le_bytes();
            value >>= 7;
            if value == 0 {
                return self.0.push(low);
            }
            self.0.push(low | 0x80);
        }
    }
}

/// An operator's attribute.
#[derive(Clone, Copy, Debug)]
pub(super) enum Attribute<'a> {
    /// A float.
    Float(&'a str, f32),
    /// An integer.
    Integer(&'a str, i64),
    /// A list of integers.
    Integers(&'a str, &'a [i64]),
}

impl Attribute<'_> {
    /// Returns the attribute's message.
    pub(super) fn encode(self) -> Message {
        let mut message = Message::default();
        match self {
            Self::Float(name, value) => {
                message
                    .bytes(1, name.as_bytes())
                    .float(2, value)
                    .integer(20, 1);
            }
            Self::Integer(name, value) => {
                message
                    .bytes(1, name.as_bytes())
                    .integer(3, value.cast_unsigned())
                    .integer(20, 2);
            }
            Self::Integers(name, values) => {
                message.bytes(1, name.as_bytes());
                for value in values {
                    message.integer(8, value.cast_unsigned());
                }
                message.integer(20, 7);
            }
        }
        message
    }
}

/// One dimension of a graph input or output.
#[derive(Clone, Copy, Debug)]
pub(super) enum Dimension {
    /// Free, known by a name.
    Named(&'static str),
    /// Fixed.
    Fixed(u64),
}

/// Returns the description of a graph input or output.
pub(super) fn value_info(name: &str, element: u64, shape: &[Dimension]) -> Message {
    let mut dimensions = Message::default();
    for dimension in shape {
        let mut entry = Message::default();
        match dimension {
            Dimension::Named(name) => entry.bytes(2, name.as_bytes()),
            Dimension::Fixed(size) => entry.integer(1, *size),
        };
        dimensions.message(1, &entry);
    }
    let mut tensor = Message::default();
    tensor.integer(1, element).message(2, &dimensions);
    let mut kind = Message::default();
    kind.message(1, &tensor);
    let mut info = Message::default();
    info.bytes(1, name.as_bytes()).message(2, &kind);
    info
}

/// Returns a constant tensor whose bytes are in the model itself.
pub(super) fn inline_tensor(name: &str, element: u64, shape: &[u64], data: &[u8]) -> Message {
    let mut tensor = tensor_head(name, element, shape);
    tensor.bytes(9, data);
    tensor
}

/// Returns a constant float tensor whose bytes are at a place of the file `location`.
pub(super) fn external_tensor(
    name: &str,
    shape: &[u64],
    location: &str,
    place: &Range<u64>,
) -> Message {
    let mut tensor = tensor_head(name, FLOAT, shape);
    let (offset, length) = (
        place.start.to_string(),
        (place.end - place.start).to_string(),
    );
    for (key, value) in [
        ("location", location),
        ("offset", &*offset),
        ("length", &*length),
    ] {
        let mut entry = Message::default();
        entry.bytes(1, key.as_bytes()).bytes(2, value.as_bytes());
        tensor.message(13, &entry);
    }
    tensor.integer(14, 1);
    tensor
}

fn tensor_head(name: &str, element: u64, shape: &[u64]) -> Message {
    let mut tensor = Message::default();
    for size in shape {
        tensor.integer(1, *size);
    }
    tensor.integer(2, element).bytes(8, name.as_bytes());
    tensor
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_little_endian_base_128() {
        let mut message = Message::default();
        message.integer(1, 300).integer(16, 0);
        assert_eq!(message.into_bytes(), [0x08, 0xac, 0x02, 0x80, 0x01, 0x00]);
    }

    #[test]
    fn a_negative_attribute_takes_ten_bytes() {
        let bytes = Attribute::Integer("axis", -1).encode().into_bytes();
        assert_eq!(&bytes[..6], b"\x0a\x04axis");
        assert_eq!(
            &bytes[6..17],
            [0x18, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1]
        );
        assert_eq!(&bytes[17..], [0xa0, 0x01, 0x02]);
    }

    #[test]
    fn nested_messages_carry_their_length() {
        let mut inner = Message::default();
        inner.float(2, 1.0);
        let mut outer = Message::default();
        outer.message(7, &inner).bytes(1, b"ab");
        assert_eq!(
            outer.into_bytes(),
            [0x3a, 5, 0x15, 0, 0, 0x80, 0x3f, 0x0a, 2, b'a', b'b']
        );
    }
}
