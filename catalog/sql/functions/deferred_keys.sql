-- Deferred foreign keys of tiered tables, and to them: what is to be looked at before the transaction ends, and by what
-- PostgreSQL tells that a key is deferred.

-- What says that nothing but `is_deferred` asks; nobody else can make it.
CREATE OR REPLACE FUNCTION pg_journal.deferral_mark(fk oid, what text) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN (SELECT encode(sha256(convert_to(concat_ws(':', 'deferral', what, secret_key, pg_current_xact_id(), fk), 'UTF8')), 'hex')
          FROM instance);

-- Whether a deferrable foreign key is deferred now; it is to be looked at, then, when the transaction ends, which whoever runs
-- the statement is told (GW005). A table of its own tells, whose trigger belongs to the constraint: SET CONSTRAINTS is for
-- both, by whatever road it comes. Rows cannot be made hot for transactions with a snapshot of their own, whose statements are
-- refused at once, but where they `need_none`.
CREATE OR REPLACE FUNCTION pg_journal.is_deferred(fk oid, need_none boolean) RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    mark text;
    place tid;
    answer boolean;
BEGIN
    IF NOT need_none AND current_setting('transaction_isolation') <> 'read committed' THEN RETURN false; END IF;
    mark := deferral_mark(fk, 'asked');
    PERFORM set_config('pg_journal.asked', mark, true);
    EXECUTE format('INSERT INTO pg_journal.pending_%s DEFAULT VALUES RETURNING ctid', fk) INTO place;
    answer := current_setting('pg_journal.asked') = mark;
    PERFORM set_config('pg_journal.asked', '', true);
    EXECUTE format('DELETE FROM pg_journal.pending_%s WHERE ctid = $1', fk) USING place;
    IF answer THEN
        PERFORM set_config('pg_journal.settled_' || fk, '', true);
        RAISE INFO 'deferred' USING ERRCODE = 'GW005';
    END IF;
    RETURN answer;
END $$;

-- Values of a foreign key that this transaction has taken away and not put back, and by which cold rows may reference, at most
-- 1,000; NULL for none.
CREATE OR REPLACE FUNCTION pg_journal.listed_taken(fk oid) RETURNS json
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
SET constraint_exclusion = off
SET datestyle = 'ISO'
SET timezone = 'UTC'
AS $$
DECLARE
    k record;
    answer json;
BEGIN
    IF to_regclass('pg_journal.references_' || fk) IS NULL THEN RETURN NULL; END IF;
    SELECT x.confrelid::regclass AS parent,
           string_agg(format('r.c%s = (e->>%s)::%s', u.o, u.o - 1, plain_type(a.atttypid, a.atttypmod)), ' AND ') AS same,
           string_agg(format('p.%I = r.c%s', a.attname, u.o), ' AND ') AS there,
           string_agg(format('r.c%s::text', u.o), ', ' ORDER BY u.o) AS texts
      INTO k
      FROM pg_constraint x CROSS JOIN unnest(x.confkey) WITH ORDINALITY u(attnum, o)
      JOIN pg_attribute a ON a.attrelid = x.confrelid AND a.attnum = u.attnum
     WHERE x.oid = listed_taken.fk GROUP BY x.confrelid;
    EXECUTE format(
        'SELECT json_agg(json_build_array(%s)) FROM (SELECT r.* FROM pg_journal.references_%s r WHERE EXISTS ('
        'SELECT FROM pg_journal.taken t CROSS JOIN json_array_elements(t.held) e WHERE t.fk = $1 AND %s) '
        'AND NOT EXISTS (SELECT FROM ONLY %s p WHERE %s) LIMIT 1000) r', k.texts, fk, k.same, k.parent, k.there)
       INTO answer USING fk;
    RETURN answer;
END $$;

-- What belongs to deferrable foreign keys fires when PostgreSQL looks at these: 0A000 where something was left to be looked at
-- by whoever runs the statements. PostgreSQL's triggers have looked at hot rows before: their events are older.
CREATE OR REPLACE FUNCTION pg_journal.require_settled() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    wanted oid := substring(tg_table_name, '[0-9]+$')::oid;
    -- Of what has been deferred until now: what is said of less says nothing.
    settled text := deferral_mark(wanted, 'settled ' || pg_stat_get_xact_tuples_inserted(tg_relid));
BEGIN
    IF current_setting('pg_journal.asked', true) = deferral_mark(wanted, 'asked') THEN
        PERFORM set_config('pg_journal.asked', '', true);
        RETURN NULL;
    END IF;
    -- There is an event for each statement.
    IF current_setting('pg_journal.settled_' || wanted, true) = settled
       OR NOT EXISTS (SELECT FROM pg_constraint x WHERE x.oid = wanted) THEN
        RETURN NULL;
    END IF;
    IF EXISTS (SELECT FROM sought s WHERE s.fk = wanted) THEN PERFORM refuse_unsettled(wanted); END IF;
    IF listed_taken(wanted) IS NOT NULL THEN
        IF EXISTS (SELECT FROM taken t WHERE t.fk = wanted AND NOT t.is_settled) THEN
            PERFORM refuse_unsettled(wanted);
        END IF;
        RAISE EXCEPTION 'could not serialize access due to concurrent update' USING ERRCODE = '40001';
    END IF;
    DELETE FROM taken t WHERE t.fk = wanted;
    PERFORM set_config('pg_journal.settled_' || wanted, settled, true);
    RETURN NULL;
END $$;

-- Have each deferrable foreign key that is ours to look at the table that tells whether it is deferred, and others none. The
-- caller sees to it that no transaction has written tables of theirs.
CREATE OR REPLACE FUNCTION pg_journal.settle_pending(wanted oid) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
SET client_min_messages = warning
SET allow_system_table_mods = on
SET event_triggers = off
AS $$
DECLARE
    k record;
BEGIN
    FOR k IN SELECT x.oid AS fk, x.condeferrable, x.condeferred, to_regclass('pg_journal.pending_' || x.oid) AS pending,
                    EXISTS (SELECT FROM pg_trigger g WHERE g.tgrelid = to_regclass('pg_journal.pending_' || x.oid)
                               AND g.tginitdeferred = x.condeferred) AS is_right
               FROM pg_constraint x WHERE x.oid = ANY (cold_parents(wanted) || told_references(wanted)) LOOP
        IF k.pending IS NOT NULL AND NOT (k.condeferrable AND k.is_right) THEN
            EXECUTE format('DROP TABLE %s', k.pending);
            k.pending := NULL;
        END IF;
        CONTINUE WHEN k.pending IS NOT NULL OR NOT k.condeferrable;
        EXECUTE format('CREATE TABLE pg_journal.pending_%s ()', k.fk);
        PERFORM seal(format('pg_journal.pending_%s', k.fk));
        EXECUTE format('CREATE CONSTRAINT TRIGGER pgwire_pending AFTER INSERT ON pg_journal.pending_%s DEFERRABLE INITIALLY %s '
                       'FOR EACH ROW EXECUTE FUNCTION pg_journal.require_settled()', k.fk,
                       CASE WHEN k.condeferred THEN 'DEFERRED' ELSE 'IMMEDIATE' END);
        UPDATE pg_trigger g SET tgisinternal = true, tgconstraint = k.fk
         WHERE g.tgrelid = to_regclass('pg_journal.pending_' || k.fk);
    END LOOP;
END $$;

-- Lock the rows that are referenced by what has to be looked for, as far as they are there, and hot; what is left stays to be
-- looked for.
CREATE OR REPLACE FUNCTION pg_journal.lock_sought() RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
SET constraint_exclusion = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_seqscan = off
AS $$
DECLARE
    k record;
BEGIN
    FOR k IN SELECT x.oid AS fk, x.confrelid, x.confrelid::regclass AS parent, p.residency,
                    string_agg(format('p.%I = (u.e->>%s)::%s', a.attname, u.o - 1, plain_type(a.atttypid, -1)), ' AND ') AS same
               FROM pg_constraint x JOIN journals p ON p.relid = x.confrelid
              CROSS JOIN unnest(sought_columns(x)) WITH ORDINALITY u(attnum, o)
               JOIN pg_attribute a ON a.attrelid = x.confrelid AND a.attnum = u.attnum
              WHERE x.oid IN (SELECT s.fk FROM sought s WHERE s.is_due AND s.is_deferred)
              GROUP BY x.oid, p.residency ORDER BY x.oid LOOP
        IF k.residency = 'tiered' THEN
            EXECUTE format('LOCK TABLE ONLY pg_journal.tail_%s IN ROW SHARE MODE', k.confrelid);
            CONTINUE WHEN NOT (SELECT j.is_hot FROM journals j WHERE j.relid = k.confrelid);
        END IF;
        EXECUTE format(
            'WITH s AS (DELETE FROM pg_journal.sought s WHERE s.fk = $1 AND s.is_due AND s.is_deferred RETURNING s.id, s.held), '
            'u AS MATERIALIZED (SELECT e, row_number() OVER (ORDER BY s.id, i) AS i '
            'FROM s CROSS JOIN json_array_elements(s.held) WITH ORDINALITY u(e, i) ORDER BY s.id, i), '
            'h AS MATERIALIZED (SELECT u.*, (SELECT true FROM ONLY %s p WHERE %s FOR KEY SHARE) AS is_held FROM u) '
            'INSERT INTO pg_journal.sought (fk, is_nested, is_deferred, held) SELECT $1, false, true, json_agg(h.e ORDER BY h.i) '
            'FROM h WHERE h.is_held IS NULL GROUP BY h.i / 10000', k.parent, k.same) USING k.fk;
    END LOOP;
END $$;

-- Have what deferred foreign keys have left be looked at now, of one, or of all (NULL). The answer is what has been taken away:
-- [[foreign key, referenced table, by which columns (none: the primary key's), [[text of each]] of a tiered one]]; and whether
-- there is something to be looked for.
CREATE OR REPLACE FUNCTION pg_journal.end_deferring(code text, fk oid) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    PERFORM authorize(code, 'end_deferring', fk::text);
    UPDATE sought s SET is_due = true WHERE NOT s.is_due AND s.fk = coalesce(end_deferring.fk, s.fk);
    PERFORM lock_sought();
    RETURN convert_to(json_build_object('seeks', EXISTS (SELECT FROM sought s WHERE s.is_due), 'taken', coalesce((
        SELECT json_agg(json_build_array(t.fk::bigint, x.confrelid::bigint, looked_up_columns(x), CASE WHEN p.residency = 'tiered'
                   THEN (SELECT json_agg((SELECT json_agg(e->>(array_position(x.confkey, u.attnum) - 1) ORDER BY u.o)
                                            FROM unnest(sought_columns(x)) WITH ORDINALITY u(attnum, o)))
                           FROM json_array_elements(t.held) e) ELSE '[]' END) ORDER BY t.id)
          FROM taken t JOIN pg_constraint x ON x.oid = t.fk JOIN journals p ON p.relid = x.confrelid
         WHERE NOT t.is_settled AND t.fk = coalesce(end_deferring.fk, t.fk)), '[]'))::text, 'UTF8');
END $$;

-- What was taken away and cold rows may reference, as an error of `refuse_referenced` tells it; empty for nothing: then it is
-- settled. Hot rows that reference it do not go cold before PostgreSQL's triggers have looked at them.
CREATE OR REPLACE FUNCTION pg_journal.taken_references(code text, fk oid) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    x pg_constraint;
    listed json;
BEGIN
    PERFORM authorize(code, 'taken_references', fk::text);
    SELECT * INTO x FROM pg_constraint c WHERE c.oid = fk;
    IF (SELECT j.is_hot FROM journals j WHERE j.relid = x.conrelid AND j.residency = 'tiered') THEN
        EXECUTE format('LOCK TABLE ONLY pg_journal.tail_%s IN ROW SHARE MODE', x.conrelid);
    END IF;
    listed := listed_taken(fk);
    IF listed IS NULL THEN
        UPDATE taken t SET is_settled = true WHERE t.fk = taken_references.fk;
        RETURN '';
    END IF;
    RETURN convert_to(sealed(json_build_object('fk', fk::bigint, 'relid', x.conrelid::bigint, 'columns', x.conkey,
                                               'values', listed, 'action', 'a')::text), 'UTF8');
END $$;

-- Tell, as PostgreSQL does, of a value that was taken away and that rows reference: 23503. It is the one that is `held`, or,
-- where these are some of many, one that hot rows reference.
CREATE OR REPLACE FUNCTION pg_journal.refuse_taken(code text, told text, held json) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
SET constraint_exclusion = off
AS $$
DECLARE
    k record;
    texts text;
BEGIN
    PERFORM authorize(code, 'refuse_taken', told, held::text);
    IF told <> sealed(substr(told, 66)) THEN PERFORM outdated(); END IF;
    SELECT x.conname, x.confrelid, x.confkey, c.relname, x.conrelid::regclass AS child, p.relname AS parent, n.nspname,
           (SELECT string_agg(a.attname, ', ' ORDER BY u.o) FROM unnest(x.confkey) WITH ORDINALITY u(attnum, o)
              JOIN pg_attribute a ON a.attrelid = x.confrelid AND a.attnum = u.attnum) AS listed,
           string_agg(format('t.%I = (e->>%s)::%s', b.attname, u.o - 1, plain_type(b.atttypid, -1)), ' AND ') AS same,
           format('concat_ws('', '', %s)', string_agg(format('($1->>%s)::%s', u.o - 1, plain_type(b.atttypid, -1)), ', '
                                                      ORDER BY u.o)) AS spelled
      INTO k
      FROM pg_constraint x JOIN pg_class c ON c.oid = x.conrelid JOIN pg_class p ON p.oid = x.confrelid
      JOIN pg_namespace n ON n.oid = c.relnamespace CROSS JOIN unnest(x.conkey) WITH ORDINALITY u(attnum, o)
      JOIN pg_attribute b ON b.attrelid = x.conrelid AND b.attnum = u.attnum
     WHERE x.oid = (substr(told, 66)::json->>'fk')::oid
     GROUP BY x.oid, c.relname, p.relname, n.nspname;
    IF held IS NULL THEN
        EXECUTE format('SELECT e FROM json_array_elements($1) e WHERE EXISTS (SELECT FROM ONLY %s t WHERE %s) LIMIT 1',
                       k.child, k.same) INTO held USING substr(told, 66)::json->'values';
    END IF;
    IF held IS NULL THEN RETURN convert_to('null', 'UTF8'); END IF;
    EXECUTE 'SELECT ' || k.spelled INTO texts USING held;
    RAISE EXCEPTION 'update or delete on table "%" violates foreign key constraint "%" on table "%"', k.parent, k.conname, k.relname
        USING ERRCODE = '23503', SCHEMA = k.nspname, TABLE = k.relname, CONSTRAINT = k.conname,
              DETAIL = CASE WHEN may_show(k.confrelid, k.confkey)
                            THEN format('Key (%s)=(%s) is still referenced from table "%s".', k.listed, texts, k.relname)
                            ELSE format('Key is still referenced from table "%s".', k.relname) END;
END $$;

-- Whether events of deferred foreign keys of a table, or to it, may be waiting in this transaction: ALTER TABLE tells.
CREATE OR REPLACE FUNCTION pg_journal.has_pending(wanted oid) RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
SET event_triggers = off
AS $$
DECLARE
    table_name regclass;
BEGIN
    FOR table_name IN SELECT DISTINCT u::regclass FROM pg_constraint x CROSS JOIN unnest(ARRAY[x.conrelid, x.confrelid]) u
                       WHERE wanted IN (x.conrelid, x.confrelid) AND x.contype = 'f' AND x.condeferrable LOOP
        EXECUTE format('ALTER TABLE ONLY %s RESET (autovacuum_pgwire_pending)', table_name);
    END LOOP;
    RETURN false;
EXCEPTION WHEN object_in_use THEN
    RETURN true;
END $$;
