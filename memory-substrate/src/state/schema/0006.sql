-- Evidence that was acknowledged and is not known to be in the evidence store: the redo records, as JSON, in their order.
-- A row is deleted when the store has it. `fault` says why one was refused for good.
CREATE TABLE evidence_redo (
    seq    INTEGER PRIMARY KEY AUTOINCREMENT,
    change TEXT NOT NULL CHECK (json_valid(change)),
    fault  TEXT
) STRICT;
