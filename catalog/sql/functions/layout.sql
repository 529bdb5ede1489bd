-- The law of journals, as far as the bookkeeping has to know it: what catalog/journal says, in SQL. A test compares the two.

-- The columns of row versions that are not those of their table, in their order; the last one only where rows have no key.
CREATE OR REPLACE FUNCTION pg_journal.hidden_columns() RETURNS TABLE (name name, type text, place int)
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
    VALUES ('version_number', 'timestamptz', 1), ('subsequent_version_number', 'timestamptz', 2),
           ('row_identity', 'bigint', 3);
END;

-- Whether a column of a table bears the name of one of these.
CREATE OR REPLACE FUNCTION pg_journal.is_hidden(column_name text) RETURNS boolean
LANGUAGE sql IMMUTABLE
RETURN EXISTS (SELECT FROM pg_journal.hidden_columns() h WHERE h.name = column_name::name);

-- What marks the row of a tail that stands for TRUNCATE: everything older has ended. It is no identity.
CREATE OR REPLACE FUNCTION pg_journal.truncation_mark() RETURNS bigint
LANGUAGE sql IMMUTABLE
RETURN (-9223372036854775808)::bigint;

-- The terms of an ORDER BY over row versions of this name, the newest one first. Of a row version and a tombstone with one
-- number the row version is newer: a statement takes away before it brings.
CREATE OR REPLACE FUNCTION pg_journal.newest_first(source text) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN format('%1$s.version_number DESC NULLS LAST, %1$s.subsequent_version_number ASC NULLS FIRST', source);
