//! The error that crosses the border.
//!
//! It is plain data: a code to branch on and text to show. A boxed error would carry code of the other library into logs
//! and error chains, and would offer nothing to branch on.

use std::fmt;

use abi_stable::StableAbi;
use abi_stable::std_types::{RString, RVec};

use crate::services::ServiceError;
use crate::tier::TierError;

use super::convert::BadValue;

/// What kind of failure crossed the border. A number, so that new kinds do not change any layout.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, StableAbi)]
pub struct ErrorCode(pub u32);

impl ErrorCode {
    /// Something is broken on the other side.
    pub const INTERNAL: Self = Self(1);
    /// The other side panicked, and the panic was contained.
    pub const PANICKED: Self = Self(2);
    /// The caller gave up.
    pub const CANCELLED: Self = Self(3);
    /// The deadline passed.
    pub const DEADLINE: Self = Self(4);
    /// The configuration is wrong.
    pub const BAD_CONFIG: Self = Self(5);
    /// The other side does not offer this.
    pub const UNSUPPORTED: Self = Self(6);
    /// It cannot answer now.
    pub const UNAVAILABLE: Self = Self(7);
    /// There is no such thing.
    pub const NOT_FOUND: Self = Self(8);
    /// Somebody else changed it first.
    pub const CONFLICT: Self = Self(9);
    /// A limit was reached.
    pub const QUOTA: Self = Self(10);
    /// The request makes no sense.
    pub const BAD_REQUEST: Self = Self(11);

    /// Returns the code's name, or `UNKNOWN` for one that a newer other side made.
    pub const fn name(self) -> &'static str {
        match self {
            Self::INTERNAL => "INTERNAL",
            Self::PANICKED => "PANICKED",
            Self::CANCELLED => "CANCELLED",
            Self::DEADLINE => "DEADLINE",
            Self::BAD_CONFIG => "BAD_CONFIG",
            Self::UNSUPPORTED => "UNSUPPORTED",
            Self::UNAVAILABLE => "UNAVAILABLE",
            Self::NOT_FOUND => "NOT_FOUND",
            Self::CONFLICT => "CONFLICT",
            Self::QUOTA => "QUOTA",
            Self::BAD_REQUEST => "BAD_REQUEST",
            _ => "UNKNOWN",
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// A failure as it crosses the border.
#[repr(C)]
#[derive(Clone, Debug, PartialEq, Eq, StableAbi)]
pub struct AbiError {
    /// What kind of failure.
    pub code: ErrorCode,
    /// What happened.
    pub message: RString,
    /// How long to wait before a retry makes sense; 0 when that is unknown.
    pub retry_after_ms: u64,
    /// What lies below, outermost first.
    pub causes: RVec<RString>,
}

impl AbiError {
    /// Returns a failure without causes.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: RString::from(message.into()),
            retry_after_ms: 0,
            causes: RVec::new(),
        }
    }
}

impl From<BadValue> for AbiError {
    fn from(bad: BadValue) -> Self {
        Self::new(ErrorCode::BAD_REQUEST, bad.to_string())
    }
}

impl From<ServiceError> for AbiError {
    fn from(error: ServiceError) -> Self {
        match error {
            ServiceError::NotOffered { capability } => {
                Self::new(ErrorCode::UNSUPPORTED, capability)
            }
            ServiceError::Unavailable { reason } => Self::new(ErrorCode::UNAVAILABLE, reason),
            ServiceError::Cancelled => Self::new(ErrorCode::CANCELLED, "the call was cancelled"),
            ServiceError::BadRequest { reason } => Self::new(ErrorCode::BAD_REQUEST, reason),
            ServiceError::Failed { reason } => Self::new(ErrorCode::INTERNAL, reason),
        }
    }
}

impl From<AbiError> for ServiceError {
    fn from(error: AbiError) -> Self {
        let reason = error.message.into_string();
        match error.code {
            ErrorCode::UNSUPPORTED => Self::NotOffered { capability: reason },
            ErrorCode::UNAVAILABLE | ErrorCode::QUOTA => Self::Unavailable { reason },
            ErrorCode::CANCELLED | ErrorCode::DEADLINE => Self::Cancelled,
            ErrorCode::BAD_REQUEST => Self::BadRequest { reason },
            _ => Self::Failed { reason },
        }
    }
}

impl From<TierError> for AbiError {
    fn from(error: TierError) -> Self {
        match error {
            TierError::BadConfig { reason } => Self::new(ErrorCode::BAD_CONFIG, reason),
            TierError::Cancelled => Self::new(ErrorCode::CANCELLED, "the call was cancelled"),
            TierError::Internal { reason } => Self::new(ErrorCode::INTERNAL, reason),
            TierError::Service(service) => {
                let cause = service.to_string();
                let code = Self::from(service).code;
                let mut outer = Self::new(code, "a host service failed");
                outer.causes.push(cause.into());
                outer
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_errors_survive_the_border() {
        let errors = [
            ServiceError::NotOffered {
                capability: "dense".into(),
            },
            ServiceError::Unavailable {
                reason: "no model".into(),
            },
            ServiceError::Cancelled,
            ServiceError::BadRequest {
                reason: "limit is 0".into(),
            },
            ServiceError::Failed {
                reason: "disk".into(),
            },
        ];
        for error in errors {
            assert_eq!(ServiceError::from(AbiError::from(error.clone())), error);
        }
    }

    #[test]
    fn a_tier_error_keeps_the_code_of_the_service_below_it() {
        let error = AbiError::from(TierError::from(ServiceError::Unavailable {
            reason: "no model".into(),
        }));
        assert_eq!(error.code, ErrorCode::UNAVAILABLE);
        assert_eq!(error.causes.len(), 1);
        assert!(error.causes[0].contains("no model"));
    }

    #[test]
    fn unknown_codes_of_a_newer_side_become_failures() {
        let error = AbiError::new(ErrorCode(4_000_000), "new");
        assert_eq!(error.code.name(), "UNKNOWN");
        assert_eq!(
            ServiceError::from(error),
            ServiceError::Failed {
                reason: "new".into()
            }
        );
    }
}
