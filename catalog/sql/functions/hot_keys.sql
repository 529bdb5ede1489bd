-- Hot keys: keys of a tiered table that the catalog table answers for, so that PostgreSQL runs small writes as they came,
-- row by row. These are the keys in pg_journal.hot_<OID>, and those of all rows that are there. The law holds for them as
-- for resident tables: the catalog table holds the row of the journal's latest version, and none where that is a
-- tombstone. Capture keeps it so, and refuses changes of other keys.
--
-- Who writes hot rows holds ROW EXCLUSIVE on the tail, the gate, who ends their being hot EXCLUSIVE, each before the same
-- lock on the table. So nothing goes cold between the search for rows and the statement they are for. The gateway's own
-- connection makes keys hot (thaw_keys), and commits at once: it does not pass the gate, so that it never stands behind
-- somebody who waits there for the client it works for.
--
-- A key has to be in the table of hot keys before anything but an INSERT changes it. So whoever finds it there when
-- making it hot knows that what was read of it may be old.

-- Pass the gate of a tiered table; there is none where there is no table any more (42P01).
CREATE OR REPLACE FUNCTION pg_journal.lock_gate(wanted oid, mode text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    EXECUTE format('LOCK TABLE ONLY pg_journal.tail_%s IN %s MODE', wanted, mode);
END $$;

-- Pass the gate of a tiered table, and lock the table. Who does not wait for rows that others have locked (NOWAIT, SKIP
-- LOCKED) does not wait for who writes the table as a whole, and has locked all of them (55P03), but for upkeep, which closes
-- the gate for a moment.
CREATE OR REPLACE FUNCTION pg_journal.pass_gate(wanted oid, mode text, waits boolean DEFAULT true) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    own text := current_setting('lock_timeout');
BEGIN
    BEGIN
        IF NOT waits AND own::interval NOT BETWEEN interval '1 microsecond' AND interval '1 second' THEN
            PERFORM set_config('lock_timeout', '1s', true);
        END IF;
        PERFORM lock_gate(wanted, mode);
    EXCEPTION
        WHEN undefined_table THEN
            PERFORM outdated();
        WHEN lock_not_available THEN
            IF waits THEN RAISE; END IF;
            RAISE EXCEPTION 'could not obtain lock on relation "%"',
                (SELECT j.table_name FROM journals j WHERE j.relid = wanted)
                USING ERRCODE = '55P03',
                      DETAIL = 'Rows cannot be locked one by one while others are writing the table as a whole.';
    END;
    IF NOT waits THEN PERFORM set_config('lock_timeout', own, true); END IF;
    PERFORM lock_table(wanted, mode);
END $$;

-- The columns of a key: what defines them; their names in the table of hot keys, those by the alias `h`, and those of the
-- table by the alias `h`; their values of JSON arrays `u.e` of PostgreSQL's texts, of all columns in their order, or of the
-- key's; those of a row `v` of the tail in transfer forms.
CREATE OR REPLACE FUNCTION pg_journal.key_parts(
    wanted oid, OUT definitions text, OUT names text, OUT hot_names text, OUT held_columns text,
    OUT from_row text, OUT from_key text, OUT transferred text)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
    SELECT string_agg(format('c%s %s NOT NULL', k.attnum, plain_type(k.type_oid, -1)), ', ' ORDER BY u.o),
           string_agg('c' || k.attnum, ', ' ORDER BY u.o), string_agg('h.c' || k.attnum, ', ' ORDER BY u.o),
           string_agg(format('h.%I', k.name), ', ' ORDER BY u.o),
           string_agg(format('(u.e->>%s)::%s', p.place, plain_type(k.type_oid, -1)), ', ' ORDER BY u.o),
           string_agg(format('(u.e->>%s)::%s', u.o - 1, plain_type(k.type_oid, -1)), ', ' ORDER BY u.o),
           string_agg(transfer_expression('v.c' || k.attnum, k.type_oid), ', ' ORDER BY u.o)
      FROM journals j CROSS JOIN unnest(j.key) WITH ORDINALITY u(attnum, o)
      JOIN columns k ON k.relid = j.relid AND k.attnum = u.attnum
      JOIN (SELECT c.attnum, row_number() OVER (ORDER BY c.attnum) - 1 AS place
              FROM columns c WHERE c.relid = wanted AND c.name <> '') p ON p.attnum = k.attnum
     WHERE j.relid = wanted
$$;

-- Condition that two rows have one key, by the names their columns have in the table of hot keys, or in the table.
CREATE OR REPLACE FUNCTION pg_journal.hot_key(wanted oid, hot text, source text, plain boolean) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN (SELECT string_agg(CASE WHEN plain THEN format('%s.c%s = %s.%I', hot, k.attnum, source, k.name)
                               ELSE format('%s.c%s = %s.c%s', hot, k.attnum, source, k.attnum) END, ' AND '
                          ORDER BY u.o)
          FROM journals j CROSS JOIN unnest(j.key) WITH ORDINALITY u(attnum, o)
          JOIN columns k ON k.relid = j.relid AND k.attnum = u.attnum
         WHERE j.relid = wanted);

-- What announces a write of hot rows in this transaction: keys that are known, or (insert) such as are known when it has run.
CREATE OR REPLACE FUNCTION pg_journal.hot_announcement(wanted oid, way text) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN (SELECT encode(sha256(convert_to(
            'hot:' || way || ':' || secret_key || ':' || pg_current_xact_id()::text || ':' || wanted, 'UTF8')), 'hex')
          FROM instance);

-- Whether this transaction has announced that it writes hot rows of a table; then it has passed the gate.
CREATE OR REPLACE FUNCTION pg_journal.has_announced(wanted oid) RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN coalesce(current_setting('pg_journal.hot_' || wanted, true) IN (
    hot_announcement(wanted, 'keys'), hot_announcement(wanted, 'insert')), false);

-- How the statement that writes hot rows was announced; it is refused where it was not (GW001).
CREATE OR REPLACE FUNCTION pg_journal.announced_way(wanted oid, command text) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    said text := current_setting('pg_journal.hot_' || wanted, true);
BEGIN
    IF command <> 'TRUNCATE' THEN
        IF said = hot_announcement(wanted, 'keys') THEN RETURN 'keys'; END IF;
        IF said = hot_announcement(wanted, 'insert') THEN RETURN 'insert'; END IF;
    END IF;
    IF command = 'INSERT' AND EXISTS (SELECT FROM journals j WHERE j.relid = wanted AND j.ancestors <> '{}') THEN
        PERFORM refuse_routed(wanted);
    END IF;
    PERFORM refuse_unannounced(wanted);
END $$;

-- Statements of a capturing function that refuse keys which nobody has looked for.
CREATE OR REPLACE FUNCTION pg_journal.refuse_cold(wanted oid) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN (
    SELECT format(
        $f$IF tg_op = 'INSERT' AND pgwire_way = 'keys' THEN
                IF EXISTS (SELECT FROM pgwire_new pgwire_n WHERE NOT EXISTS (
                               SELECT FROM pg_journal.hot_%1$s pgwire_h WHERE %2$s)) THEN
                    PERFORM pg_journal.refuse_unknown_keys(%1$s, NULL);
                END IF;
            ELSIF tg_op = 'UPDATE' AND pgwire_way = 'keys' THEN
                IF EXISTS (SELECT FROM pgwire_new pgwire_n
                            WHERE NOT EXISTS (SELECT FROM pg_journal.hot_%1$s pgwire_h WHERE %2$s)
                              AND NOT EXISTS (SELECT FROM pgwire_old pgwire_o WHERE %3$s)) THEN
                    PERFORM pg_journal.refuse_unknown_keys(%1$s, (
                        SELECT json_agg(json_build_array(%4$s)) FROM (SELECT * FROM pgwire_new pgwire_n
                         WHERE NOT EXISTS (SELECT FROM pg_journal.hot_%1$s pgwire_h WHERE %2$s) LIMIT 1000) pgwire_n));
                END IF;
            END IF;$f$, wanted, hot_key(wanted, 'pgwire_h', 'pgwire_n', true), same_key(j, 'pgwire_n', 'pgwire_o'),
        (SELECT string_agg(transfer_expression(format('pgwire_n.%I', k.name), k.type_oid), ', ' ORDER BY u.o)
           FROM unnest(j.key) WITH ORDINALITY u(attnum, o) JOIN columns k ON k.relid = wanted AND k.attnum = u.attnum))
      FROM journals j WHERE j.relid = wanted);

-- The same for the one row of a row trigger.
CREATE OR REPLACE FUNCTION pg_journal.refuse_cold_row(wanted oid) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN (
    SELECT format(
        $f$IF pgwire_way = 'keys' AND (tg_op = 'INSERT' OR tg_op = 'UPDATE' AND (%3$s) IS NOT TRUE) THEN
                IF NOT EXISTS (SELECT FROM pg_journal.hot_%1$s pgwire_h WHERE %2$s) THEN
                    PERFORM pg_journal.refuse_unknown_keys(%1$s, NULL);
                END IF;
            END IF;$f$, wanted, hot_key(wanted, 'pgwire_h', 'new', true), same_key(j, 'new', 'old'))
      FROM journals j WHERE j.relid = wanted);

-- Statements of a capturing function that refuse values of unique keys in rows which a foreign key deletes in the statement that
-- has written them: whether cold rows have these values is asked when it has run. What it has written is captured before others
-- are deleted with what they reference, or after that. Partitions that reference are resident.
CREATE OR REPLACE FUNCTION pg_journal.refuse_passing(wanted oid) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN (
    SELECT format(
        $f$IF tg_op = 'INSERT' THEN
                PERFORM pg_journal.refuse_gone() WHERE EXISTS (SELECT FROM pgwire_new pgwire_n WHERE %2$s);
            ELSIF tg_op = 'UPDATE' THEN
                PERFORM pg_journal.refuse_gone() WHERE EXISTS (SELECT FROM pgwire_new pgwire_n WHERE %2$s AND (%3$s));
            ELSIF tg_op = 'DELETE' AND (pg_trigger_depth() > 1 OR pg_journal.is_acting()) THEN
                PERFORM pg_journal.refuse_gone() WHERE EXISTS (SELECT FROM pgwire_old pgwire_o JOIN pg_journal.tail_%1$s pgwire_w ON %4$s
                    WHERE pgwire_w.version_number >= statement_timestamp() AND pgwire_w.writer = pg_current_xact_id()
                      AND pgwire_w.subsequent_version_number IS NULL);
            END IF;$f$,
        wanted,
        format('NOT EXISTS (SELECT FROM ONLY %s pgwire_held WHERE %s)', wanted::regclass, same_key(j, 'pgwire_held', 'pgwire_n')),
        (SELECT string_agg(format('NOT EXISTS (SELECT FROM pgwire_old pgwire_o WHERE %s)', k.same), ' OR ')
           FROM (SELECT string_agg(format('pgwire_n.%1$I IS NOT DISTINCT FROM pgwire_o.%1$I', k.name), ' AND ') AS same
                   FROM unnest(j.unique_indexes) u(index_oid)
                   JOIN columns k ON k.relid = wanted AND k.attnum = ANY (unique_columns(u.index_oid))
                  GROUP BY u.index_oid) k),
        hot_key(wanted, 'pgwire_w', 'pgwire_o', true))
      FROM journals j
     WHERE j.relid = wanted AND j.unique_indexes <> '{}'
       AND EXISTS (SELECT FROM pg_constraint f WHERE f.conrelid = wanted AND f.contype = 'f' AND f.confdeltype = 'c'));

-- Refuse them.
CREATE OR REPLACE FUNCTION pg_journal.refuse_gone() RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    PERFORM refuse('values of unique keys in rows that a foreign key deletes in the same statement are');
END $$;

-- Refuse keys that nobody has looked for. Where the action of a foreign key writes them, in transfer forms, whoever runs the
-- statement is told, and can make them hot.
CREATE OR REPLACE FUNCTION pg_journal.refuse_unknown_keys(wanted oid, keys json) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    IF keys IS NOT NULL AND is_acting() THEN
        RAISE EXCEPTION 'writing keys of the tiered table "%" by foreign keys is not supported here',
                        (SELECT c.relname FROM pg_class c WHERE c.oid = wanted)
            USING ERRCODE = 'assert_failure',
                  HINT = 'Change the referenced rows in a transaction that is READ COMMITTED, outside of functions.',
                  DATATYPE = sealed(json_build_object('fk', 0, 'relid', wanted::bigint, 'columns', '[]'::json,
                                                      'values', '[]'::json, 'action', '', 'keys', keys)::text);
    END IF;
    PERFORM refuse('writing keys that are known only when the statement runs is');
END $$;

-- Write the functions that a table with hot rows has: pg_journal.cold_<OID> tells which of the keys in a JSON array are not
-- hot, without and with a row in the catalog table, and pg_journal.thaw_<OID> makes keys hot. Their statements are planned
-- once in a session.
CREATE OR REPLACE FUNCTION pg_journal.make_thawing(wanted oid) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    parts record := key_parts(wanted);
    x record := row_parts(wanted);
    name text := wanted::regclass;
    -- ON CONFLICT takes names of columns alone, which a key may share with a variable, as FOUND.
    made text := 'CREATE OR REPLACE FUNCTION pg_journal.%s LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS %L';
    body text := E'#variable_conflict use_column\n';
BEGIN
    IF parts.names IS NULL THEN RETURN; END IF;
    EXECUTE format(made, format('cold_%s(pgwire_keys json, OUT pgwire_cold json, OUT pgwire_held json)', wanted), body || format(
        $f$BEGIN
            SELECT json_agg(x.e) FILTER (WHERE NOT x.held), json_agg(x.e) FILTER (WHERE x.held)
              INTO pgwire_cold, pgwire_held
              FROM (SELECT u.e, EXISTS (SELECT FROM ONLY %2$s h WHERE (%3$s) = (%4$s)) AS held
                      FROM json_array_elements(pgwire_keys) u(e)
                     WHERE NOT EXISTS (SELECT FROM pg_journal.hot_%1$s h WHERE (%5$s) = (%4$s))) x;
        END $f$,
        wanted, name, parts.held_columns, parts.from_key, parts.hot_names));
    EXECUTE format(made, format(
        'thaw_%s(pgwire_epoch bigint, pgwire_seen pg_snapshot, pgwire_present json, pgwire_absent json) RETURNS boolean',
        wanted), body || format(
        $f$DECLARE
            pgwire_begun json;
        BEGIN
            WITH begun AS (
                INSERT INTO pg_journal.hot_%1$s (%2$s)
                SELECT %3$s FROM (SELECT e FROM json_array_elements(pgwire_present) p(e) UNION ALL
                                  SELECT e FROM json_array_elements(pgwire_absent) a(e)) u
                ORDER BY %3$s ON CONFLICT DO NOTHING RETURNING %2$s)
            SELECT json_agg(u.e) INTO pgwire_begun
              FROM json_array_elements(pgwire_present) u(e) JOIN begun h ON (%7$s) = (%3$s);
            IF pgwire_begun IS NULL THEN RETURN true; END IF;
            -- Whoever is changing a row that an INSERT had brought is not waited for.
            INSERT INTO %4$s (%5$s) OVERRIDING SYSTEM VALUE
            SELECT %6$s FROM json_array_elements(pgwire_begun) u(e)
             WHERE NOT EXISTS (SELECT FROM ONLY %4$s h WHERE (%9$s) = (%3$s))
             ORDER BY %3$s ON CONFLICT (%8$s) DO NOTHING;
            -- Rows that an INSERT had brought may have been changed since they were read, and gone.
            RETURN EXISTS (SELECT FROM pg_journal.journals j WHERE j.relid = %1$s AND j.epoch = pgwire_epoch)
               AND NOT EXISTS (SELECT FROM json_array_elements(pgwire_begun) u(e)
                                 JOIN pg_journal.tail_%1$s h ON (%7$s) = (%3$s)
                                WHERE NOT pg_visible_in_snapshot(h.writer, pgwire_seen));
        END $f$,
        wanted, parts.names, parts.from_row, name, x.settable_columns, x.settable_values, parts.hot_names,
        (SELECT string_agg(quote_ident(k.name), ', ') FROM journals j JOIN columns k
             ON k.relid = j.relid AND k.attnum = ANY (j.key) WHERE j.relid = wanted), parts.held_columns));
    EXECUTE format(made, format('heat_%s(pgwire_present json, pgwire_absent json) RETURNS void', wanted), body || format(
        $f$BEGIN
            -- Above READ COMMITTED this fails with 40001 where others have made one of the keys hot since the snapshot.
            INSERT INTO pg_journal.hot_%1$s (%2$s)
            SELECT %3$s FROM (SELECT e FROM json_array_elements(pgwire_present) p(e) UNION ALL
                              SELECT e FROM json_array_elements(pgwire_absent) a(e)) u
            ORDER BY %3$s ON CONFLICT DO NOTHING;
            -- The snapshot may show a row that others have deleted since, in front of whom this is not to put it back.
            INSERT INTO %4$s (%5$s) OVERRIDING SYSTEM VALUE
            SELECT %6$s FROM json_array_elements(pgwire_present) u(e)
             WHERE NOT EXISTS (SELECT FROM ONLY %4$s h WHERE (%7$s) = (%3$s))
             ORDER BY %3$s;
        END $f$,
        wanted, parts.names, parts.from_row, name, x.settable_columns, x.settable_values, parts.held_columns));
    PERFORM pg_journal.withhold_function(format('pg_journal.' || f, wanted)::regprocedure)
       FROM unnest(ARRAY['cold_%s(json)', 'thaw_%s(bigint, pg_snapshot, json, json)', 'heat_%s(json, json)']) f;
END $$;

-- Whether foreign keys of a table, or to it, can be deferred. Transactions that read by one snapshot have them looked at at
-- once, and are refused what cannot be.
CREATE OR REPLACE FUNCTION pg_journal.has_deferrable_keys(wanted oid) RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN EXISTS (SELECT FROM pg_constraint x
                WHERE x.contype = 'f' AND x.condeferrable AND wanted IN (x.conrelid, x.confrelid));

-- Write the function that tells of a table with hot rows what it is, and take it away where there are none. A function is
-- seen as it is now, whatever the snapshot of a transaction shows; who has passed the gate can rely on it.
CREATE OR REPLACE FUNCTION pg_journal.make_warmth(wanted oid) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    j record;
BEGIN
    SELECT s.is_hot, s.heats, s.definition, micros(s.cold_version) AS version INTO j FROM journals s WHERE s.relid = wanted;
    IF j.is_hot THEN
        EXECUTE format('CREATE OR REPLACE FUNCTION pg_journal.warmth_%s() RETURNS jsonb LANGUAGE sql STABLE AS %L',
                       wanted, format('SELECT %L::jsonb', json_build_object(
                           'heats', j.heats, 'definition', j.definition, 'version', j.version,
                           'deferrable', has_deferrable_keys(wanted))));
        PERFORM pg_journal.withhold_function(format('pg_journal.warmth_%s()', wanted)::regprocedure);
    ELSIF to_regprocedure(format('pg_journal.warmth_%s()', wanted)) IS NOT NULL THEN
        EXECUTE format('DROP FUNCTION pg_journal.warmth_%s()', wanted);
    END IF;
END $$;

-- What it tells: how often the table has begun to have hot rows, its definition, the last version number before that,
-- and whether it has foreign keys that can be deferred. NULL where there are no hot rows now.
CREATE OR REPLACE FUNCTION pg_journal.warmth(wanted oid) RETURNS jsonb
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    told jsonb;
BEGIN
    IF to_regprocedure(format('pg_journal.warmth_%s()', wanted)) IS NULL THEN RETURN NULL; END IF;
    EXECUTE format('SELECT pg_journal.warmth_%s()', wanted) INTO told;
    RETURN told;
EXCEPTION WHEN undefined_function THEN
    RETURN NULL;
END $$;

-- Whether rows of a table could ever be hot: it is tiered and has a key, of types that are looked up.
CREATE OR REPLACE FUNCTION pg_journal.has_hot_key(j pg_journal.journals) RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN j.residency = 'tiered' AND j.key <> '{}' AND j.pending_key IS NULL AND j.external IS NULL AND NOT EXISTS (
    SELECT FROM columns k WHERE k.relid = j.relid AND k.attnum = ANY (j.key) AND NOT is_hot_key_type(k.type_oid, k.typmod));

-- Whether rows can be inserted into a table beside those of others although they have no key: nothing but the table itself tells
-- what may be inserted, and nothing that PostgreSQL does by itself changes them. They are hot, and are never looked for.
CREATE OR REPLACE FUNCTION pg_journal.takes_unkeyed(j pg_journal.journals) RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN j.residency = 'tiered' AND j.key = '{}' AND j.pending_key IS NULL AND j.external IS NULL
   AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = j.relid AND i.indisunique)
   AND NOT EXISTS (SELECT FROM pg_constraint x WHERE x.contype = 'f' AND j.relid IN (x.conrelid, x.confrelid));

-- Whether a table could ever have hot rows.
CREATE OR REPLACE FUNCTION pg_journal.can_be_hot(j pg_journal.journals) RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN has_hot_key(j) OR takes_unkeyed(j);

-- Whether what a transaction's snapshot shows of the cold rows of a table is true now, by what is told of its hot rows: there
-- have been some since without a break, or there were none, and none was written before.
CREATE OR REPLACE FUNCTION pg_journal.is_as_seen(wanted oid, told jsonb) RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN coalesce((
    SELECT CASE WHEN s.is_hot THEN (told->>'heats')::bigint = s.heats
                ELSE (told->>'definition')::bigint = s.definition AND (told->>'version')::bigint = (
                    SELECT c.version_micros FROM cold_states c WHERE c.relid = wanted) END
      FROM journals s WHERE s.relid = wanted), false);

CREATE OR REPLACE FUNCTION pg_journal.refuse_changed() RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    RAISE EXCEPTION 'could not serialize access due to concurrent update' USING ERRCODE = '40001';
END $$;

-- Let rows of a tiered table become hot; the answer is whether they can. Those who come meanwhile wait behind it, so it
-- waits no longer than this for writers of the whole table, behind whom they would wait as well.
CREATE OR REPLACE FUNCTION pg_journal.warm(wanted oid) RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
SET event_triggers = off
AS $$
DECLARE
    j journals;
    parts record;
BEGIN
    IF (SELECT s.is_hot FROM journals s WHERE s.relid = wanted) THEN RETURN true; END IF;
    PERFORM set_config('lock_timeout', '1000', true);
    -- PostgreSQL's triggers lock tables ROW SHARE that they have looked for references in.
    PERFORM lock_table(wanted, 'SHARE ROW EXCLUSIVE');
    PERFORM fold(wanted);
    j := locked(wanted);
    -- A crash must not bring back a number of heats: it tells what can be relied on.
    PERFORM set_config('synchronous_commit', 'on', true);
    IF NOT can_be_hot(j) THEN RETURN false; END IF;
    IF j.is_hot THEN RETURN true; END IF;
    -- The tail, which gets an index, comes last, as for those who write the table as a whole, and for upkeep. Who comes the
    -- other way defines the table, and is let pass.
    PERFORM set_config('lock_timeout', '100', true);
    PERFORM lock_gate(wanted, 'SHARE');
    PERFORM set_config('lock_timeout', '1000', true);
    parts := key_parts(wanted);
    EXECUTE format('DROP TABLE IF EXISTS pg_journal.hot_%s', wanted);
    EXECUTE format('CREATE TABLE pg_journal.hot_%s (%s)', wanted, concat_ws(
        ', ', parts.definitions, 'thawed_at timestamptz NOT NULL DEFAULT clock_timestamp()',
        'writer xid8 NOT NULL DEFAULT pg_current_xact_id()', 'PRIMARY KEY (' || parts.names || ')'));
    PERFORM seal(format('pg_journal.hot_%s', wanted));
    -- Readers look for what transactions have added.
    EXECUTE format('CREATE INDEX IF NOT EXISTS tail_%1$s_writer ON pg_journal.tail_%1$s (writer)', wanted);
    UPDATE journals s
       SET is_hot = true, heats = heats + 1, warmed_at = clock_timestamp(), cold_version = j.version, epoch = epoch + 1,
           changes = changes + 1
     WHERE s.relid = wanted;
    PERFORM watch(wanted);
    PERFORM make_thawing(wanted);
    RETURN true;
END $$;

-- Have the catalog table answer for no key any more. The caller has closed the gate, holds the lock of the journal, and
-- gives the table its triggers afterwards. What was captured stays in the tail.
CREATE OR REPLACE FUNCTION pg_journal.cool(wanted oid) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
SET session_replication_role = replica
SET event_triggers = off
SET constraint_exclusion = off
AS $$
BEGIN
    PERFORM fold(wanted);
    PERFORM note_references(wanted);
    EXECUTE format('DELETE FROM ONLY %s', wanted::regclass);
    PERFORM forget_arrivals(wanted);
    EXECUTE format(
        'UPDATE pg_journal.journals j SET is_hot = false, is_overheated = false, cooled_at = clock_timestamp(), '
        'epoch = epoch + 1, changes = changes + 1, tail_rows = t.n, version = greatest(j.version, t.newest) '
        'FROM (SELECT count(*) AS n, max(version_number) AS newest FROM pg_journal.tail_%1$s) t '
        'WHERE j.relid = %1$s', wanted);
END $$;

-- The same for upkeep; the answer is whether the table was hot. Whoever is behind the gate leaves the table soon; but who
-- has locked the table may be coming to the gate, and is not to fail with a deadlock. If `overheated`, nothing is done
-- where others have done it meanwhile.
CREATE OR REPLACE FUNCTION pg_journal.cool_down(wanted oid, overheated boolean) RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    tail regclass;
BEGIN
    SELECT s.tail_relid INTO tail FROM journals s WHERE s.relid = wanted AND (s.is_overheated OR NOT overheated);
    IF tail IS NULL THEN RETURN false; END IF;
    EXECUTE format('LOCK TABLE ONLY %s IN EXCLUSIVE MODE', tail);
    PERFORM set_config('lock_timeout', '100', true);
    PERFORM pass_gate(wanted, 'EXCLUSIVE');
    IF NOT (SELECT s.is_hot AND (s.is_overheated OR NOT overheated) FROM journals s WHERE s.relid = wanted) THEN
        RETURN false;
    END IF;
    PERFORM cool(wanted);
    PERFORM watch(wanted);
    RETURN true;
END $$;

-- End a statement whose rows are not all hot, or cannot be. The code is not for clients.
CREATE OR REPLACE FUNCTION pg_journal.not_hot() RETURNS bytea
LANGUAGE plpgsql
AS $$
BEGIN
    RAISE EXCEPTION 'rows are not hot' USING ERRCODE = 'GW002';
END $$;

-- Whether a write would make more rows of a table hot, in a transaction that has not written any yet.
CREATE OR REPLACE FUNCTION pg_journal.adds_heat(wanted oid, way text, keys text, searched boolean) RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    adds boolean;
BEGIN
    IF has_announced(wanted) THEN RETURN false; END IF;
    IF way = 'insert' OR searched THEN RETURN true; END IF;
    EXECUTE format('SELECT pgwire_cold IS NOT NULL OR pgwire_held IS NOT NULL FROM pg_journal.cold_%s($1)', wanted)
       INTO adds USING keys::json;
    RETURN adds;
END $$;

-- Announce a write of a transaction that reads by one snapshot, and makes rows hot itself. That what it sees of the journal
-- bookkeeping may be old does not matter where the table has had hot rows since, without a break, or had none, and has not
-- been written before it got them: what is cold now has not changed, and of what is hot PostgreSQL tells. Else 40001.
CREATE OR REPLACE FUNCTION pg_journal.announce_own(wanted oid, way text, keys text, waits boolean, beside oid[])
RETURNS json
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    j record;
    told jsonb;
    cold json;
    held json;
    mark timestamptz;
    is_new boolean := pg_current_xact_id_if_assigned() IS NULL;
BEGIN
    SELECT s.residency, s.is_hot, s.heats, s.definition, s.thaw_rows, s.ancestors, can_be_hot(s) AS fits, s.key = '{}' AS unkeyed,
           current_setting('transaction_read_only') = 'off' AND NOT has_deferrable_keys(wanted)
           -- Rows that do not satisfy them could not be put into the table.
           AND NOT EXISTS (SELECT FROM pg_constraint x WHERE x.conrelid = wanted AND NOT x.convalidated)
           AND (s.key <> '{}' OR has_identities(s.tail_relid)) AS plain
      INTO j FROM journals s WHERE s.relid = wanted;
    IF j.residency IS DISTINCT FROM 'tiered' THEN PERFORM outdated(); END IF;
    IF NOT (j.plain AND j.fits) THEN RETURN json_build_object('hot', false, 'snapshots', true); END IF;
    BEGIN
        PERFORM pass_gate(wanted, 'ROW EXCLUSIVE', waits);
        told := warmth(wanted);
        -- Locked in vain, the table would keep the gateway from making it hot.
        IF told IS NULL OR (told->>'deferrable')::boolean THEN PERFORM not_hot(); END IF;
    EXCEPTION WHEN SQLSTATE 'GW002' THEN
        RETURN json_build_object('hot', false, 'snapshots', told IS NOT NULL, 'own', true, 'unkeyed', j.unkeyed);
    END;
    IF NOT is_as_seen(wanted, told) THEN PERFORM refuse_changed(); END IF;
    PERFORM set_config('pg_journal.hot_' || wanted, hot_announcement(wanted, way), true);
    IF j.ancestors <> '{}' THEN PERFORM announce_above(j.ancestors, ARRAY[wanted] || leaves_beside(wanted, beside), is_new); END IF;
    IF way = 'insert' THEN
        EXECUTE 'SELECT ' || next_version(wanted, current_setting('transaction_isolation') = 'serializable') INTO mark;
    END IF;
    IF keys IS NOT NULL THEN
        EXECUTE format('SELECT * FROM pg_journal.cold_%s($1)', wanted) INTO cold, held USING keys::json;
    END IF;
    RETURN json_build_object('hot', true, 'own', true, 'unkeyed', j.unkeyed, 'new', NOT j.is_hot, 'heats', told->'heats',
                             'cold', cold, 'held', held, 'thaw_rows', j.thaw_rows, 'mark', micros(mark));
END $$;

-- Announce a write of hot rows, or that rows are locked or read (ROW SHARE), waiting for others' or not (pass_gate). The answer
-- tells whether there can be hot rows, or never, how often that has begun, which of the keys are not hot, with a row in the catalog table (held) or without (cold), and from which version
-- number on an INSERT writes. Where it is `strict`, nothing but that all are hot will do (GW002). Where too many rows are
-- hot, a transaction that has not written the table before, and would add to them, by keys, by rows that it inserts, or by
-- others that are still to be `searched`, is told that it is full; it has not passed the gate then. Transactions above READ
-- COMMITTED have to make rows hot themselves (`own`), or there are none for them. What the same statement is announced for
-- `beside` stays so.
CREATE OR REPLACE FUNCTION pg_journal.announce(
    code text, wanted oid, mode text, waits boolean, way text, keys text, strict boolean, found_in bigint, searched boolean,
    own boolean, beside oid[])
RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    j record;
    found record;
    mark timestamptz;
    is_new boolean := pg_current_xact_id_if_assigned() IS NULL;
BEGIN
    PERFORM authorize(code, 'announce', wanted::text, mode, waits::text, way, keys, strict::text, found_in::text,
                      searched::text, own::text, beside::text);
    PERFORM require_right(wanted, mode <> 'ROW SHARE');
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        IF strict THEN RETURN not_hot(); END IF;
        IF own THEN RETURN convert_to(announce_own(wanted, way, keys, waits, beside)::text, 'UTF8'); END IF;
        RETURN convert_to('{"hot": false, "snapshots": true}', 'UTF8');
    END IF;
    -- Locked in vain, the table would keep the gateway from making it hot.
    SELECT s.is_hot, s.is_overheated INTO j FROM journals s WHERE s.relid = wanted;
    IF NOT coalesce(j.is_hot, false) THEN
        IF strict THEN RETURN not_hot(); END IF;
        RETURN convert_to(json_build_object('hot', false, 'snapshots', false, 'never', NOT coalesce(
            (SELECT can_be_hot(s) FROM journals s WHERE s.relid = wanted), false))::text, 'UTF8');
    END IF;
    IF j.is_overheated AND adds_heat(wanted, way, keys, searched) THEN
        IF strict THEN RETURN not_hot(); END IF;
        RETURN convert_to('{"hot": false, "snapshots": false, "full": true}', 'UTF8');
    END IF;
    PERFORM pass_gate(wanted, mode, waits);
    SELECT s.residency, s.is_hot, s.heats, s.key, s.thaw_rows, s.ancestors, s.tail_relid INTO j
      FROM journals s WHERE s.relid = wanted;
    IF j.residency <> 'tiered' THEN PERFORM outdated(); END IF;
    IF strict AND j.heats <> found_in THEN RETURN not_hot(); END IF;
    IF NOT j.is_hot OR j.key = '{}' AND NOT has_identities(j.tail_relid) THEN
        IF strict THEN RETURN not_hot(); END IF;
        RETURN convert_to('{"hot": false, "snapshots": false}', 'UTF8');
    END IF;
    PERFORM set_config('pg_journal.hot_' || wanted, hot_announcement(wanted, way), true);
    IF j.ancestors <> '{}' THEN PERFORM announce_above(j.ancestors, ARRAY[wanted] || leaves_beside(wanted, beside), is_new); END IF;
    IF way = 'insert' AND NOT strict THEN EXECUTE 'SELECT ' || next_version(wanted, false) INTO mark; END IF;
    IF keys IS NOT NULL THEN
        EXECUTE format('SELECT pgwire_cold AS cold, pgwire_held AS held FROM pg_journal.cold_%s($1)', wanted)
           INTO found USING keys::json;
        IF strict AND (found.cold IS NOT NULL OR found.held IS NOT NULL) THEN RETURN not_hot(); END IF;
        RETURN convert_to(json_build_object('hot', true, 'heats', j.heats, 'cold', found.cold,
                                            'held', found.held, 'thaw_rows', j.thaw_rows,
                                            'mark', micros(mark))::text, 'UTF8');
    END IF;
    RETURN convert_to(json_build_object('hot', true, 'heats', j.heats, 'unkeyed', j.key = '{}',
                                        'mark', micros(mark))::text, 'UTF8');
END $$;

-- Make keys hot: put their rows, which come as PostgreSQL's texts of all columns, into the catalog table, and note those
-- of which there is none to be put there (only their keys are given). The answer: done; cold, when the rows were read
-- before all of them have gone cold, as a session may that has died meanwhile; stale, when rows were not what was read any
-- more (in this epoch, by this snapshot); unfit, when a constraint refuses a row. Keys that are hot already stay as they
-- are.
CREATE OR REPLACE FUNCTION pg_journal.thaw_keys(
    wanted oid, heat bigint, epoch bigint, seen pg_snapshot, present json, absent json, lasting boolean)
RETURNS text
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
SET session_replication_role = replica
SET array_nulls = on
SET intervalstyle = 'postgres'
SET constraint_exclusion = off
SET xmloption = content
AS $$
DECLARE
    done boolean;
BEGIN
    PERFORM lock_table(wanted, 'ROW EXCLUSIVE');
    IF NOT coalesce((SELECT s.is_hot AND s.heats = heat FROM journals s WHERE s.relid = wanted), false) THEN
        RETURN 'cold';
    END IF;
    IF lasting THEN
        PERFORM set_config('synchronous_commit', 'on', true);
        -- Also where all keys are hot already, by others who did not wait for the WAL.
        PERFORM pg_logical_emit_message(true, 'pgwire', '');
    END IF;
    BEGIN
        EXECUTE format('SELECT pg_journal.thaw_%s($1, $2, $3, $4)', wanted)
           INTO done USING epoch, seen, coalesce(present, '[]'), coalesce(absent, '[]');
        IF NOT done THEN RAISE serialization_failure; END IF;
        RETURN 'done';
    EXCEPTION
        -- Others have changed since, whose unique value a row had.
        WHEN serialization_failure OR unique_violation THEN RETURN 'stale';
        WHEN integrity_constraint_violation OR data_exception OR program_limit_exceeded THEN RETURN 'unfit';
    END;
END $$;

-- The same for a transaction that reads by one snapshot, in itself. No error is caught: others who wait for what a
-- subtransaction has written wait for the whole transaction.
CREATE OR REPLACE FUNCTION pg_journal.heat_keys(code text, wanted oid, present text, absent text) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
SET session_replication_role = replica
SET array_nulls = on
SET intervalstyle = 'postgres'
SET constraint_exclusion = off
SET xmloption = content
AS $$
BEGIN
    PERFORM authorize(code, 'heat_keys', wanted::text, present, absent);
    PERFORM require_right(wanted, true);
    EXECUTE format('SELECT pg_journal.heat_%s($1, $2)', wanted) USING present::json, absent::json;
    RETURN convert_to('null', 'UTF8');
END $$;

-- Make keys hot as `heat_keys` does, but for those that others are making hot: these are left out, or else fail it (55P03).
-- Who has made rows hot in vain gives them free soon, so that the first of them is waited for.
CREATE OR REPLACE FUNCTION pg_journal.heat_free(wanted oid, present json, skips boolean, patience_ms int) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    half int := (json_array_length(present) + 1) / 2;
BEGIN
    IF half = 0 THEN RETURN; END IF;
    PERFORM set_config('lock_timeout', patience_ms::text, true);
    BEGIN
        EXECUTE format('SELECT pg_journal.heat_%s($1, $2)', wanted) USING present, '[]'::json;
        RETURN;
    EXCEPTION WHEN lock_not_available THEN
        IF NOT skips THEN
            RAISE EXCEPTION 'could not obtain lock on row in relation "%"', (SELECT c.relname FROM pg_class c WHERE c.oid = wanted)
                USING ERRCODE = '55P03';
        END IF;
    END;
    IF json_array_length(present) = 1 THEN RETURN; END IF;
    PERFORM heat_free(wanted, part.rows, skips, 10)
       FROM (SELECT u.i > half AS later, json_agg(u.e ORDER BY u.i) AS rows
               FROM json_array_elements(present) WITH ORDINALITY u(e, i) GROUP BY 1 ORDER BY 1) part;
END $$;

CREATE OR REPLACE FUNCTION pg_journal.heat_unwaited(code text, wanted oid, present text, skips boolean) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
SET session_replication_role = replica
SET array_nulls = on
SET intervalstyle = 'postgres'
SET constraint_exclusion = off
SET lock_timeout = 0
SET xmloption = content
AS $$
BEGIN
    PERFORM authorize(code, 'heat_unwaited', wanted::text, present, skips::text);
    PERFORM require_right(wanted, true);
    PERFORM heat_free(wanted, present::json, skips, 100);
    RETURN convert_to('null', 'UTF8');
END $$;

-- The keys of rows that this transaction has made hot itself and locked, as PostgreSQL's texts, and whether there are others
-- that it has made hot.
CREATE OR REPLACE FUNCTION pg_journal.locked_keys(code text, wanted oid) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
SET datestyle = 'ISO'
SET timezone = 'UTC'
SET bytea_output = 'hex'
AS $$
DECLARE
    parts record := key_parts(wanted);
    found json;
BEGIN
    PERFORM authorize(code, 'locked_keys', wanted::text);
    PERFORM require_right(wanted, true);
    EXECUTE format(
        'SELECT json_build_object(''keys'', coalesce(json_agg(json_build_array(%1$s)) FILTER (WHERE k.locked), ''[]''), '
        '''others'', coalesce(NOT bool_and(k.locked), false)) '
        'FROM (SELECT h.*, t.xmax::text <> ''0'' AS locked FROM pg_journal.hot_%2$s h JOIN ONLY %3$s t ON %4$s '
        'WHERE h.writer = pg_current_xact_id()) k',
        regexp_replace(parts.names, '(c\d+)', 'k.\1::text', 'g'), wanted, wanted::regclass, hot_key(wanted, 'h', 't', true))
       INTO found;
    RETURN convert_to(found::text, 'UTF8');
END $$;

-- The keys of rows that a statement of this transaction has brought, or given these keys, from a version number on (or all
-- that it has written), which the journal may hold already, in transfer forms, and the oldest version number of these rows;
-- and the values that rows have which it has written, for each unique key. A row that the statement has taken away again, as
-- foreign keys do, has left its end, which would be that of a row of the journal. Keys that nobody knows before are written by
-- this statement alone: what follows has to announce them anew.
CREATE OR REPLACE FUNCTION pg_journal.unsearched(code text, wanted oid, mark_micros bigint) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    j record;
    parts record;
    ranges text := 'true';
    found json;
BEGIN
    PERFORM authorize(code, 'unsearched', wanted::text, mark_micros::text);
    PERFORM require_right(wanted, true);
    SELECT s.relid, s.key INTO j FROM journals s WHERE s.relid = wanted;
    IF j.key = '{}' THEN RETURN convert_to('{"keys": [], "mark": null, "values": []}', 'UTF8'); END IF;
    parts := key_parts(wanted);
    IF NOT EXISTS (SELECT FROM segments s WHERE s.relid = wanted AND s.retired_at IS NULL AND s.row_count > 0
                      AND s.kind <> 'archive') THEN
        ranges := 'false';
    ELSIF cardinality(j.key) = 1 THEN
        SELECT format('EXISTS (SELECT FROM pg_journal.segments s WHERE s.relid = %s AND s.retired_at IS NULL '
                      'AND s.row_count > 0 AND s.kind <> ''archive'' '
                      'AND (s.key_min IS NULL OR %s BETWEEN s.key_min AND s.key_max))', wanted,
                      transfer_expression('v.c' || k.attnum, k.type_oid))
          INTO ranges FROM columns k
         WHERE k.relid = wanted AND k.attnum = j.key[1] AND has_key_bounds(k.type_oid);
        ranges := coalesce(ranges, 'true');
    END IF;
    EXECUTE format(
        'SELECT json_build_object(''keys'', coalesce(json_agg(json_build_array(%1$s)), ''[]''), '
        '''mark'', min(pg_journal.micros(v.version_number))) FROM pg_journal.tail_%2$s v '
        'WHERE v.version_number >= $1 AND v.writer = pg_current_xact_id() AND v.row_identity IS NULL '
        'AND NOT EXISTS (SELECT FROM pg_journal.hot_%2$s h WHERE %3$s) '
        'AND (%4$s OR EXISTS (SELECT FROM pg_journal.tail_%2$s w WHERE %5$s AND w.version_number < v.version_number))',
        parts.transferred, wanted, hot_key(wanted, 'h', 'v', false), ranges, hot_key(wanted, 'w', 'v', false))
       INTO found USING coalesce(moment(mark_micros), '-infinity');
    IF current_setting('pg_journal.hot_' || wanted, true) = hot_announcement(wanted, 'insert') THEN
        PERFORM set_config('pg_journal.hot_' || wanted, hot_announcement(wanted, 'keys'), true);
    END IF;
    RETURN convert_to((found::jsonb || jsonb_build_object(
        'values', unique_values(wanted, coalesce(moment(mark_micros), '-infinity'))))::text, 'UTF8');
END $$;

-- Tell, or do not tell any more, which rows the statements of this transaction propose to insert into tables with hot rows.
CREATE OR REPLACE FUNCTION pg_journal.tell_proposed(code text, is_told boolean) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    PERFORM authorize(code, 'tell_proposed', is_told::text);
    PERFORM set_config('pg_journal.telling', CASE WHEN is_told THEN 'on' ELSE '' END, true);
    RETURN convert_to('null', 'UTF8');
END $$;

-- Write the function that tells of each row that is proposed for a table with hot rows, before anything is looked at that it
-- could be in conflict with: its key, and for each unique key the values it has, as arrays of transfer forms as `unsearched`
-- tells them, NULL where it has none. It tells by a message (GW006), which an error that follows does not take back.
CREATE OR REPLACE FUNCTION pg_journal.make_proposing(wanted oid) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    given text;
    computed text;
    captured text;
    key text;
    others text;
BEGIN
    SELECT string_agg(format('new.%1$I AS %1$I', a.attname), ', ' ORDER BY a.attnum) FILTER (WHERE a.attgenerated = ''),
           string_agg(format('(%s) AS %I', pg_get_expr(d.adbin, d.adrelid), a.attname), ', ' ORDER BY a.attnum)
               FILTER (WHERE a.attgenerated <> '')
      INTO given, computed
      FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
     WHERE a.attrelid = wanted AND a.attnum > 0 AND NOT a.attisdropped;
    SELECT string_agg(format('%s AS c%s', tail_expression(format('x.%I', k.name), k.type_oid), k.attnum), ', ' ORDER BY k.attnum)
      INTO captured FROM columns k WHERE k.relid = wanted AND k.name <> '';
    SELECT string_agg(source_value('v.c' || k.attnum, k.type_oid), ', ' ORDER BY u.o) INTO key
      FROM journals j CROSS JOIN unnest(j.key) WITH ORDINALITY u(attnum, o)
      JOIN columns k ON k.relid = j.relid AND k.attnum = u.attnum
     WHERE j.relid = wanted;
    SELECT string_agg(CASE WHEN unique_value(u.index_oid) IS NULL THEN (
               SELECT format('CASE WHEN %s THEN json_build_array(%s) END',
                             string_agg(format('v.c%s IS NOT NULL', c.attnum), ' AND ' ORDER BY n.o),
                             string_agg(source_value('v.c' || c.attnum, c.type_oid), ', ' ORDER BY n.o))
                 FROM unnest(unique_columns(u.index_oid)) WITH ORDINALITY n(attnum, o)
                 JOIN columns c ON c.relid = wanted AND c.attnum = n.attnum)
           ELSE format('(SELECT CASE WHEN y.value IS NOT NULL THEN json_build_array(y.value) END '
                       'FROM (SELECT %s AS value FROM (SELECT %s) r) y)', unique_value(u.index_oid),
                       unique_reading(u.index_oid, 'v.c%s')) END, ', ' ORDER BY u.o)
      INTO others
      FROM journals j CROSS JOIN unnest(j.unique_indexes) WITH ORDINALITY u(index_oid, o)
     WHERE j.relid = wanted;
    EXECUTE format(
        'CREATE OR REPLACE FUNCTION pg_journal.propose_%s() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER '
        'SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 SET datestyle = ''ISO'' '
        'SET intervalstyle = ''postgres'' SET timezone = ''UTC'' SET bytea_output = ''hex'' AS %L',
        wanted, format(
        $f$
        #variable_conflict use_column
        DECLARE
            pgwire_told text;
        BEGIN
            BEGIN
                SELECT json_build_object('relid', %1$s, 'key', json_build_array(%2$s), 'values', json_build_array(%3$s))::text
                  INTO pgwire_told FROM (SELECT %4$s FROM (SELECT x.*%5$s FROM (SELECT %6$s) x) x) v;
            EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
                -- PostgreSQL will say so, where it comes to that.
                RETURN new;
            END;
            RAISE INFO '%%', pgwire_told USING ERRCODE = 'GW006';
            RETURN new;
        END $f$, wanted, key, coalesce(others, ''), captured, coalesce(', ' || computed, ''), given));
    PERFORM pg_journal.withhold_function(format('pg_journal.propose_%s()', wanted)::regprocedure);
END $$;

-- Whether a transaction with this snapshot does not see all that has been written to hot rows, or made hot. Its owner
-- keeps writers from the table meanwhile.
CREATE OR REPLACE FUNCTION pg_journal.unseen(wanted oid, snapshot text) RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    found boolean;
BEGIN
    EXECUTE format('SELECT EXISTS (SELECT FROM pg_journal.tail_%1$s WHERE NOT pg_visible_in_snapshot(writer, $1)) '
                   'OR EXISTS (SELECT FROM pg_journal.hot_%1$s WHERE NOT pg_visible_in_snapshot(writer, $1))', wanted)
       INTO found USING snapshot::pg_snapshot;
    RETURN found;
END $$;

-- What upkeep has to know of tables with hot rows: row versions in the tail, how long none has come and no key has
-- become hot, hot rows, and the bounds that their owners have asked for. Those that others have locked are left out.
CREATE OR REPLACE FUNCTION pg_journal.hot_tables(
    OUT relid oid, OUT tail_rows bigint, OUT tail_bytes bigint, OUT rest_s float8, OUT hot_rows bigint,
    OUT asked_rows bigint, OUT asked_age_s float8, OUT unkeyed boolean)
RETURNS SETOF record
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    tail oid;
    warm_s float8;
BEGIN
    FOR relid, tail, asked_rows, asked_age_s, unkeyed, warm_s IN
        SELECT j.relid, j.tail_relid, j.hot_rows, j.hot_age_s, j.key = '{}', extract(epoch FROM clock_timestamp() - j.warmed_at)
          FROM journals j WHERE j.is_hot ORDER BY j.relid
    LOOP
        BEGIN
            PERFORM lock_for_count(relid, tail);
            EXECUTE format(
                'SELECT count(*), coalesce(extract(epoch FROM clock_timestamp() - max(version_number)), 1e9) '
                'FROM pg_journal.tail_%s', relid) INTO tail_rows, rest_s;
            tail_bytes := tail_bytes(relid, tail);
            EXECUTE format(
                'SELECT greatest(count(*), (SELECT count(*) FROM ONLY %2$s)), '
                'least($1, coalesce(extract(epoch FROM clock_timestamp() - max(thawed_at)), 1e9)) '
                'FROM pg_journal.hot_%1$s', relid, relid::regclass) INTO hot_rows, rest_s USING rest_s;
            -- Transactions make rows hot that they alone see until they end.
            rest_s := least(rest_s, warm_s);
            PERFORM end_count();
        EXCEPTION
            WHEN SQLSTATE 'GW004' THEN NULL;
            WHEN lock_not_available OR undefined_table THEN CONTINUE;
        END;
        RETURN NEXT;
    END LOOP;
END $$;

-- Take the rows that have been inserted into a table without a key out of the catalog table, beside writers; the answer is how many.
-- Nobody looks for them there: what was captured of them is what everybody reads.
CREATE OR REPLACE FUNCTION pg_journal.shed(wanted oid) RETURNS bigint
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
SET session_replication_role = replica
SET constraint_exclusion = off
AS $$
DECLARE
    gone bigint;
BEGIN
    PERFORM lock_table(wanted, 'ROW EXCLUSIVE');
    IF NOT (SELECT captures_identities(s) FROM journals s WHERE s.relid = wanted) THEN RETURN 0; END IF;
    EXECUTE format('DELETE FROM ONLY %s', wanted::regclass);
    GET DIAGNOSTICS gone = ROW_COUNT;
    RETURN gone;
END $$;

-- Note that too many rows of a table are hot; the next visit tells again where somebody has its journal.
CREATE OR REPLACE FUNCTION pg_journal.overheat(wanted oid) RETURNS void
LANGUAGE sql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
    UPDATE journals j SET is_overheated = true
     WHERE j.relid = (SELECT s.relid FROM journals s
                       WHERE s.relid = wanted AND s.is_hot AND NOT s.is_overheated FOR NO KEY UPDATE SKIP LOCKED)
$$;

-- The keys that the catalog table of a tiered table answers for, as an array of arrays of PostgreSQL's texts; NULL when
-- it answers for none.
CREATE OR REPLACE FUNCTION pg_journal.answered_keys(wanted oid) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
SET datestyle = 'ISO'
SET timezone = 'UTC'
SET bytea_output = 'hex'
AS $$
DECLARE
    parts record;
    answer text;
BEGIN
    IF NOT coalesce((SELECT j.is_hot FROM journals j WHERE j.relid = wanted), false) THEN RETURN NULL; END IF;
    parts := key_parts(wanted);
    IF parts.names IS NULL THEN RETURN '[]'; END IF;
    EXECUTE format('SELECT coalesce(json_agg(json_build_array(%1$s)), ''[]'')::text FROM ('
                   'SELECT %2$s FROM pg_journal.hot_%3$s UNION SELECT %4$s FROM ONLY %5$s h) k(%2$s)',
                   regexp_replace(parts.names, '(c\d+)', '\1::text', 'g'), parts.names, wanted, parts.held_columns,
                   wanted::regclass) INTO answer;
    RETURN answer;
END $$;

-- Compare some keys that are hot, chosen at random, with the journal as far as the tail tells it: all of it where files have
-- nothing that counts, else the rows with a version there that is newer than all in files. The answer is an array of those that
-- differ, each an array of PostgreSQL's texts; NULL for none, and where somebody keeps readers away. All is compared as one
-- snapshot shows it.
CREATE OR REPLACE FUNCTION pg_journal.check_hot(wanted oid, most bigint) RETURNS text
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
SET datestyle = 'ISO'
SET intervalstyle = 'postgres'
SET timezone = 'UTC'
SET bytea_output = 'hex'
SET extra_float_digits = 1
SET constraint_exclusion = off
AS $$
DECLARE
    parts record := key_parts(wanted);
    tail oid := (SELECT j.tail_relid FROM journals j WHERE j.relid = wanted AND j.is_hot AND j.key <> '{}');
    differing text;
BEGIN
    IF tail IS NULL THEN RETURN NULL; END IF;
    BEGIN
        PERFORM lock_for_count(wanted, tail);
        EXECUTE format(
            'WITH sampled AS (SELECT * FROM (SELECT %2$s FROM pg_journal.hot_%1$s UNION SELECT %3$s FROM ONLY %4$s h) k(%2$s) '
            'ORDER BY random() LIMIT $1), '
            'marked AS (SELECT max(v.version_number) AS mark FROM pg_journal.tail_%1$s v WHERE v.row_identity = %5$s), '
            'filed AS (SELECT max(s.max_version) AS latest FROM pg_journal.segments s '
            'WHERE s.relid = %1$s AND s.retired_at IS NULL AND s.kind <> ''archive''), '
            'journal AS (SELECT %2$s, version_number > coalesce((SELECT latest FROM filed), ''-infinity'') AS told, CASE WHEN subsequent_version_number IS NULL THEN ROW(%6$s NULL)::text END '
            'AS image FROM (SELECT DISTINCT ON (%7$s) v.* FROM sampled k JOIN pg_journal.tail_%1$s v ON %8$s '
            'WHERE v.version_number > coalesce((SELECT mark FROM marked), ''-infinity'') ORDER BY %7$s, %9$s) v), '
            'held AS (SELECT %10$s, ROW(%11$s NULL)::text AS image FROM ONLY %4$s h JOIN sampled k ON %12$s) '
            'SELECT json_agg(json_build_array(%13$s))::text FROM sampled LEFT JOIN journal USING (%2$s) LEFT JOIN held USING (%2$s) '
            'WHERE journal.image IS DISTINCT FROM held.image '
            'AND (SELECT j.is_hot FROM pg_journal.journals j WHERE j.relid = %1$s) '
            'AND (journal.told OR coalesce((SELECT latest FROM filed), ''-infinity'') '
            '<= coalesce((SELECT mark FROM marked), ''-infinity''))',
            wanted, parts.names, parts.held_columns, wanted::regclass, truncation_mark(), captured_columns(wanted),
            regexp_replace(parts.names, '(c\d+)', 'v.\1', 'g'), hot_key(wanted, 'k', 'v', false), newest_first('v'),
            regexp_replace(parts.names, '(c\d+)', 'k.\1', 'g'), captured_values(wanted, 'h'), hot_key(wanted, 'k', 'h', true),
            regexp_replace(parts.names, '(c\d+)', '\1::text', 'g'))
          INTO differing USING most;
        PERFORM end_count();
    EXCEPTION
        WHEN SQLSTATE 'GW004' THEN NULL;
        WHEN lock_not_available OR undefined_table THEN RETURN NULL;
    END;
    RETURN differing;
END $$;

-- Some keys that are hot, chosen at random, of which files tell what the journal says, and no version in the tail alone: those
-- that check_hot() leaves out. Of a resident table, which is about to become tiered, all keys are. NULL for none, else JSON:
-- the keys as PostgreSQL's texts, those of rows that no file can hold (`unfit`), what the catalog table holds of the others and
-- the newest version that the tail has, in transfer forms, and the version number that has ended all rows before it. Rows of
-- more bytes than some are left out. The keys are divided into so many parts, of which one is looked at.
CREATE OR REPLACE FUNCTION pg_journal.filed_keys(wanted oid, most bigint, most_bytes bigint, part int, parts int)
RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
SET datestyle = 'ISO'
SET intervalstyle = 'postgres'
SET timezone = 'UTC'
SET bytea_output = 'hex'
SET extra_float_digits = 1
SET constraint_exclusion = off
AS $$
DECLARE
    j record;
    named record := key_parts(wanted);
    answered text;
    held text;
    unfit text;
    answer text;
BEGIN
    SELECT s.residency, s.is_hot INTO j FROM journals s WHERE s.relid = wanted AND s.key <> '{}' AND s.external IS NULL;
    IF NOT FOUND OR NOT (j.is_hot OR j.residency = 'resident') THEN RETURN NULL; END IF;
    answered := format('SELECT %s FROM ONLY %s h', named.held_columns, wanted::regclass);
    IF j.is_hot THEN answered := answered || format(' UNION SELECT %s FROM pg_journal.hot_%s', named.names, wanted); END IF;
    SELECT string_agg(transfer_expression(tail_expression(format('h.%I', k.name), k.type_oid),
                                          CASE WHEN is_built_in(base_type(k.type_oid)) THEN k.type_oid
                                               ELSE 'text'::regtype END) || ', ', '' ORDER BY k.attnum),
           coalesce(string_agg(format('(%s) IS FALSE', s.condition), ' OR ') FILTER (WHERE s.condition IS NOT NULL), 'false')
      INTO held, unfit
      FROM columns k CROSS JOIN LATERAL (
           SELECT storable(format('h.%I', k.name), k.type_oid, k.typmod) AS condition) s
     WHERE k.relid = wanted AND k.name <> '';
    EXECUTE format(
        'WITH marked AS (SELECT max(v.version_number) AS mark FROM pg_journal.tail_%1$s v WHERE v.row_identity = %2$s), '
        'filed AS (SELECT max(s.max_version) AS latest FROM pg_journal.segments s '
        'WHERE s.relid = %1$s AND s.retired_at IS NULL AND s.kind <> ''archive''), '
        'chosen AS (SELECT k.* FROM (%3$s) k(%4$s), marked, filed '
        'WHERE filed.latest > coalesce(marked.mark, ''-infinity'') '
        'AND ($4 = 1 OR (hashtextextended(ROW(%5$s)::text, 0) & 2147483647) %% $4 = $3) '
        'AND NOT EXISTS (SELECT FROM pg_journal.tail_%1$s v WHERE %6$s AND v.version_number > filed.latest) '
        'ORDER BY random() LIMIT $1), '
        'held AS (SELECT %5$s, CASE WHEN NOT (%15$s) THEN JSON_ARRAY(%7$s 0, NULL, 0 NULL ON NULL RETURNING json) END AS image, (%8$s) AS size, '
        '(%15$s) AS unfit FROM ONLY %9$s h JOIN chosen k ON %10$s), '
        'journal AS (SELECT DISTINCT ON (%5$s) %5$s, JSON_ARRAY(%11$s micros(v.version_number), '
        'micros(v.subsequent_version_number), 0 NULL ON NULL RETURNING json) AS image, (%12$s) AS size '
        'FROM chosen k JOIN pg_journal.tail_%1$s v ON %6$s, marked '
        'WHERE v.version_number > coalesce(marked.mark, ''-infinity'') ORDER BY %5$s, %13$s) '
        'SELECT json_build_object(''keys'', json_agg(json_build_array(%14$s)), '
        '''unfit'', coalesce(json_agg(json_build_array(%14$s)) FILTER (WHERE held.unfit), ''[]''), '
        '''held'', coalesce(json_agg(held.image) FILTER (WHERE held.image IS NOT NULL), ''[]''), '
        '''tail'', coalesce(json_agg(journal.image) FILTER (WHERE journal.image IS NOT NULL), ''[]''), '
        '''mark'', (SELECT micros(mark) FROM marked))::text '
        'FROM chosen LEFT JOIN held USING (%4$s) LEFT JOIN journal USING (%4$s) '
        'WHERE greatest(held.size, journal.size, 0) <= $2 HAVING count(*) > 0',
        wanted, truncation_mark(), answered, named.names, regexp_replace(named.names, '(c\d+)', 'k.\1', 'g'),
        hot_key(wanted, 'k', 'v', false), held, row_size(wanted, 'h', false), wanted::regclass, hot_key(wanted, 'k', 'h', true),
        (SELECT string_agg(transfer_expression('v.c' || k.attnum, k.type_oid) || ', ', '' ORDER BY k.attnum)
           FROM columns k WHERE k.relid = wanted AND k.name <> ''),
        row_size(wanted, 'v'), newest_first('v'), regexp_replace(named.names, '(c\d+)', '\1::text', 'g'), unfit)
       INTO answer USING most, most_bytes, part, parts;
    RETURN answer;
END $$;

-- A value in its transfer form; NULL for one that no row of a journal can have.
CREATE OR REPLACE FUNCTION pg_journal.source_value(reference text, type_oid oid) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN CASE
    WHEN type_oid = 'date'::regtype
        THEN format('CASE WHEN isfinite(%s) THEN %s END', reference, transfer_expression(reference, type_oid))
    WHEN type_oid IN ('timestamp'::regtype, 'timestamptz'::regtype)
        THEN format('CASE WHEN isfinite(%1$s) AND %1$s <= %2$L THEN %3$s END', reference, latest_moment(),
                    transfer_expression(reference, type_oid))
    ELSE transfer_expression(reference, type_oid) END;

-- Columns of a table whose rows tell keys of others, in transfer forms, by the alias `v`: of the table itself, and of its
-- tail. NULL where looking at it could run code of users, or tell less than a query of the table.
CREATE OR REPLACE FUNCTION pg_journal.source_columns(wanted oid, numbers oid[], in_tail boolean) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN (
    SELECT CASE WHEN count(a.attnum) = cardinality(numbers) THEN
                string_agg(source_value(CASE WHEN in_tail THEN 'v.c' || a.attnum ELSE format('v.%I', coalesce(a.attname, '')) END,
                                        a.atttypid), ', ' ORDER BY u.o) END
      FROM unnest(numbers) WITH ORDINALITY u(n, o)
      LEFT JOIN pg_attribute a ON a.attrelid = wanted AND a.attnum = u.n::int AND NOT a.attisdropped
       AND to_jsonb(a) ->> 'attgenerated' <> 'v'
       AND is_compared_type(a.atttypid)
     WHERE EXISTS (SELECT FROM pg_class c WHERE c.oid = wanted AND c.relkind = 'r'
                      AND (c.relpersistence = 't' OR EXISTS (SELECT FROM journals j WHERE j.relid = c.oid
                                                                AND j.residency = 'resident')))
       AND NOT EXISTS (SELECT FROM pg_inherits i WHERE i.inhparent = wanted)
       AND NOT EXISTS (SELECT FROM run_by_planner(wanted)));

-- Whether expressions of rows `v` take up no more than 64 MB as JSON; `rows` is SQL of them, of this relation.
CREATE OR REPLACE FUNCTION pg_journal.are_few_bytes(listed text, rows text, relation oid) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    few boolean;
BEGIN
    -- What is stored is compressed, 255 times at most.
    IF size_at_most(relation) <= 262144 THEN RETURN true; END IF;
    EXECUTE format('SELECT coalesce(sum(octet_length(JSON_ARRAY(%s NULL ON NULL RETURNING json)::text)), 0) <= 67108864 FROM %s', listed, rows)
       INTO few;
    RETURN few;
END $$;

-- The rows of a resident or a temporary table, one more than `most` at most, in some columns; and, of a resident one, by
-- what its tail tells later what has come since: a snapshot that is not younger than the rows, and the epoch it shows.
-- Row security does not matter: rows that the caller cannot see are some more.
CREATE OR REPLACE FUNCTION pg_journal.source_rows(code text, wanted oid, numbers oid[], most bigint) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    listed text;
    mark record;
    found json;
BEGIN
    PERFORM authorize(code, 'source_rows', wanted::text, numbers::text, most::text);
    PERFORM require_right(wanted, false);
    SELECT pg_current_snapshot()::text AS seen, (SELECT j.epoch FROM journals j WHERE j.relid = wanted) AS epoch INTO mark;
    listed := source_columns(wanted, numbers, false);
    IF listed IS NOT NULL AND are_few_bytes(listed, format('(SELECT * FROM ONLY %s LIMIT %s) v', wanted::regclass, most + 1), wanted) THEN
        EXECUTE format('SELECT coalesce(json_agg(JSON_ARRAY(%s NULL ON NULL RETURNING json)), ''[]'') FROM (SELECT * FROM ONLY %s LIMIT $1) v',
                       listed, wanted::regclass) INTO found USING most + 1;
    END IF;
    RETURN convert_to(json_build_object('seen', mark.seen, 'epoch', mark.epoch, 'rows', found)::text, 'UTF8');
END $$;

-- Keep others from writing a resident table until the transaction ends.
CREATE OR REPLACE FUNCTION pg_journal.hold_source(code text, wanted oid) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    PERFORM authorize(code, 'hold_source', wanted::text);
    PERFORM require_right(wanted, false);
    PERFORM lock_table(wanted, 'SHARE') FROM journals j WHERE j.relid = wanted;
    RETURN convert_to('null', 'UTF8');
END $$;

-- What rows others have written to a resident table, in some columns, that a snapshot did not show; null where that is not
-- known, as row versions have left the tail since.
CREATE OR REPLACE FUNCTION pg_journal.come_since(code text, wanted oid, numbers oid[], seen text, epoch bigint) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    listed text := source_columns(wanted, numbers, true);
    found json;
BEGIN
    PERFORM authorize(code, 'come_since', wanted::text, numbers::text, seen, epoch::text);
    PERFORM require_right(wanted, false);
    IF listed IS NOT NULL THEN
        EXECUTE format(
            'SELECT coalesce((SELECT json_agg(JSON_ARRAY(%1$s NULL ON NULL RETURNING json)) FROM pg_journal.tail_%2$s v '
            'WHERE v.subsequent_version_number IS NULL AND NOT pg_visible_in_snapshot(v.writer, $1) '
            'AND v.writer IS DISTINCT FROM pg_current_xact_id_if_assigned()), ''[]'') '
            'FROM pg_journal.journals j WHERE j.relid = %2$s AND j.epoch = $2', listed, wanted)
           INTO found USING seen::pg_snapshot, epoch;
    END IF;
    RETURN convert_to(coalesce(found, 'null')::text, 'UTF8');
END $$;

-- Whether others have written a table since a snapshot, or row versions have left its tail.
CREATE OR REPLACE FUNCTION pg_journal.written_since(code text, wanted oid, seen text, epoch bigint) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    written boolean;
BEGIN
    PERFORM authorize(code, 'written_since', wanted::text, seen, epoch::text);
    PERFORM require_right(wanted, false);
    EXECUTE format(
        'SELECT EXISTS (SELECT FROM pg_journal.tail_%1$s v WHERE NOT pg_visible_in_snapshot(v.writer, $1) '
        'AND v.writer IS DISTINCT FROM pg_current_xact_id_if_assigned()) '
        'FROM pg_journal.journals j WHERE j.relid = %1$s AND j.epoch = $2', wanted)
       INTO written USING seen::pg_snapshot, epoch;
    RETURN convert_to(coalesce(written, true)::text, 'UTF8');
END $$;

-- Whether a query that locks rows in an order may have got beyond these keys: none of them has a row that is as it was put
-- there (in this time of having hot rows), and that nobody has ever locked since. What this transaction has put there itself
-- tells nothing.
CREATE OR REPLACE FUNCTION pg_journal.passed(code text, wanted oid, heat bigint, keys text) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    parts record;
    untouched boolean;
BEGIN
    PERFORM authorize(code, 'passed', wanted::text, heat::text, keys);
    PERFORM require_right(wanted, false);
    IF (SELECT s.is_hot AND s.heats = heat FROM journals s WHERE s.relid = wanted) THEN
        parts := key_parts(wanted);
        EXECUTE format(
            'SELECT EXISTS (SELECT FROM json_array_elements($1) u(e) '
            'JOIN pg_journal.hot_%1$s k ON (%2$s) = (%3$s) JOIN ONLY %4$s h ON %5$s '
            'WHERE h.xmin = k.xmin AND h.xmax = 0 AND k.writer IS DISTINCT FROM pg_current_xact_id_if_assigned())',
            wanted, replace(parts.hot_names, 'h.', 'k.'), parts.from_key, wanted::regclass,
            hot_key(wanted, 'k', 'h', true))
           INTO untouched USING keys::json;
    END IF;
    RETURN convert_to((NOT coalesce(untouched, false))::text, 'UTF8');
END $$;

-- The rows of a temporary table, one more than `most` at most, in some columns, in transfer forms; the columns; or the reason
-- why Spark cannot be given them. No code of users is run.
CREATE OR REPLACE FUNCTION pg_journal.temporary_rows(code text, wanted oid, numbers oid[], most bigint) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
SET extra_float_digits = 1
SET datestyle = 'ISO'
SET intervalstyle = 'postgres'
SET timezone = 'UTC'
SET bytea_output = 'hex'
AS $$
DECLARE
    reason text;
    transferred text;
    excluded text;
    columns json;
    found json;
    unfit boolean;
BEGIN
    PERFORM authorize(code, 'temporary_rows', wanted::text, numbers::text, most::text);
    SELECT CASE WHEN c.relrowsecurity THEN 'row security'
                WHEN c.relkind = 'S' THEN 'the state of a sequence'
                WHEN c.relkind <> 'r' OR c.relpersistence <> 't' OR EXISTS (SELECT FROM pg_inherits h WHERE h.inhparent = wanted)
                THEN 'rows of other tables'
                WHEN EXISTS (SELECT FROM run_by_planner(wanted))
                THEN (SELECT r || ' with a function' FROM run_by_planner(wanted) r LIMIT 1)
                ELSE (SELECT CASE WHEN to_jsonb(a) ->> 'attgenerated' = 'v' THEN format('virtual column "%s"', a.attname)
                                  ELSE format('column "%s" of type %s', a.attname, format_type(a.atttypid, a.atttypmod)) END
                        FROM pg_attribute a JOIN pg_type y ON y.oid = a.atttypid
                        LEFT JOIN pg_type e ON e.oid = y.typelem AND y.typcategory = 'A'
                        LEFT JOIN pg_range r ON y.oid IN (r.rngtypid, r.rngmultitypid)
                       WHERE a.attrelid = wanted AND a.attnum = ANY (numbers::int[]) AND NOT a.attisdropped
                         AND (a.atttypid >= 16384 OR coalesce(e.typtype, y.typtype) IN ('c', 'p')
                              OR coalesce(e.typname, y.typname) ~ '^reg' OR to_jsonb(a) ->> 'attgenerated' = 'v'
                              OR r.rngsubtype IN ('date'::regtype, 'timestamp'::regtype, 'timestamptz'::regtype))
                       ORDER BY a.attnum LIMIT 1) END
      INTO reason FROM pg_class c WHERE c.oid = wanted;
    IF reason IS NULL THEN
        SELECT coalesce(string_agg(transfer_expression(format('v.%I', a.attname), a.atttypid), ', ' ORDER BY a.attnum), '')
                   AS transferred,
               coalesce(string_agg(format('(%s) IS FALSE', s.condition), ' OR ') FILTER (WHERE s.condition IS NOT NULL),
                        'false') AS unfit,
               coalesce(json_agg(json_build_array(a.attnum, a.attname, a.atttypid::bigint, a.atttypmod)
                                 ORDER BY a.attnum), '[]') AS columns
          INTO transferred, excluded, columns
          FROM pg_attribute a CROSS JOIN LATERAL (
               SELECT storable(format('v.%I', a.attname), a.atttypid, a.atttypmod) AS condition) s
         WHERE a.attrelid = wanted AND a.attnum = ANY (numbers::int[]) AND NOT a.attisdropped;
        EXECUTE format('SELECT EXISTS (SELECT FROM ONLY %s v WHERE %s)', wanted::regclass, excluded) INTO unfit;
        IF unfit THEN
            reason := 'values that data files cannot hold';
        ELSIF NOT are_few_bytes(transferred, format('(SELECT * FROM ONLY %s LIMIT %s) v', wanted::regclass, most + 1), wanted) THEN
            reason := 'more than 64 MB of values';
        ELSE
            EXECUTE format('SELECT coalesce(json_agg(JSON_ARRAY(%s NULL ON NULL RETURNING json)), ''[]'') FROM (SELECT * FROM ONLY %s LIMIT $1) v',
                           transferred, wanted::regclass) INTO found USING most + 1;
        END IF;
    END IF;
    RETURN convert_to(json_build_object('reason', reason, 'columns', columns, 'rows', found)::text, 'UTF8');
END $$;
