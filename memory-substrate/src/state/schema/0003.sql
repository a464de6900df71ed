-- The ledger: one row for every change of an item, each chained to the one before it. It holds digests and no content.
-- The salt is what makes a digest impossible to guess; it goes when the item is forgotten.
CREATE TABLE item_operations (
    sequence   INTEGER PRIMARY KEY CHECK (sequence >= 1),
    key        TEXT    NOT NULL UNIQUE CHECK (key <> ''),
    change     TEXT    NOT NULL CHECK (change IN ('add', 'process', 'block', 'promote', 'corroborate', 'supersede',
                                                  'shadow', 'archive', 'restore', 'expire', 'forget', 'correct',
                                                  'endorse', 'distrust', 'cite')),
    item       TEXT    NOT NULL CHECK (item GLOB 'mem_?*'),
    revision   INTEGER NOT NULL CHECK ((revision = 1) = (change = 'add') AND revision >= 1),
    actor      TEXT    NOT NULL CHECK (actor IN ('owner', 'paired', 'system')),
    actor_name TEXT    NOT NULL,
    at         INTEGER NOT NULL,
    salt       TEXT    CHECK (salt <> ''),
    request    TEXT    NOT NULL CHECK (length(request) = 64),
    result     TEXT    NOT NULL CHECK (length(result) = 64),
    previous   TEXT    NOT NULL UNIQUE CHECK (length(previous) = 64),
    hash       TEXT    NOT NULL UNIQUE CHECK (length(hash) = 64 AND hash <> previous),
    UNIQUE (item, revision)
) STRICT;

CREATE TABLE item_head (
    id       INTEGER PRIMARY KEY CHECK (id = 1),
    sequence INTEGER NOT NULL CHECK (sequence >= 0),
    hash     TEXT    NOT NULL CHECK (length(hash) = 64),
    at       INTEGER NOT NULL
) STRICT;

INSERT INTO item_head (id, sequence, hash, at)
VALUES (1, 0, '0000000000000000000000000000000000000000000000000000000000000000', -9223372036854775808);

-- Every revision of every item, with the time in which it was the newest one. A forgotten item has one row, which says
-- nothing of what it was.
CREATE TABLE item_revisions (
    item           TEXT    NOT NULL CHECK (item GLOB 'mem_?*'),
    revision       INTEGER NOT NULL CHECK (revision >= 1),
    operation      INTEGER NOT NULL UNIQUE REFERENCES item_operations (sequence),
    known_from     INTEGER NOT NULL,
    known_to       INTEGER CHECK (known_to >= known_from),
    channel        TEXT    NOT NULL CHECK (channel <> ''),
    learnt         INTEGER NOT NULL CHECK (learnt <= known_from),
    layer          TEXT    NOT NULL CHECK (layer IN ('short_term', 'long_term', 'archive')),
    status         TEXT    NOT NULL CHECK (status IN ('active', 'superseded', 'expired', 'forgotten')),
    status_at      INTEGER CHECK (status_at >= learnt),
    expires_at     INTEGER CHECK (expires_at > learnt),
    archived_from  TEXT    CHECK (archived_from IN ('short_term', 'long_term')),
    superseded_by  TEXT    CHECK (superseded_by GLOB 'mem_?*' AND superseded_by <> item),
    reopens        INTEGER CHECK (reopens >= valid_to),
    processing     TEXT    CHECK (processing IN ('pending', 'processed', 'blocked')),
    receipt        TEXT    CHECK (receipt IS NULL
                                  OR (json_valid(receipt)
                                      AND json_extract(receipt, '$.output_hash') IS text_hash
                                      AND json_extract(receipt, '$.output_revision')
                                          IS json_extract(receipt, '$.input_revision') + 1
                                      AND json_extract(receipt, '$.output_revision') <= revision)),
    blocked_reason TEXT    CHECK (trim(blocked_reason) <> ''),
    claim          TEXT    CHECK (trim(claim) <> ''),
    claim_hash     TEXT    CHECK (length(claim_hash) = 32),
    text_hash      TEXT    CHECK (length(text_hash) = 64),
    origin         TEXT    CHECK (origin IN ('user_direct', 'user_file', 'assistant_inferred', 'tool_output',
                                             'external_doc', 'import', 'other_agent')),
    authority      TEXT    CHECK (authority IN ('owner', 'paired')),
    trust          TEXT    CHECK (trust IN ('trusted', 'untrusted')),
    endorsed       INTEGER CHECK (endorsed IN (0, 1)),
    valid_from     INTEGER,
    valid_to       INTEGER CHECK (valid_from IS NULL OR valid_from <= valid_to),
    forget_reason  TEXT    CHECK (forget_reason IN ('owner', 'source_deleted', 'erased')),
    PRIMARY KEY (item, revision),
    -- What a forgotten item keeps, and what every other one has.
    CHECK (CASE status WHEN 'forgotten'
        THEN forget_reason IS NOT NULL
             AND coalesce(expires_at, archived_from, superseded_by, reopens, processing, receipt, blocked_reason, claim,
                          claim_hash, text_hash, origin, authority, trust, endorsed, valid_from, valid_to) IS NULL
        ELSE forget_reason IS NULL AND processing IS NOT NULL AND claim IS NOT NULL AND claim_hash IS NOT NULL
             AND text_hash IS NOT NULL AND origin IS NOT NULL AND authority IS NOT NULL AND trust IS NOT NULL
             AND endorsed IS NOT NULL
             AND (layer = 'short_term') = (expires_at IS NOT NULL)
             AND (layer = 'archive') = (archived_from IS NOT NULL)
    END),
    CHECK ((status = 'active') = (status_at IS NULL)),
    CHECK ((status = 'superseded') = (superseded_by IS NOT NULL)),
    CHECK (status <> 'superseded' OR valid_to IS NOT NULL),
    CHECK (status = 'superseded' OR reopens IS NULL),
    CHECK (status <> 'expired' OR (layer = 'short_term' AND processing = 'processed' AND status_at >= expires_at)),
    CHECK (layer <> 'archive' OR status IN ('active', 'forgotten')),
    CHECK (layer = 'short_term' OR status = 'forgotten' OR processing = 'processed'),
    CHECK ((processing IS 'processed') = (receipt IS NOT NULL)),
    CHECK ((processing IS 'blocked') = (blocked_reason IS NOT NULL)),
    CHECK (origin <> 'user_file' OR authority = 'owner'),
    CHECK (trust <> 'trusted' OR endorsed = 1 OR origin IN ('user_direct', 'user_file', 'assistant_inferred'))
) STRICT;

-- The newest revision of each item; there is one at most.
CREATE UNIQUE INDEX item_current ON item_revisions (item) WHERE known_to IS NULL;

CREATE INDEX item_current_by_time ON item_revisions (learnt DESC, item) WHERE known_to IS NULL;

CREATE INDEX item_current_by_claim ON item_revisions (claim_hash) WHERE known_to IS NULL;

-- What an item rests on, from which revision on.
CREATE TABLE item_evidence (
    item     TEXT    NOT NULL,
    evidence TEXT    NOT NULL CHECK (evidence <> ''),
    source   TEXT    NOT NULL CHECK (trim(source) <> ''),
    trust    TEXT    NOT NULL CHECK (trust IN ('trusted', 'untrusted')),
    since    INTEGER NOT NULL CHECK (since >= 1),
    PRIMARY KEY (item, evidence)
) STRICT, WITHOUT ROWID;

CREATE INDEX item_evidence_by_evidence ON item_evidence (evidence, item);

-- Which items of broader channels an item hides, from which revision on.
CREATE TABLE item_shadows (
    item     TEXT    NOT NULL,
    shadowed TEXT    NOT NULL CHECK (shadowed <> item),
    since    INTEGER NOT NULL CHECK (since >= 1),
    PRIMARY KEY (item, shadowed)
) STRICT, WITHOUT ROWID;

CREATE INDEX item_shadows_by_shadowed ON item_shadows (shadowed, item);

-- Where items are cited. An empty section stands for the whole page.
CREATE TABLE item_citation (
    item     TEXT NOT NULL,
    page     TEXT NOT NULL CHECK (page <> ''),
    section  TEXT NOT NULL,
    evidence TEXT,
    FOREIGN KEY (item, evidence) REFERENCES item_evidence (item, evidence)
) STRICT;

CREATE UNIQUE INDEX item_citation_once ON item_citation (item, page, section, ifnull(evidence, ''));

CREATE INDEX item_citation_by_page ON item_citation (page, item);

-- Word for what derives something from items. A row is deleted when it was dealt with.
CREATE TABLE item_outbox (
    event        INTEGER PRIMARY KEY AUTOINCREMENT,
    item         TEXT    NOT NULL,
    revision     INTEGER NOT NULL CHECK (revision >= 1),
    operation    INTEGER NOT NULL REFERENCES item_operations (sequence),
    lease        INTEGER NOT NULL DEFAULT 0 CHECK (lease >= 0),
    available_at INTEGER NOT NULL,
    dead         INTEGER NOT NULL DEFAULT 0 CHECK (dead IN (0, 1))
) STRICT;

CREATE INDEX item_outbox_by_item ON item_outbox (item, event) WHERE dead = 0;

-- Where a conversation stands. As long as nothing was ever put beside the newest message, everything is visible.
CREATE TABLE conversations (
    id          TEXT PRIMARY KEY CHECK (id <> ''),
    branch      TEXT    NOT NULL,
    branched    INTEGER NOT NULL CHECK (branched IN (0, 1)),
    forked_from TEXT    CHECK (forked_from <> id),
    FOREIGN KEY (id, branch) REFERENCES branches (conversation, branch) DEFERRABLE INITIALLY DEFERRED
) STRICT, WITHOUT ROWID;

-- The one head of each branch: its last visible message.
CREATE TABLE branches (
    conversation TEXT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
    branch       TEXT NOT NULL,
    head         TEXT,
    PRIMARY KEY (conversation, branch),
    FOREIGN KEY (conversation, head) REFERENCES turn_nodes (conversation, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX branches_by_head ON branches (conversation, head);

INSERT INTO conversations (id, branch, branched)
SELECT conversation,
       (SELECT newest.branch FROM turn_nodes AS newest
        WHERE newest.conversation = turn_nodes.conversation ORDER BY newest.seq DESC LIMIT 1),
       count(DISTINCT branch) > 1 OR count(DISTINCT ifnull(parent, '')) < count(*)
FROM turn_nodes GROUP BY conversation;

INSERT INTO branches (conversation, branch, head)
SELECT conversation, branch,
       (SELECT newest.id FROM turn_nodes AS newest
        WHERE newest.conversation = turn_nodes.conversation AND newest.branch = turn_nodes.branch
        ORDER BY newest.seq DESC LIMIT 1)
FROM turn_nodes GROUP BY conversation, branch;

-- Conversations of which there are rows and no messages, and since when that has been known.
CREATE TABLE orphans_seen (
    conversation TEXT PRIMARY KEY,
    since        INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
