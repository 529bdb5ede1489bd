-- Bookkeeping: what is a journal, which segments and row versions it consists of.

-- What the gateway proves its calls by, and the bookkeeping what it has announced to itself.
CREATE TABLE pg_journal.instance (
    secret_key text NOT NULL,
    -- The same, as HMAC-SHA-256 wants it: a block of 64 bytes, combined with each of its two paddings.
    inner_key bytea NOT NULL,
    outer_key bytea NOT NULL,
    database_oid oid NOT NULL,
    -- Bounds of resident tables; 0 rows: tables are tiered from the beginning.
    resident_rows bigint NOT NULL DEFAULT 0,
    resident_bytes bigint NOT NULL DEFAULT 67108864,
    resident_hard_rows bigint NOT NULL DEFAULT 1000000,
    -- Row versions of a tail travel in parts of about this size.
    part_bytes bigint NOT NULL DEFAULT 16777216,
    -- Largest row of a tail: as JSON, which makes six characters of some, it is a text that PostgreSQL can still hold.
    row_bytes bigint NOT NULL DEFAULT 134217728
);
-- The keys are drawn when the functions are made.
INSERT INTO pg_journal.instance (secret_key, inner_key, outer_key, database_oid)
SELECT '', '', '', d.oid FROM pg_catalog.pg_database d WHERE d.datname = current_database();

-- Nothing here takes numbers from a sequence: lastval() is the client's. Those of calls are only set.

CREATE TABLE pg_journal.journals (
    relid oid PRIMARY KEY,
    journal_relid oid NOT NULL,
    tail_relid oid NOT NULL,
    -- Privileges the journal table mirrors now.
    schema_name text NOT NULL,
    table_name text NOT NULL,
    -- Who answers for the table: the catalog table (resident), or the journal alone (tiered).
    residency text NOT NULL CHECK (residency IN ('resident', 'tiered')),
    -- How often that has changed.
    turns bigint NOT NULL DEFAULT 0,
    -- Of a tiered table: whether the catalog table answers for some keys, which are hot, and how often that has begun.
    is_hot boolean NOT NULL DEFAULT false,
    heats bigint NOT NULL DEFAULT 0,
    -- The last version number it had before that; NULL for none.
    cold_version timestamptz,
    -- So many rows are hot, as upkeep has counted, that no more are to become hot before all have gone cold.
    is_overheated boolean NOT NULL DEFAULT false,
    -- Bounds of hot rows that the owner asked for; NULL: the server's.
    hot_rows bigint,
    hot_age_s float8,
    thaw_rows bigint,
    -- What the owner asked for: auto, always, never.
    wanted_residency text NOT NULL DEFAULT 'auto',
    -- What keeps the table resident whatever its size; NULL for nothing.
    pinned_by text,
    -- PostgreSQL has rewritten the rows of a resident table with other values, which the journal is to follow.
    -- Not to be seen by the table's file: TRUNCATE and VACUUM FULL make a new one too.
    rewritten boolean NOT NULL DEFAULT false,
    -- More rows than a resident table may have, as upkeep has counted: none are inserted any more.
    is_full boolean NOT NULL DEFAULT false,
    -- Larger than a resident table is to be, as upkeep has counted, but pinned: who writes next is told.
    is_outgrown boolean NOT NULL DEFAULT false,
    -- What the triggers on the table were made for.
    watched text,
    readers text NOT NULL DEFAULT '',
    -- The partitioned tables above it, the topmost first.
    ancestors oid[] NOT NULL DEFAULT '{}',
    location text NOT NULL CHECK (location ~ '^\d+/\d+$'),
    key int2[] NOT NULL DEFAULT '{}',
    key_name text,
    -- Primary key added while rows exist: the rows are still to be checked and re-keyed.
    pending_key int2[],
    checks oid[] NOT NULL DEFAULT '{}',
    -- Of a tiered table: unique indexes that all rows are known to satisfy, the primary key's left out.
    unique_indexes oid[] NOT NULL DEFAULT '{}',
    -- Random: never the same again, not even after ROLLBACK.
    definition bigint NOT NULL,
    -- Blocks of 2^32 row identities that bulk writes have used up.
    identity_blocks bigint NOT NULL DEFAULT 0,
    -- Grows whenever row versions leave the tail or segments are swapped.
    epoch bigint NOT NULL DEFAULT 1,
    -- Grows with every update of this row.
    changes bigint NOT NULL DEFAULT 0,
    -- Last version number written. Each transaction that writes updates this row once: that is what makes
    -- a concurrent transaction fail to serialize.
    version timestamptz NOT NULL DEFAULT 'epoch',
    tail_rows bigint NOT NULL DEFAULT 0,
    -- Row versions that upkeep has written to files, each as often as it was.
    copied_rows numeric NOT NULL DEFAULT 0,
    -- Of a table whose journal others keep, too: where that lies, and how it names what it holds.
    external jsonb,
    -- How its base is divided into partitions: {"number": …, "fields": [[transform, attnum, type, argument], …]}.
    division jsonb,
    -- When the tail was last written to files, segments were merged to a base, all hot rows went cold.
    flushed_at timestamptz,
    compacted_at timestamptz,
    -- When it has last begun to have hot rows, and ceased to.
    warmed_at timestamptz,
    cooled_at timestamptz,
    -- Transaction that made this row.
    writer xid8 NOT NULL DEFAULT '0'
) WITH (fillfactor = 30, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);
CREATE UNIQUE INDEX ON pg_journal.journals (journal_relid) WHERE journal_relid <> 0;
CREATE INDEX ON pg_journal.journals ((ancestors[1])) WHERE ancestors <> '{}';

-- Tables of which somebody has been told that they stay resident although they are large.
CREATE TABLE pg_journal.told_tables (
    relid oid PRIMARY KEY
);

-- What later writes of the same transaction changed, newest last. Updating the journal's row time and again
-- would leave a trail of dead rows that each look-up had to pass.
CREATE TABLE pg_journal.states (
    relid oid NOT NULL,
    changes bigint NOT NULL,
    version timestamptz NOT NULL,
    tail_rows bigint NOT NULL,
    PRIMARY KEY (relid, changes)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- What upkeep is doing with tables, and where it has failed. A row by itself, which nobody locks for longer than it takes
-- to write it.
CREATE TABLE pg_journal.upkeep (
    relid oid PRIMARY KEY,
    -- Who is at work; a row that somebody has left who died says nothing.
    backend int,
    backend_start timestamptz,
    work text,
    phase text,
    row_count bigint,
    began_at timestamptz,
    -- Attempts that failed since the last one that did not.
    failures bigint NOT NULL DEFAULT 0,
    failed_with text,
    next_attempt timestamptz
) WITH (fillfactor = 30, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);

CREATE TABLE pg_journal.columns (
    relid oid NOT NULL REFERENCES pg_journal.journals ON DELETE CASCADE,
    attnum int2 NOT NULL,
    name text NOT NULL,
    type_oid oid NOT NULL,
    typmod int4 NOT NULL,
    not_null boolean NOT NULL,
    storage_name text NOT NULL,
    missing_value text,
    -- Tree of a generated column's expression, which renaming does not change.
    generation text,
    PRIMARY KEY (relid, attnum)
);
CREATE UNIQUE INDEX ON pg_journal.columns (relid, lower(storage_name));

CREATE TABLE pg_journal.segments (
    segment_id bigint PRIMARY KEY,
    relid oid NOT NULL,
    kind text NOT NULL CHECK (kind IN ('base', 'delta', 'archive')),
    path text NOT NULL,
    row_count bigint NOT NULL,
    size_bytes bigint NOT NULL,
    attnums int2[] NOT NULL,
    min_version timestamptz NOT NULL,
    max_version timestamptz NOT NULL,
    key_min bigint,
    key_max bigint,
    -- The partition that its rows are in: [number of the division, bytes in memory, [value, …]].
    partition json,
    -- Transaction that published it.
    writer xid8 NOT NULL DEFAULT pg_current_xact_id(),
    retired_at timestamptz
);
CREATE INDEX ON pg_journal.segments (relid) WHERE retired_at IS NULL;
CREATE INDEX ON pg_journal.segments (retired_at) WHERE retired_at IS NOT NULL;

-- Locations of dropped tables, until vacuum has removed their files.
CREATE TABLE pg_journal.dropped_locations (
    location text PRIMARY KEY CHECK (location ~ '^\d+/\d+$'),
    dropped_at timestamptz NOT NULL
);

-- The exclusive or of all marks is the fingerprint of all definitions. Several rows, so that concurrent
-- definitions do not wait for each other; random marks, so that a fingerprint never comes back. Every statement
-- reads it: on a page that counts as full readers themselves remove what later definitions left behind.
CREATE TABLE pg_journal.definition_marks (
    slot bigint PRIMARY KEY,
    mark bigint NOT NULL
) WITH (fillfactor = 10);

-- Sequences that sessions number their calls by, each for one session at a time. What a sequence is set to outlives ROLLBACK,
-- and no role can set it. Not logged: with PostgreSQL's memory its backends go, too; and what a statement only reads is to
-- get no transaction number, and to wait for no disk.
CREATE UNLOGGED TABLE pg_journal.series (
    number int PRIMARY KEY,
    sequence oid NOT NULL,
    -- The backend it is for; one that has ended needs it no more.
    backend int NOT NULL DEFAULT 0,
    -- When that began: numbers of processes come again.
    backend_start timestamptz
) WITH (fillfactor = 10);
CREATE UNLOGGED SEQUENCE pg_journal.calls_1;
CREATE UNLOGGED SEQUENCE pg_journal.calls_2;
CREATE UNLOGGED SEQUENCE pg_journal.calls_3;
CREATE UNLOGGED SEQUENCE pg_journal.calls_4;
INSERT INTO pg_journal.series (number, sequence)
SELECT n, ('pg_journal.calls_' || n)::regclass FROM generate_series(1, 4) n;
