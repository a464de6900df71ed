//! A host in memory for one tier: a scripted story, services over it, and a journal of everything that was asked.
//!
//! `conform` lets tiers meet it, and the tests of the loader take their services from it. It filters by requester as a real host does, answers the same to the same question, and misbehaves when it is told
//! to. What it keeps is keyed as a real host keys it, so that a rule can look at what a tier really did.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use memory_core::env::Clock;
use memory_core::predicates::Tier;
use memory_core::provenance::{Authority, Channel, Trust};
use memory_core::services::{
    Call, CallScope, Capability, KvScope, LogKind, LogRow, ResidentEntry, ServiceError,
    ServiceResult, Services,
};
use memory_core::text::section::SectionId;
use memory_core::text::slug::Slug;
use memory_core::time::Timestamp;
use tokio::sync::watch;

pub use self::fault::{Fault, Nonsense};
pub use self::story::Story;
pub(crate) use self::story::{Mark, Page, TOPICS, marks, topic};

mod fault;
mod search;
mod services;
mod story;

/// Text by which a panic of this world is told from one that nobody planned.
pub(crate) const PLANNED_PANIC: &str = "the world was told to panic";

/// How often a service that waits looks whether anybody still waits for it.
const LOOK: Duration = Duration::from_millis(1);

/// One question that a tier asked.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The service and its method, as in `pages.count`.
    pub method: &'static str,
    /// The host's own number of the call.
    pub token: u64,
    /// Whose call it is.
    pub scope: CallScope,
    /// The text that was searched for, when it was a search.
    pub text: String,
    /// Whether it changes something.
    pub writes: bool,
    /// Whether it was answered with an error.
    pub refused: bool,
}

/// What a world keeps.
#[derive(Debug, Default)]
struct Kept {
    resident: Vec<(String, ResidentEntry)>,
    rows: Vec<(String, LogRow)>,
    values: BTreeMap<(String, String), String>,
    journal: Vec<Asked>,
}

/// The world.
#[derive(Debug)]
pub struct World {
    story: Story,
    tier: Tier,
    /// Whether untrusted sections are handed out, labelled as such.
    label_untrusted: bool,
    kept: Mutex<Kept>,
    fault: Mutex<Fault>,
    /// The conversation whose questions are not answered until it is released.
    held: watch::Sender<Option<String>>,
    in_flight: AtomicUsize,
    now: AtomicI64,
}

/// Locks; a panic that a test planned must not spoil what is behind the lock.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    /// Returns a world in which nothing has happened yet.
    pub fn new(story: Story, tier: Tier) -> Arc<Self> {
        Arc::new(Self::plain(story, tier))
    }

    /// Returns a world that hands out untrusted sections as well, labelled.
    pub(crate) fn labelling(story: Story, tier: Tier) -> Arc<Self> {
        Arc::new(Self {
            label_untrusted: true,
            ..Self::plain(story, tier)
        })
    }

    fn plain(story: Story, tier: Tier) -> Self {
        Self {
            story,
            tier,
            label_untrusted: false,
            kept: Mutex::default(),
            fault: Mutex::default(),
            held: watch::Sender::new(None),
            in_flight: AtomicUsize::new(0),
            now: AtomicI64::new(1_001 * 86_400_000),
        }
    }

    pub(crate) const fn story(&self) -> &Story {
        &self.story
    }

    /// Returns every service.
    pub fn services(self: &Arc<Self>) -> Services {
        Services {
            pages: Some(self.clone()),
            sections: Some(self.clone()),
            dense: Some(self.clone()),
            lexical: Some(self.clone()),
            pkb: Some(self.clone()),
            residency: Some(self.clone()),
            log: Some(self.clone()),
            kv: Some(self.clone()),
            messages: Some(self.clone()),
            clock: Some(self.clone()),
            notices: Some(self.clone()),
        }
    }

    /// Returns every service but one.
    pub(crate) fn services_without(self: &Arc<Self>, capability: Capability) -> Services {
        let mut services = self.services();
        match capability {
            Capability::Pages => services.pages = None,
            Capability::Sections => services.sections = None,
            Capability::Dense => services.dense = None,
            Capability::Lexical => services.lexical = None,
            Capability::Pkb => services.pkb = None,
            Capability::Residency => services.residency = None,
            Capability::Log => services.log = None,
            Capability::Kv => services.kv = None,
            Capability::Messages => services.messages = None,
            Capability::Clock => services.clock = None,
            Capability::Notices => services.notices = None,
        }
        services
    }

    /// Makes the world misbehave in a way, or stop.
    pub fn set_fault(&self, fault: Fault) {
        *locked(&self.fault) = fault;
    }

    /// Keeps the questions of a conversation unanswered until [`Self::release`].
    pub(crate) fn hold(&self, conversation: &str) {
        self.held.send_replace(Some(conversation.to_owned()));
    }

    pub(crate) fn release(&self) {
        self.held.send_replace(None);
    }

    /// Returns how many questions are being answered.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::SeqCst)
    }

    /// Returns what is in a conversation's context.
    pub(crate) fn resident(&self, conversation: &str) -> Vec<ResidentEntry> {
        let kept = locked(&self.kept);
        let own = kept.resident.iter().filter(|(of, _)| of == conversation);
        own.map(|(_, entry)| entry.clone()).collect()
    }

    /// Puts something into a conversation's context, as another tier would have done.
    pub fn plant_resident(
        &self,
        conversation: &str,
        tier: Tier,
        slug: Slug,
        section: Option<SectionId>,
    ) {
        let entry = ResidentEntry {
            slug,
            section,
            message: "planted".to_owned(),
            tier,
            bytes: 1,
            at: self.now(),
        };
        locked(&self.kept)
            .resident
            .push((conversation.to_owned(), entry));
    }

    /// Forgets what is in a conversation's context, as a host does before it tells a tier of an event.
    pub(crate) fn forget_context(&self, conversation: &str) {
        locked(&self.kept)
            .resident
            .retain(|(of, _)| of != conversation);
    }

    /// Copies what is in context, as a host does for a full fork.
    pub(crate) fn copy_context(&self, from: &str, to: &str) {
        let copies: Vec<_> = self
            .resident(from)
            .into_iter()
            .map(|entry| (to.to_owned(), entry))
            .collect();
        locked(&self.kept).resident.extend(copies);
    }

    /// Forgets every conversation, as a host does.
    pub(crate) fn forget_conversations(&self) {
        let mut kept = locked(&self.kept);
        kept.resident.clear();
        kept.rows.clear();
        kept.values.retain(|(owner, _), _| owner.is_empty());
    }

    /// Returns what is kept for a conversation in the key-value store.
    pub(crate) fn values_of(&self, conversation: &str) -> Vec<String> {
        let kept = locked(&self.kept);
        let own = kept.values.keys().filter(|(of, _)| of == conversation);
        own.map(|(_, key)| key.clone()).collect()
    }

    /// Returns the rows of one kind.
    pub(crate) fn rows(&self, kind: LogKind) -> Vec<LogRow> {
        let kept = locked(&self.kept);
        let rows = kept.rows.iter().map(|(_, row)| row);
        rows.filter(|row| row.kind == kind).cloned().collect()
    }

    /// Returns what was asked since the last time, oldest first.
    pub fn take_journal(&self) -> Vec<Asked> {
        std::mem::take(&mut locked(&self.kept).journal)
    }

    /// Returns whether a requester may see a page: what the hosts of this product decide.
    pub(crate) fn may_see(&self, scope: &CallScope, page: &Page) -> bool {
        let channel = match scope.requester.authority {
            Authority::None => false,
            Authority::Owner => {
                page.channel == Channel::Global || scope.channels.contains(&page.channel)
            }
            Authority::Paired => {
                page.channel != Channel::Global && scope.channels.contains(&page.channel)
            }
        };
        channel && (page.trust == Trust::Trusted || self.label_untrusted)
    }

    /// Returns whether a requester may see what belongs to no channel.
    fn may_see_global(scope: &CallScope) -> bool {
        scope.requester.authority == Authority::Owner
    }

    /// Begins to answer: notes the question, waits as long as it must, and refuses when told to.
    async fn gate(&self, call: &Call, question: Question<'_>) -> ServiceResult<Option<Nonsense>> {
        let _answering = Answering::new(&self.in_flight);
        let fault = *locked(&self.fault);
        let place = {
            let mut kept = locked(&self.kept);
            kept.journal.push(Asked {
                method: question.method,
                token: call.control().token(),
                scope: call.scope().clone(),
                text: question.text.to_owned(),
                writes: question.writes,
                refused: false,
            });
            kept.journal.len() - 1
        };
        let answer = self.decide(call, &question, fault).await;
        if answer.is_err()
            && let Some(asked) = locked(&self.kept).journal.get_mut(place)
        {
            asked.refused = true;
        }
        answer
    }

    async fn decide(
        &self,
        call: &Call,
        question: &Question<'_>,
        fault: Fault,
    ) -> ServiceResult<Option<Nonsense>> {
        self.wait(call, fault).await?;
        if call.is_cancelled() {
            return Err(ServiceError::Cancelled);
        }
        let own = question.capability;
        let failed = || ServiceError::Failed {
            reason: format!("`{}` was told to fail", question.method),
        };
        match fault {
            Fault::Fails(capability) if capability == own => Err(failed()),
            Fault::RecordFails if question.method == "residency.record" => Err(failed()),
            Fault::Unavailable(capability) if capability == own => Err(ServiceError::Unavailable {
                reason: format!("`{}` was told to be away", question.method),
            }),
            Fault::ReadOnly if question.writes => Err(ServiceError::Unavailable {
                reason: "this world was opened for reading only".to_owned(),
            }),
            Fault::Panics(capability) if capability == own => panic!("{PLANNED_PANIC}"),
            Fault::Nonsense(capability, nonsense) if capability == own => Ok(Some(nonsense)),
            _ => Ok(None),
        }
    }

    /// Waits while the conversation is held or answers are slow, but no longer than anybody wants the answer.
    async fn wait(&self, call: &Call, fault: Fault) -> ServiceResult<()> {
        let start = tokio::time::Instant::now();
        let mut held = self.held.subscribe();
        loop {
            let is_held = held
                .borrow_and_update()
                .as_ref()
                .is_some_and(|held| *held == call.scope().conversation);
            let is_slow = matches!(fault, Fault::Slow(time) if start.elapsed() < time);
            if !is_held && !is_slow {
                return Ok(());
            }
            if call.is_cancelled() {
                return Err(ServiceError::Cancelled);
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Returns whether a capability was told to answer with nothing.
    fn is_empty(&self, capability: Capability) -> bool {
        *locked(&self.fault) == Fault::Empty(capability)
    }

    fn owner(call: &Call, scope: KvScope) -> String {
        match scope {
            KvScope::Conversation => call.scope().conversation.clone(),
            KvScope::Assistant => String::new(),
        }
    }
}

impl Clock for World {
    fn now(&self) -> Timestamp {
        match *locked(&self.fault) {
            Fault::Nonsense(Capability::Clock, Nonsense::Numbers) => {
                Timestamp::from_millis(i64::MIN)
            }
            Fault::Nonsense(Capability::Clock, _) => Timestamp::from_millis(i64::MAX),
            _ => Timestamp::from_millis(self.now.load(Ordering::SeqCst)),
        }
    }
}

/// A question on its way into the world.
struct Question<'a> {
    capability: Capability,
    method: &'static str,
    text: &'a str,
    writes: bool,
}

/// Counts a question while it is being answered, also when nobody waits for the answer any more.
struct Answering<'a>(&'a AtomicUsize);

impl<'a> Answering<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for Answering<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
