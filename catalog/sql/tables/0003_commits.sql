-- Which transactions have changed which tables, and by which row versions. Row versions in a tail carry the transaction that
-- wrote them, so a small write leaves no more than these; what leaves the tail for files is noted here before.

CREATE TABLE pg_journal.commits (
    relid oid NOT NULL,
    writer xid8 NOT NULL,
    -- NULL where the transaction had not ended when it was noted.
    committed_at timestamptz,
    versions timestamptz[] NOT NULL,
    -- Row versions, and those of them that end rows; NULL where only files tell.
    row_count bigint NOT NULL,
    ended bigint,
    PRIMARY KEY (relid, writer)
);
CREATE INDEX ON pg_journal.commits (relid, committed_at);

-- Commits whose effect was taken back, or was gone back to, by other commits.
CREATE TABLE pg_journal.rollbacks (
    relid oid NOT NULL,
    writer xid8 NOT NULL DEFAULT pg_current_xact_id(),
    commit text NOT NULL,
    -- Whether nothing but a commit was taken back: no later changes of the same rows.
    is_plain boolean NOT NULL,
    row_count bigint NOT NULL,
    rolled_back_by name NOT NULL
);
CREATE INDEX ON pg_journal.rollbacks (relid);

-- Commits that somebody may want to go back to.
CREATE TABLE pg_journal.savepoints (
    relid oid NOT NULL,
    commit text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_by name NOT NULL,
    comment text,
    PRIMARY KEY (relid, commit)
);

-- When a table has last got other columns, types or keys than its older row versions have.
CREATE TABLE pg_journal.redefinitions (
    relid oid PRIMARY KEY,
    writer xid8 NOT NULL,
    redefined_at timestamptz NOT NULL
);
