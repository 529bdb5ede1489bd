-- Residency: which tables PostgreSQL answers for, and how that changes.

-- Set the bounds of resident tables; without rows all tables are tiered, and code of users is not offered.
CREATE OR REPLACE FUNCTION pg_journal.configure(rows_bound bigint, bytes_bound bigint, hard_bound bigint) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
SET event_triggers = off
SET allow_system_table_mods = on
AS $$
BEGIN
    UPDATE instance SET resident_rows = rows_bound, resident_bytes = bytes_bound, resident_hard_rows = hard_bound
     WHERE (resident_rows, resident_bytes, resident_hard_rows) IS DISTINCT FROM (rows_bound, bytes_bound, hard_bound);
    IF rows_bound = 0 THEN
        REVOKE USAGE ON LANGUAGE plpgsql, sql FROM PUBLIC;
    ELSE
        -- As a new database has them: GRANT would leave a list of privileges to be seen.
        UPDATE pg_language SET lanacl = NULL WHERE lanname IN ('plpgsql', 'sql') AND lanacl IS NOT NULL;
    END IF;
END $$;

-- What keeps a resident table from becoming tiered now; NULL for nothing.
CREATE OR REPLACE FUNCTION pg_journal.obstacle(wanted oid) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN (SELECT CASE WHEN j.wanted_residency = 'always' THEN 'gateway.residency = always'
                    -- Temporary children go with their session, untold.
                    ELSE coalesce(CASE WHEN j.pinned_by = 'INHERITS' AND NOT is_in_tree(j.relid) THEN pin(j.relid)
                                       ELSE j.pinned_by END,
                                  (pg_journal.code_reaching(ARRAY[j.relid])).what) END
          FROM journals j WHERE j.relid = wanted);

-- Rows of a resident table and their bytes, where it may be past its bounds; zeros where its file says that it is
-- not, or unless `always` is asked for.
CREATE OR REPLACE FUNCTION pg_journal.measured(wanted oid, always boolean, OUT row_count bigint, OUT row_bytes bigint)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    bounds instance;
    size bigint := pg_relation_size(wanted);
BEGIN
    SELECT * INTO bounds FROM instance;
    row_count := 0; row_bytes := 0;
    -- A row takes 28 bytes at least.
    IF always OR size > bounds.resident_bytes OR size / 28 > bounds.resident_rows THEN
        EXECUTE (SELECT format('SELECT count(*), coalesce(sum(pg_column_size(t.*)), 0) FROM ONLY %I.%I t',
                               j.schema_name, j.table_name) FROM journals j WHERE j.relid = wanted)
           INTO row_count, row_bytes;
    END IF;
END $$;

-- Whether a resident table is larger than one is to be.
CREATE OR REPLACE FUNCTION pg_journal.is_large(wanted oid) RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN (SELECT m.row_count > i.resident_rows OR m.row_bytes > i.resident_bytes
          FROM measured(wanted, false) m, instance i);

-- Take the rows out of a resident table whose journal has them all: it is tiered from now on. The caller holds
-- an EXCLUSIVE lock on the table. Snapshots taken before still find the rows.
CREATE OR REPLACE FUNCTION pg_journal.make_tiered(wanted oid) RETURNS void
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
    PERFORM lock_above(wanted, '');
    PERFORM fold(wanted);
    j := locked(wanted);
    IF j.residency = 'tiered' THEN RETURN; END IF;
    -- Code that runs now may come to the table yet.
    LOCK TABLE pg_journal.code_gate IN EXCLUSIVE MODE NOWAIT;
    reason := coalesce(obstacle(wanted), pin(wanted));
    IF reason IS NOT NULL THEN
        RAISE EXCEPTION 'table "%" cannot become tiered: %', j.table_name, reason USING ERRCODE = '55000';
    END IF;
    EXECUTE format(
        'UPDATE pg_journal.journals j SET residency = ''tiered'', turns = turns + 1, epoch = epoch + 1, '
        'changes = changes + 1, unique_indexes = pg_journal.unique_indexes(j.relid), '
        'unvalidated = pg_journal.unvalidated_constraints(j.relid), '
        'is_full = false, is_outgrown = false, tail_rows = t.n, version = greatest(j.version, t.newest), '
        'definition = pg_journal.random_mark() '
        'FROM (SELECT count(*) AS n, max(version_number) AS newest FROM pg_journal.tail_%1$s) t '
        'WHERE j.relid = %1$s', wanted);
    PERFORM lock_table(c.relid, 'SHARE ROW EXCLUSIVE') FROM referencing_tables(wanted) c;
    PERFORM settle_references(wanted);
    PERFORM note_references(wanted);
    EXECUTE format('DELETE FROM ONLY %I.%I', j.schema_name, j.table_name);
    PERFORM constrain_tail(wanted, true);
    PERFORM index_tail(wanted);
    PERFORM watch(wanted);
    PERFORM note_definition();
END $$;

-- True when neither a resident table nor its tail holds anything. Volatile: it looks anew in each statement, as after
-- a lock has been taken.
CREATE OR REPLACE FUNCTION pg_journal.is_vacant(wanted oid) RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    filled boolean;
BEGIN
    EXECUTE (SELECT format('SELECT EXISTS (SELECT FROM ONLY %I.%I) OR EXISTS (SELECT FROM pg_journal.tail_%s)',
                           j.schema_name, j.table_name, j.relid)
               FROM journals j WHERE j.relid = wanted) INTO filled;
    RETURN NOT filled;
END $$;

-- Make an empty resident table tiered before a large load, in the transaction that loads it. The answer: begun;
-- resident, where it has to stay so; busy, when others are using it, or code is running that may come to it.
CREATE OR REPLACE FUNCTION pg_journal.begin_load(code text, wanted oid) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
SET client_min_messages = warning
AS $$
DECLARE
    name text;
    other regclass;
BEGIN
    PERFORM authorize(code, 'begin_load', wanted::text);
    PERFORM require_right(wanted, true);
    SELECT format('%I.%I', j.schema_name, j.table_name) INTO name
      FROM journals j WHERE j.relid = wanted AND j.residency = 'resident';
    IF name IS NULL THEN RETURN convert_to('resident', 'UTF8'); END IF;
    BEGIN
        PERFORM lock_above(wanted, 'NOWAIT');
        EXECUTE format('LOCK TABLE ONLY %s IN EXCLUSIVE MODE NOWAIT', name);
        IF NOT is_vacant(wanted) OR obstacle(wanted) IS NOT NULL OR pin(wanted) IS NOT NULL THEN
            RETURN convert_to('resident', 'UTF8');
        END IF;
        -- What it references is to tell who takes that away, and what references it to look for what it holds.
        FOR other IN SELECT x.confrelid::regclass FROM pg_constraint x WHERE x.conrelid = wanted AND x.contype = 'f'
                      UNION SELECT c.relid::regclass FROM referencing_tables(wanted) c LOOP
            EXECUTE format('LOCK TABLE ONLY %s IN SHARE ROW EXCLUSIVE MODE NOWAIT', other);
        END LOOP;
        IF has_pending(wanted) THEN RETURN convert_to('resident', 'UTF8'); END IF;
        PERFORM make_tiered(wanted);
    EXCEPTION WHEN lock_not_available THEN
        RETURN convert_to('busy', 'UTF8');
    END;
    RETURN convert_to('begun', 'UTF8');
END $$;

-- True for an empty resident table that a large load could make tiered. An older snapshot might not show the rows
-- and the code that others have committed since.
CREATE OR REPLACE FUNCTION pg_journal.is_loadable(code text, wanted oid) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    loadable boolean := false;
BEGIN
    PERFORM authorize(code, 'is_loadable', wanted::text);
    IF current_setting('transaction_isolation') = 'read committed'
       AND EXISTS (SELECT FROM journals j WHERE j.relid = wanted AND j.residency = 'resident'
                      AND j.pinned_by IS NULL AND j.wanted_residency <> 'always') THEN
        loadable := is_vacant(wanted);
    END IF;
    RETURN convert_to(to_json(loadable)::text, 'UTF8');
END $$;

-- Have PostgreSQL answer for a tiered table whose current rows have been put into the catalog table. The caller
-- holds an EXCLUSIVE lock on the table. 55000 for a table that is resident: it would have its rows twice.
CREATE OR REPLACE FUNCTION pg_journal.make_resident(wanted oid) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
SET event_triggers = off
AS $$
BEGIN
    PERFORM fold(wanted);
    UPDATE journals j
       SET residency = 'resident', turns = turns + 1, epoch = epoch + 1, changes = changes + 1,
           pinned_by = pin(wanted), rewritten = false, unique_indexes = '{}', definition = random_mark()
     WHERE j.relid = wanted AND j.residency = 'tiered';
    IF NOT FOUND THEN
        RAISE EXCEPTION 'table % is not tiered', wanted::regclass USING ERRCODE = '55000';
    END IF;
    PERFORM lock_table(c.relid, 'SHARE ROW EXCLUSIVE') FROM referencing_tables(wanted) c;
    PERFORM settle_references(wanted);
    PERFORM constrain_tail(wanted, false);
    PERFORM index_tail(wanted);
    PERFORM watch(wanted);
    PERFORM note_definition();
END $$;

-- 42501 for others than the owner of a table.
CREATE OR REPLACE FUNCTION pg_journal.require_owner(relid oid) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = relid AND pg_has_role(acting_role(), c.relowner, 'USAGE')) THEN
        RAISE EXCEPTION 'must be owner of table %', relid::regclass USING ERRCODE = '42501';
    END IF;
END $$;

-- Keep what an owner asks for: auto, always, never. 42501 for others than the owner, 22023 for another word.
CREATE OR REPLACE FUNCTION pg_journal.ask_residency(code text, wanted oid, residency text) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    PERFORM authorize(code, 'ask_residency', wanted::text, residency);
    PERFORM require_owner(wanted);
    IF residency NOT IN ('auto', 'always', 'never') THEN
        RAISE EXCEPTION 'invalid value for parameter "gateway.residency": "%"', residency
            USING ERRCODE = '22023', HINT = 'Available values: auto, always, never.';
    END IF;
    IF EXISTS (SELECT FROM journals j WHERE j.relid = wanted AND j.external IS NOT NULL) THEN
        RAISE EXCEPTION 'gateway.residency of an external journal is not supported' USING ERRCODE = '0A000';
    END IF;
    UPDATE journals j SET wanted_residency = ask_residency.residency
     WHERE j.relid = wanted OR wanted = ANY (j.ancestors);
    IF residency = 'always' AND EXISTS (SELECT FROM journals j WHERE j.relid = wanted AND j.residency = 'resident')
       AND is_large(wanted) THEN
        PERFORM tell_growth(wanted);
    END IF;
    RETURN convert_to('null', 'UTF8');
END $$;

-- Keep a bound of hot rows that an owner asks for: hot_rows, hot_age_s, thaw_rows; NULL for the server's. 42501 for others
-- than the owner, 22023 for what is no number of that kind.
CREATE OR REPLACE FUNCTION pg_journal.ask_bound(code text, wanted oid, bound text, value text) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    PERFORM authorize(code, 'ask_bound', wanted::text, bound, value);
    PERFORM require_owner(wanted);
    IF value !~ (CASE bound WHEN 'hot_age_s' THEN '^\d{1,9}(\.\d{1,9})?$' ELSE '^\d{1,9}$' END) THEN
        RAISE EXCEPTION 'invalid value for parameter "gateway.%": "%"', bound, value
            USING ERRCODE = '22023', HINT = CASE bound WHEN 'hot_age_s' THEN 'The value is a number of seconds.'
                                                       ELSE 'The value is a number of rows.' END;
    END IF;
    UPDATE journals j
       SET hot_rows = CASE bound WHEN 'hot_rows' THEN value::bigint ELSE j.hot_rows END,
           hot_age_s = CASE bound WHEN 'hot_age_s' THEN value::float8 ELSE j.hot_age_s END,
           thaw_rows = CASE bound WHEN 'thaw_rows' THEN value::bigint ELSE j.thaw_rows END
     WHERE j.relid = wanted OR wanted = ANY (j.ancestors);
    RETURN convert_to('null', 'UTF8');
END $$;

-- The journal of a partitioned table as a query in parentheses: the row versions of all its partitions, in its own
-- columns. NULL for other relations, and when a partition has none.
CREATE OR REPLACE FUNCTION pg_journal.partitioned_journal(root oid) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    parts oid[];
    with_identity boolean;
    names text[];
    types text[];
    answer text;
BEGIN
    IF (SELECT c.relkind FROM pg_class c WHERE c.oid = root) IS DISTINCT FROM 'p'
       OR EXISTS (SELECT FROM pg_partition_tree(root) t
                   WHERE t.isleaf AND NOT EXISTS (SELECT FROM journals j WHERE j.relid = t.relid)) THEN
        RETURN NULL;
    END IF;
    parts := ARRAY(SELECT j.journal_relid FROM pg_partition_tree(root) t JOIN journals j ON j.relid = t.relid
                    ORDER BY j.relid);
    with_identity := row_key(root) = '{}' OR EXISTS (
        SELECT FROM pg_attribute a WHERE a.attrelid = ANY (parts) AND a.attname = 'row_identity');
    SELECT array_agg(c.name ORDER BY c.place), array_agg(c.type ORDER BY c.place) INTO names, types
      FROM (SELECT a.attname::text, tail_type(a.atttypid, a.atttypmod), (0, a.attnum::int) FROM pg_attribute a
             WHERE a.attrelid = root AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated <> 'v'
             UNION ALL
            SELECT v.name::text, v.type, (1, v.place)
              FROM hidden_columns() v
             WHERE (v.place < 3 OR with_identity)
               AND NOT EXISTS (SELECT FROM pg_attribute a
                                WHERE a.attrelid = root AND a.attname = v.name AND NOT a.attisdropped)
           ) c(name, type, place);
    -- A partition may have no identity where another one has it.
    SELECT string_agg(format('SELECT %s FROM pg_journal.%I', (
               SELECT string_agg(CASE WHEN EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = p AND a.attname = n
                                                      AND NOT a.attisdropped)
                                      THEN quote_ident(n) ELSE format('NULL::%s AS %I', y, n) END, ', ' ORDER BY place)
                 FROM unnest(names, types) WITH ORDINALITY c(n, y, place)), x.relname), ' UNION ALL ' ORDER BY o)
      INTO answer FROM unnest(parts) WITH ORDINALITY u(p, o) JOIN pg_class x ON x.oid = p;
    IF answer IS NULL THEN
        SELECT format('SELECT %s WHERE false', string_agg(format('NULL::%s AS %I', y, n), ', ' ORDER BY place))
          INTO answer FROM unnest(names, types) WITH ORDINALITY c(n, y, place);
    END IF;
    RETURN format('(%s)', answer);
END $$;

-- What stands for the journals of tables, as SQL.
CREATE OR REPLACE FUNCTION pg_journal.journals_named(code text, relids oid[]) RETURNS bytea
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM pg_journal.authorize(code, 'journals_named', relids::text);
    RETURN convert_to(coalesce((
        SELECT json_object_agg(found.relid, found.spelled) FROM (
            SELECT wanted AS relid, coalesce(
                       (SELECT j.journal_relid::regclass::text FROM pg_journal.journals j WHERE j.relid = wanted),
                       pg_journal.partitioned_journal(wanted)) AS spelled
              FROM unnest(relids) u(wanted)) found
         WHERE found.spelled IS NOT NULL), '{}')::text, 'UTF8');
END $$;

-- Tables with their residency, as clients see them: those they may read.
CREATE OR REPLACE FUNCTION pg_journal.residencies(
    OUT schema_name name, OUT table_name name, OUT residency text, OUT asked text, OUT pinned_by text)
RETURNS SETOF record
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
    SELECT n.nspname, c.relname, j.residency, j.wanted_residency,
           CASE WHEN j.residency = 'resident' THEN obstacle(j.relid) END
      FROM journals j JOIN pg_class c ON c.oid = j.relid JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE has_table_privilege(acting_role(), c.oid, 'SELECT')
$$;
CREATE OR REPLACE VIEW pg_journal.tables AS SELECT * FROM pg_journal.residencies();
GRANT SELECT ON pg_journal.tables TO PUBLIC;

-- Lock a table and its tail for counting; 55P03 where somebody keeps readers away. Upkeep waits for no lock while it holds
-- another one: a client could be waiting for that, and be the one who fails with a deadlock.
CREATE OR REPLACE FUNCTION pg_journal.lock_for_count(wanted oid, tail oid) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    EXECUTE format('LOCK TABLE ONLY %s, ONLY %s IN ACCESS SHARE MODE NOWAIT', wanted::regclass, tail::regclass);
EXCEPTION WHEN undefined_table OR invalid_schema_name OR syntax_error THEN
    RAISE undefined_table;
END $$;

-- How many rows the catalog table of a table holds; 42P01 where it has gone.
CREATE OR REPLACE FUNCTION pg_journal.held_count(wanted oid, OUT held bigint)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    EXECUTE format('SELECT count(*) FROM ONLY %s', wanted::regclass) INTO held;
EXCEPTION WHEN undefined_table OR invalid_schema_name OR syntax_error THEN
    RAISE EXCEPTION 'relation with OID % does not exist', wanted USING ERRCODE = 'undefined_table';
END $$;

-- End a block that has counted: what is locked in it is let go, its variables stay (GW004).
CREATE OR REPLACE FUNCTION pg_journal.end_count() RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    RAISE EXCEPTION 'counted' USING ERRCODE = 'GW004';
END $$;

-- How many bytes the values of a tail take up; 0 where it is small. Of one that has been large its empty pages are left.
CREATE OR REPLACE FUNCTION pg_journal.tail_bytes(wanted oid, tail oid) RETURNS bigint
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    size bigint := 0;
BEGIN
    IF size_at_most(tail) > 65536 THEN
        EXECUTE format('SELECT coalesce(sum(%s), 0) FROM %s v', row_size(wanted, 'v'), tail::regclass) INTO size;
    END IF;
    RETURN size;
END $$;

-- Tiered tables whose readers merge much, with whether all of them is worth to be written anew: they have as many versions in
-- deltas as PostgreSQL's autovacuum would allow dead rows, by the storage parameters of its that a table may have. The others
-- have so many bases, or so many deltas. Not those with hot rows, which flushes compact.
CREATE OR REPLACE FUNCTION pg_journal.worn_tables(
    threshold bigint, scale_factor float8, most_segments bigint, OUT relid oid, OUT is_outworn boolean)
RETURNS SETOF record
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
    SELECT worn.relid, worn.is_outworn
      FROM (SELECT j.relid, s.deltas, CASE WHEN j.division IS NULL THEN s.bases ELSE 0 END AS bases,
                   s.changed > CASE WHEN asked.most >= 0 THEN least(asked.most, allowed.rows) ELSE allowed.rows END AS is_outworn
              FROM journals j JOIN pg_class c ON c.oid = j.relid
              CROSS JOIN LATERAL (
                    SELECT coalesce(sum(s.row_count) FILTER (WHERE s.kind = 'delta'), 0) AS changed,
                           coalesce(sum(s.row_count) FILTER (WHERE s.kind = 'base'), 0) AS kept,
                           count(*) FILTER (WHERE s.kind = 'base') AS bases,
                           count(*) FILTER (WHERE s.kind = 'delta') AS deltas
                      FROM segments s WHERE s.relid = j.relid AND s.retired_at IS NULL) s
              -- Values are as they were written: 1e3 is a whole number there.
              CROSS JOIN LATERAL (
                    SELECT coalesce(bool_and(o.option_value::boolean) FILTER (WHERE o.option_name = 'autovacuum_enabled'),
                                    true) AS enabled,
                           max(o.option_value::float8) FILTER (WHERE o.option_name = 'autovacuum_vacuum_threshold') AS least,
                           max(o.option_value::float8)
                               FILTER (WHERE o.option_name = 'autovacuum_vacuum_scale_factor') AS part,
                           max(o.option_value::float8)
                               FILTER (WHERE o.option_name = 'autovacuum_vacuum_max_threshold') AS most
                      FROM pg_options_to_table(c.reloptions) o) asked
              CROSS JOIN LATERAL (
                    SELECT coalesce(asked.least, worn_tables.threshold)
                           + coalesce(asked.part, worn_tables.scale_factor) * s.kept AS rows) allowed
             WHERE j.residency = 'tiered' AND NOT j.is_hot AND j.external IS NULL AND j.pending_key IS NULL
               AND asked.enabled) worn
     WHERE worn.is_outworn OR worn.bases > most_segments OR worn.deltas > most_segments
     ORDER BY worn.relid
$$;

-- Tiered tables without hot rows that have more row versions, or more bytes, than that in their tails.
CREATE OR REPLACE FUNCTION pg_journal.large_tails(most_rows bigint, most_bytes bigint) RETURNS SETOF oid
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    j record;
    size bigint;
BEGIN
    FOR j IN SELECT x.relid, x.tail_relid, (latest(x)).tail_rows AS count FROM journals x
              WHERE x.residency = 'tiered' AND NOT x.is_hot ORDER BY x.relid LOOP
        IF j.count BETWEEN 1 AND most_rows THEN
            size := 0;
            BEGIN
                PERFORM lock_for_count(j.relid, j.tail_relid);
                size := tail_bytes(j.relid, j.tail_relid);
                PERFORM end_count();
            EXCEPTION
                WHEN SQLSTATE 'GW004' THEN NULL;
                WHEN lock_not_available OR undefined_table THEN CONTINUE;
            END;
            CONTINUE WHEN size <= most_bytes;
        END IF;
        IF j.count > 0 THEN RETURN NEXT j.relid; END IF;
    END LOOP;
END $$;

-- Whether a tail can be written to files by itself alone: where rows have gone that have no key, and where TRUNCATE has
-- ended rows, it depends on what there was before.
CREATE OR REPLACE FUNCTION pg_journal.stands_alone(wanted oid) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    alone boolean;
BEGIN
    EXECUTE (SELECT format('SELECT NOT EXISTS (SELECT FROM pg_journal.tail_%s v WHERE v.row_identity = %s%s)', wanted,
                           truncation_mark(),
                           CASE WHEN j.key = '{}' THEN ' OR v.subsequent_version_number IS NOT NULL' ELSE '' END)
               FROM journals j WHERE j.relid = wanted AND (j.residency = 'resident' OR j.is_hot)) INTO alone;
    RETURN coalesce(alone, true);
END $$;

-- Whether a resident table has as many rows as that. False, too, where others have it locked, or its tail.
CREATE OR REPLACE FUNCTION pg_journal.has_each_row_once(wanted oid, versions bigint) RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    held bigint;
BEGIN
    PERFORM lock_for_count(j.relid, j.tail_relid) FROM journals j WHERE j.relid = wanted AND j.residency = 'resident';
    IF FOUND THEN
        held := held_count(wanted);
        PERFORM end_count();
    END IF;
    RETURN false;
EXCEPTION
    WHEN SQLSTATE 'GW004' THEN RETURN held = versions;
    WHEN lock_not_available OR undefined_table THEN RETURN false;
END $$;

-- What upkeep has to know of resident tables: row versions in the tail and their bytes, how long none has come, transactions
-- that wrote in the last seconds, and, where a table may be past its bounds, its rows and their bytes. Neither
-- is counted again (-1) where nothing has changed since, which `known` tells: of each table its OID, its
-- `changes` when its rows were counted, and its `tail_changes` when its tail was. What its owner asks for is no matter of
-- counting: that changes while nobody writes.
CREATE OR REPLACE FUNCTION pg_journal.resident_tables(
    known json, OUT relid oid, OUT asked text, OUT tail_rows bigint, OUT rest_s float8, OUT writers bigint,
    OUT row_count bigint, OUT row_bytes bigint, OUT changes bigint, OUT tail_changes bigint, OUT tail_bytes bigint)
RETURNS SETOF record
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    bounds instance;
    -- Without statistics nothing tells of changes.
    told boolean := current_setting('track_counts') = 'on';
    j record;
    tail_known boolean;
    rows_known boolean;
    outgrown boolean;
BEGIN
    SELECT * INTO bounds FROM instance;
    FOR j IN SELECT x.relid, x.wanted_residency, x.tail_relid, x.is_full, x.is_outgrown,
                    pg_stat_get_tuples_inserted(x.relid) + pg_stat_get_tuples_updated(x.relid)
                    + pg_stat_get_tuples_deleted(x.relid) AS changed,
                    pg_stat_get_tuples_inserted(x.tail_relid) AS tail_changed,
                    k.changes AS known_changes, k.tail_changes AS known_tail_changes
               FROM journals x JOIN pg_class c ON c.oid = x.relid
               LEFT JOIN json_to_recordset(known) AS k(relid oid, changes bigint, tail_changes bigint)
                 ON k.relid = x.relid
              WHERE x.residency = 'resident'
                -- What others change, or have prepared a change of, may be locked for long.
                AND NOT EXISTS (SELECT FROM pg_locks l JOIN pg_database d ON d.oid = l.database
                                 WHERE d.datname = current_database() AND l.relation IN (x.relid, x.tail_relid)
                                   AND l.mode = 'AccessExclusiveLock' AND l.granted)
              ORDER BY x.relid LOOP
        relid := j.relid; asked := j.wanted_residency;
        rest_s := 0; writers := 0; row_count := 0; row_bytes := 0; tail_bytes := 0; changes := j.changed; tail_changes := j.tail_changed;
        tail_known := told AND j.known_tail_changes IS NOT DISTINCT FROM j.tail_changed;
        rows_known := told AND j.known_changes IS NOT DISTINCT FROM j.changed;
        IF tail_known THEN tail_rows := -1; END IF;
        IF rows_known THEN row_count := -1; END IF;
        IF NOT (tail_known AND rows_known) THEN
            BEGIN
                PERFORM lock_for_count(j.relid, j.tail_relid);
                IF tail_known THEN
                    NULL;
                ELSIF pg_relation_size(j.tail_relid) = 0 THEN
                    tail_rows := 0;
                ELSE
                    EXECUTE format(
                        'SELECT count(*), coalesce(extract(epoch FROM clock_timestamp() - max(version_number)), 0), '
                        'count(DISTINCT writer) FILTER (WHERE version_number > clock_timestamp() - interval ''10 s'') '
                        'FROM pg_journal.tail_%s', j.relid) INTO tail_rows, rest_s, writers;
                    tail_bytes := tail_bytes(j.relid, j.tail_relid);
                END IF;
                IF NOT rows_known THEN
                    SELECT m.row_count, m.row_bytes INTO row_count, row_bytes
                      FROM measured(j.relid, j.wanted_residency = 'never') m;
                END IF;
                PERFORM end_count();
            EXCEPTION
                WHEN SQLSTATE 'GW004' THEN NULL;
                WHEN lock_not_available OR undefined_table THEN CONTINUE;
            END;
        END IF;
        IF NOT rows_known THEN
            outgrown := (row_count > bounds.resident_rows OR row_bytes > bounds.resident_bytes)
                        AND NOT EXISTS (SELECT FROM told_tables o WHERE o.relid = j.relid)
                        AND obstacle(j.relid) IS NOT NULL;
            IF (j.is_full, j.is_outgrown) <> (row_count > bounds.resident_hard_rows, outgrown) THEN
                UPDATE journals x SET is_full = row_count > bounds.resident_hard_rows, is_outgrown = outgrown
                 WHERE x.relid = (SELECT y.relid FROM journals y WHERE y.relid = j.relid AND y.residency = 'resident'
                                   FOR NO KEY UPDATE SKIP LOCKED);
                -- The next count tells again.
                IF NOT FOUND THEN changes := -1; END IF;
            END IF;
        END IF;
        RETURN NEXT;
    END LOOP;
END $$;

-- Tiered tables that could be resident: as asked for, or with no more than half of what is allowed, counting all
-- row versions outside the archive; all of them, or one. Hot rows, which somebody is using, keep those that are not asked for as they are.
CREATE OR REPLACE FUNCTION pg_journal.shrunken_tables(wanted oid) RETURNS SETOF oid
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
    SELECT j.relid FROM journals j, instance i
     WHERE (wanted IS NULL OR j.relid = wanted) AND j.residency = 'tiered' AND j.wanted_residency <> 'never' AND i.resident_rows > 0
       AND (NOT j.is_hot OR j.wanted_residency = 'always')
       AND j.external IS NULL
       AND (SELECT coalesce(sum(s.row_count), 0) FROM segments s
             WHERE s.relid = j.relid AND s.retired_at IS NULL AND s.kind <> 'archive') + (latest(j)).tail_rows
           <= CASE WHEN j.wanted_residency = 'always' THEN i.resident_hard_rows ELSE i.resident_rows / 2 END
       AND (SELECT coalesce(sum(s.size_bytes), 0) FROM segments s
             WHERE s.relid = j.relid AND s.retired_at IS NULL AND s.kind <> 'archive')
           <= CASE WHEN j.wanted_residency = 'always' THEN i.resident_bytes * 10 ELSE i.resident_bytes / 4 END
$$;

-- What a resident table holds, in the transfer forms of its tail.
CREATE OR REPLACE FUNCTION pg_journal.held_rows(wanted oid) RETURNS text
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
SET datestyle = 'ISO'
SET intervalstyle = 'postgres'
SET timezone = 'UTC'
SET bytea_output = 'hex'
SET extra_float_digits = 1
AS $$
DECLARE
    j record;
    answer text;
BEGIN
    SELECT jj.schema_name, jj.table_name INTO j FROM journals jj WHERE jj.relid = wanted;
    EXECUTE format(
        'SELECT json_agg(JSON_ARRAY(%s NULL ON NULL RETURNING json))::text FROM ONLY %I.%I t',
        (SELECT string_agg(transfer_expression(tail_expression(format('t.%I', k.name), k.type_oid),
                                               CASE WHEN is_built_in(base_type(k.type_oid)) THEN k.type_oid
                                                    ELSE 'text'::regtype END), ', ' ORDER BY k.attnum)
           FROM columns k WHERE k.relid = wanted AND k.name <> ''), j.schema_name, j.table_name) INTO answer;
    RETURN answer;
END $$;

-- Open the cursor pgwire_tail over the rows of a tail, as lines of CSV. The answer is how many bytes the values of one
-- take up at most, and those of all.
CREATE OR REPLACE FUNCTION pg_journal.open_tail(wanted oid, OUT row_bytes bigint, OUT size_bytes bigint)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    lines refcursor := 'pgwire_tail';
BEGIN
    PERFORM require_columns(j.tail_relid) FROM journals j WHERE j.relid = wanted;
    EXECUTE format('SELECT coalesce(max(x.size), 0), coalesce(sum(x.size), 0) FROM (SELECT %s AS size '
                   'FROM pg_journal.tail_%s v) x', row_size(wanted, 'v'), wanted) INTO row_bytes, size_bytes;
    OPEN lines NO SCROLL FOR EXECUTE format(
        $f$SELECT convert_to(array_to_string(ARRAY[%s micros(v.version_number)::text,
                  coalesce(micros(v.subsequent_version_number)::text, ''), coalesce(v.row_identity::text, '')], ',')
                  || E'\n', 'UTF8') FROM pg_journal.tail_%s v$f$,
        (SELECT string_agg(csv_expression('v.c' || k.attnum,
                                          CASE WHEN is_built_in(base_type(k.type_oid)) THEN base_type(k.type_oid)
                                               ELSE 'text'::regtype END) || ', ', '' ORDER BY k.attnum)
           FROM columns k WHERE k.relid = wanted AND k.name <> ''), wanted);
END $$;

-- A column with a value that segments cannot hold; NULL for none.
CREATE OR REPLACE FUNCTION pg_journal.unstorable(wanted oid) RETURNS text
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    k record;
    found boolean;
BEGIN
    FOR k IN SELECT c.name, storable(format('t.%I', c.name), c.type_oid, c.typmod) AS condition,
                    j.schema_name, j.table_name
               FROM columns c JOIN journals j ON j.relid = c.relid
              WHERE c.relid = wanted AND c.name <> '' LOOP
        CONTINUE WHEN k.condition IS NULL;
        EXECUTE format('SELECT EXISTS (SELECT FROM ONLY %I.%I t WHERE NOT (%s))', k.schema_name, k.table_name,
                       k.condition) INTO found;
        IF found THEN RETURN k.name; END IF;
    END LOOP;
    RETURN NULL;
END $$;
