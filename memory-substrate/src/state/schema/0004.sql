-- What every generation of the section index holds, as of the last batch that was flushed to disk. The index is believed
-- only as far as it agrees with this. `pruning` says that files may be missing because they were being removed.
CREATE TABLE index_generations (
    space   TEXT    NOT NULL CHECK (space <> ''),
    number  INTEGER NOT NULL CHECK (number >= 1),
    serving INTEGER NOT NULL DEFAULT 0 CHECK (serving IN (0, 1)),
    version INTEGER NOT NULL CHECK (version >= 0),
    rows    INTEGER NOT NULL CHECK (rows >= 0),
    pruning INTEGER NOT NULL DEFAULT 0 CHECK (pruning IN (0, 1)),
    PRIMARY KEY (space, number)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX index_serving ON index_generations (space) WHERE serving = 1;

-- Its files, relative to the generation's folder, with forward slashes.
CREATE TABLE index_files (
    space    TEXT    NOT NULL,
    number   INTEGER NOT NULL,
    path     TEXT    NOT NULL CHECK (path <> ''),
    bytes    INTEGER NOT NULL CHECK (bytes >= 0),
    checksum INTEGER NOT NULL CHECK (checksum BETWEEN 0 AND 4294967295),
    PRIMARY KEY (space, number, path),
    FOREIGN KEY (space, number) REFERENCES index_generations (space, number) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
