//! How far a newcomer has come, told to whoever waits for it.
//!
//! Loading and making an instance happen on a thread that nobody can stop. When it is late, the wait ends with an error,
//! and that has to say where it is.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::build::Build;

/// A step of loading and making an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Step {
    /// The library is read, checked and copied.
    #[default]
    Read,
    /// The system's loader opens it, or another thread has it open it and has not come back; its initialisers run.
    Open,
    /// It is asked for its manifest.
    Manifest,
    /// It is told of the host's log.
    Init,
    /// It makes the instance, or others of this build are being made and do not end.
    Create,
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Read => "reading the library",
            Self::Open => "opening the library",
            Self::Manifest => "manifest",
            Self::Init => "init",
            Self::Create => "create",
        })
    }
}

/// The step that a loading thread is in, and the build whose instance it makes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress(Arc<Mutex<(Step, Option<Arc<Build>>)>>);

impl Progress {
    /// Notes that a step begins.
    pub(crate) fn begin(&self, step: Step) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0 = step;
    }

    /// Notes that an instance of a build is about to be made: from now on that build has the thread.
    pub(crate) fn begin_create(&self, build: &Arc<Build>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) =
            (Step::Create, Some(Arc::clone(build)));
    }

    /// Returns the step.
    pub(crate) fn step(&self) -> Step {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0
    }

    /// Returns the build that has the thread, if one has.
    pub(crate) fn build(&self) -> Option<Arc<Build>> {
        let progress = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        progress.1.clone()
    }
}
