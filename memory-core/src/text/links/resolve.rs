//! Decides which page a link means, and lists the links that mean none.
//!
//! Names are tried in the order in which a person would expect them to win: a slug written as such, an alias (the
//! page's original file name is one), a title, the slug that the name makes, and last the end of a path, if only one
//! page ends so. Two pages that answer to the name at the same step make it ambiguous, and an ambiguous name is
//! reported and never guessed: a wrong edge misleads more than a missing one.

use std::collections::{BTreeSet, HashMap};

use serde::{Deserialize, Serialize};

use super::{Link, LinkKind};
use crate::text::fold_name;
use crate::text::slug::{Slug, without_ending};

/// Holds the names by which a page can be linked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageNames {
    /// The page.
    pub slug: Slug,
    /// Its title.
    pub title: Option<String>,
    /// Its aliases, and its original file name or path where that is another one.
    pub aliases: Vec<String>,
}

/// Says which page a link means.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resolution {
    /// Exactly this page.
    Found(Slug),
    /// One of several pages, ordered by slug; nobody can say which.
    Ambiguous(Vec<Slug>),
    /// No page of the workspace.
    Missing,
}

/// Finds pages by name. Building it is linear in the names; a look-up does not depend on the number of pages.
#[derive(Clone, Debug, Default)]
pub struct LinkResolver {
    slugs: BTreeSet<Slug>,
    aliases: HashMap<String, BTreeSet<Slug>>,
    titles: HashMap<String, BTreeSet<Slug>>,
    last_segments: HashMap<String, BTreeSet<Slug>>,
}

impl LinkResolver {
    /// Builds a resolver for the pages of a workspace, synthetic ones included.
    #[must_use]
    pub fn new(pages: impl IntoIterator<Item = PageNames>) -> Self {
        let mut resolver = Self::default();
        for PageNames {
            slug,
            title,
            aliases,
        } in pages
        {
            for alias in aliases {
                resolver
                    .aliases
                    .entry(name_key(&alias))
                    .or_default()
                    .insert(slug.clone());
            }
            if let Some(title) = title {
                resolver
                    .titles
                    .entry(name_key(&title))
                    .or_default()
                    .insert(slug.clone());
            }
            resolver
                .last_segments
                .entry(slug.last_segment().to_owned())
                .or_default()
                .insert(slug.clone());
            resolver.slugs.insert(slug);
        }
        resolver
    }

    /// Returns whether there is a page with this slug.
    #[must_use]
    pub fn contains(&self, slug: &Slug) -> bool {
        self.slugs.contains(slug)
    }

    /// Returns what a link on the page `from` means.
    ///
    /// A path in a markdown link, and one that starts with `./` or `../`, is first read from the page's own folder.
    #[must_use]
    pub fn resolve(&self, from: &Slug, link: &Link) -> Resolution {
        let target = link.target.as_str();
        let is_relative = target.starts_with("./") || target.starts_with("../");
        if is_relative || link.kind == LinkKind::Markdown && !target.starts_with('/') {
            let path = from
                .parent()
                .map_or_else(|| target.to_owned(), |folder| format!("{folder}/{target}"));
            if stays_inside(&path) {
                let slug = Slug::from_path(&path);
                if self.slugs.contains(&slug) {
                    return Resolution::Found(slug);
                }
            }
            if is_relative {
                return Resolution::Missing;
            }
        }
        self.resolve_name(target)
    }

    /// Returns which page a name means, wherever it is written.
    #[must_use]
    pub fn resolve_name(&self, name: &str) -> Resolution {
        let name = without_ending(name.trim());
        if let Ok(slug) = Slug::parse(name)
            && self.slugs.contains(&slug)
        {
            return Resolution::Found(slug);
        }
        let key = name_key(name);
        if key.is_empty() {
            return Resolution::Missing;
        }
        if let Some(pages) = self.aliases.get(&key).or_else(|| self.titles.get(&key)) {
            return one_of(pages.iter().cloned());
        }
        let path = Slug::from_path(name);
        if self.slugs.contains(&path) {
            return Resolution::Found(path);
        }
        match self.resolve_suffix(&path) {
            Resolution::Missing => self.resolve_suffix(&Slug::from_title(name)),
            found => found,
        }
    }

    /// Finds the pages whose path ends with the segments of `end`.
    fn resolve_suffix(&self, end: &Slug) -> Resolution {
        let Some(pages) = self.last_segments.get(end.last_segment()) else {
            return Resolution::Missing;
        };
        let ends_so = |slug: &&Slug| {
            slug.as_str()
                .strip_suffix(end.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
        };
        one_of(pages.iter().filter(ends_so).cloned())
    }
}

fn one_of(pages: impl Iterator<Item = Slug>) -> Resolution {
    let mut pages: Vec<Slug> = pages.collect();
    match pages.len() {
        0 => Resolution::Missing,
        1 => Resolution::Found(pages.remove(0)),
        _ => Resolution::Ambiguous(pages),
    }
}

fn name_key(name: &str) -> String {
    fold_name(without_ending(name.trim()))
}

/// Returns whether a relative path never climbs above the root.
fn stays_inside(path: &str) -> bool {
    let mut depth = 0_usize;
    for part in path.split(['/', '\\']) {
        match part {
            "" | "." => {}
            ".." if depth == 0 => return false,
            ".." => depth -= 1,
            _ => depth += 1,
        }
    }
    true
}

/// Holds a link that leads to no page, or to more than one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Dangling {
    /// Page with the link.
    pub from: Slug,
    /// Target as it is written.
    pub target: String,
    /// Notation of the link.
    pub kind: LinkKind,
    /// Pages that the link may mean; none if it is missing.
    pub candidates: Vec<Slug>,
}

/// Returns the links that mean no page or more than one: each once, ordered by page, target and kind.
///
/// A target that does not begin like a name (`[[ -f file ]]` in a remark about a shell) is no link.
#[must_use]
pub fn dangling<'a>(
    pages: impl IntoIterator<Item = (&'a Slug, &'a [Link])>,
    resolver: &LinkResolver,
) -> Vec<Dangling> {
    let mut found = BTreeSet::new();
    for (from, links) in pages {
        for link in links.iter().filter(|link| begins_like_a_name(&link.target)) {
            let candidates = match resolver.resolve(from, link) {
                Resolution::Found(_) => continue,
                Resolution::Ambiguous(candidates) => candidates,
                Resolution::Missing => Vec::new(),
            };
            let target = link.target.clone();
            found.insert(Dangling {
                from: from.clone(),
                target,
                kind: link.kind,
                candidates,
            });
        }
    }
    found.into_iter().collect()
}

fn begins_like_a_name(target: &str) -> bool {
    target.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::links::{parse_links_entry, parse_wikilink};

    fn resolver() -> LinkResolver {
        let page = |slug: &str, title: &str, aliases: &[&str]| PageNames {
            slug: Slug::parse(slug).unwrap(),
            title: (!title.is_empty()).then(|| title.to_owned()),
            aliases: aliases.iter().map(|&alias| alias.to_owned()).collect(),
        };
        LinkResolver::new([
            page("people/alice-smith", "Alice", &["Alice Smith"]),
            page("people/bob", "Bob", &["Robert", "The Boss"]),
            page("work/the-boss", "", &[]),
            page("work/alice", "", &[]),
            page("foo", "Foo", &["Foo"]),
            page("foo-0a1b2c3d", "Foo!", &["foo!"]),
            page("a/notes", "Notes", &[]),
            page("b/notes", "Notes", &[]),
            page("coupon-enable-disable", "Coupon Enable/Disable", &[]),
            page("大语言模型", "", &["大语言模型 概述"]),
            page("skills/search", "", &[]),
        ])
    }

    fn found(slug: &str) -> Resolution {
        Resolution::Found(Slug::parse(slug).unwrap())
    }

    #[test]
    fn names_resolve_in_the_order_a_person_expects() {
        let resolver = resolver();
        for (name, expected) in [
            ("people/bob", found("people/bob")),
            ("people/Bob.md", found("people/bob")),
            ("robert", found("people/bob")),
            ("THE  BOSS", found("people/bob")),
            ("the-boss", found("work/the-boss")),
            ("Alice", found("people/alice-smith")),
            ("alice-smith", found("people/alice-smith")),
            ("bob", found("people/bob")),
            ("foo!", found("foo-0a1b2c3d")),
            ("Foo?", found("foo")),
            ("Coupon Enable/Disable", found("coupon-enable-disable")),
            ("coupon: enable-disable", found("coupon-enable-disable")),
            ("大语言模型", found("大语言模型")),
            ("skills/search", found("skills/search")),
            ("b/Notes", found("b/notes")),
            ("nobody", Resolution::Missing),
            ("ob", Resolution::Missing),
            ("", Resolution::Missing),
            (".md", Resolution::Missing),
        ] {
            assert_eq!(resolver.resolve_name(name), expected, "{name}");
        }
        let Resolution::Ambiguous(pages) = resolver.resolve_name("notes") else {
            panic!("one was guessed")
        };
        assert_eq!(
            pages.iter().map(Slug::as_str).collect::<Vec<_>>(),
            ["a/notes", "b/notes"]
        );
    }

    #[test]
    fn paths_are_read_from_the_page() {
        let resolver = resolver();
        let from = Slug::parse("work/alice").unwrap();
        let link = |kind: LinkKind, target: &str| Link {
            kind,
            ..parse_wikilink(target).unwrap()
        };
        for (kind, target, expected) in [
            (LinkKind::Markdown, "the-boss.md", found("work/the-boss")),
            (LinkKind::Markdown, "../people/Bob.md", found("people/bob")),
            (LinkKind::Markdown, "people/Bob.md", found("people/bob")),
            (LinkKind::Markdown, "/people/bob.md", found("people/bob")),
            (
                LinkKind::Markdown,
                "../../people/bob.md",
                Resolution::Missing,
            ),
            (LinkKind::Wikilink, "./the-boss", found("work/the-boss")),
            (LinkKind::Wikilink, "../foo", found("foo")),
            (LinkKind::Wikilink, "./bob", Resolution::Missing),
        ] {
            assert_eq!(
                resolver.resolve(&from, &link(kind, target)),
                expected,
                "{target}"
            );
        }
    }

    #[test]
    fn dangling_links_are_listed_once_and_in_order() {
        let (first, second) = (Slug::parse("b").unwrap(), Slug::parse("a").unwrap());
        let links: Vec<_> = ["zzz", "bob", "aaa — x", "notes", "zzz", " -f foo "]
            .iter()
            .filter_map(|entry| parse_links_entry(entry))
            .chain(parse_wikilink("aaa"))
            .collect();
        let resolver = resolver();
        let found = dangling([(&first, &links[..]), (&second, &links[..1])], &resolver);
        let shown: Vec<_> = found
            .iter()
            .map(|d| {
                format!(
                    "{} {} {} {}",
                    d.from,
                    d.target,
                    d.kind.as_str(),
                    d.candidates.len()
                )
            })
            .collect();
        assert_eq!(
            shown,
            [
                "a zzz links 0",
                "b aaa links 0",
                "b aaa wikilink 0",
                "b notes links 2",
                "b zzz links 0"
            ]
        );
    }
}
