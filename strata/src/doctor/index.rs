//! Checks of pages, links, index and the tier that serves.

use memory_core::services::{Notice, Severity};
use memory_core::store::StoreError;
use memory_core::text::slug::Slug;
use memory_substrate::assistant::AssistantStore;
use memory_substrate::pages::PageIndex;
use memory_substrate::screen::FindingClass;

use super::{DoctorReport, Finding};
use crate::assistant::Assistant;
use crate::plugins::Serving;

/// How many findings of one kind are listed before the rest is only counted.
const LISTED: usize = 50;

/// Looks at what the stores hold and at what serves. What the stores have to say is taken from them unless a host is
/// waiting to hear it.
pub(super) async fn stores(assistant: &Assistant, serving: bool, report: &mut DoctorReport) {
    let opened = async {
        let store = assistant.store().await?;
        let refreshed = store.refresh().await?;
        Ok::<_, crate::StrataError>((store, refreshed))
    };
    let opened = opened.await;
    let mut notices = Vec::new();
    if !serving {
        notices.extend(assistant.take_opening());
    }
    let (store, refreshed) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            tell(&notices, report);
            return report.failed("stores", &error, Some("strata reindex"));
        }
    };
    pages(&store.pages(), report);
    texts(store, report).await;
    rows(store, refreshed.waiting, report).await;
    tier(assistant, report).await;
    if !serving {
        notices.extend(store.take_notices());
    }
    tell(&notices, report);
}

/// Reports what the stores had to say. An index that cannot be used is a problem even though words are still found.
fn tell(notices: &[Notice], report: &mut DoctorReport) {
    for notice in notices {
        let evidence = format!("{}: {}", notice.code, notice.message);
        let unusable = ["index_damaged", "index_unavailable"].contains(&notice.code.as_str())
            || (notice.severity == Severity::Error && notice.code.starts_with("index_"));
        match notice.severity {
            _ if unusable => {
                report.add("index", Finding::Problem, evidence, Some("strata reindex"));
            }
            Severity::Info => report.add("notice", Finding::Info, evidence, None),
            _ => report.add("notice", Finding::Warning, evidence, None),
        }
    }
}

/// Compares the index with the files.
async fn rows(store: &AssistantStore, waiting: usize, report: &mut DoctorReport) {
    let examined = async {
        let stats = store.stats().await?;
        Ok::<_, StoreError>((stats, store.integrity().await?))
    };
    let (stats, integrity) = match examined.await {
        Ok(examined) => examined,
        Err(error) => return report.failed("index.rows", &error, Some("strata reindex")),
    };
    if stats.index.is_none() {
        match stats.pages {
            0 => report.ok("index.rows", "there are no pages to index yet"),
            pages => {
                let evidence = format!(
                    "{pages} pages are found by words only: there is no index of the model in use"
                );
                report.add(
                    "index.rows",
                    Finding::Warning,
                    evidence,
                    Some("strata reindex"),
                );
            }
        }
        return;
    }
    if let Some(error) = &stats.maintenance_error {
        report.add(
            "index.upkeep",
            Finding::Problem,
            format!("the index could not be tidied and will grow: {error}"),
            Some("strata doctor --fix"),
        );
    }
    if let Some(damage) = &integrity.damage {
        report.add(
            "index.rows",
            Finding::Problem,
            damage.clone(),
            Some("strata reindex"),
        );
        return;
    }
    if integrity.without_vector > 0 {
        let evidence = format!(
            "{} sections have no vector and are found by words only",
            integrity.without_vector
        );
        report.add(
            "index.vectors",
            Finding::Warning,
            evidence,
            Some("strata reindex"),
        );
    }
    if integrity.is_clean() {
        report.ok(
            "index.rows",
            format!("{} sections agree with the pages", integrity.checked),
        );
        return;
    }
    // Pages that somebody edited differ until the next turn or ingest takes them in, which also mends any other row;
    // what cannot be mended that way was reported as damage above.
    let severity = if waiting > 0 {
        Finding::Info
    } else {
        Finding::Warning
    };
    let evidence = format!(
        "of {} sections {} are missing, {} outdated, {} superfluous in the index, such as {}",
        integrity.checked,
        integrity.missing,
        integrity.stale,
        integrity.extra,
        integrity.examples.first().map_or("-", String::as_str)
    );
    report.add("index.rows", severity, evidence, Some("strata reindex"));
}

fn pages(index: &PageIndex, report: &mut DoctorReport) {
    let before = report.checks.len();
    let mut faults = Vec::new();
    for (page, fault) in index.faults() {
        faults.push(format!(
            "{}:{}:{}: {}",
            page.path, fault.line, fault.column, fault.message
        ));
    }
    list(
        "pages.faults",
        Finding::Warning,
        faults,
        "repair the frontmatter; the body is indexed as it is",
        report,
    );
    let unreadable = index
        .unreadable()
        .iter()
        .map(|(path, reason)| format!("{path}: {reason}"))
        .collect();
    list(
        "pages.unreadable",
        Finding::Problem,
        unreadable,
        "check the file's permissions",
        report,
    );
    let renamed = index
        .renamed()
        .iter()
        .map(|page| {
            format!(
                "{} would be `{}` too, and goes by `{}`",
                page.path, page.wanted, page.slug
            )
        })
        .collect();
    list(
        "pages.renamed",
        Finding::Info,
        renamed,
        "rename one of the files",
        report,
    );
    let ambiguous = index
        .ambiguous()
        .iter()
        .map(|link| {
            let candidates: Vec<&str> = link.candidates.iter().map(Slug::as_str).collect();
            format!(
                "{}: `{}` may mean {}",
                link.from,
                link.target,
                candidates.join(", ")
            )
        })
        .collect();
    list(
        "links.ambiguous",
        Finding::Warning,
        ambiguous,
        "write the page's whole path",
        report,
    );
    let dangling = index
        .dangling()
        .iter()
        .map(|link| format!("{}: `{}` leads nowhere", link.from, link.target))
        .collect();
    list(
        "links.dangling",
        Finding::Info,
        dangling,
        "write the page or correct the link",
        report,
    );
    if report.checks.len() == before {
        report.ok(
            "pages",
            format!("{} pages, every link leads somewhere", index.len()),
        );
    }
}

/// Lists what stands in pages and should not. Their owner decides about it; nothing is changed.
async fn texts(store: &AssistantStore, report: &mut DoctorReport) {
    let spots = match store.inspect_pages().await {
        Ok(spots) => spots,
        Err(error) => return report.failed("pages.texts", &error, None),
    };
    let of = |class: FindingClass| -> Vec<String> {
        spots
            .iter()
            .filter(|(_, spot)| spot.class == class)
            .map(|(path, spot)| format!("{path}:{spot}"))
            .collect()
    };
    list(
        "pages.secrets",
        Finding::Warning,
        of(FindingClass::Secret),
        "take it out of the page and have it replaced: prompts and backups may have it already",
        report,
    );
    list(
        "pages.hidden",
        Finding::Info,
        of(FindingClass::Hidden),
        "take them out, unless the page is meant to hold them",
        report,
    );
}

fn list(
    id: &'static str,
    severity: Finding,
    found: Vec<String>,
    fix: &str,
    report: &mut DoctorReport,
) {
    report.list(id, severity, found, fix, LISTED);
}

async fn tier(assistant: &Assistant, report: &mut DoctorReport) {
    let status = match assistant.tier_status().await {
        Ok(status) => status,
        Err(error) => return report.failed("tier", &error, None),
    };
    let configured = status.configured;
    match (&status.serving, &status.reason) {
        (Some(serving), None) => report.ok(
            "tier",
            format!("tier {configured} is configured and {}", described(serving)),
        ),
        (Some(serving), Some(reason)) => {
            let evidence = format!(
                "tier {configured} is configured and {}, an older instance or build: {reason}",
                described(serving)
            );
            report.add(
                "tier",
                Finding::Warning,
                evidence,
                Some("strata plugins verify"),
            );
        }
        (None, Some(reason)) => {
            let evidence = format!("tier {configured} is configured and none serves: {reason}");
            report.add(
                "tier",
                Finding::Problem,
                evidence,
                Some("strata plugins verify"),
            );
        }
        (None, None) => report.ok(
            "tier",
            "memory is off: no tier is configured and none serves",
        ),
    }
}

fn described(serving: &Serving) -> String {
    format!(
        "served by `{}` {}, tier {}, sha256 {}",
        serving.plugin, serving.version, serving.tier, serving.sha256
    )
}
