//! The local socket through which other processes reach the one that writes.
//!
//! One process at a time may write to an assistant. What another one would fail to do because of that, it hands to the
//! writer: the lock's file says where the writer listens, both sides are processes of one user, and the request is
//! carried out by the same calls that the writer's own host makes. So nothing can be had here that opening the assistant
//! would not give, and where the socket cannot be used the lock alone decides, as if there were none.

use std::time::Duration;

mod client;
mod connection;
mod endpoint;
mod frame;
mod protocol;
mod server;

pub(crate) use self::client::{Client, LinkError};
pub(crate) use self::protocol::{Fault, FaultCode, Operation, arguments};
pub(crate) use self::server::{Door, Server, Service, Steps, Visitor};

/// Most bytes of a request. A page or a note is far below, files are named and not sent; a manifest may be long.
const LONGEST_REQUEST: usize = 64 << 20;

/// Most bytes of an answer: a report on some hundred thousand files.
const LONGEST_ANSWER: usize = 256 << 20;

/// Most bytes of the frames that open a connection.
const LONGEST_GREETING: usize = 4 << 10;

/// How long opening a connection may take.
const GREETING_TIME: Duration = Duration::from_secs(5);

/// How long it may take for a caller who has no patience.
const SHORTEST_GREETING: Duration = Duration::from_millis(250);

/// How long a frame that has begun may take to arrive or to be taken.
const FRAME_TIME: Duration = Duration::from_secs(10);

/// How often a writer says that it is still working on a request.
const SIGN_OF_LIFE: Duration = Duration::from_secs(2);

/// With nothing heard for this long, the writer counts as gone.
const SILENCE: Duration = Duration::from_secs(15);

/// Most requests of one client that run at once.
const MOST_AT_ONCE: usize = 32;

#[cfg(all(test, unix))]
#[expect(
    clippy::unwrap_used,
    reason = "helpers of tests, which the lint's own exception does not reach"
)]
mod tests;
