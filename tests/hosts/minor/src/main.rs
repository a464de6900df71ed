//! A host of the border's next minor version, as small as a host can be.
//!
//! It compiles only against the copy that `tests/plugins/variants.toml` makes: it offers the method that is added to the
//! host's side, calls the one that is added to the tier's side, and prints what came of both. Arguments: plugin folder,
//! allow file, staging folder, plugin.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use memory_core::env::ManualClock;
use memory_core::predicates::Tier;
use memory_core::services::{Call, CallScope, Message, Messages, ServiceResult, Services};
use memory_core::tier::TurnRequest;
use plugin_host::{HostOptions, PluginHost, Wanted, new_call};
use tokio::runtime::Handle;

/// Messages of which only the number is known.
struct Counted(u32);

#[async_trait]
impl Messages for Counted {
    async fn recent(&self, _call: &Call, _limit: u32) -> ServiceResult<Vec<Message>> {
        Ok(Vec::new())
    }

    async fn total(&self, _call: &Call) -> ServiceResult<u32> {
        Ok(self.0)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, allow_file, staging, plugin] = arguments.as_slice() else {
        return Err("four arguments are needed".into());
    };
    let options = HostOptions {
        folder: Some(PathBuf::from(folder)),
        allow_files: vec![PathBuf::from(allow_file)],
        staging: PathBuf::from(staging),
        ..HostOptions::default()
    };
    let host = PluginHost::start(options, Handle::current())?;
    let slot = host.slot("ada");
    let services = Services {
        messages: Some(Arc::new(Counted(42))),
        clock: Some(Arc::new(ManualClock::default())),
        ..Services::default()
    };
    let wanted = Wanted {
        tier: Tier::V3,
        plugin: plugin.clone(),
        config: "{\"label\":\"minor\"}".to_owned(),
        digest: String::new(),
    };
    slot.ensure(&wanted, &services).await;
    if let Some(problem) = slot.status().problem {
        return Err(problem.to_string().into());
    }
    println!("host: {}", memory_core::abi::VERSION);
    for build in host.builds() {
        println!("plugin: {}", build.manifest().abi);
    }
    let turn = slot.pin()?;
    let scope = CallScope {
        conversation: "talk".to_owned(),
        ..CallScope::default()
    };
    let (call, _control) = new_call(scope, Duration::from_secs(10));
    let request = TurnRequest {
        user_message: "newer".to_owned(),
        ..TurnRequest::default()
    };
    for block in turn.begin_turn(&call, request).await?.blocks {
        println!("{}", block.text);
    }
    println!("prepare: {}", turn.prepare(&call).await?);
    Ok(())
}
