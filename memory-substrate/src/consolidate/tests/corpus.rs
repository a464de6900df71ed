//! Two hundred facts on a memory of some twenty pages, with the page on which each belongs.

use super::*;

/// Pages: slug, title, another name of it, and what they say.
#[rustfmt::skip]
const PAGES: &[(&str, &str, &str, &str)] = &[
    ("nora-weiss", "Nora Weiss", "Nora", "Nora Weiss keeps the archive and rehearses the restore twice a year."),
    ("tape-robot", "Tape robot", "", "The tape robot stands in the cellar and copies the archive every Sunday."),
    ("coffee-roaster", "Coffee roaster", "Frieda", "The roaster in the yard is cleaned every week and roasts four kilos."),
    ("greenhouse", "Greenhouse", "", "Tomatoes, basil and two lemon trees grow in the greenhouse behind the workshop."),
    ("budget-2026", "Budget 2026", "", "The budget for 2026 was decided in October and is reviewed every quarter."),
    ("ines-okafor", "Ines Okafor", "Ines", "Ines Okafor does the books and reviews what is spent."),
    ("release-process", "Release process", "", "A release is cut on Tuesday, tested on Wednesday and announced on Thursday."),
    ("deploy-tool", "Deploy tool", "shipit", "The deploy tool copies a build to three machines and restarts them one after the other."),
    ("matteo-rossi", "Matteo Rossi", "Matteo", "Matteo Rossi wrote most of the tools and answers for the machines."),
    ("guest-room", "Guest room", "", "The guest room has two beds and a desk; the key hangs by the door."),
    ("kiwi-plan", "Kiwi plan", "Projekt Kiwi", "The kiwi plan moves the archive to the new cellar before winter."),
    ("bakery", "Bakery", "", "The bakery on the corner opens at five and delivers on Saturdays."),
    ("weekly-meeting", "Weekly meeting", "", "The weekly meeting is on Monday at nine and lasts half an hour."),
    ("night-train", "Night train", "", "The night train to Vienna leaves at 21:40 and has to be booked three weeks ahead."),
    ("standing-desk", "Standing desk", "", "The standing desk by the window remembers three heights."),
    ("choir", "Choir", "", "The choir rehearses on Wednesdays in the old school."),
    ("water-meter", "Water meter", "", "The water meter is read on the last day of each quarter."),
    ("printer", "Printer", "", "The printer in the hall prints on both sides and takes thick paper from the lower tray."),
    ("first-aid", "First aid", "", "The first aid box hangs in the kitchen and is checked in January and July."),
    ("beehives", "Beehives", "", "Three beehives stand on the roof; the honey is harvested in July."),
];

/// Facts, by the page on which they belong. The last ones have none yet.
#[rustfmt::skip]
const FACTS: &[(&str, &[&str])] = &[
    ("nora-weiss", &[
        "Nora is allergic to hazelnuts.",
        "Nora Weiss moved to Leith in May.",
        "Nora wants the reports on Thursdays.",
        "The archive keys are with Nora Weiss.",
        "Nora speaks Danish with her mother.",
        "Nora rehearses the restore before lunch.",
        "Ask Nora before anything is deleted.",
        "Nora Weiss plays the viola.",
    ]),
    ("tape-robot", &[
        "The tape robot needs new belts every spring.",
        "The spare belts of the tape robot are in drawer C.",
        "The tape robot must not be moved while it copies.",
        "A red lamp on the tape robot means that a tape is stuck.",
        "The tape robot was bought second-hand in Bremen.",
        "The cellar copies the archive to tape on Sunday, belts in drawer C.",
        "The tape robot draws forty watts when idle.",
        "Dust the tape robot once a month.",
    ]),
    ("coffee-roaster", &[
        "Frieda roasts four kilos at a time.",
        "The cyclone of the coffee roaster is emptied weekly.",
        "Frieda smells of burnt chaff when the filter is full.",
        "The coffee roaster was repaired in Trieste.",
        "Frieda must cool down for an hour.",
        "The drum of Frieda runs on two bearings.",
        "The coffee roaster may only run before noon.",
        "Frieda was built in 1962.",
    ]),
    ("greenhouse", &[
        "The greenhouse is watered at six in the morning.",
        "The left window of the greenhouse does not close.",
        "Basil in the greenhouse dies below eight degrees.",
        "The lemon trees of the greenhouse are twelve years old.",
        "The greenhouse needs shade in July.",
        "The tomatoes in the greenhouse are called Ox Heart.",
        "The greenhouse lamp is on a timer.",
        "Snails come into the greenhouse from the workshop.",
    ]),
    ("budget-2026", &[
        "Budget 2026 has nine hundred euros for tapes.",
        "Budget 2026 is reviewed by Ines.",
        "Budget 2026 does not cover travel.",
        "The reserve in Budget 2026 is five percent.",
        "Budget 2026 was decided in October.",
        "Budget 2026 lists the new bearings under repairs.",
        "Nobody may overdraw Budget 2026 without asking.",
        "Budget 2026 is kept in the blue folder.",
    ]),
    ("ines-okafor", &[
        "Ines answers letters on Mondays only.",
        "Ines Okafor wants receipts on paper.",
        "Ines rides a green bicycle.",
        "Ines Okafor was born in Porto.",
        "Ines keeps the keys of the safe.",
        "Ines does not drink coffee.",
        "Ines Okafor is away in August.",
        "Ines writes with a fountain pen.",
    ]),
    ("release-process", &[
        "The release process begins with a dry run.",
        "The release process forbids changes on Fridays.",
        "Every step of the release process has an owner.",
        "The release process was shortened in spring.",
        "The checklist of the release process is on the wall.",
        "The release process ends with a letter to customers.",
        "The release process needs two signatures.",
        "Rehearse the release process with newcomers.",
    ]),
    ("deploy-tool", &[
        "shipit needs a token that expires monthly.",
        "The deploy tool writes its log to the third machine.",
        "shipit restarts machines one after the other.",
        "The deploy tool refuses unsigned builds.",
        "shipit was written by Matteo.",
        "The deploy tool has a flag for a dry run.",
        "shipit must not run twice at once.",
        "The deploy tool keeps five old builds.",
    ]),
    ("matteo-rossi", &[
        "Matteo works from Turin in winter.",
        "Matteo Rossi is on call every third week.",
        "Matteo likes short meetings.",
        "Matteo Rossi prefers Rust to Python.",
        "Matteo repairs radios at home.",
        "Matteo needs a day of notice before a restart.",
        "Matteo Rossi is vegetarian.",
        "Matteo has two sisters.",
    ]),
    ("guest-room", &[
        "The guest room is booked in the calendar.",
        "The heater of the guest room is loud.",
        "The guest room has no curtain.",
        "The key of the guest room hangs by the door.",
        "The guest room was painted in March.",
        "The desk of the guest room wobbles.",
        "Two beds stand in the guest room.",
        "The guest room may be used by friends.",
    ]),
    ("kiwi-plan", &[
        "Projekt Kiwi wird im November beendet.",
        "The kiwi plan needs four helpers.",
        "Projekt Kiwi hat keinen Puffer mehr.",
        "The kiwi plan starts with the tapes.",
        "Der Umzug in Projekt Kiwi dauert zwei Tage.",
        "The kiwi plan was approved by Ines.",
        "Projekt Kiwi braucht neue Regale.",
        "The kiwi plan has a map of the cellar.",
    ]),
    ("bakery", &[
        "The bakery delivers rye bread on Saturdays.",
        "The bakery is closed in the first week of May.",
        "Order rolls at the bakery before nine.",
        "The bakery does not take cards.",
        "The bakery sells yeast by the cube.",
        "The owner of the bakery is called Selim.",
        "The bakery lends baskets for a deposit.",
        "The bakery stopped baking with milk.",
    ]),
    ("weekly-meeting", &[
        "The weekly meeting begins with the open questions.",
        "The weekly meeting has no slides.",
        "Minutes of the weekly meeting go to Nora.",
        "The weekly meeting moves to Tuesday after holidays.",
        "The weekly meeting lasts half an hour.",
        "Who misses the weekly meeting reads the minutes.",
        "The weekly meeting is held standing.",
        "The weekly meeting takes place in the kitchen.",
    ]),
    ("night-train", &[
        "The night train has a car for bicycles.",
        "The night train to Vienna leaves from platform seven.",
        "Breakfast on the night train is tea and bread.",
        "The night train is cheaper on Wednesdays.",
        "Book the night train three weeks ahead.",
        "The night train was late twice in June.",
        "The night train takes dogs in a carrier.",
        "The upper berth of the night train is warmer.",
    ]),
    ("standing-desk", &[
        "The standing desk remembers three heights.",
        "The motor of the standing desk squeaks.",
        "The standing desk carries eighty kilos.",
        "The standing desk came without a manual.",
        "The cable of the standing desk is too short.",
        "Lower the standing desk before you leave.",
        "The standing desk was a present.",
        "The standing desk has a drawer for pens.",
    ]),
    ("choir", &[
        "The choir sings in the old school.",
        "The choir needs two tenors.",
        "The choir practises a mass by Haydn.",
        "The choir pays for the hall in advance.",
        "The choir travels to Ghent in June.",
        "The choir has forty members.",
        "The conductor of the choir is Aoife.",
        "The choir pauses in August.",
    ]),
    ("water-meter", &[
        "The water meter is behind the boiler.",
        "The water meter shows cubic metres.",
        "The water meter was changed in 2023.",
        "Read the water meter at the end of the quarter.",
        "The water meter has a seal that must stay whole.",
        "A photograph of the water meter is enough.",
        "The number of the water meter ends in 771.",
        "The water meter drips in winter.",
    ]),
    ("printer", &[
        "The printer takes thick paper from the lower tray.",
        "The printer sleeps after ten minutes.",
        "Toner for the printer is in the hall.",
        "The printer jams with recycled paper.",
        "The printer speaks with the network by cable only.",
        "The printer may be used until ten at night.",
        "The printer needs a new roller.",
        "The printer counts every page.",
    ]),
    ("first-aid", &[
        "The first aid box hangs in the kitchen.",
        "Plasters are missing in first aid.",
        "First aid is checked in January and July.",
        "A list of first aid numbers is on the fridge.",
        "Lena took the first aid course.",
        "The first aid box has no scissors.",
        "First aid for burns is in the upper drawer.",
        "Replace first aid bandages after five years.",
    ]),
    ("beehives", &[
        "The beehives stand on the roof.",
        "One of the beehives swarmed in May.",
        "The beehives are fed sugar in autumn.",
        "The honey of the beehives tastes of lime.",
        "Wear white near the beehives.",
        "The beehives belong to the school.",
        "The roof under the beehives was sealed.",
        "The beehives are numbered from the east.",
    ]),
    ("aoife-byrne", &[
        "Aoife Byrne conducts and teaches the violin.",
        "Aoife Byrne is free on Fridays.",
        "Aoife Byrne lives above the bookshop.",
        "Aoife Byrne was in Galway last year.",
        "Aoife Byrne plays in a quartet.",
    ]),
    ("selim-kaya", &[
        "Selim Kaya bakes since he was twelve.",
        "Selim Kaya has a van.",
        "Selim Kaya closes early on Sundays.",
        "Selim Kaya wants to learn Danish.",
        "Selim Kaya lends his ladder.",
    ]),
    ("harbour-ferry", &[
        "The Harbour Ferry stops at ten in the evening.",
        "The Harbour Ferry takes bicycles for free.",
        "A ticket for the Harbour Ferry costs two euros.",
        "The Harbour Ferry does not sail in fog.",
        "The Harbour Ferry was painted blue.",
    ]),
    ("lisbon-trip", &[
        "The Lisbon Trip is planned for spring.",
        "Six people come on the Lisbon Trip.",
        "The Lisbon Trip needs two rooms.",
        "The Lisbon Trip costs four hundred euros each.",
        "The Lisbon Trip ends on a Sunday.",
    ]),
];

/// Every so many facts name their page in brackets.
const HINTED: usize = 3;

async fn memory() -> (Fixture, AssistantStore) {
    let fixture = Fixture::new();
    for (slug, title, alias, lead) in PAGES {
        let front = if alias.is_empty() {
            String::new()
        } else {
            format!("---\naliases: [{alias}]\n---\n")
        };
        fixture.write(
            &format!("{slug}.md"),
            &format!("{front}# {title}\n\n{lead}\n"),
        );
    }
    let store = fixture.open().await;
    store.refresh().await.expect("refreshed");
    store
        .sync(&mut |_| std::ops::ControlFlow::Continue(()))
        .await
        .expect("indexed");
    (fixture, store)
}

/// Says every fact, one page after the other and back again, and returns each entry with its page and whether it is hinted.
async fn say_all(store: &AssistantStore) -> Vec<(String, &'static str, bool)> {
    let longest = FACTS
        .iter()
        .map(|(_, facts)| facts.len())
        .max()
        .expect("some");
    let mut said = Vec::new();
    for position in 0..longest {
        for (page, facts) in FACTS {
            let Some(fact) = facts.get(position) else {
                continue;
            };
            let is_known = PAGES.iter().any(|(slug, ..)| slug == page);
            let is_hinted = is_known && said.len() % HINTED == 0;
            let text = if is_hinted {
                format!("{fact} [[{page}]]")
            } else {
                (*fact).to_owned()
            };
            said.push((note(store, &text).await, *page, is_hinted));
        }
    }
    said
}

/// Returns the pages with the entries' ids, which differ in each run, by the order in which they were said.
fn numbered(fixture: &Fixture, said: &[(String, &str, bool)]) -> BTreeMap<String, String> {
    let root = fixture.workspace.root().display().to_string();
    files(fixture)
        .into_iter()
        .map(|(path, mut text)| {
            for (number, (id, ..)) in said.iter().enumerate() {
                text = text.replace(&format!("^m-{id}"), &format!("^m-number{number}"));
            }
            (path.replace(&root, ""), text)
        })
        .collect()
}

#[test]
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn two_hundred_facts_go_where_they_belong() {
    runtime(async {
        let mut results = Vec::new();
        for _ in 0..2 {
            let (fixture, store) = memory().await;
            let said = say_all(&store).await;
            assert!(said.len() >= 180, "{}", said.len());
            let mut filed = BTreeMap::new();
            loop {
                let report = run(&store).await;
                if report.outcome == RunOutcome::Nothing {
                    break;
                }
                assert!(
                    report.problems.is_empty() && report.held.is_empty(),
                    "{report:#?}"
                );
                let places = report.filed.iter();
                filed.extend(places.map(|filed| (filed.entry.clone(), filed.page.to_string())));
            }
            let share = |hinted: bool| {
                let of_kind: Vec<_> = said.iter().filter(|(.., is)| *is == hinted).collect();
                let wrong: Vec<_> = of_kind
                    .iter()
                    .filter(|(id, page, _)| !filed[id].starts_with(page))
                    .collect();
                println!("hinted {hinted}: elsewhere {wrong:?}");
                1.0 - wrong.len() as f64 / of_kind.len() as f64
            };
            let (hinted, others) = (share(true), share(false));
            println!("on the page where it belongs: hinted {hinted:.3}, not hinted {others:.3}");
            assert!(hinted >= 0.95, "{hinted}");
            assert!(others >= 0.8, "{others}");
            let validated = store.validate(5_000).await.expect("validated");
            assert!(validated.is_clean(), "{validated:?}");
            results.push(numbered(&fixture, &said));
        }
        assert_eq!(results[0], results[1]);
    });
}
