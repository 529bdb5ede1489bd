-- Foreign keys that reference tiered tables. PostgreSQL's own triggers would look for referenced rows among the hot ones, so
-- those that check rows which reference are silenced, and triggers of ours stand for them: they lock the referenced rows that
-- are hot, and note the values of which there is none (pg_journal.sought). Whoever runs the statement looks these up in the
-- journal, makes their rows hot and has them confirmed; what nobody has confirmed cannot be committed.

-- The referenced columns in the order in which values of a foreign key are noted: that of the unique index that they have.
CREATE OR REPLACE FUNCTION pg_journal.sought_columns(x pg_constraint) RETURNS int2[]
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN unique_columns(x.conindid);

-- The columns by which referenced rows are looked up; none where they are the primary key's.
CREATE OR REPLACE FUNCTION pg_journal.looked_up_columns(x pg_constraint) RETURNS int2[]
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN (SELECT CASE WHEN i.indisprimary THEN '{}' ELSE sought_columns(x) END FROM pg_index i WHERE i.indexrelid = x.conindid);

-- Tables whose foreign keys reference a table, itself left out, in the order in which they are locked.
CREATE OR REPLACE FUNCTION pg_journal.referencing_tables(wanted oid) RETURNS TABLE (relid oid)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
    SELECT DISTINCT x.conrelid FROM pg_constraint x JOIN journals c ON c.relid = x.conrelid
     WHERE x.confrelid = wanted AND x.contype = 'f' AND x.conrelid <> wanted ORDER BY 1
$$;

-- The columns of a table whose change may have something looked for: those by which it references tiered tables, and those by
-- which tables reference it that actions of foreign keys can change, and that do; then 0 is among them, as DELETE may, too.
-- All columns where code of users can set others, or some are generated. NULL where nothing is looked for, whatever is written.
CREATE OR REPLACE FUNCTION pg_journal.seeking_columns(relid oid) RETURNS int2[]
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
    WITH RECURSIVE listed AS (
        -- Most catalogs have no foreign key to a tiered table, and are asked often.
        SELECT FROM pg_proc p WHERE p.proname >= 'seek_' AND p.proname < 'seek`'
                                AND p.pronamespace = 'pg_journal'::regnamespace LIMIT 1
    ), reached AS (
        SELECT seeking_columns.relid AS first, seeking_columns.relid AS oid WHERE EXISTS (SELECT FROM listed)
        UNION
        SELECT CASE WHEN r.oid = seeking_columns.relid THEN x.conrelid ELSE r.first END, x.conrelid
          FROM reached r JOIN pg_constraint x ON x.confrelid = r.oid AND x.contype = 'f'
    ), seeking AS (
        -- By the table that stands behind the first foreign key on the way; the table itself for its own.
        SELECT DISTINCT r.first FROM reached r WHERE to_regproc('pg_journal.seek_' || r.oid) IS NOT NULL
    ), columns AS (
        SELECT u.attnum FROM pg_constraint x CROSS JOIN unnest(x.conkey) u(attnum)
         WHERE x.conrelid = seeking_columns.relid AND x.contype = 'f' AND seeking_columns.relid IN (SELECT s.first FROM seeking s)
        UNION
        SELECT u.attnum FROM pg_constraint x CROSS JOIN unnest(x.confkey || '{0}'::int2[]) u(attnum)
         WHERE x.confrelid = seeking_columns.relid AND x.contype = 'f' AND x.conrelid IN (SELECT s.first FROM seeking s)
    )
    SELECT CASE WHEN NOT EXISTS (SELECT FROM seeking) THEN NULL
                WHEN EXISTS (SELECT FROM pg_trigger g WHERE g.tgrelid = seeking_columns.relid AND NOT g.tgisinternal
                                AND NOT g.tgfoid IN (SELECT p.oid FROM pg_proc p WHERE p.pronamespace = 'pg_journal'::regnamespace))
                  OR EXISTS (SELECT FROM pg_attribute a JOIN columns c ON c.attnum = a.attnum
                              WHERE a.attrelid = seeking_columns.relid AND a.attgenerated <> '')
                THEN ARRAY(SELECT a.attnum FROM pg_attribute a
                            WHERE a.attrelid = seeking_columns.relid AND a.attnum > 0 UNION SELECT 0::int2 ORDER BY 1)
                ELSE ARRAY(SELECT c.attnum FROM columns c ORDER BY 1) END
$$;

-- Have PostgreSQL's triggers fire that look for what rows of a table reference, but those of foreign keys to tiered tables.
-- A trigger that is for no event never fires, and nothing shows it. The caller creates triggers afterwards: other sessions
-- learn of this by them.
CREATE OR REPLACE FUNCTION pg_journal.silence_checks(wanted oid) RETURNS void
LANGUAGE sql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
    UPDATE pg_trigger g SET tgtype = w.tgtype
      FROM (SELECT t.oid,
                   -- TRIGGER_TYPE_ROW, with _INSERT or _UPDATE
                   (CASE WHEN t.tgconstraint = ANY (cold_parents(wanted)) THEN 1
                         WHEN t.tgfoid = 'pg_catalog."RI_FKey_check_ins"'::regproc THEN 5 ELSE 17 END)::int2 AS tgtype
              FROM pg_trigger t
             WHERE t.tgrelid = wanted AND t.tgisinternal AND NOT is_in_tree(wanted)
               AND t.tgfoid IN ('pg_catalog."RI_FKey_check_ins"'::regproc, 'pg_catalog."RI_FKey_check_upd"'::regproc)) w
     WHERE g.oid = w.oid AND g.tgtype <> w.tgtype
$$;

-- The condition, by the alias `n`, that a row has NULL in some of the columns of a foreign key, which MATCH FULL refuses; NULL
-- where the key allows that, or has one column.
CREATE OR REPLACE FUNCTION pg_journal.mixes_nulls(fk oid, alias text) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN (SELECT format('num_nulls(%s) BETWEEN 1 AND %s', string_agg(format('%I.%I', alias, a.attname), ', '), count(*) - 1)
          FROM pg_constraint x CROSS JOIN unnest(x.conkey) u(attnum)
          JOIN pg_attribute a ON a.attrelid = x.conrelid AND a.attnum = u.attnum
         WHERE x.oid = fk AND x.confmatchtype = 'f' HAVING count(*) > 1);

-- Refuse a row that has NULL in some of these columns, as PostgreSQL does.
CREATE OR REPLACE FUNCTION pg_journal.refuse_mixed(fk oid) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    said record;
BEGIN
    SELECT x.conname, c.relname, n.nspname INTO said
      FROM pg_constraint x JOIN pg_class c ON c.oid = x.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE x.oid = fk;
    RAISE EXCEPTION 'insert or update on table "%" violates foreign key constraint "%"', said.relname, said.conname
        USING ERRCODE = '23503', SCHEMA = said.nspname, TABLE = said.relname, CONSTRAINT = said.conname,
              DETAIL = 'MATCH FULL does not allow mixing of null and nonnull key values.';
END $$;

-- Write a function of the triggers of a table that references tiered ones.
CREATE OR REPLACE FUNCTION pg_journal.make_seeking(wanted oid, updates boolean) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    body text := '';
    k record;
BEGIN
    FOR k IN SELECT x.oid AS fk, x.confrelid, x.confrelid::regclass AS parent, x.condeferrable, p.residency = 'tiered' AS tiered,
                    string_agg(format('pgwire_n.%I AS c%s', b.attname, u.o), ', ' ORDER BY u.o) AS new_values,
                    string_agg(format('pgwire_n.c%s IS NOT NULL', u.o), ' AND ' ORDER BY u.o) AS present,
                    string_agg(format('pgwire_n.%I IS NOT NULL', b.attname), ' AND ' ORDER BY u.o) AS plain_present,
                    string_agg('c' || u.o, ', ' ORDER BY u.o) AS names,
                    string_agg(format('pgwire_p.%I = pgwire_v.c%s', a.attname, u.o), ' AND ' ORDER BY u.o) AS same,
                    string_agg(format('pgwire_m.c%s::text', u.o), ', ' ORDER BY u.o) AS texts
               FROM pg_constraint x JOIN journals p ON p.relid = x.confrelid
              CROSS JOIN unnest(sought_columns(x)) WITH ORDINALITY u(attnum, o)
               JOIN pg_attribute a ON a.attrelid = x.confrelid AND a.attnum = u.attnum
               JOIN pg_attribute b ON b.attrelid = x.conrelid AND b.attnum = x.conkey[array_position(x.confkey, u.attnum)]
              WHERE x.oid = ANY (cold_parents(wanted)) GROUP BY x.oid, x.confrelid, p.residency ORDER BY x.oid LOOP
        -- A row that triggers of users have changed since is not looked at as it was.
        IF mixes_nulls(k.fk, 'pgwire_n') IS NOT NULL THEN
            body := body || format(
                $f$
                IF EXISTS (SELECT FROM pgwire_new pgwire_n WHERE %1$s)
                   AND EXISTS (SELECT FROM ONLY %2$s pgwire_n WHERE %1$s) THEN
                    PERFORM pg_journal.refuse_mixed(%3$s);
                END IF;
                $f$, mixes_nulls(k.fk, 'pgwire_n'), wanted::regclass, k.fk);
        END IF;
        -- Each value once, in the order of the rows. Rows of the two transition tables come in pairs; a value that an UPDATE
        -- gives to another row is looked for, as others may have looked at the row that had it.
        body := body || format(
            $f$
            IF EXISTS (SELECT %2$s FROM (%3$s) pgwire_n) THEN
                SET CONSTRAINTS pg_journal.confirmed DEFERRED;
                pgwire_waits := %7$s;
                pgwire_looked := NOT pgwire_waits AND (
                    SELECT j.is_hot OR j.residency = 'resident' FROM pg_journal.journals j WHERE j.relid = %1$s);
                %8$s
                -- A table without hot rows is left alone: it is to be locked by who makes it have some.
                IF pgwire_waits THEN
                    WITH pgwire_h AS (
                        SELECT %2$s, min(pgwire_i) AS pgwire_i, NULL AS pgwire_held FROM (%3$s) pgwire_n GROUP BY %2$s)
                    %6$s
                ELSIF pgwire_looked THEN
                    WITH pgwire_v AS MATERIALIZED (
                        SELECT %2$s, min(pgwire_i) AS pgwire_i FROM (%3$s) pgwire_n GROUP BY %2$s ORDER BY min(pgwire_i)),
                    pgwire_h AS MATERIALIZED (
                        SELECT pgwire_v.*, (SELECT true FROM ONLY %4$s pgwire_p WHERE %5$s FOR KEY SHARE) AS pgwire_held
                          FROM pgwire_v)
                    %6$s
                ELSE
                    WITH pgwire_h AS (
                        SELECT %2$s, min(pgwire_i) AS pgwire_i, NULL AS pgwire_held FROM (%3$s) pgwire_n GROUP BY %2$s)
                    %6$s
                END IF;
                pgwire_missing := pgwire_missing OR FOUND AND NOT pgwire_waits AND %9$s;
            END IF;
            $f$, k.confrelid, k.names, CASE WHEN updates THEN format(
                'SELECT * FROM (SELECT %1$s, row_number() OVER () AS pgwire_i FROM pgwire_new pgwire_n '
                'EXCEPT SELECT %2$s, row_number() OVER () FROM pgwire_old pgwire_n) pgwire_n WHERE %3$s',
                k.new_values, k.new_values, k.present)
            ELSE format('SELECT %s, row_number() OVER () AS pgwire_i FROM pgwire_new pgwire_n WHERE %s',
                        k.new_values, k.plain_present) END,
            k.parent, k.same, format(
                'INSERT INTO pg_journal.sought (fk, is_nested, is_deferred, is_due, was_absent, held) '
                'SELECT %s, pgwire_nested AND NOT pgwire_waits, pgwire_waits, NOT pgwire_waits, pgwire_looked, '
                'json_agg(json_build_array(%s) ORDER BY pgwire_i) '
                'FROM (SELECT *, row_number() OVER (ORDER BY pgwire_i) / 10000 AS pgwire_part '
                'FROM pgwire_h WHERE pgwire_held IS NULL) pgwire_m GROUP BY pgwire_part ORDER BY pgwire_part;',
                k.fk, k.texts),
            CASE WHEN k.condeferrable THEN format('pg_journal.is_deferred(%s, %s)', k.fk, (NOT k.tiered)::text) ELSE 'false' END,
            CASE WHEN k.tiered THEN format('IF NOT pgwire_waits THEN LOCK TABLE ONLY pg_journal.tail_%s IN ROW SHARE MODE; END IF;',
                                           k.confrelid) END, (k.tiered AND k.condeferrable)::text);
    END LOOP;
    body := format(
        $f$DECLARE
            pgwire_missing boolean := false;
            pgwire_context text;
            pgwire_nested boolean;
            pgwire_waits boolean;
            pgwire_looked boolean;
        BEGIN
            -- A line for each function that is running.
            GET DIAGNOSTICS pgwire_context = PG_CONTEXT;
            pgwire_nested := strpos(pgwire_context, E'\n') > 0
                             AND pg_journal.noted_setting('moving') IS DISTINCT FROM 'on';
            %s
            -- What is deferred may be put there later.
            IF pgwire_missing AND current_setting('transaction_isolation') <> 'read committed' THEN
                PERFORM pg_journal.refuse_sought();
            END IF;
            RETURN NULL;
        END $f$, body);
    EXECUTE format(
        'CREATE OR REPLACE FUNCTION pg_journal.%1$s_%2$s() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER '
        'SET search_path = pg_catalog, pg_temp SET constraint_exclusion = off SET enable_hashjoin = off '
        'SET enable_mergejoin = off SET enable_seqscan = off SET datestyle = ISO SET timezone = %4$L '
        'SET bytea_output = hex AS %3$L',
        CASE WHEN updates THEN 'reseek' ELSE 'seek' END, wanted, body, 'UTC');
    PERFORM pg_journal.withhold_function(
        format('pg_journal.%s_%s()', CASE WHEN updates THEN 'reseek' ELSE 'seek' END, wanted)::regprocedure);
END $$;

-- Refuse rows that reference what nobody has looked for.
CREATE OR REPLACE FUNCTION pg_journal.refuse_sought() RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    x pg_constraint;
BEGIN
    SELECT c.* INTO x FROM sought s JOIN pg_constraint c ON c.oid = s.fk LIMIT 1;
    RAISE EXCEPTION 'rows that reference the tiered table "%" are not supported here',
                    (SELECT c.relname FROM pg_class c WHERE c.oid = x.confrelid)
        USING ERRCODE = '0A000', CONSTRAINT = x.conname,
              HINT = 'Write them in a transaction that is READ COMMITTED, outside of functions.';
END $$;

-- Refuse what deferred foreign keys have left to be looked at, and nobody has. Its data type is {"unsettled"}, the OID of the
-- foreign key.
CREATE OR REPLACE FUNCTION pg_journal.refuse_unsettled(fk oid) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    said record;
BEGIN
    SELECT x.conname, c.relname INTO said FROM pg_constraint x JOIN pg_class c ON c.oid = x.conrelid
     WHERE x.oid = refuse_unsettled.fk;
    RAISE EXCEPTION 'checking the deferred foreign key "%" of table "%" is not supported here', said.conname, said.relname
        USING ERRCODE = '0A000', CONSTRAINT = said.conname,
              HINT = 'Write the rows in a transaction block, and end it by COMMIT, or check them by SET CONSTRAINTS, outside of '
                     'functions.',
              DATATYPE = sealed(json_build_object('unsettled', fk::bigint)::text);
END $$;

CREATE OR REPLACE FUNCTION pg_journal.require_confirmed() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    IF EXISTS (SELECT FROM sought s WHERE s.id = new.id) THEN
        IF new.is_deferred THEN PERFORM refuse_unsettled(new.fk); END IF;
        PERFORM refuse_sought();
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER confirmed AFTER INSERT ON pg_journal.sought DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION pg_journal.require_confirmed();
UPDATE pg_trigger SET tgisinternal = true WHERE tgfoid = 'pg_journal.require_confirmed()'::regprocedure;

-- What this transaction has to look for now: [[foreign key, referenced table, by which columns (none: the primary key's),
-- whether that is tiered, referencing table, its columns, [[text of each]]]]; rows of others are never committed.
CREATE OR REPLACE FUNCTION pg_journal.sought_values(code text) RETURNS bytea
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    PERFORM authorize(code, 'sought_values');
    RETURN convert_to(coalesce((
        SELECT json_agg(json_build_array(
                   s.fk::bigint, x.confrelid::bigint, looked_up_columns(x), p.residency = 'tiered', x.conrelid::bigint, ARRAY(
                       SELECT x.conkey[array_position(x.confkey, u.attnum)]
                         FROM unnest(sought_columns(x)) WITH ORDINALITY u(attnum, o) ORDER BY u.o), s.held) ORDER BY s.id)
          FROM sought s JOIN pg_constraint x ON x.oid = s.fk JOIN journals p ON p.relid = x.confrelid
         WHERE s.is_due), '[]')::text, 'UTF8');
END $$;

-- Tell of a row that references what there is not, as PostgreSQL does (23503). The values are those of the key's columns in
-- order.
CREATE OR REPLACE FUNCTION pg_journal.refuse_row(fk oid, held json) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    x pg_constraint;
    said record;
BEGIN
    IF EXISTS (SELECT FROM sought s WHERE s.fk = refuse_row.fk AND s.is_nested) THEN PERFORM refuse_sought(); END IF;
    SELECT * INTO x FROM pg_constraint c WHERE c.oid = fk;
    SELECT n.nspname, c.relname, p.relname AS parent, k.listed, k.texts
      INTO said
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_class p ON p.oid = x.confrelid
     CROSS JOIN LATERAL (
            SELECT string_agg(a.attname, ', ' ORDER BY u.o) AS listed,
                   format('concat_ws('', '', %s)', string_agg(format('%L::%s', v.text, plain_type(a.atttypid, a.atttypmod)), ', '
                                                              ORDER BY u.o)) AS texts
              FROM unnest(x.conkey, x.confkey) WITH ORDINALITY u(attnum, referenced, o)
              JOIN pg_attribute a ON a.attrelid = x.conrelid AND a.attnum = u.attnum
             CROSS JOIN LATERAL (SELECT held->>(array_position(sought_columns(x), u.referenced) - 1) AS text) v) k
     WHERE c.oid = x.conrelid;
    -- As the client's settings have it.
    EXECUTE 'SELECT ' || said.texts INTO said.texts;
    RAISE EXCEPTION 'insert or update on table "%" violates foreign key constraint "%"', said.relname, x.conname
        USING ERRCODE = '23503', SCHEMA = said.nspname, TABLE = said.relname, CONSTRAINT = x.conname,
              DETAIL = CASE WHEN may_show(x.conrelid, x.conkey)
                            THEN format('Key (%s)=(%s) is not present in table "%s".', said.listed, said.texts, said.parent)
                            ELSE format('Key is not present in table "%s".', said.parent) END;
END $$;

-- Whether actions of foreign keys may have taken rows of a table away, or changed them, in the statement that wrote those which
-- reference by one of its keys: it took away what the table references by a key that acts, or gave it another value.
CREATE OR REPLACE FUNCTION pg_journal.is_acted_on(fk oid) RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    k record;
    acted boolean;
BEGIN
    FOR k IN SELECT p.tail_relid, bool_and(looked_up_columns(a) = '{}') AS by_key,
                    -- What is written to a locked table has a version number from before the statement.
                    CASE WHEN current_setting('pg_journal.writing_' || p.relid, true) = announcement(p.relid) THEN '-infinity'
                         ELSE (SELECT min(s.began_at) FROM sought s WHERE s.fk = is_acted_on.fk AND s.is_due) END AS since
               FROM pg_constraint x JOIN pg_constraint a ON a.conrelid = x.conrelid AND a.contype = 'f'
               JOIN journals p ON p.relid = a.confrelid
              WHERE x.oid = is_acted_on.fk AND p.tail_relid <> 0
                AND (a.confdeltype IN ('c', 'n', 'd') OR a.confupdtype IN ('c', 'n', 'd')) GROUP BY p.relid, p.tail_relid LOOP
        -- What loses its primary key has ended; of other values only a version tells.
        EXECUTE format('SELECT EXISTS (SELECT FROM %s t WHERE t.writer = pg_current_xact_id() AND t.version_number >= $1 %s)',
                       k.tail_relid::regclass, CASE WHEN k.by_key THEN 'AND t.subsequent_version_number IS NOT NULL' END)
           INTO acted USING k.since;
        IF acted THEN RETURN true; END IF;
    END LOOP;
    RETURN false;
END $$;

-- Refuse rows that reference by values that there are not (23503), unless they have gone since: the statement itself took them
-- away, or changed them, before it ended; or the transaction did, where the constraint was deferred. The answer are the values
-- by which the caller has to look for such rows, in a journal.
CREATE OR REPLACE FUNCTION pg_journal.require_gone(fk oid, absent json) RETURNS json
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
SET enable_hashjoin = on
SET enable_seqscan = on
AS $$
DECLARE
    k record;
    held json := absent->0;
BEGIN
    IF held IS NULL THEN RETURN '[]'; END IF;
    SELECT x.conrelid::regclass AS child,
           -- Rows that were written to hot ones are there, too.
           j.residency = 'resident' AS is_resident, d.is_deferred,
           j.residency = 'resident' OR NOT d.is_deferred AND has_announced(x.conrelid) AND warmth(x.conrelid) IS NOT NULL AS is_there,
           string_agg(format('c.%I = (u.e->>%s)::%s', a.attname, u.o - 1, plain_type(a.atttypid, -1)), ' AND ') AS same
      INTO k
      FROM pg_constraint x JOIN journals j ON j.relid = x.conrelid
     CROSS JOIN LATERAL (SELECT EXISTS (SELECT FROM sought s WHERE s.fk = x.oid AND s.is_deferred) AS is_deferred) d
     CROSS JOIN unnest(sought_columns(x)) WITH ORDINALITY u(attnum, o)
      JOIN pg_attribute a ON a.attrelid = x.conrelid AND a.attnum = x.conkey[array_position(x.confkey, u.attnum)]
     WHERE x.oid = require_gone.fk GROUP BY x.oid, x.conrelid, j.residency, d.is_deferred;
    IF k.is_there THEN
        EXECUTE format('SELECT u.e FROM json_array_elements($1) WITH ORDINALITY u(e, i) '
                       'WHERE EXISTS (SELECT FROM ONLY %s c WHERE %s) ORDER BY u.i LIMIT 1', k.child, k.same)
           INTO held USING absent;
        -- PostgreSQL looks at a row before or after others of the statement are taken away with what they reference.
        IF held IS NULL AND (NOT k.is_resident OR NOT k.is_deferred AND is_acted_on(fk)) THEN
            PERFORM refuse('rows that reference what there is not, and that a foreign key takes away in the same statement, are');
        END IF;
    ELSIF k.is_deferred THEN
        RETURN absent;
    END IF;
    IF held IS NOT NULL THEN PERFORM refuse_row(fk, held); END IF;
    RETURN '[]';
END $$;

-- Tell that a row of a tiered table references what there is not (23503).
CREATE OR REPLACE FUNCTION pg_journal.refuse_absent(code text, fk oid, held json) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    PERFORM authorize(code, 'refuse_absent', fk::text, held::text);
    PERFORM refuse_row(fk, held);
    RETURN convert_to('null', 'UTF8');
END $$;

-- Forget what was looked for by a foreign key whose referenced table is held, and lacks but these values: 23503 where rows
-- reference them. The answer are those of which the caller has to look for such rows.
CREATE OR REPLACE FUNCTION pg_journal.release_sought(code text, fk oid, absent json) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    PERFORM authorize(code, 'release_sought', fk::text, absent::text);
    absent := require_gone(fk, absent);
    DELETE FROM sought s WHERE s.fk = release_sought.fk AND s.is_due;
    RETURN convert_to(absent::text, 'UTF8');
END $$;

-- Confirm what has been looked for, whose rows are hot as far as there are any: these are locked. 23503 where there are none,
-- but for those of which the caller has to look for rows that reference them: [[foreign key, values]]. The transaction has
-- passed the gate of the referenced tables that are tiered.
CREATE OR REPLACE FUNCTION pg_journal.confirm_references(code text) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
SET constraint_exclusion = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_seqscan = off
AS $$
DECLARE
    k record;
    found record;
    absent json[];
    unknown jsonb := '[]';
BEGIN
    PERFORM authorize(code, 'confirm_references');
    FOR k IN SELECT x.oid AS fk, x.confrelid, x.confrelid::regclass AS parent, p.residency,
                    string_agg(format('p.%I = v.c%s', a.attname, u.o), ' AND ' ORDER BY u.o) AS same,
                    -- What actions of foreign keys have brought since rows were looked at that reference it.
                    CASE WHEN p.residency = 'tiered' AND coalesce(current_setting('pg_journal.acting', true), '') <> ''
                         THEN format('EXISTS (SELECT FROM pg_journal.tail_%s t WHERE %s AND t.writer = pg_current_xact_id() '
                                     'AND t.subsequent_version_number IS NULL)', x.confrelid,
                                     string_agg(format('t.c%s = h.c%s', a.attnum, u.o), ' AND ' ORDER BY u.o))
                         ELSE 'false' END AS is_brought,
                    string_agg(format('(e->>%s)::%s AS c%s', u.o - 1, plain_type(a.atttypid, -1), u.o), ', ' ORDER BY u.o)
                        AS listed
               FROM pg_constraint x JOIN journals p ON p.relid = x.confrelid
              CROSS JOIN unnest(sought_columns(x)) WITH ORDINALITY u(attnum, o)
               JOIN pg_attribute a ON a.attrelid = x.confrelid AND a.attnum = u.attnum
              WHERE x.oid IN (SELECT s.fk FROM sought s WHERE s.is_due) GROUP BY x.oid, x.confrelid, p.residency LOOP
        IF k.residency = 'tiered' AND NOT has_announced(k.confrelid) THEN
            PERFORM outdated();
        END IF;
        absent := '{}';
        -- What a transaction has written itself its code may have written after it had handled an error.
        FOR found IN EXECUTE format(
            'WITH v AS MATERIALIZED (SELECT %s, e, i, is_nested, was_absent '
            'FROM (SELECT s.id, u.e, u.i, s.is_nested, s.was_absent FROM pg_journal.sought s '
            'CROSS JOIN json_array_elements(s.held) WITH ORDINALITY u(e, i) WHERE s.fk = $1 AND s.is_due '
            'ORDER BY s.id, u.i) s), '
            'h AS MATERIALIZED (SELECT v.*, (SELECT p.xmin FROM ONLY %s p WHERE %s FOR KEY SHARE) AS writer FROM v) '
            'SELECT h.e AS held, h.writer, h.is_nested FROM h WHERE h.writer IS NULL '
            'OR h.is_nested AND h.writer = pg_current_xact_id()::xid OR h.was_absent AND %s',
            k.listed, k.parent, k.same, k.is_brought) USING k.fk
        LOOP
            IF found.writer IS NOT NULL THEN
                IF found.is_nested THEN PERFORM refuse_sought(); END IF;
                PERFORM refuse('rows that reference what a foreign key brings in the same statement are');
            END IF;
            absent := absent || found.held;
        END LOOP;
        unknown := unknown || coalesce((SELECT jsonb_agg(jsonb_build_array(k.fk::bigint, e))
                                          FROM json_array_elements(require_gone(k.fk, array_to_json(absent))) e), '[]');
        DELETE FROM sought s WHERE s.fk = k.fk AND s.is_due;
    END LOOP;
    RETURN convert_to(unknown::text, 'UTF8');
END $$;

-- Let nobody take rows of a tiered table away until the transaction ends. Who writes a table without hot rows locks it before
-- its tail: the other way round each could wait for the other. Without the table's lock no row of it becomes hot.
CREATE OR REPLACE FUNCTION pg_journal.hold_parent(code text, wanted oid) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    PERFORM authorize(code, 'hold_parent', wanted::text);
    BEGIN
        IF EXISTS (SELECT FROM journals s WHERE s.relid = wanted AND s.is_hot) THEN PERFORM has_hot_rows(); END IF;
        PERFORM lock_table(wanted, 'SHARE');
        IF EXISTS (SELECT FROM journals s WHERE s.relid = wanted AND s.is_hot) THEN PERFORM has_hot_rows(); END IF;
    EXCEPTION WHEN SQLSTATE 'GW003' THEN
        -- The lock is free again.
        PERFORM pass_gate(wanted, 'SHARE');
    END;
    RETURN convert_to('null', 'UTF8');
END $$;

-- Announce that this transaction adds a foreign key, which PostgreSQL is told not to validate.
CREATE OR REPLACE FUNCTION pg_journal.begin_adding(code text) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    PERFORM authorize(code, 'begin_adding');
    PERFORM set_config('pg_journal.adding', (
        SELECT encode(sha256(convert_to('adding:' || secret_key || ':' || pg_current_xact_id()::text, 'UTF8')), 'hex')
          FROM instance), true);
    RETURN convert_to('null', 'UTF8');
END $$;

-- The foreign keys of a table that are not validated: [OID, whether all rows are in PostgreSQL, the table's columns in the
-- order of the referenced index, whether the referenced table is tiered, whether none of several columns may be NULL alone].
CREATE OR REPLACE FUNCTION pg_journal.added_references(code text, wanted oid) RETURNS bytea
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    PERFORM authorize(code, 'added_references', wanted::text);
    RETURN convert_to(coalesce((
        SELECT json_agg(json_build_array(
                   x.oid::bigint, c.residency = 'resident', ARRAY(
                       SELECT x.conkey[array_position(x.confkey, u.attnum)]
                         FROM unnest(sought_columns(x)) WITH ORDINALITY u(attnum, o) ORDER BY u.o),
                   p.residency = 'tiered', mixes_nulls(x.oid, 'n') IS NOT NULL) ORDER BY x.oid)
          FROM pg_constraint x JOIN journals c ON c.relid = x.conrelid JOIN journals p ON p.relid = x.confrelid
         WHERE x.conrelid = wanted AND x.contype = 'f' AND NOT x.convalidated AND x.conenforced), '[]')::text, 'UTF8');
END $$;

-- Have values looked for by which rows reference: those given, of a table that is tiered, or all that a resident one has.
CREATE OR REPLACE FUNCTION pg_journal.seek_values(code text, fk oid, held json) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
SET datestyle = 'ISO'
SET timezone = 'UTC'
SET bytea_output = 'hex'
AS $$
DECLARE
    k record;
    mixed bigint;
BEGIN
    PERFORM authorize(code, 'seek_values', fk::text, held::text);
    IF held IS NOT NULL THEN
        INSERT INTO sought (fk, is_nested, held) VALUES (seek_values.fk, false, seek_values.held);
        RETURN convert_to('null', 'UTF8');
    END IF;
    SELECT x.conrelid::regclass AS child, string_agg(quote_ident(b.attname), ', ' ORDER BY u.o) AS names,
           string_agg(format('%I::text', b.attname), ', ' ORDER BY u.o) AS texts,
           string_agg(format('%I IS NOT NULL', b.attname), ' AND ' ORDER BY u.o) AS present
      INTO k
      FROM pg_constraint x CROSS JOIN unnest(sought_columns(x)) WITH ORDINALITY u(attnum, o)
      JOIN pg_attribute b ON b.attrelid = x.conrelid AND b.attnum = x.conkey[array_position(x.confkey, u.attnum)]
     WHERE x.oid = seek_values.fk GROUP BY x.conrelid;
    IF mixes_nulls(fk, 'n') IS NOT NULL THEN
        EXECUTE format('SELECT FROM ONLY %s n WHERE %s LIMIT 1', k.child, mixes_nulls(fk, 'n'));
        GET DIAGNOSTICS mixed = ROW_COUNT;
        IF mixed > 0 THEN PERFORM refuse_mixed(fk); END IF;
    END IF;
    EXECUTE format(
        'INSERT INTO pg_journal.sought (fk, is_nested, held) SELECT $1, false, json_agg(json_build_array(%s)) '
        'FROM (SELECT *, row_number() OVER () / 10000 AS part FROM (SELECT DISTINCT %s FROM ONLY %s WHERE %s) v) v GROUP BY part',
        k.texts, k.names, k.child, k.present) USING seek_values.fk;
    RETURN convert_to('null', 'UTF8');
END $$;

-- Tell that a tiered table has a row with NULL in some columns of a foreign key that is MATCH FULL.
CREATE OR REPLACE FUNCTION pg_journal.refuse_added(code text, fk oid) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    PERFORM authorize(code, 'refuse_added', fk::text);
    PERFORM refuse_mixed(fk);
    RETURN convert_to('null', 'UTF8');
END $$;

-- Look in a resident table for what is sought: 23503 for what is not there.
CREATE OR REPLACE FUNCTION pg_journal.find_sought(code text, fk oid) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
SET constraint_exclusion = off
AS $$
DECLARE
    k record;
    absent json;
    texts text;
BEGIN
    PERFORM authorize(code, 'find_sought', fk::text);
    SELECT x.conrelid, x.conkey, x.conname, x.confrelid::regclass AS parent, p.relname AS parent_name, c.relname, n.nspname,
           (SELECT string_agg(format('p.%I = (e->>%s)::%s', a.attname, u.o - 1, plain_type(a.atttypid, -1)), ' AND ')
              FROM unnest(sought_columns(x)) WITH ORDINALITY u(attnum, o)
              JOIN pg_attribute a ON a.attrelid = x.confrelid AND a.attnum = u.attnum) AS same,
           (SELECT string_agg(a.attname, ', ' ORDER BY u.o) FROM unnest(x.conkey) WITH ORDINALITY u(attnum, o)
              JOIN pg_attribute a ON a.attrelid = x.conrelid AND a.attnum = u.attnum) AS listed,
           (SELECT string_agg(format('($1->>%s)::%s', array_position(sought_columns(x), u.attnum) - 1,
                                     plain_type(a.atttypid, -1)), ', ' ORDER BY u.o)
              FROM unnest(x.confkey) WITH ORDINALITY u(attnum, o)
              JOIN pg_attribute a ON a.attrelid = x.confrelid AND a.attnum = u.attnum) AS values
      INTO k FROM pg_constraint x JOIN pg_class p ON p.oid = x.confrelid JOIN pg_class c ON c.oid = x.conrelid
      JOIN pg_namespace n ON n.oid = c.relnamespace WHERE x.oid = find_sought.fk;
    EXECUTE format('SELECT e FROM pg_journal.sought s CROSS JOIN json_array_elements(s.held) e '
                   'WHERE s.fk = $1 AND NOT EXISTS (SELECT FROM ONLY %s p WHERE %s) LIMIT 1', k.parent, k.same)
       INTO absent USING find_sought.fk;
    IF absent IS NOT NULL THEN
        EXECUTE format('SELECT concat_ws('', '', %s)', k.values) INTO texts USING absent;
        RAISE EXCEPTION 'insert or update on table "%" violates foreign key constraint "%"', k.relname, k.conname
            USING ERRCODE = '23503', SCHEMA = k.nspname, TABLE = k.relname, CONSTRAINT = k.conname,
                  DETAIL = CASE WHEN may_show(k.conrelid, k.conkey)
                                THEN format('Key (%s)=(%s) is not present in table "%s".', k.listed, texts, k.parent_name)
                                ELSE format('Key is not present in table "%s".', k.parent_name) END;
    END IF;
    RETURN convert_to('null', 'UTF8');
END $$;

-- Note of a tiered table by which values its rows reference: those that are sought.
CREATE OR REPLACE FUNCTION pg_journal.note_sought(code text, fk oid) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    k record;
BEGIN
    PERFORM authorize(code, 'note_sought', fk::text);
    SELECT string_agg(format('(e->>%s)::%s', array_position(sought_columns(x), u.attnum) - 1, plain_type(a.atttypid, -1)), ', '
                      ORDER BY u.o) AS values
      INTO k
      FROM pg_constraint x CROSS JOIN unnest(x.confkey) WITH ORDINALITY u(attnum, o)
      JOIN pg_attribute a ON a.attrelid = x.confrelid AND a.attnum = u.attnum
     WHERE x.oid = note_sought.fk;
    EXECUTE format('INSERT INTO pg_journal.references_%s SELECT %s FROM pg_journal.sought s '
                   'CROSS JOIN json_array_elements(s.held) e WHERE s.fk = $1 ON CONFLICT DO NOTHING', fk, k.values)
      USING note_sought.fk;
    RETURN convert_to('null', 'UTF8');
END $$;

-- Note that all rows have what a foreign key that was added says.
CREATE OR REPLACE FUNCTION pg_journal.end_adding(code text, fk oid) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
SET allow_system_table_mods = on
SET event_triggers = off
AS $$
DECLARE
    x pg_constraint;
BEGIN
    PERFORM authorize(code, 'end_adding', fk::text);
    IF NOT is_adding() THEN PERFORM outdated(); END IF;
    DELETE FROM sought s WHERE s.fk = end_adding.fk;
    UPDATE pg_constraint c SET convalidated = true WHERE c.oid = fk RETURNING * INTO x;
    PERFORM set_config('pg_journal.adding', '', true);
    PERFORM reconcile(r) FROM unnest(ARRAY[x.conrelid, x.confrelid]) WITH ORDINALITY u(r, o)
      WHERE o = 1 OR x.conrelid <> x.confrelid;
    RETURN convert_to('null', 'UTF8');
END $$;

-- Tell the triggers that look for what rows reference that a function of ours writes them, and no code of users.
CREATE OR REPLACE FUNCTION pg_journal.note_moving(moving boolean) RETURNS void
LANGUAGE sql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$ SELECT note_setting('moving', CASE WHEN moving THEN 'on' ELSE 'off' END) $$;

-- Whether a foreign key references a table. PostgreSQL's triggers tell it sooner than its constraints.
CREATE OR REPLACE FUNCTION pg_journal.is_referenced(relid oid) RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN EXISTS (SELECT FROM pg_trigger g JOIN pg_constraint x ON x.oid = g.tgconstraint
                WHERE g.tgrelid = is_referenced.relid AND x.contype = 'f' AND x.confrelid = g.tgrelid);

-- Have the triggers of a table fire, or not, for what moves its rows between it and the journal; those of foreign keys to it
-- would take that for their end.
CREATE OR REPLACE FUNCTION pg_journal.silence(wanted oid, silent boolean) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    IF is_referenced(wanted) OR cold_parents(wanted) <> '{}' THEN
        PERFORM set_config('session_replication_role', CASE WHEN silent THEN 'replica' ELSE 'origin' END, true);
    END IF;
END $$;
