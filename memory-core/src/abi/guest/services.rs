//! The host's services as a tier sees them: the service traits, each around an object of the host.

use std::fmt;
use std::sync::Arc;

use abi_stable::std_types::RResult;
use async_trait::async_trait;

use crate::abi::convert::Cross;
use crate::abi::error::AbiError;
use crate::abi::services::{self as border, HostServices_TO, Shared};
use crate::abi::table::for_each_service;
use crate::env::Clock;
use crate::services::Dense;
use crate::services::{
    Call, DenseSpace, Kv, KvScope, Lexical, LexicalQuery, Log, LogKind, LogRow, Message, Messages,
    Notice, Notices, PageEntry, PageLink, PageText, Pages, Pkb, PkbFile, PkbHit, Residency,
    Resident, ResidentEntry, SectionEntry, SectionHit, SectionText, Sections, ServiceError,
    ServiceResult, Services,
};
use crate::text::section::SectionId;
use crate::text::slug::Slug;
use crate::time::Timestamp;

/// An object of the host.
struct Remote<T>(T);

fn answer<T: Cross>(reply: RResult<T::Abi, AbiError>) -> ServiceResult<T> {
    let value = reply.into_result().map_err(ServiceError::from)?;
    T::from_abi(value).map_err(|bad| ServiceError::Failed {
        reason: bad.to_string(),
    })
}

macro_rules! remote_services {
    ($($service:ident as $object:ident, $capability:ident {
        $(fn $method:ident($($argument:ident: $type:ty),*) -> $answer:ty;)+
    })+) => {
        $(
            #[async_trait]
            impl $service for Remote<border::$object<'static, Shared>> {
                $(
                    async fn $method(&self, call: &Call, $($argument: $type),*) -> ServiceResult<$answer> {
                        answer(self.0.$method(call.control().token(), $($argument.into_abi()),*).await)
                    }
                )+
            }
        )+

        /// Returns what the host handed out as the traits tiers are written against.
        pub(super) fn from_border(host: &HostServices_TO<'static, Shared>) -> Services {
            Services {
                $($capability: host
                    .$capability()
                    .into_option()
                    .map(|object| Arc::new(Remote(object)) as Arc<dyn $service>),)+
                clock: host.clock().into_option().map(|object| Arc::new(RemoteClock(object)) as Arc<dyn Clock>),
            }
        }
    };
}

for_each_service!(remote_services);

/// The host's clock.
struct RemoteClock(border::Clock_TO<'static, Shared>);

impl Clock for RemoteClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.now_ms())
    }
}

impl fmt::Debug for RemoteClock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("RemoteClock")
    }
}
