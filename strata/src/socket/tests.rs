//! Tests of both sides, over real sockets, with a service that does what a test tells it to.

use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use memory_core::env::Fs;
use memory_substrate::assistant::EngineProgress;
use memory_substrate::fs::RealFs;
use memory_substrate::sync::SyncProgress;
use memory_substrate::workspace::{AssistantId, Workspace};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::sync::{Barrier, Notify};

use super::client::LinkError;
use super::frame::{self, FrameReader};
use super::protocol::{Hello, Said, Told, VERSION, Welcome};
use super::*;

/// A workspace, gone with the value.
struct Place {
    home: tempfile::TempDir,
    workspace: Workspace,
}

impl Place {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let fs: Arc<dyn Fs> = Arc::new(RealFs);
        let id = AssistantId::new("kiwi").unwrap();
        let workspace = Workspace::create(home.path(), &id, "", fs).unwrap();
        Self { home, workspace }
    }

    fn socket(&self) -> PathBuf {
        self.workspace.run_dir().join("socket")
    }

    fn serve(&self, service: &Arc<Script>) -> Server {
        let service: Arc<dyn Service> = Arc::clone(service) as _;
        Server::start(&self.workspace, None, service).unwrap()
    }

    async fn connect(&self) -> Client {
        connect_as("kiwi", &self.socket()).await.unwrap()
    }

    /// Returns a stream on which the opening has been said, and a reader of what comes back.
    async fn raw(&self, hello: &[u8]) -> (tokio::net::unix::OwnedWriteHalf, Reader) {
        let (reading, mut writing) = UnixStream::connect(self.socket())
            .await
            .unwrap()
            .into_split();
        writing.write_all(hello).await.unwrap();
        (writing, FrameReader::new(reading, LONGEST_ANSWER))
    }

    async fn opened(&self) -> (tokio::net::unix::OwnedWriteHalf, Reader) {
        let (writing, mut reader) = self.raw(&hello(VERSION, "kiwi")).await;
        let welcome: Welcome = read(&mut reader).await;
        assert!(welcome.refused.is_none());
        (writing, reader)
    }
}

type Reader = FrameReader<tokio::net::unix::OwnedReadHalf>;

fn hello(strata: u32, assistant: &str) -> Vec<u8> {
    frame::encode(&opening(strata, assistant), LONGEST_GREETING).unwrap()
}

fn opening(strata: u32, assistant: &str) -> Hello {
    Hello {
        strata,
        assistant: assistant.to_owned(),
        root: None,
    }
}

async fn connect_as(assistant: &str, socket: &Path) -> Result<Client, LinkError> {
    Client::connect_as(&opening(VERSION, assistant), socket, GREETING_TIME).await
}

fn request(id: u64, operation: &str) -> Vec<u8> {
    let said = Said::Request {
        id,
        operation: json!(operation),
        with: json!("raw"),
    };
    frame::encode(&said, LONGEST_REQUEST).unwrap()
}

async fn read<T: serde::de::DeserializeOwned>(reader: &mut Reader) -> T {
    let frame = reader.next().await.unwrap();
    serde_json::from_slice(&frame.bytes).unwrap()
}

/// Answers with what it was given, after whatever the operation stands for.
#[derive(Debug)]
struct Script {
    begun: Notify,
    go_on: Notify,
    together: Barrier,
    finished: AtomicUsize,
    forgotten: AtomicUsize,
}

impl Script {
    fn new(together: usize) -> Arc<Self> {
        Arc::new(Self {
            begun: Notify::new(),
            go_on: Notify::new(),
            together: Barrier::new(together),
            finished: AtomicUsize::new(0),
            forgotten: AtomicUsize::new(0),
        })
    }

    fn finished(&self) -> usize {
        self.finished.load(Ordering::SeqCst)
    }
}

struct Scripted(Arc<Script>);

impl Service for Script {
    fn receive(self: Arc<Self>) -> Arc<dyn Visitor> {
        Arc::new(Scripted(self))
    }
}

#[async_trait::async_trait]
impl Visitor for Scripted {
    async fn answer(
        &self,
        operation: Operation,
        with: Value,
        steps: Steps,
    ) -> Result<Value, Fault> {
        let script = &self.0;
        match operation {
            // Waits to be told to go on.
            Operation::Remember => {
                script.begun.notify_one();
                script.go_on.notified().await;
            }
            // Ends together with others.
            Operation::Event => {
                script.together.wait().await;
            }
            // Ends when it is told to stop.
            Operation::Reindex => {
                let at = SyncProgress { done: 1, total: 2 };
                while steps.tell(EngineProgress::Indexing(at)).is_continue() {
                    tokio::task::yield_now().await;
                }
            }
            Operation::Ingest => panic!("as a damaged index may make it"),
            _ => {}
        }
        script.finished.fetch_add(1, Ordering::SeqCst);
        Ok(with)
    }

    fn give_up(&self, _turn: u64) {
        self.0.forgotten.fetch_add(1, Ordering::SeqCst);
        self.0.begun.notify_one();
    }
}

async fn sync(client: &Client) -> Result<String, LinkError> {
    client.ask(Operation::Sync, json!("said")).await
}

#[tokio::test]
async fn requests_are_answered_and_the_socket_is_the_owners_alone() {
    let (place, script) = (Place::new(), Script::new(1));
    let server = place.serve(&script);
    assert_eq!(server.path(), place.socket());
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&place.socket()), 0o600);
    assert_eq!(mode(&place.workspace.run_dir()), 0o700);
    let client = place.connect().await;
    assert_eq!(sync(&client).await.unwrap(), "said");
    // A panic costs that request and nothing else.
    let failed: Result<String, _> = client.ask(Operation::Ingest, json!(1)).await;
    assert!(matches!(failed, Err(LinkError::Failed(_))), "{failed:?}");
    assert_eq!(sync(&client).await.unwrap(), "said");
    client.give_up(7);
    script.begun.notified().await;
    assert_eq!(script.forgotten.load(Ordering::SeqCst), 1);
    server.close().await;
    assert!(!place.socket().exists());
}

#[tokio::test]
async fn progress_arrives_and_a_break_stops_the_request() {
    let (place, script) = (Place::new(), Script::new(1));
    let _server = place.serve(&script);
    let client = place.connect().await;
    let mut steps = 0;
    let answer: String = client
        .follow(Operation::Reindex, json!("stopped"), &mut |at| {
            let expected = SyncProgress { done: 1, total: 2 };
            assert_eq!(at, EngineProgress::Indexing(expected));
            steps += 1;
            ControlFlow::Break(())
        })
        .await
        .unwrap();
    assert!(answer == "stopped" && steps > 0);
}

#[tokio::test]
async fn sixty_four_clients_are_served_at_once() {
    let (place, script) = (Place::new(), Script::new(64));
    let server = place.serve(&script);
    let mut clients = tokio::task::JoinSet::new();
    for number in 0..64 {
        let socket = place.socket();
        clients.spawn(async move {
            let client = connect_as("kiwi", &socket).await.unwrap();
            // None of them ends before all have begun.
            let answer: u64 = client.ask(Operation::Event, json!(number)).await.unwrap();
            assert_eq!(answer, number);
        });
    }
    while let Some(client) = clients.join_next().await {
        client.unwrap();
    }
    assert_eq!(script.finished(), 64);
    server.close().await;
}

#[tokio::test]
async fn whoever_finds_no_room_is_told_so() {
    let (place, script) = (Place::new(), Script::new(1));
    let service: Arc<dyn Service> = Arc::clone(&script) as _;
    let server = Server::with_room_for(1, &place.workspace, None, service).unwrap();
    let first = place.connect().await;
    let second = connect_as("kiwi", &place.socket()).await.unwrap_err();
    let LinkError::NotBegun(fault) = second else {
        panic!("{second}")
    };
    assert_eq!(fault.code, FaultCode::Busy);
    // More requests of one client than may run at once wait in the client.
    let many = (0..MOST_AT_ONCE * 3).map(|_| sync(&first));
    for answer in futures_join(many).await {
        assert_eq!(answer.unwrap(), "said");
    }
    server.close().await;
}

async fn futures_join<T>(futures: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut waiting: Vec<_> = futures.map(Box::pin).collect();
    let mut done = Vec::new();
    std::future::poll_fn(|context| {
        waiting.retain_mut(|future| match future.as_mut().poll(context) {
            std::task::Poll::Ready(value) => {
                done.push(value);
                false
            }
            std::task::Poll::Pending => true,
        });
        if waiting.is_empty() {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    done
}

#[tokio::test]
async fn another_version_or_assistant_is_refused_in_words() {
    let (place, script) = (Place::new(), Script::new(1));
    let _server = place.serve(&script);
    for (opening, code) in [
        (hello(VERSION + 1, "kiwi"), FaultCode::Version),
        (hello(VERSION, "ada"), FaultCode::AnotherAssistant),
        (
            frame::encode(&json!({ "strata": 99, "of": ["tomorrow"] }), 100).unwrap(),
            FaultCode::Version,
        ),
        (frame::encode(&"hello", 100).unwrap(), FaultCode::Malformed),
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), FaultCode::TooLong),
    ] {
        let (_writing, mut reader) = place.raw(&opening).await;
        let welcome: Welcome = read(&mut reader).await;
        assert_eq!(welcome.strata, VERSION);
        assert_eq!(welcome.refused.unwrap().code, code);
        assert!(matches!(
            reader.next().await,
            Err(frame::FrameError::Closed | frame::FrameError::Io(_))
        ));
    }
    let refused = connect_as("ada", &place.socket()).await.unwrap_err();
    assert!(matches!(refused, LinkError::NotBegun(_)), "{refused}");
}

#[tokio::test]
async fn a_writer_of_another_version_is_no_writer() {
    let (ours, mut theirs) = tokio::io::duplex(1024);
    let welcome = json!({ "strata": VERSION + 1, "of": "tomorrow" });
    let welcome = frame::encode(&welcome, 100).unwrap();
    theirs.write_all(&welcome).await.unwrap();
    let hello = opening(VERSION, "kiwi");
    let refused = Client::over(ours, &hello).await.unwrap_err();
    assert!(refused.to_string().contains("speaks version"), "{refused}");
    assert!(matches!(refused, LinkError::NotBegun(_)), "{refused}");
}

#[tokio::test]
async fn what_makes_no_sense_ends_that_client_and_no_other() {
    let (place, script) = (Place::new(), Script::new(1));
    let _server = place.serve(&script);
    let client = place.connect().await;
    let too_long = u32::try_from(LONGEST_REQUEST + 1).unwrap().to_le_bytes();
    for (bytes, code) in [
        (frame::encode(&"what?", 100).unwrap(), FaultCode::Malformed),
        (
            [&4_u32.to_le_bytes()[..], b"\xff\xfe{\0"].concat(),
            FaultCode::Malformed,
        ),
        (too_long.to_vec(), FaultCode::TooLong),
    ] {
        let (mut writing, mut reader) = place.opened().await;
        writing.write_all(&bytes).await.unwrap();
        let Told::Ended { fault, running } = read(&mut reader).await else {
            panic!("it goes on")
        };
        assert_eq!((fault.code, running), (code, Vec::new()));
    }
    let (mut writing, mut reader) = place.opened().await;
    writing.write_all(&request(1, "of_tomorrow")).await.unwrap();
    writing.write_all(&request(2, "sync")).await.unwrap();
    let Told::Failed { id: 1, fault } = read(&mut reader).await else {
        panic!("it is known")
    };
    assert!(fault.code == FaultCode::UnknownOperation && fault.was_not_begun());
    let done: Told = read(&mut reader).await;
    assert!(matches!(done, Told::Done { id: 2, .. }), "{done:?}");
    assert_eq!(sync(&client).await.unwrap(), "said");
}

#[tokio::test]
async fn half_a_request_is_none() {
    let (place, script) = (Place::new(), Script::new(1));
    let server = place.serve(&script);
    let whole = request(1, "sync");
    for length in 1..whole.len() {
        let (mut writing, mut reader) = place.opened().await;
        writing.write_all(&whole[..length]).await.unwrap();
        drop(writing);
        assert!(reader.next().await.is_err());
    }
    server.close().await;
    assert_eq!(script.finished(), 0);
}

#[tokio::test]
async fn what_was_accepted_is_finished_although_the_client_is_gone() {
    let (place, script) = (Place::new(), Script::new(1));
    let server = place.serve(&script);
    let (mut writing, reader) = place.opened().await;
    writing.write_all(&request(1, "remember")).await.unwrap();
    script.begun.notified().await;
    drop((writing, reader));
    script.go_on.notify_one();
    server.close().await;
    assert_eq!(script.finished(), 1);
}

#[tokio::test]
async fn a_writer_that_ends_finishes_what_it_began_and_begins_nothing() {
    let (place, script) = (Place::new(), Script::new(1));
    let server = place.serve(&script);
    let client = Arc::new(place.connect().await);
    let held = Arc::clone(&client);
    let accepted = tokio::spawn(async move {
        let answer: Result<String, _> = held.ask(Operation::Remember, json!("held")).await;
        answer
    });
    script.begun.notified().await;
    let closing = tokio::spawn(server.close());
    // The file goes first, and the client learns that nothing more is taken.
    while client.is_open() {
        tokio::task::yield_now().await;
    }
    assert!(!place.socket().exists());
    let late = sync(&client).await.unwrap_err();
    assert!(
        matches!(&late, LinkError::NotBegun(fault) if fault.code == FaultCode::Closing),
        "{late}"
    );
    assert!(!closing.is_finished() && script.finished() == 0);
    script.go_on.notify_one();
    assert_eq!(accepted.await.unwrap().unwrap(), "held");
    closing.await.unwrap();
    assert_eq!(script.finished(), 1);
}

#[tokio::test]
async fn an_answer_that_does_not_come_is_lost_and_not_refused() {
    let (place, script) = (Place::new(), Script::new(1));
    let server = place.serve(&script);
    let mut client = place.connect().await;
    client.silence = Duration::ZERO;
    let silent: Result<String, _> = client.ask(Operation::Remember, json!(1)).await;
    assert!(matches!(silent, Err(LinkError::Lost)), "{silent:?}");
    assert!(!client.is_open());
    script.go_on.notify_one();
    server.close().await;

    // A writer that is killed after it has heard.
    let listener = tokio::net::UnixListener::bind(place.socket()).unwrap();
    let socket = place.socket();
    let asking = tokio::spawn(async move {
        let client = connect_as("kiwi", &socket).await.unwrap();
        sync(&client).await
    });
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut heard = vec![0; hello(VERSION, "kiwi").len()];
    stream.read_exact(&mut heard).await.unwrap();
    let welcome = Welcome {
        strata: VERSION,
        refused: None,
    };
    let welcome = frame::encode(&welcome, LONGEST_GREETING).unwrap();
    stream.write_all(&welcome).await.unwrap();
    stream.read_u8().await.unwrap();
    drop(stream);
    let lost = asking.await.unwrap();
    assert!(matches!(lost, Err(LinkError::Lost)), "{lost:?}");
}

#[tokio::test]
async fn what_a_dead_process_left_is_replaced_and_what_lives_is_not() {
    let (place, script) = (Place::new(), Script::new(1));
    std::fs::create_dir(place.workspace.run_dir()).unwrap();
    drop(std::os::unix::net::UnixListener::bind(place.socket()).unwrap());
    assert!(place.socket().exists(), "nobody removes it");
    let unreachable = connect_as("kiwi", &place.socket()).await.unwrap_err();
    assert!(matches!(unreachable, LinkError::Unreachable(_)));
    let server = place.serve(&script);
    assert_eq!(server.path(), place.socket());
    assert_eq!(sync(&place.connect().await).await.unwrap(), "said");

    // Another one comes to another place, and takes only its own away.
    let runtime = place.home.path().join("runtime");
    std::fs::create_dir(&runtime).unwrap();
    let service: Arc<dyn Service> = Arc::clone(&script) as _;
    let second = Server::start(&place.workspace, Some(&runtime), Arc::clone(&service)).unwrap();
    assert!(second.path().starts_with(runtime.join("strata")));
    let second_path = second.path();
    drop(second);
    assert!(place.socket().exists() && !second_path.exists());
    let third = Server::start(&place.workspace, None, service).unwrap();
    assert_ne!(third.path(), place.socket());
    assert_eq!(sync(&place.connect().await).await.unwrap(), "said");
    drop(server);
    let gone = connect_as("kiwi", &place.socket()).await.unwrap_err();
    assert!(
        matches!(&gone, LinkError::Unreachable(error) if error.kind() == io::ErrorKind::NotFound),
        "{gone:?}"
    );
}

#[tokio::test]
async fn what_is_no_socket_is_left_alone() {
    let (place, script) = (Place::new(), Script::new(1));
    std::fs::create_dir(place.workspace.run_dir()).unwrap();
    std::fs::write(place.socket(), "notes").unwrap();
    let server = place.serve(&script);
    assert_ne!(server.path(), place.socket());
    drop(server);
    assert_eq!(std::fs::read_to_string(place.socket()).unwrap(), "notes");
}
