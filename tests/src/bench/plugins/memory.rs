//! What builds and swaps leave behind in memory.

use anyhow::{Context as _, Result};
use plugin_host::{AllowEntry, AllowList, sha256_hex};

use super::Bench;
use crate::measure::Figure;

/// Builds that are loaded: the same code, with bytes behind it that no loader reads.
const BUILDS: u32 = 50;

/// Swaps among builds and settings that are known.
const SWAPS: usize = 500;

/// Measures the memory of one more build, and what five hundred swaps add to that.
pub(super) async fn measure(bench: &Bench) -> Result<Vec<Figure>> {
    let (folder, allow) = (
        bench.folder.join("builds"),
        bench.folder.join("builds.allow.toml"),
    );
    std::fs::create_dir_all(&folder)?;
    let machinery = bench.machinery_over(folder.clone(), allow.clone(), "staging-builds")?;
    let slot = machinery.slot("bench");
    let library = std::fs::read(bench.library())?;
    let mut list = AllowList::default();
    let mut install = |number: u32| -> Result<()> {
        let mut bytes = library.clone();
        bytes.extend(number.to_le_bytes());
        let sha256 = sha256_hex(&bytes);
        let manifest = std::fs::read_to_string(
            bench
                .library()
                .with_file_name(format!("{}.plugin.toml", bench.plugin())),
        )?;
        let line = |line: &str| match line.split(' ').next() {
            Some("sha256") => format!("sha256 = \"{sha256}\"\n"),
            Some("bytes") => format!("bytes = {}\n", bytes.len()),
            Some("file") => "file = \"build.so\"\n".to_owned(),
            _ => format!("{line}\n"),
        };
        let manifest: String = manifest.lines().map(line).collect();
        std::fs::write(folder.join("build.so"), &bytes)?;
        std::fs::write(
            folder.join(format!("{}.plugin.toml", bench.plugin())),
            manifest,
        )?;
        list.trust(AllowEntry {
            id: bench.plugin(),
            sha256,
            note: String::new(),
        });
        std::fs::write(&allow, list.render())?;
        Ok(())
    };

    // The first few fill what is kept for all of them.
    for number in 0..5 {
        install(number)?;
        bench.load(&slot, &format!("warm-{number}")).await?;
    }
    let before = Memory::now()?;
    for number in 5..5 + BUILDS {
        install(number)?;
        bench.load(&slot, &format!("build-{number}")).await?;
    }
    let with_builds = Memory::now()?;
    for number in 0..SWAPS {
        let change = slot
            .ensure(&bench.wanted(&format!("swap-{number}")), &bench.services)
            .await;
        change.drain.context("nothing was replaced")?.await?;
    }
    let with_swaps = Memory::now()?;
    let each = |after: f64, before: f64| (after - before) / f64::from(BUILDS);
    Ok(vec![
        Figure::new(
            "memory_per_build_resident",
            each(with_builds.resident, before.resident),
            "kB",
        ),
        Figure::new(
            "memory_per_build_anonymous",
            each(with_builds.anonymous, before.anonymous),
            "kB",
        ),
        Figure::new(
            "memory_after_500_swaps_added",
            with_swaps.resident - with_builds.resident,
            "kB",
        ),
    ])
}

/// Memory of this process in kilobytes (1024 bytes).
struct Memory {
    /// All of it that is in memory.
    resident: f64,
    /// The part that no file stands behind.
    anonymous: f64,
}

impl Memory {
    fn now() -> Result<Self> {
        let status = std::fs::read_to_string("/proc/self/status")?;
        let line = |name: &str| {
            let value = status
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_suffix("kB"));
            let value = value.with_context(|| format!("the system tells no `{name}`"))?;
            Ok::<f64, anyhow::Error>(value.trim().parse()?)
        };
        Ok(Self {
            resident: line("VmRSS:")?,
            anonymous: line("RssAnon:")?,
        })
    }
}
