//! Several processes with one assistant: the one that writes, and those that hand it what they want written.
//!
//! The others are the built program. The writer is this process, or this very test program run once more where it has to
//! be killed.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::ops::ControlFlow;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use memory_core::env::Fs;
use memory_core::store::StateStore as _;
use memory_substrate::fs::RealFs;
use memory_substrate::workspace::{AssistantId, Workspace};
use serde_json::json;
use strata::{
    Access, Assistant, Authority, Channel, ConversationEvent, EmbedderChoice, EraseTarget,
    ErrorKind, IngestOptions, IngestSource, InitOptions, Injection, Origin, RememberInput,
    SocketUse, Strata, StrataOptions, TurnEnd, TurnIds, TurnInput,
};

use crate::fixture::Fixture;

const QUESTION: &str = "When is the archive copied to the tape robot?";

fn note(text: &str) -> RememberInput {
    RememberInput {
        texts: vec![text.to_owned()],
        origin: Origin::UserDirect,
        authority: Authority::Owner,
        channel: Channel::Global,
    }
}

fn workspace(home: &Path) -> Workspace {
    let fs: Arc<dyn Fs> = Arc::new(RealFs);
    let id = AssistantId::new("default").unwrap();
    Workspace::open(home, &id, fs).unwrap()
}

/// Returns how often something stands in the buffer, for whoever reads it now.
async fn kept(home: &Path, text: &str) -> usize {
    let options = StrataOptions {
        embedder: EmbedderChoice::None,
        ..StrataOptions::new(home)
    };
    let reader = open(&options, Access::ReadOnly).await;
    let workspace = reader.store().await.unwrap().workspace();
    let buffer = workspace.fs().read(&workspace.buffer_path());
    let buffer = String::from_utf8(buffer.unwrap_or_default()).unwrap();
    buffer.matches(text).count()
}

/// A home folder with an assistant, without plugins and without a model.
async fn bare() -> (tempfile::TempDir, StrataOptions) {
    let home = tempfile::tempdir().unwrap();
    let options = StrataOptions {
        embedder: EmbedderChoice::None,
        ..StrataOptions::new(home.path())
    };
    let strata = Strata::open(options.clone()).unwrap();
    strata
        .init("default", InitOptions::default())
        .await
        .unwrap();
    (home, options)
}

async fn open(options: &StrataOptions, access: Access) -> Assistant {
    let strata = Strata::open(options.clone()).unwrap();
    strata.assistant("default", access).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_write_through_the_process_that_has_the_lock() {
    let fixture = Fixture::new();
    let home = fixture.path("home");
    let assistant = fixture.assistant().await;

    let data = fixture.data(&["remember", "the boiler was serviced"]);
    assert!(
        data["entries"][0]["id"].is_string() && data["left"].is_null(),
        "{data}"
    );
    assert_eq!(kept(&home, "the boiler was serviced").await, 1);

    // The same request again, from a new process and from the writer itself, is the same entry.
    let keyed = ["remember", "keys hang in the hall", "--key", "k1"];
    let first = fixture.data(&keyed);
    let id = first["entries"][0]["id"].as_str().unwrap();
    assert_eq!(fixture.data(&keyed)["entries"][0]["id"], id);
    let again = assistant
        .remember_once(note("keys hang in the hall"), "k1")
        .await
        .unwrap();
    assert_eq!(again.entries[0].id, id);
    assert_eq!(kept(&home, "keys hang in the hall").await, 1);
    fixture
        .run(&["remember", "something else", "--key", "k1"])
        .expect(2);

    fixture.note("Kiln.md", "The kiln is lit with a spark plug.\n");
    let notes = fixture.path("notes");
    let ingested = fixture.run(&["ingest", notes.to_str().unwrap()]).expect(0);
    assert!(ingested.out.contains("wrote 1 page"), "{ingested:?}");
    assert!(ingested.out.contains("1 section of 1 page"), "{ingested:?}");
    let refused = fixture.run(&["ingest", "/nowhere/at/all"]);
    assert_eq!(refused.code, Some(3), "{refused:?}");
    fixture.run(&["reindex"]).expect(0);
    let found = assistant
        .begin_turn(TurnInput::owner("kiln", "How is the kiln lit?"))
        .await;
    assert!(found.text().contains("spark plug"), "{}", found.text());

    let attached = fixture.run(&["context", QUESTION, "--attach"]).expect(0);
    assert!(attached.out.contains("every Sunday"), "{attached:?}");
    assert_eq!(attached.err, "");
    let again = assistant
        .begin_turn(TurnInput::owner("default", QUESTION))
        .await;
    assert_eq!(again.trace.turn, 2);
    assert!(
        !again.text().contains("every Sunday") && !again.trace.already_resident.is_empty(),
        "{}",
        again.text()
    );
    assistant.close().await;
    assert!(!fixture.workspace("run/socket").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn notes_of_many_processes_at_once_are_all_kept_once() {
    let fixture = Fixture::new();
    let home = fixture.path("home");
    let assistant = fixture.assistant().await;
    let text = |number: usize| format!("note number {number} of many.");
    let children: Vec<Child> = (0..12)
        .map(|number| {
            let mut command = fixture.command(&["remember", &text(number), "--json"]);
            command.stdout(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for child in children {
        let ended = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ended.stdout).into_owned();
        assert!(
            ended.status.success() && !said.contains("\"left\""),
            "{said}"
        );
    }
    for number in 0..12 {
        assert_eq!(kept(&home, &text(number)).await, 1);
    }
    drop(assistant);
}

/// This program, run once more, as a process that writes.
struct Writer {
    child: Child,
}

impl Writer {
    fn start(home: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["socket::a_process_that_writes", "--exact", "--ignored"])
            .args(["--nocapture"])
            .env("STRATA_TEST_HOME", home)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
        let mut lines = lines.map(Result::unwrap);
        assert!(lines.any(|line| line.ends_with("writing now")));
        Self { child }
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[test]
#[ignore = "it is the other process of another test"]
fn a_process_that_writes() {
    let home = PathBuf::from(std::env::var_os("STRATA_TEST_HOME").unwrap());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let options = StrataOptions {
            embedder: EmbedderChoice::None,
            ..StrataOptions::new(home)
        };
        let assistant = open(&options, Access::ReadWrite).await;
        println!("writing now");
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        assistant.close().await;
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_asked_a_writer_that_was_killed_writes_itself() {
    let (home, options) = bare().await;
    let writer = Writer::start(home.path());
    let assistant = open(&options, Access::ReadWrite).await;
    let first = assistant
        .remember_once(note("said once"), "k1")
        .await
        .unwrap();
    let holder = workspace(home.path()).lock_holder().unwrap().unwrap();
    assert_eq!(holder.pid, writer.child.id());
    let socket = holder.socket.unwrap();
    writer.kill();
    assert!(socket.exists(), "a killed process removes nothing");

    // As after an answer that was lost.
    let again = assistant
        .remember_once(note("said once"), "k1")
        .await
        .unwrap();
    assert_eq!(again.entries, first.entries);
    assistant.remember(note("said later")).await.unwrap();
    assert_eq!(kept(home.path(), "said once").await, 1);
    assert_eq!(kept(home.path(), "said later").await, 1);
    let holder = workspace(home.path()).lock_holder().unwrap().unwrap();
    assert_eq!(holder.pid, std::process::id());
    assert_eq!(holder.socket.unwrap(), socket);

    // It listens in its turn.
    let third = open(&options, Access::ReadWrite).await;
    let same = third.remember_once(note("said once"), "k1").await.unwrap();
    assert_eq!(same.entries, first.entries);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_is_begun_attached_and_ended_in_another_process() {
    let fixture = Fixture::new();
    let here = fixture.assistant().await;
    let there = fixture.reopen(Access::ReadWrite).await;
    let injection = there.begin_turn(TurnInput::owner("c", QUESTION)).await;
    assert!(injection.text().contains("every Sunday"), "{injection:?}");
    there.attached(&injection).await.unwrap();
    there.attached(&injection).await.unwrap();
    let ended = there
        .end_turn(&injection, TurnEnd::reply("On Sundays."))
        .await
        .unwrap()
        .unwrap();
    assert!(ended.reply.is_some());
    let again = there
        .end_turn(&injection, TurnEnd::default())
        .await
        .unwrap();
    assert_eq!(again.unwrap(), ended);

    let second = here.begin_turn(TurnInput::owner("c", QUESTION)).await;
    assert_eq!(second.trace.turn, 2);
    assert!(!second.text().contains("every Sunday"), "{}", second.text());
    let event = ConversationEvent::Compaction;
    there.on_event("c", event).await.unwrap();
    let third = here.begin_turn(TurnInput::owner("c", QUESTION)).await;
    assert!(third.text().contains("every Sunday"), "{}", third.text());
    here.attached(&third).await.unwrap();
    there.clear_conversations().await.unwrap();
    let fourth = here.begin_turn(TurnInput::owner("c", QUESTION)).await;
    assert!(fourth.text().contains("every Sunday"), "{}", fourth.text());

    // What is refused here is refused there, in the same words.
    let nobody = RememberInput {
        authority: Authority::None,
        ..note("nobody says so")
    };
    let (one, other) = (
        here.remember(nobody.clone()).await.unwrap_err(),
        there.remember(nobody).await.unwrap_err(),
    );
    assert_eq!(one.to_string(), other.to_string());
    assert_eq!(one.kind(), other.kind());

    // A turn outlives the process that began it: whoever is left records it.
    let begun = there.begin_turn(TurnInput::owner("d", QUESTION)).await;
    let half = there.begin_turn(TurnInput::owner("e", QUESTION)).await;
    there.attached(&half).await.unwrap();
    drop((second, third, fourth));
    here.close().await;
    let stored = recorded(&there, &begun).await;
    assert_eq!(stored.message, begun.trace.message);
    let half = recorded(&there, &half).await;
    assert_ne!(half.message, stored.message);
    let own = there.begin_turn(TurnInput::owner("d", QUESTION)).await;
    assert!(own.text().contains("every Sunday"), "{}", own.text());
    there.attached(&own).await.unwrap();
    let holder = there.workspace().lock_holder().unwrap().unwrap();
    assert_eq!(holder.pid, std::process::id());
}

/// Attaches and ends a turn, twice each, and holds what is stored against it.
async fn recorded(assistant: &Assistant, injection: &Injection) -> TurnIds {
    for _ in 0..2 {
        assistant.attached(injection).await.unwrap();
    }
    let end = TurnEnd::reply("On Sundays, they say.");
    let ended = assistant.end_turn(injection, end.clone()).await.unwrap();
    let again = assistant.end_turn(injection, end).await.unwrap();
    assert_eq!(ended, again);
    let ended = ended.unwrap();
    let state = assistant.store().await.unwrap().state();
    let message = state.turn_node(&ended.message).await.unwrap().unwrap();
    assert!(message.finalised && message.text == QUESTION, "{message:?}");
    assert_eq!(message.attached_blocks.len(), injection.blocks.len());
    let reply = ended.reply.clone().unwrap();
    let reply = state.turn_node(&reply).await.unwrap().unwrap();
    assert_eq!(reply.text, "On Sundays, they say.");
    assert_eq!(reply.parent, Some(ended.message.clone()));
    ended
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_without_any_writer_is_recorded_by_the_next() {
    let fixture = Fixture::new();
    let writer = fixture.assistant().await;
    let there = fixture.reopen(Access::ReadWrite).await;
    writer.close().await;
    // The one that writes now takes no requests.
    let options = StrataOptions {
        socket: SocketUse::Off,
        ..fixture.options()
    };
    let quiet = open(&options, Access::ReadWrite).await;
    let begun = there.begin_turn(TurnInput::owner("f", QUESTION)).await;
    assert!(begun.text().contains("every Sunday"), "{}", begun.text());
    let refused = there.attached(&begun).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
    quiet.close().await;
    recorded(&there, &begun).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_done_to_a_memory_as_a_whole_is_done_by_the_one_that_writes() {
    let fixture = Fixture::new();
    let here = fixture.assistant().await;
    let there = fixture.reopen(Access::ReadWrite).await;
    let socket = here.workspace().lock_holder().unwrap().unwrap().socket;
    assert!(socket.is_some());

    let first = there.remember(note("the cellar is dry")).await.unwrap();
    let entry = first.entries[0].id.clone();
    let undone = there.undo(&entry).await.unwrap();
    assert_eq!(undone.entries, std::slice::from_ref(&entry));
    assert_eq!(there.undo(&entry).await.unwrap(), undone);
    assert_eq!(here.undo(&entry).await.unwrap(), undone);
    let one = here.undo("nothing").await.unwrap_err();
    let other = there.undo("nothing").await.unwrap_err();
    assert_eq!(
        (one.to_string(), one.kind()),
        (other.to_string(), other.kind())
    );

    let second = there.remember(note("the attic is full")).await.unwrap();
    let receipt = there.forget(&second.entries[0].id).await.unwrap();
    assert!(
        receipt.entry_removed && receipt.item_forgotten,
        "{receipt:?}"
    );
    assert!(!receipt.was_forgotten());
    let again = here.forget(&second.entries[0].id).await.unwrap();
    assert!(again.was_forgotten(), "{again:?}");

    let mut steps = Vec::new();
    let repaired = there
        .reconcile(&mut |at| {
            steps.push(at.step);
            ControlFlow::Continue(())
        })
        .await
        .unwrap();
    assert!(repaired.is_clean(), "{repaired:?}");
    let asked = there.reconcile(&mut |_| ControlFlow::Break(())).await;
    assert!(asked.is_ok());
    let go_on = &mut |_| ControlFlow::Continue(());
    let rebuilt = there.rebuild(go_on).await.unwrap();
    let pages = here.store().await.unwrap().stats().await.unwrap().pages;
    assert_eq!(rebuilt.pages, pages);

    let copy = fixture.path("copy");
    let report = there.back_up(copy.clone()).await.unwrap();
    assert!(report.files > pages && copy.join("backup.json").is_file());
    let refused = there.back_up(copy.clone()).await.unwrap_err();
    let own = here.back_up(copy).await.unwrap_err();
    assert_eq!(
        (refused.to_string(), refused.kind()),
        (own.to_string(), own.kind())
    );

    let third = there
        .remember(note("the safe opens with 4711 and a kick"))
        .await
        .unwrap();
    let target = EraseTarget::Entry(third.entries[0].id.clone());
    let go_on = &mut |_| ControlFlow::Continue(());
    let erased = there.erase(target.clone(), go_on).await.unwrap();
    assert!(erased.is_clean(), "{erased:?}");
    let gone = here.erase(target, go_on).await.unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::NotFound);
    assert_eq!(kept(&fixture.path("home"), "the safe opens").await, 0);
    let holder = here.workspace().lock_holder().unwrap().unwrap();
    assert_eq!(holder.socket, socket, "nobody else took the lock");
}

#[tokio::test]
async fn one_thread_is_enough_for_both_sides() {
    let (home, options) = bare().await;
    let here = open(&options, Access::ReadWrite).await;
    let there = open(&options, Access::ReadWrite).await;
    there.remember(note("said there")).await.unwrap();
    let source = IngestSource::Text {
        name: "Plum".to_owned(),
        text: "Plums ripen in August.\n".to_owned(),
    };
    let mut steps = 0;
    let (report, index) = there
        .ingest(source, IngestOptions::default(), &mut |_| {
            steps += 1;
            ControlFlow::Continue(())
        })
        .await
        .unwrap();
    assert_eq!((report.written, index.pages), (1, 1));
    assert!(steps > 0, "nobody was told how far it is");
    here.remember(note("said here")).await.unwrap();
    // The lock goes with the writer, though the only thread is held up here.
    drop(here);
    let patience = std::time::Duration::from_secs(30);
    let lock = workspace(home.path()).lock_within("test", patience);
    drop(lock.unwrap());
    there.remember(note("said alone")).await.unwrap();
    for text in ["said there", "said here", "said alone"] {
        assert_eq!(kept(home.path(), text).await, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reading_makes_no_socket_and_neither_does_a_host_that_wants_none() {
    let (home, options) = bare().await;
    let none = StrataOptions {
        socket: SocketUse::Off,
        ..options.clone()
    };
    let run = workspace(home.path()).run_dir();
    let reader = open(&options, Access::ReadOnly).await;
    let host = open(&none, Access::ReadWrite).await;
    host.remember(note("said alone")).await.unwrap();
    let holder = host.workspace().lock_holder().unwrap().unwrap();
    assert!(holder.socket.is_none() && !run.exists());
    drop((reader, host));

    // Nor does such a host hand anything to another one.
    let listening = open(&options, Access::ReadWrite).await;
    assert!(run.join("socket").exists());
    let strata = Strata::open(none).unwrap();
    let locked = strata.assistant("default", Access::ReadWrite).await;
    assert!(locked.unwrap_err().to_string().contains("is writing to it"));
    drop(listening);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_note_is_left_where_the_writer_speaks_another_version() {
    let (home, options) = bare().await;
    let workspace = workspace(home.path());
    let socket = home.path().join("socket");
    let listener = UnixListener::bind(&socket).unwrap();
    // It says what it speaks, and that it will not talk.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut length = [0; 4];
            stream.read_exact(&mut length).unwrap();
            let mut hello = vec![0; u32::from_le_bytes(length) as usize];
            stream.read_exact(&mut hello).unwrap();
            let refused =
                json!({ "code": "version", "kind": "unavailable", "causes": ["speak 2"] });
            let welcome = json!({ "strata": 2, "refused": refused }).to_string();
            let length = u32::try_from(welcome.len()).unwrap().to_le_bytes();
            stream.write_all(&length).unwrap();
            stream.write_all(welcome.as_bytes()).unwrap();
        }
    });
    let mut lock = workspace.lock("a newer strata").unwrap();
    lock.announce(&socket).unwrap();

    let strata = Strata::open(options.clone()).unwrap();
    let key = Some("k1".to_owned());
    let left = strata
        .remember("default", note("left behind"), key)
        .await
        .unwrap();
    assert!(left.left.is_some() && left.entries.is_empty(), "{left:?}");
    let refused = strata.assistant("default", Access::ReadWrite).await;
    let refused = refused.unwrap_err().to_string();
    assert!(
        refused.contains("a newer strata") && refused.contains("speak 2"),
        "{refused}"
    );
    drop(lock);
    assert_eq!(kept(home.path(), "left behind").await, 0);
    let assistant = open(&options, Access::ReadWrite).await;
    // The request that was left is the one that is asked for again.
    let again = assistant.remember_once(note("left behind"), "k1").await;
    assert_eq!(again.unwrap().entries.len(), 1);
    assert_eq!(kept(home.path(), "left behind").await, 1);
}
