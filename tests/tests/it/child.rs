//! A test in a process of its own: for what a process has only one of, such as its memory, its environment and its log.
//!
//! The child is this very program, told to run one test that is otherwise ignored.

use std::process::{Command, Stdio};

/// Held by a test that keeps the whole machine busy: two of them at once only show how slow it can get.
pub(crate) static MACHINE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Runs an ignored test of this program with more environment, and returns what it printed. Fails when it fails.
pub(crate) fn run(test: &str, environment: &[(&str, &str)]) -> String {
    let program = std::env::current_exe().expect("a program knows where it is");
    let output = Command::new(program)
        .args([test, "--exact", "--ignored", "--nocapture"])
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success() && said.contains("1 passed"),
        "`{test}` failed in its own process: {}\n{said}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    said
}

/// Returns a figure that a child printed as `name=value`.
pub(crate) fn figure(said: &str, name: &str) -> f64 {
    let value = said
        .lines()
        .find_map(|line| line.split_once(&format!("{name}="))?.1.split(' ').next());
    value
        .and_then(|value| value.trim().parse().ok())
        .unwrap_or_else(|| panic!("no `{name}` in {said}"))
}
