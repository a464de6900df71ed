//! Frames: a length in four bytes and that many bytes of JSON.
//!
//! The length is looked at before anything is kept, and memory grows with what really arrives, so that a length alone
//! costs nothing. Waiting for a frame to begin takes as long as it takes; once it has begun it must come to an end soon.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::FRAME_TIME;

/// Bytes of the length.
const HEADER: usize = 4;

/// Why there is no next frame.
#[derive(Debug, Error)]
pub(super) enum FrameError {
    /// The other side has nothing more to say. Stop.
    #[error("the connection was closed")]
    Closed,
    /// The other side went away within a frame, which therefore does not count. Stop.
    #[error("the connection was closed within a message")]
    Cut,
    /// The frame is longer than agreed. Refuse it and stop, because what follows cannot be told apart.
    #[error("a message has {length} bytes, at most {limit} are accepted")]
    TooLong {
        /// The length that was announced.
        length: usize,
        /// The longest there may be.
        limit: usize,
    },
    /// The frame did not come to an end in time. Stop.
    #[error("a message did not arrive in time")]
    Slow,
    /// The system failed. Stop.
    #[error("the connection failed")]
    Io(#[from] io::Error),
}

/// A frame that has arrived. While it is there its bytes count against the reader's budget.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) bytes: Vec<u8>,
    _share: Option<OwnedSemaphorePermit>,
}

/// Reads frames.
#[derive(Debug)]
pub(super) struct FrameReader<R> {
    stream: R,
    limit: usize,
    budget: Option<Arc<Semaphore>>,
    time: Duration,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    /// Returns a reader that accepts frames up to this long.
    pub(super) fn new(stream: R, limit: usize) -> Self {
        Self {
            stream,
            limit,
            budget: None,
            time: FRAME_TIME,
        }
    }

    /// Returns this reader with another longest frame.
    pub(super) fn accepting(self, limit: usize) -> Self {
        Self { limit, ..self }
    }

    /// Returns this reader with bytes that it shares with others. There must be more of them than a frame may have.
    pub(super) fn sharing(self, budget: Arc<Semaphore>) -> Self {
        Self {
            budget: Some(budget),
            ..self
        }
    }

    /// Returns the next frame. After an error the connection is of no use any more.
    pub(super) async fn next(&mut self) -> Result<Frame, FrameError> {
        let mut header = [0; HEADER];
        if self.stream.read(&mut header[..1]).await? == 0 {
            return Err(FrameError::Closed);
        }
        timeout(self.time, self.rest(header))
            .await
            .unwrap_or(Err(FrameError::Slow))
    }

    async fn rest(&mut self, mut header: [u8; HEADER]) -> Result<Frame, FrameError> {
        self.stream
            .read_exact(&mut header[1..])
            .await
            .map_err(cut)?;
        let announced = u32::from_le_bytes(header);
        let length = usize::try_from(announced).unwrap_or(usize::MAX);
        if length > self.limit {
            return Err(FrameError::TooLong {
                length,
                limit: self.limit,
            });
        }
        let share = match &self.budget {
            Some(budget) => Arc::clone(budget).acquire_many_owned(announced).await.ok(),
            None => None,
        };
        let mut bytes = Vec::new();
        let mut body = (&mut self.stream).take(u64::from(announced));
        if body.read_to_end(&mut bytes).await? < length {
            return Err(FrameError::Cut);
        }
        Ok(Frame {
            bytes,
            _share: share,
        })
    }
}

fn cut(error: io::Error) -> FrameError {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        FrameError::Cut
    } else {
        FrameError::Io(error)
    }
}

/// Returns a value as a frame, header included; an error if it is longer than the other side accepts.
pub(super) fn encode(value: &impl Serialize, limit: usize) -> io::Result<Vec<u8>> {
    let mut frame = vec![0; HEADER];
    serde_json::to_writer(&mut frame, value)?;
    let length = frame.len() - HEADER;
    let announced = u32::try_from(length)
        .ok()
        .filter(|_| length <= limit)
        .ok_or_else(|| {
            let error = FrameError::TooLong { length, limit };
            io::Error::new(io::ErrorKind::InvalidInput, error)
        })?;
    frame[..HEADER].copy_from_slice(&announced.to_le_bytes());
    Ok(frame)
}

/// Writes a frame that was encoded, or fails when the other side does not take it in time.
pub(super) async fn write(stream: &mut (impl AsyncWrite + Unpin), frame: &[u8]) -> io::Result<()> {
    let written = async {
        stream.write_all(frame).await?;
        stream.flush().await
    };
    timeout(FRAME_TIME, written)
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(bytes: &[u8], limit: usize) -> Result<Vec<u8>, FrameError> {
        FrameReader::new(bytes, limit)
            .next()
            .await
            .map(|frame| frame.bytes)
    }

    #[tokio::test]
    async fn what_is_encoded_is_read_back() {
        let frame = encode(&"grüße", 100).unwrap();
        assert_eq!(read(&frame, 100).await.unwrap(), "\"grüße\"".as_bytes());
        let mut both = frame.clone();
        both.extend(&frame);
        let mut reader = FrameReader::new(both.as_slice(), 100);
        for _ in 0..2 {
            reader.next().await.unwrap();
        }
        assert!(matches!(reader.next().await, Err(FrameError::Closed)));
    }

    #[tokio::test]
    async fn every_cut_is_told_from_an_end() {
        let frame = encode(&"text", 100).unwrap();
        for length in 1..frame.len() {
            let cut = read(&frame[..length], 100).await;
            assert!(matches!(cut, Err(FrameError::Cut)), "{length}: {cut:?}");
        }
    }

    #[tokio::test]
    async fn a_length_is_judged_before_anything_else_is_read() {
        for announced in [101_u32, u32::MAX] {
            let said = read(&announced.to_le_bytes(), 100).await;
            assert!(
                matches!(said, Err(FrameError::TooLong { limit: 100, .. })),
                "{said:?}"
            );
        }
        let too_long = "x".repeat(99);
        encode(&too_long, 100).unwrap_err();
    }

    #[tokio::test]
    async fn a_frame_that_has_begun_must_come_to_an_end() {
        let (reading, mut writing) = tokio::io::duplex(64);
        let mut reader = FrameReader {
            time: Duration::ZERO,
            ..FrameReader::new(reading, 100)
        };
        writing.write_all(&[9, 0, 0]).await.unwrap();
        assert!(matches!(reader.next().await, Err(FrameError::Slow)));
    }

    #[tokio::test]
    async fn frames_share_the_bytes_that_there_are() {
        let budget = Arc::new(Semaphore::new(10));
        let frame = encode(&"1234", 8).unwrap();
        let mut reader = FrameReader::new(frame.as_slice(), 8).sharing(Arc::clone(&budget));
        let first = reader.next().await.unwrap();
        assert_eq!(budget.available_permits(), 4);
        drop(first);
        assert_eq!(budget.available_permits(), 10);
    }
}
