//! Small conversions between SQLite's values and errors and ours.
//!
//! Enumerations are stored under the names they have in every other format, so that the file can be read with any
//! SQLite tool and a CHECK constraint can name them.

use memory_core::store::StoreError;
use rusqlite::ErrorCode;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use serde::Serialize;
use serde::de::value::{Error as NameError, StrDeserializer};
use serde::de::{DeserializeOwned, IntoDeserializer as _};

/// Returns a function that turns an SQLite error into a store error, for `map_err`.
pub(super) fn sql(action: &'static str) -> impl Fn(rusqlite::Error) -> StoreError {
    move |error| match error {
        rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::Utf8Error(..) => {
            damaged(&format!("it holds a value that cannot be ({error})"))
        }
        error => match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
                damaged(&error.to_string())
            }
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Locked {
                holder: "another process is using the state database".to_owned(),
            },
            Some(ErrorCode::ConstraintViolation) => StoreError::BadRequest {
                reason: format!("could not {action}: {error}"),
            },
            _ => StoreError::engine(action, error),
        },
    }
}

/// Returns the error for content that this program cannot have written.
pub(super) fn damaged(reason: &str) -> StoreError {
    StoreError::Damaged {
        what: "the state database".to_owned(),
        reason: format!("{reason}; restore it from a backup, nothing was changed"),
    }
}

/// An enumeration's value, stored under its serialised name.
pub(super) struct Named<T>(pub(super) T);

impl<T: Serialize> ToSql for Named<T> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match serde_json::to_value(&self.0) {
            Ok(serde_json::Value::String(name)) => Ok(name.into()),
            Ok(other) => Err(rusqlite::Error::ToSqlConversionFailure(
                format!("`{other}` is not a name").into(),
            )),
            Err(error) => Err(rusqlite::Error::ToSqlConversionFailure(error.into())),
        }
    }
}

impl<T: DeserializeOwned> FromSql for Named<T> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let deserializer: StrDeserializer<'_, NameError> = value.as_str()?.into_deserializer();
        T::deserialize(deserializer)
            .map(Self)
            .map_err(FromSqlError::other)
    }
}

/// A count, stored as SQLite's signed integer.
pub(super) struct Count(pub(super) u64);

impl ToSql for Count {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let stored = i64::try_from(self.0)
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
        Ok(stored.into())
    }
}

impl FromSql for Count {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let stored = value.as_i64()?;
        u64::try_from(stored)
            .map(Self)
            .map_err(|_| FromSqlError::OutOfRange(stored))
    }
}
