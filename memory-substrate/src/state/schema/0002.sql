-- Operations on files: the redo records. The commit that adds one acknowledges it. `idem_key` lets a caller repeat a
-- request, `request` tells whether it is the same one, `outcome` is what the first one returned.
CREATE TABLE op (
    seq       INTEGER PRIMARY KEY AUTOINCREMENT,
    id        TEXT    NOT NULL UNIQUE CHECK (id <> ''),
    kind      TEXT    NOT NULL CHECK (kind IN ('remember', 'write', 'delete', 'rename', 'ingest')),
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

CREATE INDEX op_unapplied ON op (seq) WHERE state = 'intent';

-- What an operation does to one file, in order. Paths are relative to the assistant's folder. The hashes are those of
-- the bytes before and after; `base` and `content` are those bytes, kept until the file has them; after a
-- merge they are the edit and the merge. `result` tells what became of it.
CREATE TABLE op_file (
    op       INTEGER NOT NULL REFERENCES op (seq) ON DELETE CASCADE,
    part     INTEGER NOT NULL CHECK (part >= 0),
    path     TEXT    NOT NULL CHECK (path <> ''),
    change   TEXT    NOT NULL CHECK (change IN ('write', 'append', 'delete', 'rename')),
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
    CHECK (result IS NOT NULL OR (change = 'delete') = (content IS NULL))
) STRICT;

-- Entries that were committed and are not known to be in their files become operations.
INSERT INTO op (id, kind, actor, origin, authority, epoch, request, outcome, at, state)
SELECT id, 'remember', 'strata', origin, authority, 0, hash, '[]', at, 'intent'
FROM remembered WHERE state = 'pending' ORDER BY seq;

INSERT INTO op_file (op, part, path, change, header, content)
SELECT op.seq, 0, 'memory/buffer.md', 'append', '', CAST(remembered.entry AS BLOB)
FROM op JOIN remembered ON remembered.id = op.id;

INSERT INTO op_file (op, part, path, change, header, content)
SELECT op.seq, 1, 'memory/archive/' || remembered.day || '.md', 'append',
       '# ' || remembered.day || char(10) || char(10), CAST(remembered.entry AS BLOB)
FROM op JOIN remembered ON remembered.id = op.id;

-- The intake, whose redo text is now in the operation that brought an entry in.
CREATE TABLE entries (
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
    op        TEXT    NOT NULL
) STRICT;

INSERT INTO entries (seq, id, hash, channel, origin, authority, trust, at, day, op)
SELECT seq, id, hash, channel, origin, authority, trust, at, day, id FROM remembered;

DROP TABLE remembered;

ALTER TABLE entries RENAME TO remembered;

CREATE INDEX remembered_by_hash ON remembered (hash, seq);

CREATE INDEX remembered_withheld ON remembered (seq) WHERE trust = 'untrusted' OR channel <> '_global';
