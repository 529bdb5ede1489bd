-- Thawing: current rows of a tiered table are put into its catalog table, for one statement that PostgreSQL runs as it
-- came. What it has made of them goes to the tail. All of it in the client's transaction, which has announced its write.

-- Put rows that come as PostgreSQL's text into the catalog table; the answer is their places. Nothing for rows that a
-- constraint refuses now, as one can that was added without looking at them, or that depends on settings or the time:
-- then none is there.
CREATE OR REPLACE FUNCTION pg_journal.thaw(code text, wanted oid, rows text) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
SET array_nulls = on
SET intervalstyle = 'postgres'
SET xmloption = content
AS $$
DECLARE
    x record;
    places tid[];
BEGIN
    PERFORM authorize(code, 'thaw', wanted::text, rows);
    PERFORM require_right(wanted, true);
    x := row_parts(wanted);
    -- These rows are among those that are looked for when the statement has run.
    PERFORM await_arrival(wanted);
    PERFORM silence(wanted, true);
    EXECUTE format(
        'WITH written AS (INSERT INTO %s (%s) OVERRIDING SYSTEM VALUE SELECT %s FROM json_array_elements($1) u(e) '
        'RETURNING ctid) SELECT array_agg(ctid) FROM written',
        wanted::regclass, x.settable_columns, x.settable_values) INTO places USING rows::json;
    PERFORM silence(wanted, false);
    RETURN convert_to(places::text, 'UTF8');
EXCEPTION
    WHEN integrity_constraint_violation OR data_exception THEN
        RETURN convert_to('', 'UTF8');
END $$;

-- Append what a statement has made of thawed rows to the tail and empty the catalog table. Only keys that were looked
-- for may be there: those of the rows that were `thawed` to some `places`, and those of which there was none. The answer
-- are values of unique keys that were written.
CREATE OR REPLACE FUNCTION pg_journal.capture_thawed(
    code text, wanted oid, version_micros bigint, places text, thawed text, absent text)
RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
SET array_nulls = on
SET intervalstyle = 'postgres'
SET extra_float_digits = 1
SET bytea_output = 'hex'
SET xmloption = content
AS $$
DECLARE
    j journals;
    x record;
    new_version timestamptz := moment(version_micros);
    there json := coalesce(thawed, '[]');
    missing json := coalesce(absent, '[]');
    searched bigint := json_array_length(there) + json_array_length(missing);
    held tid[];
    unknown boolean;
    gone bigint;
    added bigint;
BEGIN
    PERFORM authorize(code, 'capture_thawed', wanted::text, version_micros::text, places, thawed, absent);
    PERFORM require_right(wanted, true);
    j := locked(wanted);
    x := row_parts(wanted);
    held := arrived(wanted, searched);
    PERFORM note_references(wanted);
    EXECUTE format(
        'SELECT EXISTS (SELECT FROM ONLY %1$s n WHERE n.ctid = ANY ($1) '
        'AND NOT EXISTS (SELECT FROM json_array_elements($2) u(e) WHERE %2$s) '
        'AND NOT EXISTS (SELECT FROM json_array_elements($3) u(e) WHERE %2$s))', wanted::regclass, x.given_key)
      INTO unknown USING held, there, missing;
    IF unknown OR cardinality(held) > searched THEN
        PERFORM refuse('writing keys that are known only when the statement runs');
    END IF;
    EXECUTE format(
        'INSERT INTO %s (%s, version_number, subsequent_version_number) SELECT %s, $2, $2 '
        'FROM json_array_elements($1) u(e) WHERE NOT EXISTS (SELECT FROM ONLY %s n WHERE %s)',
        j.tail_relid::regclass, x.tail_columns, x.tail_values, wanted::regclass, x.given_key)
      USING there, new_version;
    GET DIAGNOSTICS gone = ROW_COUNT;
    PERFORM silence(wanted, true);
    -- No column of a table can have the name of a system column.
    EXECUTE format(
        'WITH gone AS (DELETE FROM ONLY %s WHERE ctid = ANY ($2) RETURNING ctid, *) '
        'INSERT INTO %s (%s, version_number) SELECT %s, $1 FROM gone n WHERE NOT n.ctid = ANY ($3)',
        wanted::regclass, j.tail_relid::regclass, x.tail_columns, x.columns)
      USING new_version, held, places::tid[];
    GET DIAGNOSTICS added = ROW_COUNT;
    PERFORM silence(wanted, false);
    IF gone + added > 0 THEN
        PERFORM note_write(j, new_version, gone + added);
    END IF;
    RETURN convert_to(unique_values(wanted, new_version)::text, 'UTF8');
END $$;
