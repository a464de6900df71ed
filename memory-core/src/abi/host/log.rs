//! The host's end of a library's log.

use std::fmt;
use std::sync::Arc;

use abi_stable::erased_types::TD_Opaque;
use abi_stable::std_types::{RArc, RStr, RVec};

use crate::abi::services::{LibraryHost, LibraryHost_TO, Shared};
use crate::abi::types::LogField;

use super::call::contained;

/// Fields of an event or span, as text.
pub type LogFields = Vec<(String, String)>;

/// Takes what a library logs. Levels are 1 (error) to 5 (trace).
pub trait LogSink: Send + Sync + fmt::Debug {
    /// Returns the most verbose level anybody listens to, 0 when nobody does.
    fn max_level(&self) -> u32;

    /// Takes an event.
    fn event(&self, level: u32, target: &str, message: &str, fields: LogFields);

    /// Opens a span and returns its number, 0 when nobody listens.
    fn span_new(&self, level: u32, target: &str, name: &str, fields: LogFields) -> u64;

    /// Enters a span on this thread. An unknown number is ignored.
    fn span_enter(&self, span: u64);

    /// Leaves a span on this thread. An unknown number is ignored.
    fn span_exit(&self, span: u64);

    /// Closes a span. An unknown number is ignored.
    fn span_close(&self, span: u64);
}

/// Returns a sink as the object a library is prepared with.
pub(super) fn to_border(sink: Arc<dyn LogSink>) -> LibraryHost_TO<'static, Shared> {
    LibraryHost_TO::from_ptr(RArc::new(Hosted(sink)), TD_Opaque)
}

struct Hosted(Arc<dyn LogSink>);

fn std_fields(fields: RVec<LogField>) -> LogFields {
    fields
        .into_iter()
        .map(|field| (field.name.into_string(), field.value.into_string()))
        .collect()
}

impl LibraryHost for Hosted {
    fn max_level(&self) -> u32 {
        contained(0, || self.0.max_level())
    }

    fn event(&self, level: u32, target: RStr<'_>, message: RStr<'_>, fields: RVec<LogField>) {
        contained((), || {
            let fields = std_fields(fields);
            self.0
                .event(level, target.as_str(), message.as_str(), fields);
        });
    }

    fn span_new(
        &self,
        level: u32,
        target: RStr<'_>,
        name: RStr<'_>,
        fields: RVec<LogField>,
    ) -> u64 {
        contained(0, || {
            self.0
                .span_new(level, target.as_str(), name.as_str(), std_fields(fields))
        })
    }

    fn span_enter(&self, span: u64) {
        contained((), || self.0.span_enter(span));
    }

    fn span_exit(&self, span: u64) {
        contained((), || self.0.span_exit(span));
    }

    fn span_close(&self, span: u64) {
        contained((), || self.0.span_close(span));
    }
}
