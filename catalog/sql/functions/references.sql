-- Foreign keys of tiered tables to resident ones. PostgreSQL's own triggers look for referenced rows, which are all there,
-- whenever referencing ones pass through the catalog table. The other way round they see hot rows only: which values cold
-- rows may reference by is kept in pg_journal.references_<OID of the constraint>, and who takes such a value away is told to
-- make the rows hot first.
--
-- A value comes there before the row that has it leaves the catalog table, and goes once all rows that have it are hot, in
-- a transaction that keeps them so until its end. Who takes a value away looks there after PostgreSQL's triggers have looked
-- at the hot rows: one that goes cold in between was seen by these.

-- Whether this transaction adds a foreign key whose rows are looked at when the command has been run.
CREATE OR REPLACE FUNCTION pg_journal.is_adding() RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN coalesce(current_setting('pg_journal.adding', true) = (
    SELECT encode(sha256(convert_to('adding:' || secret_key || ':' || pg_current_xact_id()::text, 'UTF8')), 'hex')
      FROM instance), false);

-- Why the referenced table of a foreign key cannot be tiered, as what is said of the key; NULL where it can.
CREATE OR REPLACE FUNCTION pg_journal.parent_irregularity(x pg_constraint) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN CASE
    WHEN EXISTS (SELECT FROM journals p WHERE p.relid = x.confrelid AND p.external IS NOT NULL)
        THEN 'finds its rows in an external journal'
    WHEN x.condeferrable AND x.confmatchtype = 'f' AND cardinality(x.conkey) > 1 THEN 'is DEFERRABLE and MATCH FULL'
    WHEN NOT x.conenforced OR NOT (x.convalidated OR is_adding()) THEN 'is not validated'
    WHEN x.conperiod THEN 'has PERIOD'
    WHEN is_in_tree(x.conrelid) OR is_in_tree(x.confrelid)
         OR EXISTS (SELECT FROM pg_class c WHERE c.oid = x.conrelid AND c.relkind <> 'r') THEN 'is of partitions or INHERITS'
    -- Rows are made hot by their primary key, whatever they are referenced by.
    WHEN row_key(x.confrelid) = '{}' THEN 'references a table without primary key'
    ELSE (SELECT format('has column "%s" of type %s', a.attname, format_type(a.atttypid, a.atttypmod))
            FROM unnest(x.conkey, x.confkey) WITH ORDINALITY u(attnum, referenced, o)
            JOIN pg_attribute a ON a.attrelid = x.conrelid AND a.attnum = u.attnum
            JOIN pg_attribute r ON r.attrelid = x.confrelid AND r.attnum = u.referenced
           WHERE r.atttypid <> a.atttypid OR r.attcollation <> a.attcollation
              OR NOT is_hot_key_type(r.atttypid, r.atttypmod)
              OR r.atttypmod <> a.atttypmod AND r.atttypid IN ('numeric'::regtype, 'bpchar'::regtype)
           UNION ALL
          SELECT format('references a table whose primary key has column "%s" of type %s', a.attname,
                        format_type(a.atttypid, a.atttypmod))
            FROM pg_attribute a
           WHERE a.attrelid = x.confrelid AND a.attnum = ANY (row_key(x.confrelid))
             AND NOT is_hot_key_type(a.atttypid, a.atttypmod)
           LIMIT 1)
END;

-- Why the foreign key of a tiered table cannot be kept; NULL where it can.
CREATE OR REPLACE FUNCTION pg_journal.reference_irregularity(x pg_constraint) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN CASE
    WHEN x.condeferrable AND x.confmatchtype = 'f' AND cardinality(x.conkey) > 1
        THEN 'a DEFERRABLE FOREIGN KEY that is MATCH FULL'
    WHEN NOT x.conenforced OR NOT (x.convalidated OR is_adding()) THEN 'a FOREIGN KEY that is not validated'
    WHEN x.conperiod THEN 'a FOREIGN KEY with PERIOD'
    -- A table that references itself has no journal yet when it is made.
    WHEN x.confrelid <> x.conrelid AND NOT EXISTS (SELECT FROM journals p WHERE p.relid = x.confrelid)
         OR is_in_tree(x.confrelid)
        THEN 'a FOREIGN KEY to a table without journal'
    WHEN (x.confrelid = x.conrelid OR EXISTS (SELECT FROM journals p WHERE p.relid = x.confrelid AND p.residency = 'tiered'))
         AND parent_irregularity(x) IS NOT NULL
        THEN 'a FOREIGN KEY that ' || parent_irregularity(x)
    WHEN (x.confupdtype IN ('c', 'd') OR x.confdeltype = 'd') AND EXISTS (
            SELECT FROM pg_index i CROSS JOIN unnest(unique_columns(i.indexrelid)) k(attnum)
              JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
             WHERE i.indrelid = x.conrelid AND i.indisunique AND NOT i.indisprimary
               AND (k.attnum = ANY (x.conkey) OR a.attgenerated <> ''))
        THEN 'a FOREIGN KEY whose actions change columns that are UNIQUE'
    ELSE (SELECT format('a FOREIGN KEY with column "%s" of type %s', a.attname, format_type(a.atttypid, a.atttypmod))
            FROM unnest(x.conkey, x.confkey) WITH ORDINALITY u(attnum, referenced, o)
            JOIN pg_attribute a ON a.attrelid = x.conrelid AND a.attnum = u.attnum
            JOIN pg_attribute r ON r.attrelid = x.confrelid AND r.attnum = u.referenced
           WHERE NOT is_key_type(a.atttypid, a.atttypmod) OR a.atttypid <> r.atttypid
              -- Equal values of these may look different, and an action compares what they look like.
              OR a.atttypid IN ('float4'::regtype, 'float8'::regtype, 'interval'::regtype) ORDER BY u.o LIMIT 1)
END;

-- The columns by which a table is referenced, and those that these are generated from, where it is tiered, rows of tiered
-- tables reference it, or tables that change with it.
CREATE OR REPLACE FUNCTION pg_journal.referenced_columns(relid oid) RETURNS int2[]
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
    WITH RECURSIVE listed AS (
        -- Most catalogs have no foreign key of a tiered table, and are asked often.
        SELECT FROM pg_class c WHERE c.relnamespace = 'pg_journal'::regnamespace
                                 AND c.relname >= 'references_' AND c.relname < 'references`' LIMIT 1
    ), referencing AS (
        SELECT x.conrelid FROM pg_constraint x WHERE x.confrelid = referenced_columns.relid AND x.contype = 'f'
                                          AND EXISTS (SELECT FROM listed)
        UNION
        SELECT x.conrelid FROM referencing r JOIN pg_constraint x ON x.confrelid = r.conrelid AND x.contype = 'f')
    SELECT CASE WHEN EXISTS (SELECT FROM journals j WHERE j.relid = referenced_columns.relid AND j.residency = 'tiered')
                  OR EXISTS (SELECT FROM referencing r JOIN journals j ON j.relid = r.conrelid AND j.residency = 'tiered')
                THEN ARRAY(SELECT u.attnum FROM pg_constraint x CROSS JOIN unnest(x.confkey) u(attnum)
                            WHERE x.confrelid = referenced_columns.relid AND x.contype = 'f'
                            UNION
                           SELECT d.refobjsubid::int2 FROM pg_constraint x
                             JOIN pg_attrdef f ON f.adrelid = x.confrelid AND f.adnum = ANY (x.confkey)
                             JOIN pg_depend d ON d.classid = 'pg_attrdef'::regclass AND d.objid = f.oid
                                             AND d.refclassid = 'pg_class'::regclass AND d.refobjid = f.adrelid
                            WHERE x.confrelid = referenced_columns.relid AND x.contype = 'f' ORDER BY 1)
                ELSE '{}' END
$$;

-- Have each foreign key of a tiered table its table of values, and none that is no foreign key of such a table; and have
-- the tables that are referenced tell who takes values away.
CREATE OR REPLACE FUNCTION pg_journal.settle_references(wanted oid) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
SET client_min_messages = warning
SET event_triggers = off
AS $$
DECLARE
    k record;
BEGIN
    FOR k IN SELECT c.relname, substring(c.relname, '[0-9]+$')::oid AS fk
               FROM pg_class c WHERE c.relnamespace = 'pg_journal'::regnamespace AND c.relname ~ '^references_[0-9]+$'
    LOOP
        IF NOT EXISTS (SELECT FROM pg_constraint x JOIN journals j ON j.relid = x.conrelid
                        WHERE x.oid = k.fk AND j.residency = 'tiered') THEN
            EXECUTE format('DROP TABLE pg_journal.%I', k.relname);
        END IF;
    END LOOP;
    FOR k IN SELECT c.relname
               FROM pg_class c WHERE c.relnamespace = 'pg_journal'::regnamespace AND c.relname ~ '^pending_[0-9]+$'
                AND NOT EXISTS (SELECT FROM pg_constraint x WHERE x.oid = substring(c.relname, '[0-9]+$')::oid)
    LOOP
        BEGIN
            EXECUTE format('DROP TABLE pg_journal.%I', k.relname);
        EXCEPTION WHEN object_in_use THEN
            RAISE EXCEPTION 'cannot drop a foreign key because it has pending trigger events' USING ERRCODE = '55006';
        END;
    END LOOP;
    FOR k IN SELECT x.oid AS fk,
                    string_agg(format('c%s %s', u.o, plain_type(a.atttypid, a.atttypmod)), ', ' ORDER BY u.o) AS columns,
                    string_agg('c' || u.o, ', ' ORDER BY u.o) AS names
               FROM pg_constraint x JOIN journals j ON j.relid = x.conrelid
              CROSS JOIN unnest(x.confkey) WITH ORDINALITY u(attnum, o)
               JOIN pg_attribute a ON a.attrelid = x.confrelid AND a.attnum = u.attnum
              WHERE x.conrelid = wanted AND x.contype = 'f' AND j.residency = 'tiered'
                AND to_regclass('pg_journal.references_' || x.oid) IS NULL
              GROUP BY x.oid LOOP
        EXECUTE format('CREATE TABLE pg_journal.references_%s (%s, PRIMARY KEY (%s))', k.fk, k.columns, k.names);
        PERFORM seal(format('pg_journal.references_%s', k.fk));
    END LOOP;
    FOR k IN WITH candidates AS MATERIALIZED (
                 SELECT x.confrelid AS relid FROM pg_constraint x WHERE x.conrelid = wanted AND x.contype = 'f'
                 UNION
                 SELECT r.relid FROM referencing_tables(wanted) r
                 UNION
                 SELECT g.tgrelid FROM pg_trigger g WHERE g.tgname ~ '^pgwire_(referenced|seek)_'),
             -- Known before a signature is asked for, which of all tables would take long.
             watching AS MATERIALIZED (
                 SELECT j.relid, j.watched FROM candidates JOIN journals j USING (relid)
                   JOIN pg_class c ON c.oid = j.relid JOIN pg_namespace n ON n.oid = c.relnamespace
                  WHERE j.relid <> wanted
                    -- One that has another name now comes by itself.
                    AND (n.nspname, c.relname) = (j.schema_name, j.table_name))
             SELECT s.relid FROM watching s WHERE s.watched IS DISTINCT FROM watch_signature(s.relid) LOOP
        PERFORM watch(k.relid);
    END LOOP;
END $$;

-- Note the values by which the rows reference that the catalog table holds now: they are about to go cold.
CREATE OR REPLACE FUNCTION pg_journal.note_references(wanted oid) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    k record;
BEGIN
    FOR k IN SELECT x.oid AS fk, string_agg(format('t.%I', a.attname), ', ' ORDER BY u.o) AS columns,
                    string_agg(format('t.%I IS NOT NULL', a.attname), ' AND ' ORDER BY u.o) AS present
               FROM pg_constraint x CROSS JOIN unnest(x.conkey) WITH ORDINALITY u(attnum, o)
               JOIN pg_attribute a ON a.attrelid = x.conrelid AND a.attnum = u.attnum
              WHERE x.conrelid = wanted AND x.contype = 'f' AND to_regclass('pg_journal.references_' || x.oid) IS NOT NULL
              GROUP BY x.oid LOOP
        EXECUTE format('INSERT INTO pg_journal.references_%s SELECT DISTINCT %s FROM ONLY %s t WHERE %s ON CONFLICT DO NOTHING',
                       k.fk, k.columns, wanted::regclass, k.present);
    END LOOP;
END $$;

-- What is told by an error to whoever runs the statement, in a form that nobody else can make.
CREATE OR REPLACE FUNCTION pg_journal.sealed(told text) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN (SELECT encode(sha256(convert_to(
            'told:' || secret_key || ':' || pg_current_xact_id()::text || ':' || told, 'UTF8')), 'hex') || ' ' || told
          FROM instance);

-- Tell that a value was taken away by which cold rows may reference: an error that is a refusal (0A000) for whoever does not
-- know what to do. Until it has left PostgreSQL it is the one that code which goes on after any other does not catch: such
-- code would leave rows as they were. Its data type is {"relid", "columns", "values", "action", "fk"}, the values as PostgreSQL's texts.
CREATE OR REPLACE FUNCTION pg_journal.refuse_referenced(fk oid, held json, deleted boolean) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    x pg_constraint;
BEGIN
    SELECT * INTO x FROM pg_constraint c WHERE c.oid = fk;
    RAISE EXCEPTION 'changing rows that rows of the tiered table "%" reference is not supported here',
                    (SELECT c.relname FROM pg_class c WHERE c.oid = x.conrelid)
        USING ERRCODE = 'assert_failure', CONSTRAINT = x.conname,
              HINT = 'Change them in a transaction that is READ COMMITTED, outside of functions.',
              DATATYPE = sealed(json_build_object(
                  'fk', fk::bigint, 'relid', x.conrelid::bigint, 'columns', x.conkey, 'values', held,
                  'action', CASE WHEN deleted THEN x.confdeltype ELSE x.confupdtype END)::text);
END $$;

-- What says that foreign keys act on what the statement that is running has taken away; nobody else can make it.
CREATE OR REPLACE FUNCTION pg_journal.acting_mark() RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN (SELECT encode(sha256(convert_to(concat_ws(':', 'acting', secret_key, pg_current_xact_id(), micros(statement_timestamp())),
                                        'UTF8')), 'hex') FROM instance);

-- Whether that is so. Triggers of the tables that foreign keys change fire when those of the referenced table have, and at
-- the same depth.
CREATE OR REPLACE FUNCTION pg_journal.is_acting() RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN coalesce(current_setting('pg_journal.acting', true) = acting_mark(), false);

-- Refuse a write of a tiered table that has not been announced. Where the action of a foreign key makes it, whoever runs the
-- statement can announce it, too.
CREATE OR REPLACE FUNCTION pg_journal.refuse_unannounced(wanted oid) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    IF pg_trigger_depth() < 2 AND NOT is_acting() THEN PERFORM outdated(); END IF;
    RAISE EXCEPTION 'changing rows that rows of the tiered table "%" reference is not supported here',
                    (SELECT c.relname FROM pg_class c WHERE c.oid = wanted)
        USING ERRCODE = 'assert_failure',
              HINT = 'Change them in a transaction that is READ COMMITTED, outside of functions.',
              DATATYPE = sealed(json_build_object('fk', 0, 'relid', wanted::bigint, 'columns', '[]'::json,
                                                  'values', '[]'::json, 'action', '')::text);
END $$;

-- Require that a transaction which reads by one snapshot sees all values by which cold rows of a table reference now, or fail
-- (40001). Those that let rows go cold, which adds values, are waited for at the gate, and those that write a cold table at its
-- journal's row. What is added later does not matter: who brings a reference locks what he references, and who lets a row go
-- cold had it where PostgreSQL's triggers have looked.
CREATE OR REPLACE FUNCTION pg_journal.require_listed(wanted oid) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    told jsonb;
BEGIN
    -- It has been looked at then.
    IF has_announced(wanted) THEN RETURN; END IF;
    EXECUTE format('LOCK TABLE ONLY pg_journal.tail_%s IN ROW SHARE MODE', wanted);
    told := warmth(wanted);
    IF told IS NOT NULL THEN
        IF NOT is_as_seen(wanted, told) THEN PERFORM refuse_changed(); END IF;
        RETURN;
    END IF;
    BEGIN
        -- Kept, the lock would keep the table from having hot rows.
        PERFORM FROM journals j WHERE j.relid = wanted FOR SHARE;
        PERFORM not_hot();
    EXCEPTION WHEN SQLSTATE 'GW002' THEN NULL;
    END;
END $$;

-- Write the function of the triggers of a table that rows of tiered tables reference.
CREATE OR REPLACE FUNCTION pg_journal.make_referenced(relid oid) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    body text := '';
    k record;
BEGIN
    FOR k IN SELECT x.oid AS fk, x.conrelid, x.confrelid::regclass AS parent, (x.confupdtype = 'a')::text AS keeps_taken,
                    (x.confdeltype = 'a')::text AS keeps_deleted,
                    -- Actions are taken at once, and RESTRICT refuses at once.
                    x.condeferrable AND x.confupdtype = 'a' AS defers_taken,
                    x.condeferrable AND x.confdeltype = 'a' AS defers_deleted,
                    x.oid = ANY (cold_references(make_referenced.relid)) AS is_cold,
                    string_agg(format('pgwire_r.c%s = pgwire_o.%I', u.o, a.attname), ' AND ' ORDER BY u.o) AS same,
                    string_agg(format('pgwire_r.c%s = old.%I', u.o, a.attname), ' AND ' ORDER BY u.o) AS same_row,
                    string_agg(format('pgwire_p.%I = old.%1$I', a.attname), ' AND ' ORDER BY u.o) AS taken_row,
                    -- Nobody references what has NULL.
                    string_agg(format('pgwire_o.%I IS NOT NULL', a.attname), ' AND ' ORDER BY u.o) AS present,
                    string_agg(format('old.%I IS NOT NULL', a.attname), ' AND ' ORDER BY u.o) || format(' AND (%s)',
                        string_agg(format('old.%I IS DISTINCT FROM new.%1$I', a.attname), ' OR ' ORDER BY u.o)) AS moved,
                    string_agg(format('pgwire_p.%I = pgwire_o.%1$I', a.attname), ' AND ' ORDER BY u.o) AS taken,
                    string_agg(format('pgwire_r.c%s', u.o), ', ' ORDER BY u.o) AS held,
                    x.conrelid::regclass AS child,
                    string_agg(format('pgwire_t.%I = pgwire_o.%I', b.attname, a.attname), ' AND ' ORDER BY u.o) AS hot,
                    string_agg(format('pgwire_t.%I = old.%I', b.attname, a.attname), ' AND ' ORDER BY u.o) AS hot_row,
                    string_agg(format('pgwire_o.%I::text', a.attname), ', ' ORDER BY u.o) AS old_texts,
                    string_agg(format('old.%I::text', a.attname), ', ' ORDER BY u.o) AS row_texts
               FROM pg_constraint x CROSS JOIN unnest(x.confkey, x.conkey) WITH ORDINALITY u(attnum, own, o)
               JOIN pg_attribute a ON a.attrelid = x.confrelid AND a.attnum = u.attnum
               JOIN pg_attribute b ON b.attrelid = x.conrelid AND b.attnum = u.own
              WHERE x.oid = ANY (told_references(make_referenced.relid)) GROUP BY x.oid LOOP
        body := body || format(
            $f$pgwire_waits := false;
            IF tg_op = 'DELETE' THEN
                IF %1$s THEN
                    IF pg_journal.is_deferred(%3$s, false) THEN
                        INSERT INTO pg_journal.taken (fk, held)
                        SELECT %3$s, json_agg(json_build_array(%4$s))
                          FROM (SELECT *, row_number() OVER () / 10000 AS pgwire_part FROM pgwire_old pgwire_o WHERE %6$s) pgwire_o
                         GROUP BY pgwire_part;
                        pgwire_waits := true;
                    END IF;
                END IF;
            ELSIF %2$s THEN
                IF pg_journal.is_deferred(%3$s, false) THEN
                    INSERT INTO pg_journal.taken (fk, held) VALUES (%3$s, json_build_array(json_build_array(%5$s)));
                    pgwire_waits := true;
                END IF;
            END IF;
            $f$,
            CASE WHEN k.defers_deleted THEN format('EXISTS (SELECT FROM pgwire_old pgwire_o WHERE %s)', k.present)
                 ELSE 'false' END,
            CASE WHEN k.defers_taken THEN k.moved ELSE 'false' END, k.fk, k.old_texts, k.row_texts, k.present);
        CONTINUE WHEN NOT k.is_cold;
        -- An older snapshot may not show all values.
        body := body || format(
            $f$IF pgwire_waits THEN
                NULL;
            ELSIF tg_op = 'DELETE' THEN
                IF pgwire_older AND EXISTS (SELECT FROM pgwire_old) THEN PERFORM pg_journal.require_listed(%1$s); END IF;
                SELECT json_agg(json_build_array(%2$s)) INTO pgwire_found
                  FROM (SELECT pgwire_r.* FROM pg_journal.references_%3$s pgwire_r
                         WHERE EXISTS (SELECT FROM pgwire_old pgwire_o WHERE %4$s)
                           AND NOT (%5$s AND EXISTS (SELECT FROM ONLY %6$s pgwire_o WHERE %4$s))
                         LIMIT 1000) pgwire_r;
                -- Rows may have become hot since PostgreSQL's triggers have looked, and their values gone from the list.
                IF pgwire_found IS NULL THEN
                    SELECT json_agg(json_build_array(%11$s)) INTO pgwire_found FROM pgwire_old pgwire_o
                     WHERE EXISTS (SELECT FROM ONLY %12$s pgwire_t WHERE %13$s)
                       AND NOT (%5$s AND EXISTS (SELECT FROM ONLY %6$s pgwire_p WHERE %14$s));
                END IF;
                IF pgwire_found IS NOT NULL THEN
                    PERFORM pg_journal.refuse_referenced(%3$s, pgwire_found, true);
                END IF;
            ELSIF %7$s THEN
                IF pgwire_older THEN PERFORM pg_journal.require_listed(%1$s); END IF;
                SELECT json_agg(json_build_array(%2$s)) INTO pgwire_found FROM pg_journal.references_%3$s pgwire_r
                 WHERE %8$s AND NOT (%9$s AND EXISTS (SELECT FROM ONLY %6$s pgwire_p WHERE %10$s));
                IF pgwire_found IS NULL AND EXISTS (SELECT FROM ONLY %12$s pgwire_t WHERE %15$s)
                   AND NOT (%9$s AND EXISTS (SELECT FROM ONLY %6$s pgwire_p WHERE %10$s)) THEN
                    pgwire_found := json_build_array(json_build_array(%16$s));
                END IF;
                IF pgwire_found IS NOT NULL THEN
                    PERFORM pg_journal.refuse_referenced(%3$s, pgwire_found, false);
                END IF;
            END IF;
            $f$, k.conrelid, regexp_replace(k.held, '(pgwire_r\.c\d+)', '\1::text', 'g'), k.fk, k.same, k.keeps_deleted,
            k.parent, k.moved, k.same_row, k.keeps_taken, k.taken_row, k.old_texts, k.child, k.hot, k.taken, k.hot_row,
            k.row_texts);
    END LOOP;
    body := format(
        $f$DECLARE
            pgwire_found json;
            pgwire_older boolean := current_setting('transaction_isolation') <> 'read committed';
            pgwire_waits boolean;
        BEGIN
            PERFORM set_config('pg_journal.acting', pg_journal.acting_mark(), true);
            %s RETURN NULL;
        END $f$, body);
    EXECUTE format(
        'CREATE OR REPLACE FUNCTION pg_journal.referenced_%s() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER '
        'SET search_path = pg_catalog, pg_temp SET constraint_exclusion = off SET datestyle = ISO SET timezone = %L '
        'SET bytea_output = hex AS %L',
        relid, 'UTC', body);
    PERFORM pg_journal.withhold_function(format('pg_journal.referenced_%s()', relid)::regprocedure);
END $$;

-- Forget values of a foreign key that an error of this transaction has told: all rows that reference by them are hot, and
-- stay so until the transaction ends, which has passed the gate of their table; or there are none, and others cannot add any.
CREATE OR REPLACE FUNCTION pg_journal.release_references(code text, told text) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    released json;
    fk oid;
    relid oid;
    condition text;
BEGIN
    PERFORM authorize(code, 'release_references', told);
    IF told <> sealed(substr(told, 66)) THEN PERFORM outdated(); END IF;
    released := substr(told, 66);
    fk := released->>'fk';
    relid := (SELECT x.conrelid FROM pg_constraint x WHERE x.oid = fk);
    IF relid IS NULL THEN PERFORM outdated(); END IF;
    IF current_setting('pg_journal.hot_' || relid, true) IS DISTINCT FROM hot_announcement(relid, 'keys')
       AND current_setting('pg_journal.writing_' || relid, true) IS DISTINCT FROM announcement(relid) THEN
        PERFORM outdated();
    END IF;
    SELECT string_agg(format('r.c%s = (u.e->>%s)::%s', o, o - 1, plain_type(a.atttypid, a.atttypmod)), ' AND ')
      INTO condition
      FROM pg_constraint x CROSS JOIN unnest(x.confkey) WITH ORDINALITY u(attnum, o)
      JOIN pg_attribute a ON a.attrelid = x.confrelid AND a.attnum = u.attnum
     WHERE x.oid = fk;
    EXECUTE format('DELETE FROM pg_journal.references_%s r USING json_array_elements($1) u(e) WHERE %s', fk, condition)
      USING released->'values';
    RETURN convert_to('null', 'UTF8');
END $$;
