-- Residency: which tables PostgreSQL answers for, and how that changes.

-- Set the bounds of resident tables; without rows all tables are tiered, and code of users is not offered.
CREATE FUNCTION pg_journal.configure(rows_bound bigint, bytes_bound bigint, hard_bound bigint) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
SET event_triggers = off
AS $$
DECLARE
    verb text := CASE WHEN rows_bound > 0 THEN 'GRANT USAGE ON LANGUAGE %I TO PUBLIC'
                      ELSE 'REVOKE USAGE ON LANGUAGE %I FROM PUBLIC' END;
BEGIN
    UPDATE instance SET resident_rows = rows_bound, resident_bytes = bytes_bound, resident_hard_rows = hard_bound
     WHERE (resident_rows, resident_bytes, resident_hard_rows) IS DISTINCT FROM (rows_bound, bytes_bound, hard_bound);
    EXECUTE format(verb, 'plpgsql');
    EXECUTE format(verb, 'sql');
END $$;

-- What keeps a resident table from becoming tiered now; NULL for nothing.
CREATE FUNCTION pg_journal.obstacle(wanted oid) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN (SELECT CASE WHEN j.wanted_residency = 'always' THEN 'gateway.residency = always'
                    ELSE coalesce(j.pinned_by, pg_journal.code_reaching(j.relid)) END
          FROM journals j WHERE j.relid = wanted);

-- Take the rows out of a resident table whose journal has them all: it is tiered from now on. The caller holds
-- an EXCLUSIVE lock on the table. Snapshots taken before still find the rows.
CREATE FUNCTION pg_journal.make_tiered(wanted oid) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
SET session_replication_role = replica
SET event_triggers = off
SET constraint_exclusion = off
AS $$
DECLARE
    j journals;
    reason text;
BEGIN
    PERFORM fold(wanted);
    j := locked(wanted);
    IF j.residency = 'tiered' THEN RETURN; END IF;
    reason := obstacle(wanted);
    IF reason IS NOT NULL THEN
        RAISE EXCEPTION 'table "%" cannot become tiered: %', j.table_name, reason USING ERRCODE = '55000';
    END IF;
    EXECUTE format('DELETE FROM ONLY %I.%I', j.schema_name, j.table_name);
    EXECUTE format(
        'UPDATE pg_journal.journals j SET residency = ''tiered'', epoch = epoch + 1, changes = changes + 1, '
        'tail_rows = t.n, version = greatest(j.version, t.newest), '
        'definition = pg_journal.random_mark() '
        'FROM (SELECT count(*) AS n, max(version_number) AS newest FROM pg_journal.tail_%1$s) t '
        'WHERE j.relid = %1$s', wanted);
    PERFORM constrain_tail(wanted, true);
    PERFORM index_tail(wanted);
    PERFORM watch(wanted);
    PERFORM note_definition();
END $$;

-- Have PostgreSQL answer for a tiered table whose current rows have been put into the catalog table. The caller
-- holds an EXCLUSIVE lock on the table.
CREATE FUNCTION pg_journal.make_resident(wanted oid) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
SET event_triggers = off
AS $$
BEGIN
    PERFORM fold(wanted);
    UPDATE journals j
       SET residency = 'resident', epoch = epoch + 1, changes = changes + 1, pinned_by = pin(wanted), rewritten = false,
           definition = random_mark()
     WHERE j.relid = wanted AND j.residency = 'tiered';
    IF NOT FOUND THEN RETURN; END IF;
    PERFORM constrain_tail(wanted, false);
    PERFORM index_tail(wanted);
    PERFORM watch(wanted);
    PERFORM note_definition();
END $$;

-- What an owner can ask for: auto, always, never.
CREATE FUNCTION pg_journal.ask_residency(secret text, wanted oid, residency text) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    PERFORM authorize(secret);
    IF NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = wanted AND pg_has_role(session_user, c.relowner, 'USAGE')) THEN
        RAISE EXCEPTION 'must be owner of table %', wanted::regclass USING ERRCODE = '42501';
    END IF;
    IF residency NOT IN ('auto', 'always', 'never') THEN
        RAISE EXCEPTION 'invalid value for parameter "gateway.residency": "%"', residency
            USING ERRCODE = '22023', HINT = 'Available values: auto, always, never.';
    END IF;
    UPDATE journals j SET wanted_residency = ask_residency.residency WHERE j.relid = wanted;
    RETURN convert_to('null', 'UTF8');
END $$;

-- Tables with their residency, as clients see them: those they may read.
CREATE FUNCTION pg_journal.residencies(
    OUT schema_name name, OUT table_name name, OUT residency text, OUT asked text, OUT pinned_by text)
RETURNS SETOF record
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
    SELECT n.nspname, c.relname, j.residency, j.wanted_residency,
           CASE WHEN j.residency = 'resident' THEN obstacle(j.relid) END
      FROM journals j JOIN pg_class c ON c.oid = j.relid JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE has_table_privilege(session_user, c.oid, 'SELECT')
$$;
CREATE VIEW pg_journal.tables AS SELECT * FROM pg_journal.residencies();
GRANT SELECT ON pg_journal.tables TO PUBLIC;
