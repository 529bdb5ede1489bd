-- What this transaction has taken away of what deferred foreign keys reference, to be looked at when it ends.
CREATE TABLE pg_journal.taken (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    fk oid NOT NULL,
    -- Whether rows that reference it have been looked for.
    is_settled boolean NOT NULL DEFAULT false,
    -- [[value of each referenced column, as PostgreSQL's text]], at most 10,000
    held json NOT NULL
);
