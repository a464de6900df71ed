//! The `strata` program. Everything it does is in its module `cli`; what it stands on is the library of the same name.

use std::process::ExitCode;

mod cli;

fn main() -> ExitCode {
    cli::run()
}
