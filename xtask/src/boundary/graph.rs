//! The dependency graph and the rules about it.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use cargo_metadata::{DependencyKind, Metadata, MetadataCommand};

use super::{Bans, Confined, Row, Violation, matches};
use crate::checkout::{Checkout, describe};
use crate::output::note;

/// What one workspace crate says in its own manifest.
#[derive(Debug)]
pub(crate) struct Declared {
    pub(crate) name: String,
    pub(crate) kind: DependencyKind,
    /// Whether it is another crate of this workspace.
    pub(crate) internal: bool,
}

/// A package of the resolved graph.
#[derive(Debug)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    /// The version as (major, minor).
    pub(crate) release: (u64, u64),
    /// Its folder; for workspace members.
    pub(crate) folder: PathBuf,
    member: bool,
    /// Everything its manifest names, for every target and feature; kept for workspace members.
    pub(crate) declared: Vec<Declared>,
    /// What its normal and build dependencies resolve to.
    reaches: Vec<usize>,
}

/// The resolved graph of the workspace, all features on.
#[derive(Debug)]
pub(crate) struct Graph {
    packages: Vec<Package>,
}

impl Graph {
    /// Asks cargo for the graph of every platform, or of this one where the rest cannot be had (offline).
    pub(crate) fn load(checkout: &Checkout) -> Result<Self> {
        let everything = metadata(checkout, None);
        let metadata = match everything {
            Ok(metadata) => metadata,
            Err(error) => {
                let host = host_triple()?;
                let narrow = metadata(checkout, Some(&host)).map_err(|_| error)?;
                note(format_args!(
                    "boundary-check: offline, so only the graph for {host} is looked at"
                ));
                narrow
            }
        };
        Self::from_metadata(&metadata)
    }

    /// Takes from cargo's answer what the rules need.
    pub(crate) fn from_metadata(metadata: &Metadata) -> Result<Self> {
        let resolve = metadata
            .resolve
            .as_ref()
            .context("`cargo metadata` resolved nothing")?;
        let index: BTreeMap<_, _> = metadata
            .packages
            .iter()
            .enumerate()
            .map(|(position, package)| (&package.id, position))
            .collect();
        let internal: Vec<&str> = metadata
            .packages
            .iter()
            .filter(|package| metadata.workspace_members.contains(&package.id))
            .map(|package| package.name.as_str())
            .collect();
        let mut packages = Vec::new();
        for package in &metadata.packages {
            let member = metadata.workspace_members.contains(&package.id);
            let declared = package
                .dependencies
                .iter()
                .filter(|_| member)
                .map(|dependency| Declared {
                    name: dependency.name.clone(),
                    kind: dependency.kind,
                    internal: dependency.path.is_some()
                        && internal.contains(&dependency.name.as_str()),
                });
            packages.push(Package {
                name: package.name.to_string(),
                version: package.version.to_string(),
                release: (package.version.major, package.version.minor),
                folder: package
                    .manifest_path
                    .parent()
                    .map(|folder| folder.as_std_path().to_path_buf())
                    .unwrap_or_default(),
                member,
                declared: declared.collect(),
                reaches: Vec::new(),
            });
        }
        for node in &resolve.nodes {
            let from = *index
                .get(&node.id)
                .context("cargo resolved a package that it does not list")?;
            for dependency in &node.deps {
                let shipped = dependency
                    .dep_kinds
                    .iter()
                    .any(|kind| kind.kind != DependencyKind::Development);
                if shipped {
                    let to = *index
                        .get(&dependency.pkg)
                        .context("cargo resolved a package that it does not list")?;
                    packages[from].reaches.push(to);
                }
            }
        }
        Ok(Self { packages })
    }

    /// Returns the crates of the workspace.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| package.member)
    }

    /// Returns the shortest path from a member to the first package that `is_banned`, by normal and build edges.
    fn path_to(
        &self,
        start: &Package,
        is_banned: impl Fn(&Package) -> bool,
    ) -> Option<Vec<&Package>> {
        let start = self
            .packages
            .iter()
            .position(|package| std::ptr::eq(package, start))?;
        let mut came_from: Vec<Option<usize>> = vec![None; self.packages.len()];
        let mut queue = VecDeque::from([start]);
        while let Some(current) = queue.pop_front() {
            if current != start && is_banned(&self.packages[current]) {
                let mut path = vec![&self.packages[current]];
                let mut step = current;
                while step != start {
                    step = came_from[step]?;
                    path.push(&self.packages[step]);
                }
                path.reverse();
                return Some(path);
            }
            for &next in &self.packages[current].reaches {
                if next != start && came_from[next].is_none() {
                    came_from[next] = Some(current);
                    queue.push_back(next);
                }
            }
        }
        None
    }
}

/// Checks the graph against the table; the table itself must fit the workspace too.
pub(crate) fn check(graph: &Graph, rows: &[Row], confined: &[Confined]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for member in graph.members() {
        match rows.iter().find(|row| matches(row.name, &member.name)) {
            Some(row) => {
                check_edges(member, row, &mut violations);
                for bans in row.must_not_reach {
                    check_reach(graph, member, bans, &mut violations);
                }
                check_direct(member, row, &mut violations);
            }
            None => violations.push(Violation {
                path: format!("`{}`", member.name),
                what: "is a crate of the workspace without a row in the crate table".to_owned(),
                reason: "every crate states what it may use; add a row to xtask/src/boundary.rs"
                    .to_owned(),
            }),
        }
        check_confined(member, confined, &mut violations);
    }
    check_table(graph, rows, confined, &mut violations);
    violations
}

fn check_edges(member: &Package, row: &Row, violations: &mut Vec<Violation>) {
    for dependency in member
        .declared
        .iter()
        .filter(|dependency| dependency.internal)
    {
        if !row.may_use.contains(&dependency.name.as_str()) {
            violations.push(Violation {
                path: format!("{} -> {}", member.name, dependency.name),
                what: format!(
                    "{}/Cargo.toml has this {}",
                    member.name,
                    kind_name(dependency.kind)
                ),
                reason: row.reason.to_owned(),
            });
        }
    }
}

fn check_reach(graph: &Graph, member: &Package, bans: &Bans, violations: &mut Vec<Violation>) {
    for pattern in bans.names {
        let is_banned = |package: &Package| {
            matches(pattern, &package.name)
                && bans.from.is_none_or(|first| package.release >= first)
        };
        if let Some(path) = graph.path_to(member, is_banned) {
            let steps: Vec<String> = path
                .iter()
                .map(|package| {
                    if package.member {
                        package.name.clone()
                    } else {
                        format!("{} {}", package.name, package.version)
                    }
                })
                .collect();
            violations.push(Violation {
                path: steps.join(" -> "),
                what: format!(
                    "{} must not reach `{}`",
                    member.name,
                    path.last().map_or(*pattern, |package| &package.name)
                ),
                reason: bans.reason.to_owned(),
            });
        }
    }
}

fn check_direct(member: &Package, row: &Row, violations: &mut Vec<Violation>) {
    let Some(allowed) = row.direct else { return };
    let shipped = member
        .declared
        .iter()
        .filter(|dependency| dependency.kind != DependencyKind::Development);
    for dependency in shipped.filter(|dependency| !dependency.internal) {
        if !allowed.contains(&dependency.name.as_str()) {
            violations.push(Violation {
                path: format!("{} -> {}", member.name, dependency.name),
                what: format!(
                    "is a direct {} outside the list ({})",
                    kind_name(dependency.kind),
                    allowed.join(", ")
                ),
                reason: row.reason.to_owned(),
            });
        }
    }
}

fn check_confined(member: &Package, confined: &[Confined], violations: &mut Vec<Violation>) {
    for rule in confined.iter().filter(|rule| rule.owner != member.name) {
        for dependency in member
            .declared
            .iter()
            .filter(|dependency| dependency.name == rule.external)
        {
            violations.push(Violation {
                path: format!("{} -> {}", member.name, dependency.name),
                what: format!(
                    "is a direct {} that only `{}` may have",
                    kind_name(dependency.kind),
                    rule.owner
                ),
                reason: rule.reason.to_owned(),
            });
        }
    }
}

/// The reverse test: a row that nothing needs hides the next mistake.
fn check_table(
    graph: &Graph,
    rows: &[Row],
    confined: &[Confined],
    violations: &mut Vec<Violation>,
) {
    let mut unneeded = |path: String, what: String| {
        violations.push(Violation {
            path,
            what,
            reason: "the table is frozen; a row nothing needs must go from xtask/src/boundary.rs"
                .to_owned(),
        });
    };
    for row in rows {
        let members: Vec<&Package> = graph
            .members()
            .filter(|member| matches(row.name, &member.name))
            .collect();
        if members.is_empty() {
            // Deleting the last tier is deleting its folder, so a pattern may match nothing.
            if !row.name.ends_with('*') {
                unneeded(
                    format!("`{}`", row.name),
                    "has a row but is no crate of the workspace".to_owned(),
                );
            }
            continue;
        }
        for allowed in row.may_use {
            let used = members.iter().any(|member| {
                member
                    .declared
                    .iter()
                    .any(|dependency| dependency.name == *allowed)
            });
            if !used {
                unneeded(
                    format!("{} -> {allowed}", row.name),
                    "is an allowed edge that no manifest has".to_owned(),
                );
            }
        }
    }
    for rule in confined {
        let owner = graph.members().find(|member| member.name == rule.owner);
        let used = owner.is_some_and(|owner| {
            owner
                .declared
                .iter()
                .any(|dependency| dependency.name == rule.external)
        });
        if !used {
            unneeded(
                format!("{} -> {}", rule.owner, rule.external),
                "is reserved for a crate that does not use it".to_owned(),
            );
        }
    }
}

fn kind_name(kind: DependencyKind) -> &'static str {
    match kind {
        DependencyKind::Development => "dev-dependency",
        DependencyKind::Build => "build-dependency",
        _ => "dependency",
    }
}

fn metadata(checkout: &Checkout, platform: Option<&str>) -> Result<Metadata> {
    let mut command = checkout.cargo();
    command.args(["metadata", "--format-version", "1", "--all-features"]);
    if let Some(platform) = platform {
        command.args(["--filter-platform", platform]);
    }
    let output = command
        .output()
        .with_context(|| format!("cannot start `{}`", describe(&command)))?;
    if !output.status.success() {
        bail!(
            "`{}` failed\n{}",
            describe(&command),
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    MetadataCommand::parse(String::from_utf8_lossy(&output.stdout))
        .context("cannot read what `cargo metadata` printed")
}

/// Returns the name of this platform as rustc spells it.
fn host_triple() -> Result<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = std::process::Command::new(rustc)
        .arg("-vV")
        .output()
        .context("cannot start `rustc`")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("`rustc -vV` names no host")?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{Declared, DependencyKind, Graph, Package, check};
    use crate::boundary::{CONFINED, Confined, ROWS, Row};

    const NORMAL: DependencyKind = DependencyKind::Normal;

    /// A crate: name, version, whether it is a member, its dependencies.
    type Planted<'a> = (&'a str, &'a str, bool, &'a [(&'a str, DependencyKind)]);

    fn graph(packages: &[Planted<'_>]) -> Graph {
        let find = |name: &str| {
            packages
                .iter()
                .position(|package| package.0 == name)
                .expect("a package of the graph")
        };
        let packages = packages
            .iter()
            .map(|&(name, version, member, dependencies)| {
                let mut numbers = version
                    .split('.')
                    .map(|part| part.parse().expect("a number"));
                Package {
                    name: name.to_owned(),
                    version: version.to_owned(),
                    release: (
                        numbers.next().expect("major"),
                        numbers.next().expect("minor"),
                    ),
                    folder: name.into(),
                    member,
                    declared: dependencies
                        .iter()
                        .map(|&(to, kind)| Declared {
                            name: to.to_owned(),
                            kind,
                            internal: packages[find(to)].2,
                        })
                        .collect(),
                    reaches: dependencies
                        .iter()
                        .filter(|(_, kind)| *kind != DependencyKind::Development)
                        .map(|&(to, _)| find(to))
                        .collect(),
                }
            });
        Graph {
            packages: packages.collect(),
        }
    }

    fn rows(names: &[&str]) -> Vec<Row> {
        ROWS.iter()
            .filter(|row| names.contains(&row.name))
            .copied()
            .collect()
    }

    #[test]
    fn forbidden_crate_is_found_deep_with_its_whole_path() {
        let graph = graph(&[
            ("memory-core", "1.0.0", true, &[("helper", NORMAL)]),
            ("helper", "0.3.1", false, &[("tokio", NORMAL)]),
            ("tokio", "1.54.1", false, &[]),
        ]);
        let found = check(&graph, &rows(&["memory-core"]), &[]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].path, "memory-core -> helper 0.3.1 -> tokio 1.54.1");
        assert!(found[0].reason.contains("runtime"));
    }

    #[test]
    fn dev_dependencies_do_not_ship() {
        let graph = graph(&[
            (
                "memory-core",
                "1.0.0",
                true,
                &[("tokio", DependencyKind::Development)],
            ),
            ("tokio", "1.54.1", false, &[]),
        ]);
        assert_eq!(check(&graph, &rows(&["memory-core"]), &[]), []);
    }

    #[test]
    fn older_loader_is_tolerated_and_newer_is_not() {
        for (version, count) in [("0.7.4", 0), ("0.8.0", 1), ("1.0.0", 1)] {
            let graph = graph(&[
                ("memory-core", "1.0.0", true, &[("libloading", NORMAL)]),
                ("libloading", version, false, &[]),
            ]);
            assert_eq!(
                check(&graph, &rows(&["memory-core"]), &[]).len(),
                count,
                "{version}"
            );
        }
    }

    #[test]
    fn dev_edge_to_a_tier_is_an_edge() {
        let graph = graph(&[
            (
                "memory-core",
                "1.0.0",
                true,
                &[("tier-v3", DependencyKind::Development)],
            ),
            ("tier-v3", "0.1.0", true, &[("memory-core", NORMAL)]),
        ]);
        let found = check(&graph, &rows(&["memory-core", "tier-*"]), &[]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].path, "memory-core -> tier-v3");
        assert!(found[0].what.contains("dev-dependency"));
    }

    #[test]
    fn tier_names_only_listed_externals() {
        let graph = graph(&[
            (
                "tier-v1",
                "0.1.0",
                true,
                &[
                    ("memory-core", NORMAL),
                    ("serde", NORMAL),
                    ("regex", NORMAL),
                ],
            ),
            ("memory-core", "1.0.0", true, &[]),
            ("serde", "1.0.0", false, &[]),
            ("regex", "1.0.0", false, &[]),
        ]);
        let found = check(&graph, &rows(&["memory-core", "tier-*"]), &[]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].path, "tier-v1 -> regex");
    }

    #[test]
    fn confined_crate_elsewhere_or_nowhere_is_found() {
        let graph = graph(&[
            ("memory-core", "1.0.0", true, &[("abi_stable", NORMAL)]),
            (
                "plugin-host",
                "0.1.0",
                true,
                &[("memory-core", NORMAL), ("abi_stable", NORMAL)],
            ),
            ("abi_stable", "0.11.3", false, &[]),
        ]);
        let found = check(&graph, &rows(&["memory-core", "plugin-host"]), CONFINED);
        let paths: Vec<&str> = found
            .iter()
            .map(|violation| violation.path.as_str())
            .collect();
        assert_eq!(
            paths,
            ["plugin-host -> abi_stable", "memory-core -> async-ffi"],
            "{found:?}"
        );
    }

    #[test]
    fn crate_without_row_and_row_without_need_are_found() {
        let graph = graph(&[
            ("memory-core", "1.0.0", true, &[]),
            ("newcomer", "0.1.0", true, &[]),
        ]);
        let confined: &[Confined] = &[];
        let found = check(&graph, &rows(&["memory-core", "xtask"]), confined);
        let paths: Vec<&str> = found
            .iter()
            .map(|violation| violation.path.as_str())
            .collect();
        assert_eq!(paths, ["`newcomer`", "`xtask`"]);
        let graph = self::graph(&[("plugin-host", "0.1.0", true, &[])]);
        let found = check(&graph, &rows(&["plugin-host"]), confined);
        assert_eq!(found[0].path, "plugin-host -> memory-core");
        assert!(found[0].reason.contains("frozen"));
    }
}
