-- Writes: locks, version numbers, the tail, and the list of segments; all in the client's transaction.

-- Tell the gateway to plan the statement again. The code is not for clients.
CREATE OR REPLACE FUNCTION pg_journal.outdated() RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    RAISE EXCEPTION 'could not serialize access due to a concurrent change of definitions'
        USING ERRCODE = 'GW001';
END $$;

-- What names stand for, found with the client's own rights and search path: who asks, where names are looked for (what row
-- security leaves of a relation depends on the role, too), and the relations.
CREATE OR REPLACE FUNCTION pg_journal.named_resolution(names text[]) RETURNS text
LANGUAGE plpgsql STABLE
AS $$
BEGIN
    RETURN pg_catalog.concat_ws(
        ' ', CURRENT_USER, pg_catalog.current_setting('row_security'), pg_catalog.current_schemas(true),
        (SELECT pg_catalog.array_agg(pg_catalog.to_regclass(u.n)::pg_catalog.oid ORDER BY u.o)
           FROM pg_catalog.unnest(names) WITH ORDINALITY u(n, o)));
END $$;

-- Go on only if definitions are what a plan rests on, and names stand for what they stood for.
CREATE OR REPLACE FUNCTION pg_journal.expect(code text, planned bigint, planned_resolution text, resolution text)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    PERFORM authorize(code, 'expect', planned::text);
    IF fingerprint() <> planned OR resolution <> planned_resolution THEN PERFORM outdated(); END IF;
END $$;

-- Lock a table. LOCK TABLE takes a name, which another table may bear when the wait is over, or none.
CREATE OR REPLACE FUNCTION pg_journal.lock_table(wanted oid, mode text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    spelled text;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = wanted) THEN PERFORM outdated(); END IF;
    spelled := wanted::regclass;
    BEGIN
        EXECUTE format('LOCK TABLE ONLY %s IN %s MODE', spelled, mode);
    EXCEPTION WHEN undefined_table OR invalid_schema_name THEN
        PERFORM outdated();
    END;
    IF to_regclass(spelled) IS DISTINCT FROM wanted THEN PERFORM outdated(); END IF;
END $$;

-- Let nobody write a tiered table row by row until the transaction ends, and keep none of its rows hot. The answer is
-- {"unchecked": [OID, snapshot]}, and nothing is done but locking, where the transaction's snapshot may be older than what
-- others have written to hot rows, unless the table is among those of which it is known that it is not; it is
-- {"hot": OID}, and nothing is done, where the table has hot rows and the caller would rather write these; else NULL.
CREATE OR REPLACE FUNCTION pg_journal.quiet(wanted oid, checked oid[], when_hot text) RETURNS jsonb
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    hot boolean := (SELECT s.is_hot FROM journals s WHERE s.relid = wanted);
BEGIN
    -- What a snapshot shows as hot may have gone cold since, and whoever writes it then comes to the gate after the table.
    IF hot AND current_setting('transaction_isolation') <> 'read committed' AND warmth(wanted) IS NULL THEN
        PERFORM refuse_changed();
    END IF;
    -- The relation's lock before that of its journal, as DDL takes them: the other way round each could wait for the
    -- other. At once the strongest that is needed, and the gate first where there is one, for the same reason: what has been
    -- locked is let go where the table has become hot, or gone cold, while it was waited for.
    LOOP
        IF hot AND when_hot <> 'cool' THEN RETURN jsonb_build_object('hot', wanted::bigint); END IF;
        BEGIN
            IF hot THEN
                PERFORM lock_gate(wanted, 'EXCLUSIVE');
            ELSE
                PERFORM lock_table(wanted, 'ROW EXCLUSIVE');
            END IF;
            IF hot <> (SELECT s.is_hot FROM journals s WHERE s.relid = wanted) THEN PERFORM has_hot_rows(); END IF;
            EXIT;
        EXCEPTION
            WHEN undefined_table THEN
                PERFORM outdated();
            WHEN SQLSTATE 'GW003' THEN
                hot := NOT hot;
        END;
    END LOOP;
    IF hot THEN PERFORM lock_table(wanted, 'EXCLUSIVE'); END IF;
    IF hot AND current_setting('transaction_isolation') <> 'read committed' AND NOT wanted = ANY (checked) THEN
        RETURN jsonb_build_object('unchecked', jsonb_build_array(wanted::bigint, pg_current_snapshot()::text));
    END IF;
    IF (locked(wanted)).is_hot THEN
        PERFORM cool(wanted);
        PERFORM watch(wanted);
    END IF;
    RETURN NULL;
END $$;

-- End a block, or a statement that would rather write hot rows. The code is not for clients.
CREATE OR REPLACE FUNCTION pg_journal.has_hot_rows() RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    RAISE EXCEPTION 'the table has hot rows' USING ERRCODE = 'GW003';
END $$;

-- Lock tables for writing, in the order of their OIDs; the answer is the version number each gets, or that of quiet() for
-- one of them. What is done where a table has hot rows: cool (they go cold), tell, or fail (GW003).
CREATE OR REPLACE FUNCTION pg_journal.begin_write(code text, relids oid[], command text, checked oid[], when_hot text)
RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    wanted oid;
    j journals;
    obstacle jsonb;
    versions jsonb := '{}';
    is_new boolean := pg_current_xact_id_if_assigned() IS NULL;
BEGIN
    PERFORM authorize(code, 'begin_write', relids::text, command, checked::text, when_hot);
    PERFORM require_right(r, true) FROM unnest(relids) r;
    IF current_setting('transaction_read_only') = 'on' THEN
        RAISE EXCEPTION 'cannot execute % in a read-only transaction', command USING ERRCODE = '25006';
    END IF;
    FOR wanted IN SELECT DISTINCT r FROM unnest(relids) u(r) ORDER BY r LOOP
        obstacle := quiet(wanted, checked, when_hot);
        IF obstacle ? 'hot' AND when_hot = 'fail' THEN PERFORM has_hot_rows(); END IF;
        IF obstacle IS NOT NULL THEN RETURN convert_to(obstacle::text, 'UTF8'); END IF;
        j := locked(wanted);
        IF j.residency <> 'tiered' THEN PERFORM outdated(); END IF;
        PERFORM set_config('pg_journal.writing_' || wanted, announcement(wanted), true);
        -- The same once more: what is announced above leaves takes the first one back, and their locks stay.
        PERFORM set_config('pg_journal.locked_' || wanted, announcement(wanted), true);
        IF command = 'TRUNCATE TABLE' THEN
            PERFORM set_config('pg_journal.emptying_' || wanted, setting_mark('emptying_' || wanted, ''), true);
        END IF;
        versions := versions || jsonb_build_object(wanted::text, micros(
            greatest(clock_timestamp(), j.version + interval '1 microsecond')));
    END LOOP;
    PERFORM announce_above(s.ancestors, relids, is_new)
       FROM (SELECT DISTINCT x.ancestors FROM journals x WHERE x.relid = ANY (relids) AND x.ancestors <> '{}') s;
    RETURN convert_to(versions::text, 'UTF8');
END $$;

-- Keep the rows of tiered tables as they are until the transaction ends: as writers do it among themselves, in the
-- order of the tables' OIDs; or, of those with hot rows alone. The caller has locked the relations as readers do at most,
-- and takes a snapshot afterwards. The answer is {}, or that of quiet().
CREATE OR REPLACE FUNCTION pg_journal.hold(code text, relids oid[], checked oid[], hot_only boolean, keeps_cold boolean)
RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    wanted oid;
    obstacle jsonb;
BEGIN
    PERFORM authorize(code, 'hold', relids::text, checked::text, hot_only::text, keeps_cold::text);
    -- What this is for PostgreSQL refuses there, but for LOCK TABLE, which waits for writers then.
    IF hot_only AND current_setting('transaction_read_only') = 'on' THEN RETURN convert_to('{}', 'UTF8'); END IF;
    FOR wanted IN
        SELECT j.relid FROM journals j
         WHERE j.relid = ANY (relids) AND j.residency = 'tiered' ORDER BY j.relid
    LOOP
        BEGIN
            IF hot_only THEN
                IF keeps_cold AND NOT (SELECT s.is_hot FROM journals s WHERE s.relid = wanted) THEN
                    PERFORM pass_gate(wanted, 'SHARE UPDATE EXCLUSIVE');
                END IF;
                -- It may have been waited for.
                CONTINUE WHEN NOT coalesce((SELECT s.is_hot FROM journals s WHERE s.relid = wanted), false);
            END IF;
            obstacle := quiet(wanted, checked, 'cool');
        EXCEPTION WHEN SQLSTATE 'GW001' THEN
            -- Who defines or drops a table that has gone meanwhile is told so by PostgreSQL.
            IF NOT hot_only OR EXISTS (SELECT FROM pg_class c WHERE c.oid = wanted) THEN RAISE; END IF;
            CONTINUE;
        END;
        IF obstacle IS NOT NULL THEN RETURN convert_to(obstacle::text, 'UTF8'); END IF;
    END LOOP;
    RETURN convert_to('{}', 'UTF8');
END $$;

-- Raise what PostgreSQL's own index would have raised.
CREATE OR REPLACE FUNCTION pg_journal.raise_duplicate(j pg_journal.journals, key_text text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    IF NOT may_show(j.relid, j.key) THEN
        RAISE EXCEPTION 'duplicate key value violates unique constraint "%"', j.key_name
            USING ERRCODE = '23505', SCHEMA = j.schema_name, TABLE = j.table_name, CONSTRAINT = j.key_name;
    END IF;
    RAISE EXCEPTION 'duplicate key value violates unique constraint "%"', j.key_name
        USING ERRCODE = '23505', SCHEMA = j.schema_name, TABLE = j.table_name, CONSTRAINT = j.key_name,
              DETAIL = format('Key (%s)=(%s) already exists.', (
                  SELECT string_agg(quote_ident(k.name), ', ' ORDER BY u.o)
                    FROM unnest(j.key) WITH ORDINALITY u(attnum, o)
                    JOIN columns k ON k.relid = j.relid AND k.attnum = u.attnum), key_text);
END $$;

-- Note, before a statement inserts rows into an empty catalog table, how many this session has inserted there so far. What was
-- noted before, and nobody has looked for since, stays: too small a number costs a longer search, too large a one would
-- end it too early.
CREATE OR REPLACE FUNCTION pg_journal.await_arrival(wanted oid) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    noted bigint[] := string_to_array(noted_setting('awaited_' || wanted), ',')::bigint[];
    file bigint := pg_relation_filenode(wanted);
BEGIN
    IF noted[2] IS DISTINCT FROM file THEN
        PERFORM note_setting('awaited_' || wanted, concat_ws(',', pg_stat_get_xact_tuples_inserted(wanted), file));
    END IF;
END $$;

-- Forget what is known of where rows arrive: the numbers of those inserted begin anew.
CREATE OR REPLACE FUNCTION pg_journal.forget_arrivals(wanted oid) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    PERFORM set_config('pg_journal.arrived_' || wanted, '', true), set_config('pg_journal.awaited_' || wanted, '', true);
END $$;

-- The rows a statement has just put into a catalog table that was empty before, as many as wanted and one.
-- Rows that passed through earlier still occupy their places, for as long as some snapshot may show them: where the last ones
-- of this transaction were found is remembered, with the number of rows inserted by then, so that no scan passes them again.
-- Else they are looked for at both ends of the table, where new rows are put, until as many are found as have been
-- inserted. TRUNCATE begins the table's file, and the count, anew.
CREATE OR REPLACE FUNCTION pg_journal.arrived(wanted oid, at_most bigint) RETURNS tid[]
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    inserted bigint := pg_stat_get_xact_tuples_inserted(wanted);
    file bigint := pg_relation_filenode(wanted);
    remembered bigint[] := string_to_array(noted_setting('arrived_' || wanted), ',')::bigint[];
    awaited bigint[] := string_to_array(noted_setting('awaited_' || wanted), ',')::bigint[];
    -- Without statistics nothing tells how many there are.
    is_counted boolean := current_setting('track_counts') = 'on';
    blocks bigint := pg_relation_size(wanted) / current_setting('block_size')::bigint;
    near bigint := 4;
    expected bigint;
    places tid[];
    last_block bigint;
BEGIN
    IF NOT is_counted OR remembered[3] <> file OR remembered[1] > inserted THEN
        remembered := NULL;
    END IF;
    IF is_counted AND awaited[2] = file AND awaited[1] <= inserted THEN
        expected := least(inserted - greatest(awaited[1], remembered[1]), at_most + 1);
    ELSIF remembered IS NOT NULL THEN
        expected := least(inserted - remembered[1], at_most + 1);
    END IF;
    PERFORM set_config('pg_journal.awaited_' || wanted, '', true);
    IF remembered IS NOT NULL THEN
        EXECUTE format('SELECT array_agg(ctid) FROM (SELECT ctid FROM ONLY %s WHERE ctid >= $1 LIMIT $2) x',
                       wanted::regclass)
           INTO places USING format('(%s,0)', remembered[2])::tid, at_most + 1;
    END IF;
    WHILE coalesce(cardinality(places), 0) < expected AND near * 2 < blocks LOOP
        EXECUTE format('SELECT array_agg(ctid) FROM (SELECT ctid FROM ONLY %1$s WHERE ctid >= $1 '
                       'UNION ALL SELECT ctid FROM ONLY %1$s WHERE ctid < $2 LIMIT $3) x', wanted::regclass)
           INTO places
          USING format('(%s,0)', blocks - near)::tid, format('(%s,0)', near)::tid, at_most + 1;
        near := near * 4;
    END LOOP;
    IF (coalesce(cardinality(places), 0) < expected) IS NOT FALSE THEN
        EXECUTE format('SELECT array_agg(ctid) FROM (SELECT ctid FROM ONLY %s LIMIT $1) x', wanted::regclass)
           INTO places USING at_most + 1;
    END IF;
    IF places IS NOT NULL THEN
        last_block := (SELECT max((p::text::point)[0]::bigint) FROM unnest(places) u(p));
        PERFORM note_setting('arrived_' || wanted, concat_ws(',', inserted, last_block, file));
    END IF;
    RETURN coalesce(places, '{}');
END $$;

-- The newest version number in the segments of a table. Row versions of the tail may be older: a large
-- write becomes a segment although there is a tail. What others have written to a journal of theirs may be any.
CREATE OR REPLACE FUNCTION pg_journal.newest_stored(wanted oid) RETURNS timestamptz
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
    SELECT CASE WHEN EXISTS (SELECT FROM journals j WHERE j.relid = wanted AND j.external IS NOT NULL) THEN 'infinity'
                ELSE (SELECT coalesce(max(s.max_version), '-infinity') FROM segments s
                       WHERE s.relid = wanted AND s.retired_at IS NULL AND s.row_count > 0 AND s.kind <> 'archive') END
$$;

-- Tell whether segments may hold newer versions of rows that are in the tail.
CREATE OR REPLACE FUNCTION pg_journal.tail_outdated(j pg_journal.journals) RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    outdated boolean;
BEGIN
    EXECUTE format('SELECT EXISTS (SELECT FROM %s WHERE version_number <= $1)', j.tail_relid::regclass)
       INTO outdated USING newest_stored(j.relid);
    RETURN outdated;
END $$;

-- Check the keys of rows in the catalog table against the tail; the answer is the keys that the tail alone
-- cannot decide, as a JSON array of arrays, or NULL.
CREATE OR REPLACE FUNCTION pg_journal.check_keys(j pg_journal.journals, places tid[], tail_filled boolean)
RETURNS json
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    same_key text;
    duplicate text;
    unresolved json;
    range_condition text := '';
    stored timestamptz;
BEGIN
    IF j.key = '{}' THEN RETURN NULL; END IF;
    stored := newest_stored(j.relid);
    SELECT string_agg(format('v.c%s = t.%I', u.attnum, k.name), ' AND ' ORDER BY u.o) INTO same_key
      FROM unnest(j.key) WITH ORDINALITY u(attnum, o)
      JOIN columns k ON k.relid = j.relid AND k.attnum = u.attnum;
    IF tail_filled THEN
        EXECUTE (SELECT format(
            'SELECT concat_ws('', '', %s) FROM ONLY %s t CROSS JOIN LATERAL ('
            'SELECT v.subsequent_version_number AS gone FROM %s v WHERE %s AND v.version_number > $2 '
            'ORDER BY %s LIMIT 1) x '
            'WHERE x.gone IS NULL AND t.ctid = ANY ($1) LIMIT 1',
            string_agg(format('t.%I', k.name), ', ' ORDER BY u.o), j.relid::regclass, j.tail_relid::regclass,
            same_key, newest_first('v'))
            FROM unnest(j.key) WITH ORDINALITY u(attnum, o)
            JOIN columns k ON k.relid = j.relid AND k.attnum = u.attnum)
           INTO duplicate USING places, stored;
        IF duplicate IS NOT NULL THEN
            PERFORM raise_duplicate(j, duplicate);
        END IF;
    END IF;
    IF stored > '-infinity' THEN
        IF j.external IS NULL AND cardinality(j.key) = 1 AND EXISTS (
               SELECT FROM columns k WHERE k.relid = j.relid AND k.attnum = j.key[1] AND has_key_bounds(k.type_oid)) THEN
            -- A key no segment can have is still to be looked for when an older part of the tail has it.
            SELECT format(' AND (EXISTS (SELECT FROM pg_journal.segments s WHERE s.relid = %s '
                          'AND s.retired_at IS NULL AND s.row_count > 0 AND s.kind <> ''archive'' '
                          'AND (s.key_min IS NULL OR %s BETWEEN s.key_min AND s.key_max)) '
                          'OR EXISTS (SELECT FROM %s v WHERE %s))',
                          j.relid, transfer_expression(format('t.%I', k.name), k.type_oid), j.tail_relid::regclass, same_key)
              INTO range_condition FROM columns k WHERE k.relid = j.relid AND k.attnum = j.key[1];
        END IF;
        EXECUTE (SELECT format(
            'SELECT json_agg(json_build_array(%s)) FROM ONLY %s t WHERE t.ctid = ANY ($1) AND NOT EXISTS ('
            'SELECT FROM %s v WHERE %s AND v.version_number > $2)%s',
            string_agg(transfer_expression(format('t.%I', k.name), k.type_oid), ', ' ORDER BY u.o),
            j.relid::regclass, j.tail_relid::regclass, same_key, range_condition)
            FROM unnest(j.key) WITH ORDINALITY u(attnum, o)
            JOIN columns k ON k.relid = j.relid AND k.attnum = u.attnum)
           INTO unresolved USING places, stored;
    END IF;
    RETURN unresolved;
END $$;

-- Values of the unique keys of a table, in the order of its definition and in transfer forms, that rows of the tail have
-- which this transaction has written, from a version number on, and not superseded; those with NULL left out. Computed
-- values are a text each.
CREATE OR REPLACE FUNCTION pg_journal.unique_values(wanted oid, mark timestamptz) RETURNS json
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
SET extra_float_digits = 1
SET datestyle = 'ISO'
SET intervalstyle = 'postgres'
SET timezone = 'UTC'
SET bytea_output = 'hex'
AS $$
DECLARE
    j record;
    parts text;
    answer json;
BEGIN
    SELECT s.key, s.unique_indexes INTO j FROM journals s WHERE s.relid = wanted;
    IF j.unique_indexes = '{}' THEN RETURN '[]'; END IF;
    SELECT string_agg(format(
               '(SELECT coalesce(json_agg(x.e), ''[]'') FROM (SELECT DISTINCT json_build_array(%s)::text::jsonb '
               'FROM %s WHERE %s) x(e))', k.transferred, k.rows, k.present), ', ' ORDER BY u.o)
      INTO parts
      FROM unnest(j.unique_indexes) WITH ORDINALITY u(index_oid, o)
      CROSS JOIN LATERAL (
          SELECT string_agg(transfer_expression('v.c' || c.attnum, c.type_oid), ', ' ORDER BY n.o) AS transferred,
                 'written v' AS rows,
                 string_agg(format('v.c%s IS NOT NULL', c.attnum), ' AND ' ORDER BY n.o) AS present
            FROM unnest(unique_columns(u.index_oid)) WITH ORDINALITY n(attnum, o)
            JOIN columns c ON c.relid = wanted AND c.attnum = n.attnum
           WHERE unique_value(u.index_oid) IS NULL
          HAVING count(*) > 0
           UNION ALL
          SELECT 'y.value', format('(SELECT %s AS value FROM (SELECT %s FROM written v) r) y', unique_value(u.index_oid),
                                   unique_reading(u.index_oid, 'v.c%s')), 'y.value IS NOT NULL'
           WHERE unique_value(u.index_oid) IS NOT NULL) k;
    EXECUTE format(
        'WITH written AS (SELECT v.* FROM pg_journal.tail_%1$s v WHERE v.version_number >= $1 '
        'AND v.writer = pg_current_xact_id() AND v.subsequent_version_number IS NULL '
        'AND NOT EXISTS (SELECT FROM pg_journal.tail_%1$s w WHERE %2$s AND w.version_number > v.version_number)) '
        'SELECT json_build_array(%3$s)', wanted,
        CASE WHEN j.key = '{}' THEN 'w.row_identity = v.row_identity' ELSE hot_key(wanted, 'w', 'v', false) END, parts)
       INTO answer USING mark;
    RETURN answer;
END $$;

-- The answer to a write: rows that are in the tail now, keys still to be looked for, and values of unique keys.
CREATE OR REPLACE FUNCTION pg_journal.receipt(j pg_journal.journals, added bigint, new_version timestamptz, unresolved json)
RETURNS bytea
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    RETURN convert_to(format(
        '{"count": %s, "captured": true, "version": %s, "unresolved": %s, "tail_outdated": %s, "values": %s}',
        added, micros(new_version), coalesce(unresolved::text, '[]'),
        to_json(unresolved IS NOT NULL AND tail_outdated(j)), unique_values(j.relid, new_version)), 'UTF8');
END $$;

-- Account for a write: `added` row versions in the tail, and the table's new version number.
CREATE OR REPLACE FUNCTION pg_journal.note_write(j pg_journal.journals, new_version timestamptz, added bigint) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    IF j.writer = pg_current_xact_id() THEN
        INSERT INTO states (relid, changes, version, tail_rows)
        VALUES (j.relid, j.changes + 1, new_version, j.tail_rows + added);
    ELSE
        DELETE FROM states s WHERE s.relid = j.relid;
        UPDATE journals s
           SET version = new_version, changes = j.changes + 1, tail_rows = j.tail_rows + added,
               writer = pg_current_xact_id()
         WHERE s.relid = j.relid;
    END IF;
END $$;

-- Move the rows a statement of the client left in the catalog table to the tail, unless they are many, or many bytes.
CREATE OR REPLACE FUNCTION pg_journal.capture(code text, wanted oid, inline_rows bigint, inline_bytes bigint) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
SET extra_float_digits = 1
SET intervalstyle = 'postgres'
SET bytea_output = 'hex'
AS $$
DECLARE
    j journals;
    places tid[];
    moved bigint;
    stored bigint;
    size bigint;
    new_version timestamptz;
    first_identity bigint;
    unresolved json;
BEGIN
    PERFORM authorize(code, 'capture', wanted::text, inline_rows::text, inline_bytes::text);
    PERFORM require_right(wanted, true);
    j := locked(wanted);
    places := arrived(wanted, inline_rows);
    moved := cardinality(places);
    IF moved = 0 THEN
        RETURN convert_to('{"count": 0, "captured": true, "version": 0}', 'UTF8');
    ELSIF moved > inline_rows THEN
        EXECUTE format('SELECT count(*) FROM ONLY %s', wanted::regclass) INTO moved;
        RETURN convert_to(format('{"count": %s, "captured": false, "version": 0}', moved), 'UTF8');
    END IF;
    -- What is on a page by itself is 2 MB at most, compressed 255 times.
    IF moved > inline_bytes >> 21
       OR (SELECT c.reltoastrelid <> 0 AND pg_relation_size(c.reltoastrelid) > 0 FROM pg_class c WHERE c.oid = wanted) THEN
        EXECUTE format('SELECT sum(%s) FROM ONLY %s t WHERE t.ctid = ANY ($1)', row_size(wanted, 't', false),
                       wanted::regclass) INTO size USING places;
        IF size > inline_bytes THEN
            RETURN convert_to(format('{"count": %s, "captured": false, "version": 0}', moved), 'UTF8');
        END IF;
    END IF;
    unresolved := check_keys(j, places, j.tail_rows > 0);
    PERFORM note_references(wanted);
    new_version := greatest(clock_timestamp(), j.version + interval '1 microsecond');
    -- Each microsecond of version numbers stands for 1024 row identities; those of bulk writes are positive.
    first_identity := micros(new_version) << 10;
    new_version := new_version + (moved - 1 >> 10) * interval '1 microsecond';
    PERFORM silence(wanted, true);
    EXECUTE (SELECT format(
        'WITH gone AS (DELETE FROM ONLY %s WHERE ctid = ANY ($2) RETURNING *) '
        'INSERT INTO %s (%s, version_number, row_identity) SELECT %s, $1, %s FROM gone',
        wanted::regclass, j.tail_relid::regclass, string_agg('c' || k.attnum, ', ' ORDER BY k.attnum),
        string_agg(tail_expression(format('gone.%I', k.name), k.type_oid), ', ' ORDER BY k.attnum),
        CASE WHEN j.key = '{}' THEN '1 - $3 - row_number() OVER ()' ELSE 'NULL' END)
        FROM columns k WHERE k.relid = wanted AND k.name <> '')
      USING new_version, places, first_identity;
    GET DIAGNOSTICS stored = ROW_COUNT;
    IF stored <> moved THEN PERFORM refuse_loss(wanted, 'INSERT', moved, stored); END IF;
    PERFORM silence(wanted, false);
    PERFORM note_write(j, new_version, moved);
    RETURN receipt(j, moved, new_version, unresolved);
END $$;

-- SQL for rows of a table that come as a JSON array of PostgreSQL's texts, one of each live column, named `e`: the
-- columns of the tail, with their values of `e` and of catalog rows named `n`; the columns that can be set, with their
-- values; what UPDATE sets of rows that keep their key; the condition that `e` has the key of a catalog row `n`, and that a
-- row `v` of the tail has that of one `t`.
CREATE OR REPLACE FUNCTION pg_journal.row_parts(
    wanted oid, OUT column_count bigint, OUT tail_columns text, OUT tail_values text, OUT columns text,
    OUT settable_columns text, OUT settable_values text, OUT assignments text, OUT given_key text, OUT same_key text)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
    SELECT count(*), string_agg('c' || attnum, ', ' ORDER BY attnum), string_agg(stored, ', ' ORDER BY attnum),
           string_agg(tail_expression(format('n.%I', name), type_oid), ', ' ORDER BY attnum),
           string_agg(quote_ident(name), ', ' ORDER BY attnum) FILTER (WHERE settable),
           string_agg(parsed, ', ' ORDER BY attnum) FILTER (WHERE settable),
           string_agg(format('%I = %s', name, parsed), ', ' ORDER BY attnum) FILTER (WHERE assignable AND NOT is_key),
           string_agg(format('%s = n.%I', parsed, name), ' AND ') FILTER (WHERE is_key),
           string_agg(format('v.c%s = t.%I', attnum, name), ' AND ') FILTER (WHERE is_key)
      FROM (SELECT k.attnum, k.name, k.type_oid, k.attnum = ANY (j.key) AS is_key, a.attgenerated = '' AS settable,
                   a.attgenerated = '' AND a.attidentity <> 'a' AS assignable,
                   -- without modifier: the column's own raises what is too long, a cast would cut it off
                   format('(u.e->>%s)::%s', row_number() OVER (ORDER BY k.attnum) - 1,
                          format_type(k.type_oid, -1)) AS parsed,
                   -- a tombstone has no value but its key, whatever a domain asks for
                   format('(u.e->>%s)::%s', row_number() OVER (ORDER BY k.attnum) - 1,
                          tail_type(k.type_oid, -1)) AS stored
              FROM columns k
              JOIN pg_attribute a ON a.attrelid = k.relid AND a.attnum = k.attnum
              JOIN journals j ON j.relid = k.relid
             WHERE k.relid = wanted AND k.name <> '') y
$$;

-- Write row versions and tombstones that come as PostgreSQL's text. New row versions take the way through
-- the catalog table, whose constraints and generated columns are PostgreSQL's.
CREATE OR REPLACE FUNCTION pg_journal.append(
    code text, wanted oid, version_micros bigint, new_rows text, tombstones text, keys_checked boolean)
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
    new_version timestamptz := moment(version_micros);
    x record;
    gone bigint := 0;
    replaced bigint := 0;
    added bigint := 0;
    places tid[];
    unresolved json;
BEGIN
    PERFORM authorize(code, 'append', wanted::text, version_micros::text, new_rows, tombstones, keys_checked::text);
    PERFORM require_right(wanted, true);
    j := locked(wanted);
    IF new_version < j.version THEN
        RAISE EXCEPTION 'version number of table % has passed', wanted::regclass USING ERRCODE = '40001';
    END IF;
    x := row_parts(wanted);
    IF tombstones IS NOT NULL THEN
        EXECUTE format(
            'INSERT INTO %s (%s, version_number, subsequent_version_number, row_identity) '
            'SELECT %s, $2, $2, (u.e->>%s)::bigint FROM json_array_elements($1) u(e)',
            j.tail_relid::regclass, x.tail_columns, x.tail_values, x.column_count)
          USING tombstones::json, new_version;
        GET DIAGNOSTICS gone = ROW_COUNT;
        IF gone <> json_array_length(tombstones::json) THEN
            PERFORM refuse_loss(wanted, 'DELETE', json_array_length(tombstones::json), gone);
        END IF;
    END IF;
    PERFORM note_moving(true);
    IF new_rows IS NOT NULL AND j.key = '{}' THEN
        -- RETURNING keeps the order of the source. No column of a table can have the name of a system column.
        EXECUTE format(
            'WITH written AS (INSERT INTO %1$s (%2$s) OVERRIDING SYSTEM VALUE SELECT %3$s '
            'FROM json_array_elements($1) WITH ORDINALITY u(e, o) ORDER BY o '
            'RETURNING *, ctid), '
            'numbered AS (SELECT *, row_number() OVER () AS xmin FROM written), '
            'moved AS (INSERT INTO %4$s (%5$s, version_number, row_identity) '
            'SELECT %6$s, $2, (u.e->>%7$s)::bigint '
            'FROM numbered n JOIN json_array_elements($1) WITH ORDINALITY u(e, o) ON u.o = n.xmin RETURNING true) '
            'SELECT array_agg(ctid), (SELECT count(*) FROM moved) FROM written',
            wanted::regclass, x.settable_columns, x.settable_values, j.tail_relid::regclass, x.tail_columns,
            x.columns, x.column_count)
           INTO places, added USING new_rows::json, new_version;
        PERFORM note_references(wanted);
        PERFORM silence(wanted, true);
        EXECUTE format('DELETE FROM ONLY %s WHERE ctid = ANY ($1)', wanted::regclass) USING places;
        PERFORM silence(wanted, false);
    ELSIF new_rows IS NOT NULL THEN
        EXECUTE format(
            'WITH written AS (INSERT INTO %s (%s) OVERRIDING SYSTEM VALUE SELECT %s '
            'FROM json_array_elements($1) WITH ORDINALITY u(e, o) ORDER BY o RETURNING ctid) '
            'SELECT array_agg(ctid) FROM written',
            wanted::regclass, x.settable_columns, x.settable_values) INTO places USING new_rows::json;
        PERFORM note_references(wanted);
        IF keys_checked THEN
            unresolved := check_keys(j, places, j.tail_rows + gone > 0);
        END IF;
        IF gone > 0 THEN
            -- A key given up and taken again in one statement has not gone.
            EXECUTE format('DELETE FROM %s v USING ONLY %s t '
                           'WHERE v.version_number = $1 AND t.ctid = ANY ($2) AND %s',
                           j.tail_relid::regclass, wanted::regclass, x.same_key) USING new_version, places;
            GET DIAGNOSTICS replaced = ROW_COUNT;
        END IF;
        PERFORM silence(wanted, true);
        EXECUTE format(
            'WITH gone AS (DELETE FROM ONLY %s WHERE ctid = ANY ($2) RETURNING *) '
            'INSERT INTO %s (%s, version_number) SELECT %s, $1 FROM gone n',
            wanted::regclass, j.tail_relid::regclass, x.tail_columns, x.columns)
          USING new_version, places;
        GET DIAGNOSTICS added = ROW_COUNT;
        PERFORM silence(wanted, false);
    END IF;
    IF added <> coalesce(json_array_length(new_rows::json), 0) THEN
        PERFORM refuse_loss(wanted, 'INSERT', json_array_length(new_rows::json), added);
    END IF;
    PERFORM note_moving(false);
    PERFORM note_write(j, new_version, gone - replaced + added);
    RETURN receipt(j, added, new_version, unresolved);
END $$;

-- Text of one value as a field of a CSV line.
CREATE OR REPLACE FUNCTION pg_journal.csv_expression(reference text, type_oid oid) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    transferred text := transfer_expression(reference, type_oid);
BEGIN
    IF type_oid IN ('bool'::regtype, 'int2'::regtype, 'int4'::regtype, 'int8'::regtype, 'oid'::regtype,
                    'float4'::regtype, 'float8'::regtype, 'numeric'::regtype, 'date'::regtype,
                    'timestamp'::regtype, 'timestamptz'::regtype, 'time'::regtype, 'uuid'::regtype,
                    'bytea'::regtype, 'interval'::regtype) THEN
        -- An empty bytea is quoted, to differ from NULL.
        RETURN CASE WHEN type_oid = 'bytea'::regtype
                    THEN format($f$coalesce('"' || %s || '"', '')$f$, transferred)
                    ELSE format($f$coalesce((%s)::text, '')$f$, transferred) END;
    END IF;
    -- concat() takes the output function, which keeps the blanks of character(n).
    RETURN format($f$CASE WHEN %s IS NULL THEN '' ELSE '"' || replace(concat(%s), '"', '""') || '"' END$f$,
                  reference, transferred);
END $$;

-- Open the cursor pgwire_drain over the rows in the catalog table, as lines of CSV. The answer is the numbers of their
-- columns, and how many bytes the values of one take up at most.
CREATE OR REPLACE FUNCTION pg_journal.open_drain(code text, wanted oid) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    lines refcursor := 'pgwire_drain';
    line text;
    drained int2[];
    block bigint;
    -- What is not stored elsewhere is on a page, compressed maybe.
    row_bytes bigint := 32768;
BEGIN
    PERFORM authorize(code, 'open_drain', wanted::text);
    PERFORM require_right(wanted, true);
    PERFORM note_references(wanted);
    IF (SELECT c.reltoastrelid <> 0 AND pg_relation_size(c.reltoastrelid) > 0 FROM pg_class c WHERE c.oid = wanted) THEN
        EXECUTE format('SELECT max(%s) FROM ONLY %s t', row_size(wanted, 't', false), wanted::regclass) INTO row_bytes;
        PERFORM require_size(row_bytes);
    END IF;
    UPDATE journals j SET identity_blocks = j.identity_blocks + 1 WHERE j.relid = wanted AND j.key = '{}'
    RETURNING j.identity_blocks INTO block;
    SELECT string_agg(csv_expression('t.' || quote_ident(k.name), k.type_oid), $f$ || ',' || $f$
                      ORDER BY k.attnum),
           array_agg(k.attnum ORDER BY k.attnum)
      INTO line, drained FROM columns k WHERE k.relid = wanted AND k.name <> '';
    OPEN lines NO SCROLL FOR EXECUTE format(
        $f$SELECT convert_to(%s || ',' || %s || E'\n', 'UTF8') FROM ONLY %s t$f$, line,
        coalesce(format('(%s + row_number() OVER ())', block << 32), $f$''$f$),
        wanted::regclass);
    RETURN convert_to(json_build_array(drained, coalesce(row_bytes, 0))::text, 'UTF8');
END $$;

-- Empty the catalog table after its rows have been written elsewhere. TRUNCATE is the faster way and keeps
-- readers waiting until the transaction ends, so it is for transactions that are about to.
CREATE OR REPLACE FUNCTION pg_journal.clear_drained(code text, wanted oid, ending boolean) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    PERFORM authorize(code, 'clear_drained', wanted::text, ending::text);
    PERFORM require_right(wanted, true);
    BEGIN
        IF NOT ending OR is_referenced(wanted) THEN
            RAISE lock_not_available;
        END IF;
        EXECUTE format('LOCK TABLE ONLY %s IN ACCESS EXCLUSIVE MODE NOWAIT', wanted::regclass);
        PERFORM set_config('pg_journal.emptying_' || wanted, setting_mark('emptying_' || wanted, ''), true);
        EXECUTE format('TRUNCATE TABLE ONLY %s', wanted::regclass);
        PERFORM forget_arrivals(wanted);
    EXCEPTION WHEN lock_not_available THEN
        PERFORM silence(wanted, true);
        EXECUTE format('DELETE FROM ONLY %s', wanted::regclass);
        PERFORM silence(wanted, false);
    END;
    RETURN convert_to('null', 'UTF8');
END $$;

-- The files are read with the gateway's rights, and removed one day: they have to be in the table's own directory.
CREATE OR REPLACE FUNCTION pg_journal.add_segments(wanted oid, segment_list json) RETURNS json
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    numbers json;
BEGIN
    IF EXISTS (SELECT FROM journals j CROSS JOIN json_to_recordset(segment_list) AS s(path text)
                WHERE j.relid = wanted
                  AND (s.path ~ ('^' || j.location || '(/[0-9A-Za-z_%-]+=[0-9A-Za-z_%-]+)*'
                                     '/(base|delta|archive)-[0-9a-f]{32}(-borrowed)?$')) IS NOT TRUE) THEN
        RAISE EXCEPTION 'a segment is outside of its table''s directory' USING ERRCODE = 'XX001';
    END IF;
    WITH added AS (
        INSERT INTO segments (segment_id, relid, kind, path, row_count, size_bytes, attnums, min_version,
                              max_version, key_min, key_max, partition)
        -- In the order of time; the primary key finds out the two that ever got the same number.
        SELECT (micros(clock_timestamp()) << 11) + (random_mark() & 1023) + row_number() OVER (),
               wanted, s.kind, s.path, s.row_count, s.size_bytes, s.attnums, moment(s.min_version),
               moment(s.max_version), s.key_min, s.key_max, s.partition
          FROM json_to_recordset(segment_list) AS s(kind text, path text, row_count bigint, size_bytes bigint,
               attnums int2[], min_version bigint, max_version bigint, key_min bigint, key_max bigint, partition json)
        RETURNING segment_id, path)
    SELECT json_object_agg(a.path, a.segment_id) INTO numbers FROM added a;
    RETURN numbers;
END $$;

-- Make the segments of a bulk write visible.
CREATE OR REPLACE FUNCTION pg_journal.publish(code text, wanted oid, version_micros bigint, segment_list json)
RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    j journals;
    numbers json;
BEGIN
    PERFORM authorize(code, 'publish', wanted::text, version_micros::text, segment_list::text);
    PERFORM require_right(wanted, true);
    j := locked(wanted);
    IF moment(version_micros) < j.version THEN
        RAISE EXCEPTION 'version number of table % has passed', wanted::regclass USING ERRCODE = '40001';
    END IF;
    numbers := add_segments(wanted, segment_list);
    PERFORM note_published(wanted, segment_list);
    PERFORM note_write(j, moment(version_micros), 0);
    RETURN convert_to(coalesce(numbers, '{}')::text, 'UTF8');
END $$;

-- Refuse that another number of row versions goes out of a tail than was read of it for files.
CREATE OR REPLACE FUNCTION pg_journal.require_taken(name text, tail_read bigint, taken bigint) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    IF taken <> tail_read THEN
        RAISE EXCEPTION '% row versions of the tail of table "%" were read for its files, and % taken out of it',
            tail_read, name, taken
            USING ERRCODE = 'data_corrupted', DETAIL = 'Nothing has been changed.';
    END IF;
END $$;

-- Swap segments after a flush or a compaction, and drop the part of the tail they now contain: as many row versions as were
-- read of it for them.
CREATE OR REPLACE FUNCTION pg_journal.replace(
    code text, wanted oid, expected_epoch bigint, segment_list json, retired bigint[],
    tail_to_micros bigint, seen text, tail_read bigint)
RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    j journals;
    numbers json;
    found_retired bigint;
    cleared bigint := 0;
    captured bigint := 0;
    done_at timestamptz := clock_timestamp();
BEGIN
    PERFORM authorize(code, 'replace', wanted::text, expected_epoch::text, segment_list::text, retired::text,
                      tail_to_micros::text, seen, tail_read::text);
    PERFORM require_right(wanted, true);
    PERFORM fold(wanted);
    j := locked(wanted);
    UPDATE segments s SET retired_at = clock_timestamp()
     WHERE s.relid = wanted AND s.segment_id = ANY (retired) AND s.retired_at IS NULL;
    GET DIAGNOSTICS found_retired = ROW_COUNT;
    IF j.epoch <> expected_epoch OR found_retired <> cardinality(retired) THEN
        RAISE EXCEPTION 'could not replace segments of table % due to concurrent update', wanted::regclass
            USING ERRCODE = '40001';
    END IF;
    IF tail_to_micros IS NOT NULL OR seen IS NOT NULL THEN
        PERFORM note_commits(wanted, seen::pg_snapshot, CASE WHEN seen IS NULL THEN moment(tail_to_micros) END);
    END IF;
    IF seen IS NOT NULL THEN
        -- Versions are in the order of commits by row only: what went is what the snapshot showed.
        EXECUTE format('DELETE FROM %s WHERE pg_visible_in_snapshot(writer, $1)', j.tail_relid::regclass)
          USING seen::pg_snapshot;
        GET DIAGNOSTICS captured = ROW_COUNT;
    ELSIF tail_to_micros IS NOT NULL THEN
        EXECUTE format('DELETE FROM %s WHERE version_number <= $1', j.tail_relid::regclass)
          USING moment(tail_to_micros);
        GET DIAGNOSTICS cleared = ROW_COUNT;
    END IF;
    PERFORM require_taken(j.table_name, tail_read, cleared + captured);
    numbers := add_segments(wanted, segment_list);
    UPDATE journals s
       SET epoch = epoch + 1, changes = changes + 1, tail_rows = tail_rows - cleared,
           copied_rows = copied_rows
                         + (SELECT coalesce(sum((e->>'row_count')::bigint), 0) FROM json_array_elements(segment_list) e),
           version = greatest(version, CASE WHEN seen IS NOT NULL THEN moment(tail_to_micros) END),
           flushed_at = CASE WHEN tail_to_micros IS NULL THEN flushed_at ELSE done_at END,
           compacted_at = CASE WHEN EXISTS (SELECT FROM json_array_elements(segment_list) e WHERE e->>'kind' = 'base')
                               THEN done_at ELSE compacted_at END
     WHERE s.relid = wanted;
    RETURN convert_to(coalesce(numbers, '{}')::text, 'UTF8');
END $$;

-- Lock a relation as TRUNCATE does, whatever its name is by then; nothing is done where it is gone, or is no table.
CREATE OR REPLACE FUNCTION pg_journal.lock_to_empty(wanted oid) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    -- The number of what is gone is all there is of it. A transaction that reads by one snapshot finds it in pg_class.
    WHILE wanted::regclass::text !~ '^\d+$' LOOP
        IF (SELECT c.relkind FROM pg_class c WHERE c.oid = wanted) NOT IN ('r', 'p') THEN RETURN; END IF;
        BEGIN
            PERFORM lock_table(wanted, 'ACCESS EXCLUSIVE');
            RETURN;
        EXCEPTION WHEN SQLSTATE 'GW001' THEN
            -- It has another name now, or is gone; what bears the old one is not locked any more.
        END;
    END LOOP;
END $$;

-- The relations that TRUNCATE empties: the named ones, those below them where it does not say ONLY, and where it cascades all
-- that reference these, also by way of others (ExecuteTruncate, heap_truncate_find_FKs). Level by level, as PostgreSQL locks
-- them: where they are locked, no others can come to be among them. null where the role may not empty one that is named or
-- references: PostgreSQL refuses it.
CREATE OR REPLACE FUNCTION pg_journal.emptied(
    code text, named oid[], whole oid[], cascades boolean, locks boolean) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    acting name := coalesce(nullif(current_setting('role'), 'none'), session_user);
    found oid[] := '{}';
    level oid[] := named;
    above oid[] := whole;
    is_below boolean := false;
    wanted oid;
BEGIN
    PERFORM authorize(code, 'emptied', named::text, whole::text, cascades::text, locks::text);
    WHILE level <> '{}' LOOP
        FOREACH wanted IN ARRAY level LOOP
            CONTINUE WHEN wanted = ANY (found);
            -- Of what is below a table the right is that on the table.
            IF NOT is_below AND NOT coalesce(has_table_privilege(acting, wanted, 'TRUNCATE'), true) THEN
                RETURN convert_to('null', 'UTF8');
            END IF;
            IF locks THEN PERFORM lock_to_empty(wanted); END IF;
            found := found || wanted;
        END LOOP;
        level := ARRAY(SELECT i.inhrelid FROM pg_inherits i
                        WHERE i.inhparent = ANY (above) AND i.inhrelid <> ALL (found) ORDER BY 1);
        above := above || level;
        is_below := level <> '{}';
        CONTINUE WHEN is_below;
        EXIT WHEN NOT cascades;
        -- Of a key that has been cloned for a partition also those of the table above are looked at.
        level := ARRAY(
            WITH RECURSIVE referenced(relid) AS (
                SELECT unnest(found)
                 UNION
                SELECT u.confrelid FROM referenced r JOIN pg_constraint k ON k.confrelid = r.relid AND k.contype = 'f'
                  JOIN pg_constraint u ON u.oid = k.conparentid)
            SELECT DISTINCT k.conrelid FROM referenced r JOIN pg_constraint k ON k.confrelid = r.relid AND k.contype = 'f'
             WHERE k.conrelid <> ALL (found) ORDER BY 1);
    END LOOP;
    RETURN convert_to(to_json(found::bigint[])::text, 'UTF8');
END $$;

-- End all rows of a table: what there is becomes history. The segments given are the tail's row versions, as many as were read
-- of it for them, and the tombstones of the rows that end.
CREATE OR REPLACE FUNCTION pg_journal.truncate(
    code text, wanted oid, version_micros bigint, segment_list json, tail_read bigint)
RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    j journals;
    numbers json;
    cleared bigint;
    -- Row versions of the tail, and tombstones of all rows.
    stored bigint;
BEGIN
    PERFORM authorize(code, 'truncate', wanted::text, version_micros::text, segment_list::text, tail_read::text);
    PERFORM require_right(wanted, true);
    PERFORM fold(wanted);
    j := locked(wanted);
    IF j.external IS NOT NULL THEN
        RAISE EXCEPTION 'TRUNCATE of the external journal "%" is not supported', j.table_name
            USING ERRCODE = '0A000',
                  HINT = CASE j.external->>'version' WHEN '' THEN 'Remove the rows where they are.'
                                                     ELSE 'DELETE without WHERE appends tombstones of all rows.' END;
    END IF;
    IF moment(version_micros) < j.version THEN
        RAISE EXCEPTION 'version number of table % has passed', wanted::regclass USING ERRCODE = '40001';
    END IF;
    IF current_setting('pg_journal.emptying_' || wanted, true) IS DISTINCT FROM '' THEN
        RAISE EXCEPTION 'the rows of table "%" would end in its journal alone', j.table_name
            USING ERRCODE = 'data_corrupted', DETAIL = 'Nothing has been changed.';
    END IF;
    UPDATE segments s SET kind = 'archive'
     WHERE s.relid = wanted AND s.retired_at IS NULL AND s.kind <> 'archive';
    PERFORM note_commits(wanted, NULL, NULL);
    EXECUTE format('DELETE FROM %s', j.tail_relid::regclass);
    GET DIAGNOSTICS cleared = ROW_COUNT;
    PERFORM require_taken(j.table_name, tail_read, cleared);
    stored := (SELECT coalesce(sum((e.value->>'row_count')::bigint), 0) FROM json_array_elements(segment_list) e);
    -- A table made in this transaction keeps its file.
    PERFORM forget_arrivals(wanted);
    numbers := add_segments(wanted, segment_list);
    PERFORM note_truncation(wanted, moment(version_micros), stored - cleared);
    UPDATE journals s
       SET epoch = epoch + 1, changes = changes + 1, tail_rows = 0, version = moment(version_micros)
     WHERE s.relid = wanted;
    RETURN convert_to(coalesce(numbers, '{}')::text, 'UTF8');
END $$;

-- Tables whose rows are still to be checked: for a new primary key, new unique indexes, new CHECK constraints (names, trees)
-- and columns that are NOT NULL now.
CREATE OR REPLACE FUNCTION pg_journal.pending_constraints(code text) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    PERFORM authorize(code, 'pending_constraints');
    RETURN convert_to(coalesce((
        SELECT json_agg(json_build_array(j.relid::bigint, j.pending_key, p.unique_keys, p.checks, p.not_null))
          FROM journals j CROSS JOIN LATERAL (
               SELECT (SELECT json_agg(unique_key(u.oid) ORDER BY u.oid) FROM unnest(unique_indexes(j.relid)) u(oid)
                        WHERE u.oid <> ALL (j.unique_indexes)) AS unique_keys,
                      (SELECT json_agg(json_build_array(x.conname, x.conbin::text) ORDER BY x.conname)
                         FROM pending_checks(j) x WHERE x.contype = 'c') AS checks,
                      -- Those of a new key are looked at with it.
                      (SELECT json_agg(x.conkey[1] ORDER BY x.conkey[1]) FROM pending_checks(j) x
                        WHERE x.contype = 'n' AND x.conkey[1] <> ALL (coalesce(j.pending_key, '{}'))) AS not_null) p
         -- Those are found together first: to look at each table by itself would take long where they are many.
         WHERE j.relid = ANY (ARRAY(
                   SELECT k.relid FROM journals k WHERE k.pending_key IS NOT NULL
                    UNION
                   SELECT k.relid FROM pg_index i JOIN journals k ON k.relid = i.indrelid
                    WHERE i.indisunique AND NOT i.indisprimary AND k.residency = 'tiered'
                      AND i.indexrelid <> ALL (k.unique_indexes)
                    UNION
                   SELECT k.relid FROM pg_constraint x JOIN journals k ON k.relid = x.conrelid
                    WHERE x.contype IN ('c', 'n') AND k.residency = 'tiered'
                      AND (x.oid <> ALL (k.checks) OR x.oid = ANY (k.unvalidated))))
           AND (j.pending_key IS NOT NULL OR p.unique_keys IS NOT NULL OR p.checks IS NOT NULL
                OR p.not_null IS NOT NULL)), '[]')::text, 'UTF8');
END $$;

-- Note that all rows of a tiered table satisfy its unique indexes, CHECK constraints and NOT NULL.
CREATE OR REPLACE FUNCTION pg_journal.set_satisfied(code text, wanted oid) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    PERFORM authorize(code, 'set_satisfied', wanted::text);
    PERFORM require_right(wanted, true);
    PERFORM fold(wanted);
    UPDATE journals s
       SET unique_indexes = unique_indexes(wanted), checks = kept_constraints(wanted),
           unvalidated = ARRAY(SELECT u FROM unnest(s.unvalidated) u WHERE u = ANY (unvalidated_constraints(wanted))),
           definition = random_mark(), changes = changes + 1
     WHERE s.relid = wanted;
    RETURN convert_to('null', 'UTF8');
END $$;

-- Complete a pending key: the rows are in a base that is sorted by it, and the tail is empty.
CREATE OR REPLACE FUNCTION pg_journal.set_key(code text, wanted oid) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    j journals;
BEGIN
    PERFORM authorize(code, 'set_key', wanted::text);
    PERFORM require_right(wanted, true);
    PERFORM fold(wanted);
    j := locked(wanted);
    IF j.pending_key IS NULL OR j.tail_rows > 0 THEN
        RAISE EXCEPTION 'table % has no key to complete', wanted::regclass USING ERRCODE = '55000';
    END IF;
    PERFORM apply_key(wanted, j.pending_key);
    UPDATE journals s SET definition = random_mark(), epoch = epoch + 1,
                          changes = changes + 1,
                          checks = s.checks || ARRAY(SELECT p.oid FROM pending_checks(j) p
                                                      WHERE p.contype = 'n' AND p.conkey[1] = ANY (j.pending_key))
     WHERE s.relid = wanted;
    PERFORM note_definition();
    RETURN convert_to('null', 'UTF8');
END $$;
