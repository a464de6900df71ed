//! Where the socket is, and who may come: the part that only systems with Unix domain sockets have.
//!
//! The address of such a socket has room for about a hundred bytes, so it does not always fit into the workspace; the
//! lock's file says where it is. Its folder is its owner's alone, and both sides ask the system which user the other one
//! is. A file that a killed process left is told from a socket that is alive by knocking.

#[cfg(not(unix))]
mod none;
#[cfg(unix)]
mod unix;

#[cfg(not(unix))]
pub(super) use self::none::{Listener, connect, root_of};
#[cfg(unix)]
pub(super) use self::unix::{Listener, connect, root_of};
