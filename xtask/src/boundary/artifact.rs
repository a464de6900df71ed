//! The rules about a built plugin: what it exports, what it needs, how large it is.

use anyhow::{Context as _, Result};
use object::{BinaryFormat, NameOrOrdinal, Object as _};

use super::Violation;
use crate::output::human_bytes;

/// The size that a stripped plugin must stay under.
const SIZE_LIMIT: u64 = 2_000_000;

/// The shared libraries that a plugin may need, by the start of their names; every Linux has them.
const LIBRARIES: [&str; 4] = ["libc.so.", "libgcc_s.so.", "libm.so.", "ld-linux"];

/// What matters about a library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) exports: Vec<String>,
    /// The shared libraries it names; empty where the format is not ELF, whose names the rule knows.
    pub(crate) needed: Vec<String>,
    pub(crate) bytes: u64,
}

/// Reads the facts out of a library.
pub(crate) fn inspect(library: &[u8]) -> Result<Facts> {
    let file = object::File::parse(library).context("cannot parse it")?;
    let mut exports = Vec::new();
    for export in file.exports().context("cannot read its exports")? {
        exports.push(match export.context("cannot read an export")?.name() {
            NameOrOrdinal::Name(name) => String::from_utf8_lossy(name).into_owned(),
            NameOrOrdinal::Ordinal(ordinal) => format!("#{ordinal}"),
        });
    }
    exports.sort();
    let mut needed = Vec::new();
    if file.format() == BinaryFormat::Elf {
        for import in file
            .import_libraries()
            .context("cannot read what it needs")?
        {
            let import = import.context("cannot read what it needs")?;
            needed.push(String::from_utf8_lossy(import.name()).into_owned());
        }
    }
    Ok(Facts {
        exports,
        needed,
        bytes: library.len() as u64,
    })
}

/// Checks the facts of the library called `name`.
pub(crate) fn check(name: &str, facts: &Facts) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut violation = |what: String, reason: &str| {
        violations.push(Violation {
            path: name.to_owned(),
            what,
            reason: reason.to_owned(),
        });
    };
    if facts.exports.len() != 1 {
        let listed: Vec<&str> = facts.exports.iter().take(5).map(String::as_str).collect();
        let more = if facts.exports.len() > listed.len() {
            ", …"
        } else {
            ""
        };
        violation(
            format!(
                "exports {} symbols instead of one: {}{more}",
                facts.exports.len(),
                listed.join(", ")
            ),
            "the root module is the whole border; a second symbol is an interface nobody versions",
        );
    }
    for library in &facts.needed {
        if !LIBRARIES.iter().any(|allowed| library.starts_with(allowed)) {
            violation(
                format!("needs the shared library `{library}`"),
                "a plugin must load on every Linux as it is, so it needs only the C library and the unwinder",
            );
        }
    }
    if facts.bytes >= SIZE_LIMIT {
        violation(
            format!(
                "is {}, the limit is {}",
                human_bytes(facts.bytes),
                human_bytes(SIZE_LIMIT)
            ),
            "a plugin is read, hashed and staged at every first load; size means something heavy slipped in",
        );
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::{Facts, check, inspect};

    fn facts() -> Facts {
        Facts {
            exports: vec!["root".to_owned()],
            needed: vec![
                "libgcc_s.so.1".to_owned(),
                "libc.so.6".to_owned(),
                "ld-linux-x86-64.so.2".to_owned(),
            ],
            bytes: 500_000,
        }
    }

    #[test]
    fn proper_plugin_passes() {
        assert_eq!(check("p.so", &facts()), []);
    }

    #[test]
    fn foreign_library_and_size_are_found() {
        let heavy = Facts {
            needed: vec!["libssl.so.3".to_owned()],
            bytes: 2_000_000,
            ..facts()
        };
        let found = check("target/plugins/p.so", &heavy);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].what.contains("`libssl.so.3`"));
        assert!(found[1].what.contains("2.0 MB"));
        assert_eq!(found[0].path, "target/plugins/p.so");
    }

    #[test]
    fn text_is_no_library() {
        assert!(inspect(b"not a library").is_err());
    }

    /// A real library that exports two functions, made with the C compiler that every build of the workspace needs.
    #[cfg(target_os = "linux")]
    #[test]
    fn second_exported_symbol_is_found_in_a_real_library() {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let source = folder.path().join("two.c");
        let library = folder.path().join("libtwo.so");
        std::fs::write(
            &source,
            "int first(void) { return 1; }\nint second(void) { return 2; }\n",
        )
        .expect("write");
        let status = std::process::Command::new("cc")
            .args(["-shared", "-fPIC", "-o"])
            .args([&library, &source])
            .status()
            .expect("a C compiler");
        assert!(status.success());
        let facts = inspect(&std::fs::read(&library).expect("read")).expect("a library");
        assert_eq!(facts.exports, ["first", "second"]);
        let found = check("target/plugins/libtwo.so", &facts);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0]
                .what
                .contains("exports 2 symbols instead of one: first, second"),
            "{found:?}"
        );
        assert!(found[0].reason.contains("border"));
    }
}
