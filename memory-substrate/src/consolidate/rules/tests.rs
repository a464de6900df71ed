//! The rules on a memory as people keep one.
