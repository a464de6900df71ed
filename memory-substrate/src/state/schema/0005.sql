-- Two words more: an operation may forget an entry, and a file may lose one. SQLite cannot change a CHECK, so both
-- tables are made anew, with everything that is in them.
CREATE TABLE op_next (
    seq       INTEGER PRIMARY KEY AUTOINCREMENT,
    id        TEXT    NOT NULL UNIQUE CHECK (id <> ''),
    kind      TEXT    NOT NULL CHECK (kind IN ('remember', 'write', 'delete', 'rename', 'ingest', 'forget')),
    actor     TEXT    NOT NULL CHECK (actor <> ''),
    origin    TEXT    NOT NULL CHECK (origin IN ('user_direct', 'user_file', 'assistant_inferred', 'tool_output',
                                                 'external_doc', 'import', 'other_agent')),
    authority TEXT    NOT NULL CHECK (authority IN ('owner', 'paired', 'none')),
    session   TEXT    CHECK (session <> ''),
    epoch     INTEGER NOT NULL CHECK (epoch >= 0),
    idem_key  TEXT    UNIQUE CHECK (idem_key <> ''),
    request   TEXT    NOT NULL,
    outcome   TEXT    NOT NULL CHECK (json_valid(outcome)),
    at        INTEGER NOT NULL,
    state     TEXT    NOT NULL CHECK (state IN ('intent', 'applied'))
) STRICT;

INSERT INTO op_next SELECT * FROM op;

-- Numbers that were used and forgotten are not used again.
DELETE FROM sqlite_sequence WHERE name = 'op_next';
INSERT INTO sqlite_sequence (name, seq) SELECT 'op_next', seq FROM sqlite_sequence WHERE name = 'op';

CREATE TABLE op_file_next (
    op       INTEGER NOT NULL REFERENCES op_next (seq) ON DELETE CASCADE,
    part     INTEGER NOT NULL CHECK (part >= 0),
    path     TEXT    NOT NULL CHECK (path <> ''),
    change   TEXT    NOT NULL CHECK (change IN ('write', 'append', 'remove', 'delete', 'rename')),
    target   TEXT    CHECK (target <> ''),
    header   TEXT,
    expected TEXT,
    hash     TEXT,
    base     BLOB,
    content  BLOB,
    merged   INTEGER NOT NULL DEFAULT 0 CHECK (merged IN (0, 1)),
    origin   TEXT    CHECK (json_valid(origin)),
    result   TEXT    CHECK (result IN ('done', 'merged', 'conflict', 'kept')),
    copy     TEXT,
    PRIMARY KEY (op, part),
    CHECK ((change = 'rename') = (target IS NOT NULL)),
    CHECK ((change = 'append') = (header IS NOT NULL)),
    CHECK ((change IN ('write', 'rename')) = (hash IS NOT NULL)),
    CHECK (change NOT IN ('delete', 'rename') OR expected IS NOT NULL),
    CHECK ((result = 'conflict') = (copy IS NOT NULL) OR result IS NULL),
    CHECK (result IS NULL OR (base IS NULL AND content IS NULL)),
    CHECK (result IS NOT NULL OR (change IN ('remove', 'delete')) = (content IS NULL))
) STRICT;

INSERT INTO op_file_next SELECT * FROM op_file;

DROP TABLE op_file;

DROP TABLE op;

ALTER TABLE op_next RENAME TO op;

ALTER TABLE op_file_next RENAME TO op_file;

CREATE INDEX op_unapplied ON op (seq) WHERE state = 'intent';
