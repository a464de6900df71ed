CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The tree of messages. `seq` is the order of arrival.
CREATE TABLE turn_nodes (
    seq            INTEGER PRIMARY KEY AUTOINCREMENT,
    id             TEXT    NOT NULL UNIQUE CHECK (id <> ''),
    conversation   TEXT    NOT NULL CHECK (conversation <> ''),
    parent         TEXT    CHECK (parent <> id),
    branch         TEXT    NOT NULL,
    turn           INTEGER NOT NULL CHECK (turn >= 1),
    role           TEXT    NOT NULL CHECK (role IN ('user', 'assistant', 'tool')),
    text           TEXT    NOT NULL,
    finalised      INTEGER NOT NULL CHECK (finalised IN (0, 1)),
    speaker        TEXT,
    principal      TEXT,
    authority      TEXT    NOT NULL CHECK (authority IN ('owner', 'paired', 'none')),
    agent          TEXT,
    channel        TEXT    NOT NULL CHECK (channel <> ''),
    origin         TEXT    NOT NULL CHECK (origin IN ('user_direct', 'user_file', 'assistant_inferred', 'tool_output',
                                                      'external_doc', 'import', 'other_agent')),
    event_time     INTEGER NOT NULL,
    ingestion_time INTEGER NOT NULL,
    metadata       TEXT    NOT NULL CHECK (json_valid(metadata) AND json_type(metadata) = 'object'),
    UNIQUE (conversation, id),
    FOREIGN KEY (conversation, parent) REFERENCES turn_nodes (conversation, id)
) STRICT;

CREATE INDEX turn_nodes_by_branch ON turn_nodes (conversation, branch, seq);

CREATE INDEX turn_nodes_by_parent ON turn_nodes (conversation, parent);

-- Blocks as they were attached to a message. `seq` keeps the order of attachment.
CREATE TABLE turn_blocks (
    seq     INTEGER PRIMARY KEY AUTOINCREMENT,
    message TEXT NOT NULL REFERENCES turn_nodes (id) ON DELETE CASCADE,
    key     TEXT NOT NULL CHECK (key <> ''),
    text    TEXT NOT NULL,
    UNIQUE (message, key)
) STRICT;

-- What is in a conversation's context. An empty section stands for the whole page.
CREATE TABLE resident (
    seq          INTEGER PRIMARY KEY AUTOINCREMENT,
    conversation TEXT    NOT NULL CHECK (conversation <> ''),
    slug         TEXT    NOT NULL CHECK (slug <> ''),
    section      TEXT    NOT NULL,
    message      TEXT    NOT NULL CHECK (message <> ''),
    tier         TEXT    NOT NULL CHECK (tier IN ('v1', 'v2', 'v3')),
    bytes        INTEGER NOT NULL CHECK (bytes >= 0),
    at           INTEGER NOT NULL,
    UNIQUE (conversation, message, slug, section)
) STRICT;

CREATE TABLE tier_log (
    seq          INTEGER PRIMARY KEY AUTOINCREMENT,
    conversation TEXT    NOT NULL CHECK (conversation <> ''),
    turn         INTEGER NOT NULL CHECK (turn >= 0),
    tier         TEXT    NOT NULL CHECK (tier IN ('v1', 'v2', 'v3')),
    kind         TEXT    NOT NULL CHECK (kind IN ('selection', 'pool_audit', 'activation')),
    slug         TEXT,
    body         TEXT    NOT NULL CHECK (json_valid(body)),
    at           INTEGER NOT NULL
) STRICT;

CREATE INDEX tier_log_newest ON tier_log (conversation, kind, seq);

CREATE TABLE tier_kv (
    namespace TEXT NOT NULL CHECK (namespace <> ''),
    scope     TEXT NOT NULL CHECK (scope IN ('conversation', 'assistant')),
    owner     TEXT NOT NULL CHECK ((scope = 'assistant') = (owner = '')),
    key       TEXT NOT NULL CHECK (key <> ''),
    value     TEXT NOT NULL,
    PRIMARY KEY (namespace, scope, owner, key)
) STRICT, WITHOUT ROWID;

-- How pages came in. A page without a row is the owner's own file.
CREATE TABLE page_origins (
    slug          TEXT PRIMARY KEY CHECK (slug <> ''),
    original_name TEXT    NOT NULL,
    origin        TEXT    NOT NULL CHECK (origin IN ('user_direct', 'user_file', 'assistant_inferred', 'tool_output',
                                                     'external_doc', 'import', 'other_agent')),
    authority     TEXT    NOT NULL CHECK (authority IN ('owner', 'paired', 'none')),
    at            INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What parsing the files gave, so that an unchanged file need not be parsed again. May be emptied at any time.
CREATE TABLE page_cache (
    path        TEXT PRIMARY KEY,
    slug        TEXT    NOT NULL,
    bytes       INTEGER NOT NULL,
    modified_ms INTEGER NOT NULL,
    checked_ms  INTEGER NOT NULL,
    hash        TEXT    NOT NULL,
    meta        TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

-- The intake. `entry` is the redo text: it is there exactly until the entry is in its files.
CREATE TABLE remembered (
    seq       INTEGER PRIMARY KEY AUTOINCREMENT,
    id        TEXT    NOT NULL UNIQUE CHECK (id <> ''),
    hash      TEXT    NOT NULL,
    channel   TEXT    NOT NULL CHECK (channel <> ''),
    origin    TEXT    NOT NULL CHECK (origin IN ('user_direct', 'user_file', 'assistant_inferred', 'tool_output',
                                                 'external_doc', 'import', 'other_agent')),
    authority TEXT    NOT NULL CHECK (authority IN ('owner', 'paired', 'none')),
    trust     TEXT    NOT NULL CHECK (trust IN ('trusted', 'untrusted')),
    at        INTEGER NOT NULL,
    day       TEXT    NOT NULL,
    state     TEXT    NOT NULL CHECK (state IN ('pending', 'applied')),
    entry     TEXT,
    CHECK ((state = 'pending') = (entry IS NOT NULL))
) STRICT;

CREATE INDEX remembered_by_hash ON remembered (hash, seq);

CREATE INDEX remembered_pending ON remembered (seq) WHERE state = 'pending';

CREATE INDEX remembered_withheld ON remembered (seq) WHERE trust = 'untrusted' OR channel <> '_global';
