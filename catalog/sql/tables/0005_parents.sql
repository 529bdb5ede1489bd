-- Values of foreign keys that somebody has to look for.
CREATE TABLE pg_journal.sought (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    fk oid NOT NULL,
    -- Whether code of users made the statement that wrote the rows: it could have gone on after an error.
    is_nested boolean NOT NULL,
    -- Whether the constraint was deferred then.
    is_deferred boolean NOT NULL DEFAULT false,
    -- Whether the values are to be looked for: of a deferred one when the transaction ends, or SET CONSTRAINTS says so.
    is_due boolean NOT NULL DEFAULT true,
    -- Whether no row had the values when the rows that have them were looked at.
    was_absent boolean NOT NULL DEFAULT false,
    -- [[value of each column of the index, as PostgreSQL's text]], at most 10,000
    held json NOT NULL
);
