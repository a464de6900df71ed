-- Background work. First its runs that changed files: what each did, for showing it and for taking it back.
CREATE TABLE run (
    seq       INTEGER PRIMARY KEY AUTOINCREMENT,
    id        TEXT    NOT NULL UNIQUE CHECK (id <> ''),
    kind      TEXT    NOT NULL CHECK (kind IN ('consolidation')),
    cause     TEXT    NOT NULL CHECK (cause <> ''),
    filer     TEXT    NOT NULL CHECK (filer <> ''),
    started   INTEGER NOT NULL,
    ended     INTEGER NOT NULL CHECK (ended >= started),
    outcome   TEXT    NOT NULL CHECK (outcome IN ('installed', 'nothing', 'failed')),
    -- The operation that installed it, which is how it is taken back.
    operation TEXT    UNIQUE,
    report    TEXT    NOT NULL CHECK (json_valid(report)),
    CHECK ((outcome = 'installed') = (operation IS NOT NULL))
) STRICT;

-- The entries that a run took out of the buffer, byte for byte, so that they can be put back.
CREATE TABLE run_entry (
    run      INTEGER NOT NULL REFERENCES run (seq) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    entry    TEXT    NOT NULL CHECK (entry <> ''),
    text     TEXT    NOT NULL,
    -- What was put on a page for it; nothing when only its mark was.
    block    TEXT,
    PRIMARY KEY (run, position)
) STRICT, WITHOUT ROWID;

CREATE INDEX run_entry_by_entry ON run_entry (entry);

-- Work that nobody waits for. `key` is what makes another one superfluous; a lease is held until `lease_until`, and each
-- has a greater token than the one before.
CREATE TABLE memory_jobs (
    seq         INTEGER PRIMARY KEY AUTOINCREMENT,
    id          TEXT    NOT NULL UNIQUE CHECK (id <> ''),
    type        TEXT    NOT NULL CHECK (type <> ''),
    payload     TEXT    NOT NULL CHECK (json_valid(payload)),
    lane        TEXT    NOT NULL CHECK (lane IN ('model', 'embed', 'fast')),
    status      TEXT    NOT NULL CHECK (status IN ('pending', 'running', 'completed', 'failed', 'cancelled')),
    attempts    INTEGER NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    deferrals   INTEGER NOT NULL DEFAULT 0 CHECK (deferrals >= 0),
    run_after   INTEGER NOT NULL,
    token       INTEGER NOT NULL DEFAULT 0 CHECK (token >= 0),
    lease_until INTEGER,
    is_stopping INTEGER NOT NULL DEFAULT 0 CHECK (is_stopping IN (0, 1)),
    last_error  TEXT,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    CHECK ((status = 'running') = (lease_until IS NOT NULL))
) STRICT;

CREATE INDEX memory_jobs_waiting ON memory_jobs (lane, run_after, seq) WHERE status IN ('pending', 'running');
CREATE INDEX memory_jobs_by_type ON memory_jobs (type) WHERE status IN ('pending', 'running');

-- Points that recurring work has reached.
CREATE TABLE memory_checkpoints (
    key        TEXT    NOT NULL PRIMARY KEY CHECK (key <> ''),
    value      TEXT    NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
