//! Holds the whole layout of the border still.
//!
//! `border.txt` lists every type of ours that crosses. A change there is a change of the border, to be made on purpose:
//! run the test with `STRATA_BLESS=1`, and follow the version rules of `docs/abi.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use abi_stable::StableAbi;
use abi_stable::library::RootModule as _;

use super::*;
use crate::abi::module::TierModuleRef;

fn describe(
    layout: &'static TypeLayout,
    seen: &mut BTreeSet<usize>,
    types: &mut BTreeMap<String, String>,
) {
    if !seen.insert(std::ptr::from_ref(layout) as usize) {
        return;
    }
    let mut text = String::new();
    let fields = layout.get_fields().into_iter().flatten();
    for field in fields.chain(layout.phantom_fields()) {
        if field.is_function() {
            for function in field.function_range() {
                let _ = writeln!(text, "    {}: {function:#}", field.name());
            }
        } else {
            let _ = writeln!(text, "    {}: {:#}", field.name(), field.full_type());
        }
        for function in field.function_range() {
            for parameter in function.param_type_layouts.iter() {
                describe(parameter(), seen, types);
            }
            if let Some(answer) = function.return_type_layout() {
                describe(answer(), seen, types);
            }
        }
        describe(field.layout(), seen, types);
    }
    if layout.package() == "memory-core" {
        let key = format!("{}::{:#}", layout.mod_path(), layout.full_type());
        let head = format!(
            "{key}, {} bytes, alignment {}\n",
            layout.size(),
            layout.alignment()
        );
        types.insert(key, head + &text);
    }
}

fn border() -> String {
    let mut types = BTreeMap::new();
    describe(
        <TierModuleRef as StableAbi>::LAYOUT,
        &mut BTreeSet::new(),
        &mut types,
    );
    let texts: Vec<_> = types.into_values().collect();
    format!(
        "border {}\n\n{}",
        TierModuleRef::VERSION_STRINGS,
        texts.join("\n")
    )
}

#[test]
fn the_border_is_the_one_that_was_agreed_on() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/abi/host/layout/border.txt");
    let now = border();
    if std::env::var_os("STRATA_BLESS").is_some() {
        std::fs::write(&path, &now).expect("the snapshot can be written");
    }
    let agreed = std::fs::read_to_string(&path).expect("the snapshot is in the repository");
    let changed = agreed
        .lines()
        .zip(now.lines())
        .find(|(before, after)| before != after);
    assert!(
        agreed == now,
        "the border changed, first at {changed:?}; if that is meant, run this test with STRATA_BLESS=1"
    );
}

#[test]
fn a_border_agrees_with_itself_in_both_directions() {
    let layout = <TierModuleRef as StableAbi>::LAYOUT;
    assert_eq!(check(layout, layout, false), Ok(()));
    assert_eq!(check(layout, layout, true), Ok(()));
}

mod other {
    //! Shapes that disagree with the border, to see what is said about them.

    #![allow(
        dead_code,
        unreachable_pub,
        clippy::pedantic,
        reason = "only the layout of these is looked at, and the derive generates what these lints object to"
    )]

    use abi_stable::StableAbi;
    use abi_stable::std_types::RVec;

    macro_rules! shapes {
        ($score:ty $(, $extra:ident)?) => {
            #[repr(C)]
            #[derive(StableAbi)]
            pub struct Hit {
                pub score: $score,
            }

            #[repr(C)]
            #[derive(StableAbi)]
            #[sabi(kind(Prefix(prefix_ref = ModuleRef)))]
            #[sabi(missing_field(option))]
            pub struct Module {
                pub open: extern "C" fn(u32) -> u32,
                #[sabi(last_prefix_field)]
                pub search: extern "C" fn(RVec<f32>) -> RVec<Hit>,
                $(pub $extra: extern "C" fn() -> u32,)?
            }
        };
    }

    pub mod now {
        use super::*;
        shapes!(f32);
    }
    pub mod later {
        use super::*;
        shapes!(f32, added);
    }
    pub mod broken {
        use super::*;
        shapes!(f64);
    }
}

#[test]
fn a_mismatch_is_one_line_with_the_sides_the_right_way_round() {
    let host = <other::now::ModuleRef as StableAbi>::LAYOUT;
    let plugin = <other::broken::ModuleRef as StableAbi>::LAYOUT;
    for newer in [false, true] {
        let mismatch = check(host, plugin, newer).expect_err("the score differs");
        assert_eq!(
            mismatch.to_string(),
            "interface differs at `Module.search -> Hit.score`: host f32, plugin f64"
        );
        assert!(mismatch.report.lines().count() > 1);
    }
}

#[test]
fn either_side_may_be_the_one_that_has_grown() {
    let now = <other::now::ModuleRef as StableAbi>::LAYOUT;
    let later = <other::later::ModuleRef as StableAbi>::LAYOUT;
    assert_eq!(check(now, later, true), Ok(()), "newer plugin");
    assert_eq!(check(later, now, false), Ok(()), "older plugin");
    assert!(check(later, now, true).is_err(), "the direction matters");
}
