//! Tests against a real LanceDB table: whole-page replacement, both searches, growth, and every kind of damage.

use memory_core::env::ManualClock;
use memory_core::provenance::{Channel, Trust};
use memory_core::time::Timestamp;

use super::*;
use crate::fs::RealFs;
use crate::segment;
use crate::snapshot::Segment;
use crate::snapshot::testing::{row, slug, vector, words};
use crate::state::SqliteState;

mod upkeep;

const DIMS: usize = 16;

fn space(dims: u32) -> IndexSpace {
    IndexSpace {
        segmentation: segment::SEGMENTATION_VERSION.to_owned(),
        embedding: (dims > 0).then(|| memory_core::embed::SpaceId::new("test")),
        dims,
        schema: ROW_SCHEMA,
    }
}

struct Place {
    folder: tempfile::TempDir,
    state: Arc<SqliteState>,
    home: IndexHome,
    space: IndexSpace,
}

fn place(dims: u32) -> Place {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let state = SqliteState::open(&folder.path().join("state.db"), &ManualClock::default());
    let state = Arc::new(state.expect("a database"));
    let home = IndexHome::new(Arc::new(RealFs), folder.path().join("index"), state.clone());
    Place {
        folder,
        state,
        home,
        space: space(dims),
    }
}

impl Place {
    async fn create(&self) -> LanceIndex {
        LanceIndex::create(&self.home, &self.space)
            .await
            .expect("an index can be made")
    }

    async fn open(&self) -> StoreResult<Option<(LanceIndex, Vec<Segment>)>> {
        let opened = LanceIndex::open(&self.home, &self.space, true).await?;
        Ok(opened.map(|opened| (opened.index, opened.segments)))
    }

    /// Loses what the state database knew.
    fn lose_state(&mut self) {
        let path = self.folder.path().join("other.db");
        let state = SqliteState::open(&path, &ManualClock::default());
        self.state = Arc::new(state.expect("a database"));
        self.home = IndexHome::new(
            Arc::new(RealFs),
            self.folder.path().join("index"),
            self.state.clone(),
        );
    }

    fn number(&self) -> Option<u64> {
        let current = self.home.current(&self.space).ok().flatten();
        current.map(|current| current.generation.number)
    }

    async fn check_damaged(&self, why: &str) {
        match self.open().await {
            Err(StoreError::Damaged { .. }) => {}
            other => panic!("{why}: expected damage to be reported, got {other:?}"),
        }
        // What is damaged is made again beside it, and what was there before is gone then.
        let before = self.number();
        self.home.set_aside(&self.space).expect("set aside");
        let made = self.create().await;
        assert!(before.is_none_or(|before| made.generation.number > before));
        let (_, segments) = self.open().await.expect("opens").expect("is there");
        assert_eq!(rows_in(&segments), 0);
    }
}

fn rows_in(segments: &[Segment]) -> usize {
    segments.iter().map(|segment| segment.rows.len()).sum()
}

fn page(name: &str, sections: u64, seed: u64) -> Vec<IndexRow> {
    (0..sections)
        .map(|number| {
            let heading = if number == 0 {
                String::new()
            } else {
                format!("Part {number}")
            };
            let mut made = row(name, &heading, &words(seed * 100 + number, 20));
            made.page_rows = u32::try_from(sections).expect("small");
            made.vector = (number != 1).then(|| vector(seed * 100 + number, DIMS));
            made
        })
        .collect()
}

fn runtime<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(test)
}

#[test]
fn rows_come_back_as_they_went_in() {
    runtime(async {
        let place = place(16);
        let index = place.create().await;
        let mut rows = page("it-s/日本", 3, 1);
        rows[0].dated = Some(Timestamp::from_millis(-5));
        rows[0].channel = Channel::Project("atlas".to_owned());
        rows[2].trust = Trust::Untrusted;
        rows[2].text = "quotes ' \" and \0 and \n lines".to_owned();
        let pages = vec![slug("it-s/日本")];
        index
            .replace_pages(pages.clone(), rows.clone())
            .await
            .expect("written");
        rows.sort_by(|left, right| left.id.cmp(&right.id));
        assert_eq!(index.all_rows().await.expect("read"), rows);

        // A page that shrinks loses the rows it had, other pages lose none, and a repetition changes nothing.
        let other = page("other", 2, 2);
        index
            .replace_pages(vec![slug("other")], other.clone())
            .await
            .expect("written");
        let smaller = page("it-s/日本", 1, 3);
        for _ in 0..2 {
            index
                .replace_pages(pages.clone(), smaller.clone())
                .await
                .expect("written");
            assert_eq!(
                index.all_rows().await.expect("read"),
                [smaller.clone(), other.clone()].concat()
            );
        }
        index
            .replace_pages(pages, Vec::new())
            .await
            .expect("removed");
        assert_eq!(index.all_rows().await.expect("read"), other);

        let stranger = index
            .replace_pages(vec![slug("other")], page("third", 1, 4))
            .await;
        assert!(matches!(stranger, Err(StoreError::BadRequest { .. })));
        let twice = [other.clone(), other].concat();
        let twice = index.replace_pages(vec![slug("other")], twice).await;
        assert!(matches!(twice, Err(StoreError::BadRequest { .. })));
    });
}

#[test]
fn what_was_just_written_is_found_by_keyword_and_by_vector() {
    runtime(async {
        let place = place(16);
        let index = place.create().await;
        assert!(
            index
                .search_terms("anything", 3)
                .await
                .expect("no rows, no error")
                .is_empty()
        );
        let texts = [
            ("ja", "今日は成語しりとりをした", "しりとり"),
            ("zh", "今天玩成语接龙游戏", "成语接龙"),
            ("ko", "오늘 끝말잇기 게임을 했다", "끝말잇기"),
            ("two", "这个设备坏了", "设备"),
            ("glued", "重跑gen-itgc后50条", "itgc"),
            ("ru", "новосибирск красный проспект", "новосибирск"),
        ];
        for (number, (name, text, _)) in texts.iter().enumerate() {
            let mut made = row(name, "", text);
            made.vector = Some(vector(number as u64, DIMS));
            index
                .replace_pages(vec![slug(name)], vec![made])
                .await
                .expect("written");
        }
        for (number, (name, _, query)) in texts.iter().enumerate() {
            let found = index
                .search_terms(&segment::index_text(query), 1)
                .await
                .expect("searched");
            assert_eq!(
                found.first().map(|(id, _)| id.slug.as_str()),
                Some(*name),
                "{query}"
            );
            let found = index
                .search_vector(&vector(number as u64, DIMS), 2)
                .await
                .expect("searched");
            assert_eq!(found[0].0.slug.as_str(), *name);
            assert!((found[0].1 - 1.0).abs() < 1e-4, "{found:?}");
        }
        // Query syntax is text, and nothing is an error.
        for query in ["a AND OR", "*", "\"", "w1:", "(x"] {
            index.search_terms(query, 3).await.expect("never an error");
        }
    });
}

#[test]
fn a_section_without_a_vector_is_never_near_anything() {
    runtime(async {
        let place = place(16);
        let index = place.create().await;
        let rows = page("page", 3, 7);
        index
            .replace_pages(vec![slug("page")], rows.clone())
            .await
            .expect("written");
        let found = index
            .search_vector(&vector(9, DIMS), 10)
            .await
            .expect("searched");
        assert_eq!(found.len(), 2);
        assert!(found.iter().all(|(id, _)| *id != rows[1].id));
    });
}

#[test]
fn appending_to_a_finished_text_index_and_tidying_works() {
    runtime(async {
        let place = place(16);
        let index = place.create().await;
        let pages: Vec<Slug> = (0..150)
            .map(|number| slug(&format!("old-{number}")))
            .collect();
        let rows = pages
            .iter()
            .enumerate()
            .flat_map(|(number, name)| page(name.as_str(), 2, number as u64))
            .collect();
        index.replace_pages(pages, rows).await.expect("written");
        index.maintain().await.expect("tidied");
        for number in 0..100 {
            let name = format!("new-{number}");
            let mut rows = page(&name, 1, 1_000 + number);
            rows[0].body_terms += format!(" unique{number}").as_str();
            index
                .replace_pages(vec![slug(&name)], rows)
                .await
                .expect("written");
            if number % 10 == 9 {
                index.maintain().await.expect("tidied");
            }
        }
        let stats = index.stats().await.expect("counted");
        assert_eq!(stats.rows, 400);
        assert!(stats.files <= 200, "{stats:?}");
        assert!(stats.unindexed_rows * 10 <= stats.rows, "{stats:?}");
        for number in [0, 55, 99] {
            let found = index
                .search_terms(&format!("unique{number}"), 3)
                .await
                .expect("searched");
            assert_eq!(found.len(), 1);
            assert_eq!(found[0].0.slug.as_str(), format!("new-{number}"));
        }
        let (_, segments) = place.open().await.expect("opens").expect("is there");
        assert_eq!(rows_in(&segments), 400);
    });
}

#[test]
fn damage_is_reported_and_never_believed() {
    runtime(async {
        let fill = async |place: &Place| {
            let index = place.create().await;
            index
                .replace_pages(
                    vec![slug("a"), slug("b")],
                    [page("a", 3, 1), page("b", 2, 2)].concat(),
                )
                .await
                .expect("written");
            index.generation.dir()
        };

        let place_a = place(16);
        fill(&place_a).await;
        let current = place_a
            .home
            .space_dir(&place_a.space)
            .expect("a directory")
            .join("CURRENT");
        // The state database knows which one was in use; only without it that is damage.
        let written = std::fs::read(&current).expect("read");
        for text in [Some(""), Some("gen-77\n"), Some("rubbish"), None] {
            match text {
                Some(text) => std::fs::write(&current, text).expect("written"),
                None => std::fs::remove_file(&current).expect("removed"),
            }
            let opened = LanceIndex::open(&place_a.home, &place_a.space, true).await;
            let opened = opened.expect("opens").expect("is there");
            assert_eq!(rows_in(&opened.segments), 5, "{text:?}");
            assert!(opened.mended.is_some(), "{text:?}");
            assert_eq!(std::fs::read(&current).expect("read"), written);
        }
        let mut place_a = place_a;
        place_a.lose_state();
        std::fs::write(&current, "").expect("written");
        place_a.check_damaged("no record and no `CURRENT`").await;
        let dir = fill(&place_a).await;
        std::fs::remove_dir_all(dir.parent().expect("a space")).expect("removed");
        place_a.check_damaged("deleted").await;

        // The newest manifest or a data file, emptied or full of zeros, is what a power cut leaves behind.
        for (folder, zeros) in [
            ("_versions", false),
            ("_versions", true),
            ("data", false),
            ("data", true),
        ] {
            let place = place(16);
            let dir = fill(&place).await.join("sections.lance").join(folder);
            for entry in std::fs::read_dir(&dir).expect("listed") {
                let path = entry.expect("an entry").path();
                let length = std::fs::metadata(&path).expect("a file").len();
                let bytes = if zeros {
                    vec![0; usize::try_from(length).expect("small")]
                } else {
                    Vec::new()
                };
                std::fs::write(&path, bytes).expect("written");
            }
            place
                .check_damaged(&format!("{folder}, zeros: {zeros}"))
                .await;
        }

        // One bit, wherever it is.
        for folder in ["_versions", "data", "_transactions", "_indices"] {
            let place = place(16);
            let dir = fill(&place).await.join("sections.lance");
            let mut files = Vec::new();
            files_below(&dir.join(folder), &mut files);
            files.retain(|path| path.extension().is_none_or(|ending| ending != "json"));
            let path = files.last().expect("a file");
            let mut bytes = std::fs::read(path).expect("read");
            let middle = bytes.len() / 2;
            bytes[middle] ^= 0x10;
            std::fs::write(path, bytes).expect("written");
            place.check_damaged(&format!("a bit in {folder}")).await;
        }

        let place_b = place(16);
        let dir = fill(&place_b).await;
        std::fs::remove_dir_all(dir.join("sections.lance")).expect("removed");
        place_b.check_damaged("no table").await;
    });
}

fn files_below(folder: &std::path::Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("listed") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files_below(&path, found);
        } else {
            found.push(path);
        }
    }
    found.sort();
}

#[test]
fn a_first_index_that_was_not_finished_is_no_damage() {
    runtime(async {
        let place = place(16);
        place.home.make_next(&place.space).expect("made");
        assert!(place.open().await.expect("no damage").is_none());
        // Everything but the switch, which is what a crash at the worst moment leaves.
        let unfinished = LanceIndex::create_generation(&place.home, &place.space)
            .await
            .expect("made");
        let left_behind = unfinished.generation.dir();
        drop(unfinished);
        let current = place.home.current(&place.space).expect("no damage");
        assert!(current.is_none());
        assert!(place.open().await.expect("no damage").is_none());
        place.create().await;
        let (_, segments) = place.open().await.expect("opens").expect("is there");
        assert_eq!(rows_in(&segments), 0);
        assert!(!left_behind.exists());
    });
}

#[test]
fn a_batch_that_was_written_but_not_recorded_is_undone() {
    runtime(async {
        let place = place(16);
        let index = place.create().await;
        index
            .replace_pages(vec![slug("a")], page("a", 2, 1))
            .await
            .expect("written");
        // What a crash between the database's commit and our flush leaves: newer files that may be torn.
        let rows = page("b", 2, 2);
        index
            .replace_some(&[slug("b")], &rows)
            .await
            .expect("written");
        let recorded = place.home.recorded(&index.generation).expect("read");
        let mut newest = Vec::new();
        files_below(&index.generation.dir(), &mut newest);
        drop(index);
        let (_, segments) = place.open().await.expect("opens").expect("is there");
        assert_eq!(rows_in(&segments), 2, "only what was recorded");
        let (index, _) = place.open().await.expect("opens").expect("is there");
        assert_eq!(
            place.home.recorded(&index.generation).expect("read"),
            recorded
        );
        index
            .replace_pages(vec![slug("b")], rows)
            .await
            .expect("written again");
        drop(index);
        let (_, segments) = place.open().await.expect("opens").expect("is there");
        assert_eq!(rows_in(&segments), 4);
    });
}

#[test]
fn without_its_record_an_index_is_taken_as_it_is() {
    runtime(async {
        let mut place = place(16);
        let index = place.create().await;
        index
            .replace_pages(vec![slug("a")], page("a", 2, 1))
            .await
            .expect("written");
        drop(index);
        place.lose_state();
        for _ in 0..2 {
            let (index, segments) = place.open().await.expect("opens").expect("is there");
            assert_eq!(rows_in(&segments), 2);
            let recorded = place.home.recorded(&index.generation).expect("read");
            let (holds, _) = recorded.expect("recorded again");
            assert_eq!(holds.rows, 2);
        }
    });
}

#[test]
fn removing_old_versions_may_be_cut_off() {
    runtime(async {
        let place = place(16);
        let index = place.create().await;
        for number in 0..40 {
            let name = format!("page-{number}");
            index
                .replace_pages(vec![slug(&name)], page(&name, 1, number))
                .await
                .expect("written");
        }
        index.maintain().await.expect("tidied");
        // As if the last note had not been made: the announcement stands and lists a file that is gone.
        let (holds, _) = place
            .home
            .recorded(&index.generation)
            .expect("read")
            .expect("recorded");
        let pruning = crate::state::indexed::Watermark {
            pruning: true,
            ..holds
        };
        let gone = crate::state::indexed::FileRecord {
            path: "sections.lance/data/gone.lance".to_owned(),
            bytes: 5,
            checksum: 1,
        };
        let changes = durable::Changes {
            added: vec![gone],
            gone: Vec::new(),
        };
        place
            .home
            .record(&index.generation, pruning, &changes)
            .expect("recorded");
        drop(index);
        for _ in 0..2 {
            let (index, segments) = place.open().await.expect("opens").expect("is there");
            assert_eq!(rows_in(&segments), 40);
            let recorded = place.home.watermark(&index.generation).expect("read");
            assert_eq!(recorded, Some(holds));
        }
    });
}

#[test]
fn a_rebuild_serves_only_when_it_is_switched_to() {
    runtime(async {
        let place = place(16);
        let index = place.create().await;
        index
            .replace_pages(vec![slug("a")], page("a", 1, 1))
            .await
            .expect("written");
        let (staged, segments) = LanceIndex::stage(&place.home, &place.space)
            .await
            .expect("staged");
        assert_eq!(rows_in(&segments), 0);
        staged
            .replace_pages(vec![slug("b")], page("b", 2, 2))
            .await
            .expect("written");
        drop(staged);
        let (_, serving) = place.open().await.expect("opens").expect("is there");
        assert_eq!(rows_in(&serving), 1);
        let (staged, segments) = LanceIndex::stage(&place.home, &place.space)
            .await
            .expect("staged");
        assert_eq!(rows_in(&segments), 2, "an interrupted rebuild goes on");
        staged.promote().await.expect("switched");
        let (_, serving) = place.open().await.expect("opens").expect("is there");
        assert_eq!(rows_in(&serving), 2);
        assert!(
            !index.generation.dir().exists(),
            "the old generation is gone"
        );
        assert_eq!(
            place.home.spaces().expect("listed"),
            std::slice::from_ref(&place.space)
        );
    });
}

#[test]
fn a_reader_writes_nothing() {
    runtime(async {
        let place = place(16);
        place.create().await;
        let reader = LanceIndex::open(&place.home, &place.space, false)
            .await
            .expect("opens")
            .expect("is there")
            .index;
        let refused = reader.replace_pages(vec![slug("a")], page("a", 1, 1)).await;
        assert!(matches!(refused, Err(StoreError::BadRequest { .. })));
        assert!(matches!(
            reader.maintain().await,
            Err(StoreError::BadRequest { .. })
        ));
        assert!(
            LanceIndex::open(&place.home, &space(8), true)
                .await
                .expect("no error")
                .is_none()
        );
    });
}
