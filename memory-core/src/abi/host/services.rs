//! The host's services as they are handed to an instance.
//!
//! Each asynchronous answer is given to the host's own runtime at once and the plugin only waits for it: a future of one
//! runtime must not be polled by the thread of another. When the plugin drops its wait, the work is dropped too.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use abi_stable::erased_types::TD_Opaque;
use abi_stable::std_types::{RArc, RErr, ROption, RResult};
use async_ffi::FfiFuture;
use futures_util::FutureExt as _;
use futures_util::future::{AbortHandle, abortable};

use crate::abi::convert::Cross;
use crate::abi::error::{AbiError, ErrorCode};
use crate::abi::services::{self as border, HostServices_TO, Reply, Shared};
use crate::abi::table::for_each_service;
use crate::env::Clock;
use crate::services::{
    Call, Dense, DenseSpace, Kv, KvScope, Lexical, LexicalQuery, Log, LogKind, LogRow, Message,
    Messages, Notice, Notices, PageEntry, PageLink, PageText, Pages, Pkb, PkbFile, PkbHit,
    Residency, Resident, ResidentEntry, SectionEntry, SectionHit, SectionText, Sections,
    ServiceError, ServiceResult, Services,
};
use crate::text::section::SectionId;
use crate::text::slug::Slug;

use super::call::{CallRegistry, contained};
use super::slot::{Taker, slot};

/// Runs work on the host's runtime.
pub trait Spawner: Send + Sync {
    /// Starts work that reports its own result. Dropping it unfinished is allowed, and is reported to whoever waits.
    fn spawn(&self, work: Pin<Box<dyn Future<Output = ()> + Send>>);
}

/// Where an instance's service calls find their call and run.
struct Desk {
    calls: Arc<CallRegistry>,
    spawner: Arc<dyn Spawner>,
}

impl Desk {
    fn answer<T, F>(
        &self,
        service: &'static str,
        token: u64,
        work: impl FnOnce(Call) -> F + Send + 'static,
    ) -> Reply<T::Abi>
    where
        T: Cross<Abi: Send + 'static>,
        F: Future<Output = ServiceResult<T>> + Send + 'static,
    {
        let Some(call) = self.calls.get(token) else {
            let error = AbiError::new(
                ErrorCode::BAD_REQUEST,
                format!("`{service}` was asked for a call that is over"),
            );
            return FfiFuture::new(std::future::ready(RErr(error)));
        };
        let (giver, taker) = slot();
        // The closure is called inside the future, so that its own panic is caught as well.
        let work =
            AssertUnwindSafe(
                async move { work(call).await.map(T::into_abi).map_err(AbiError::from) },
            );
        let (work, abort) = abortable(async move {
            giver.give(match work.catch_unwind().await {
                Ok(result) => result.into(),
                Err(_) => RErr(AbiError::new(
                    ErrorCode::INTERNAL,
                    format!("the host's `{service}` panicked"),
                )),
            });
        });
        self.spawner.spawn(Box::pin(work.map(drop)));
        FfiFuture::new(Waiting { taker, abort })
    }
}

/// A plugin's wait for work on the host's runtime.
struct Waiting<T> {
    taker: Taker<RResult<T, AbiError>>,
    abort: AbortHandle,
}

impl<T> Future for Waiting<T> {
    type Output = RResult<T, AbiError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.taker).poll(context).map(|result| {
            result.unwrap_or_else(|| {
                RErr(AbiError::new(
                    ErrorCode::UNAVAILABLE,
                    "the host stopped before it answered",
                ))
            })
        })
    }
}

impl<T> Drop for Waiting<T> {
    fn drop(&mut self) {
        self.abort.abort();
    }
}

/// A service of the host.
struct Hosted<S: ?Sized> {
    service: Arc<S>,
    desk: Arc<Desk>,
}

/// What one instance may have.
struct Handed {
    services: Services,
    desk: Arc<Desk>,
}

/// Returns services as the object that an instance is created with.
pub(super) fn to_border(
    services: Services,
    calls: Arc<CallRegistry>,
    spawner: Arc<dyn Spawner>,
) -> HostServices_TO<'static, Shared> {
    let handed = Handed {
        services,
        desk: Arc::new(Desk { calls, spawner }),
    };
    HostServices_TO::from_ptr(RArc::new(handed), TD_Opaque)
}

fn argument<T: Cross>(abi: T::Abi) -> ServiceResult<T> {
    T::from_abi(abi).map_err(|bad| ServiceError::BadRequest {
        reason: bad.to_string(),
    })
}

macro_rules! hosted_services {
    ($($service:ident as $object:ident, $capability:ident {
        $(fn $method:ident($($argument:ident: $type:ty),*) -> $answer:ty;)+
    })+) => {
        $(
            impl border::$service for Hosted<dyn $service> {
                $(
                    fn $method(
                        &self,
                        call: u64,
                        $($argument: <$type as Cross>::Abi),*
                    ) -> Reply<<$answer as Cross>::Abi> {
                        let service = Arc::clone(&self.service);
                        self.desk.answer::<$answer, _>(stringify!($capability), call, move |call| async move {
                            $(let $argument = argument::<$type>($argument)?;)*
                            service.$method(&call, $($argument),*).await
                        })
                    }
                )+
            }
        )+

        impl border::HostServices for Handed {
            $(
                fn $capability(&self) -> ROption<border::$object<'static, Shared>> {
                    let hosted = |service: &Arc<dyn $service>| {
                        let hosted = Hosted { service: Arc::clone(service), desk: Arc::clone(&self.desk) };
                        border::$object::from_ptr(RArc::new(hosted), TD_Opaque)
                    };
                    self.services.$capability.as_ref().map(hosted).into()
                }
            )+

            fn clock(&self) -> ROption<border::Clock_TO<'static, Shared>> {
                let hosted = |clock: &Arc<dyn Clock>| {
                    border::Clock_TO::from_ptr(RArc::new(HostedClock(Arc::clone(clock))), TD_Opaque)
                };
                self.services.clock.as_ref().map(hosted).into()
            }
        }
    };
}

for_each_service!(hosted_services);

/// The host's clock.
struct HostedClock(Arc<dyn Clock>);

impl border::Clock for HostedClock {
    fn now_ms(&self) -> i64 {
        contained(0, || self.0.now().as_millis())
    }
}
