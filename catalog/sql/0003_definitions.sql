-- Journals follow DDL inside the client's own transaction: event triggers compare each touched table
-- with its bookkeeping and bring the bookkeeping, the tail and the journal table into line, or refuse.

-- True when a column can change its type and the values in data files stay what they are.
CREATE FUNCTION pgwire.keeps_values(old_type oid, old_typmod int4, new_type oid, new_typmod int4)
RETURNS boolean
LANGUAGE sql IMMUTABLE
RETURN old_type = 'varchar'::regtype AND new_type IN ('varchar'::regtype, 'text'::regtype)
   AND (new_typmod = -1 OR (old_typmod <> -1 AND new_typmod >= old_typmod));

-- Make sure that NULL is what a new column has in rows that exist, or raise what PostgreSQL would.
CREATE FUNCTION pgwire.check_domain_default(column_name text, type_oid oid) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pgwire, pg_temp
AS $$
DECLARE
    t record;
    base oid := type_oid;
BEGIN
    LOOP
        SELECT typtype, typbasetype, typdefaultbin IS NOT NULL AS has_default INTO t
          FROM pg_type WHERE oid = base;
        EXIT WHEN t.typtype <> 'd';
        IF t.has_default THEN
            PERFORM refuse(format('ADD COLUMN "%s" with the default of a domain is', column_name),
                           'Name the default with the column.');
        END IF;
        base := t.typbasetype;
    END LOOP;
    IF base <> type_oid THEN EXECUTE format('SELECT NULL::%s', type_oid::regtype); END IF;
END $$;

-- Bring columns into line with the table.
CREATE FUNCTION pgwire.reconcile_columns(relid oid) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pgwire, pg_temp
SET datestyle = 'ISO'
SET intervalstyle = 'postgres'
SET timezone = 'UTC'
SET bytea_output = 'hex'
SET extra_float_digits = 1
AS $$
DECLARE
    j journals;
    c record;
    filled boolean := has_rows(relid);
    missing text;
    spelled text;
BEGIN
    SELECT * INTO j FROM journals jj WHERE jj.relid = reconcile_columns.relid;
    FOR c IN SELECT k.* FROM columns k LEFT JOIN pg_attribute a
                 ON a.attrelid = k.relid AND a.attnum = k.attnum AND NOT a.attisdropped
              WHERE k.relid = j.relid AND a.attnum IS NULL AND k.name <> '' LOOP
        -- The row of a dropped column stays, without name, to keep its storage name taken.
        UPDATE columns k SET name = '' WHERE k.relid = j.relid AND k.attnum = c.attnum;
        EXECUTE format('ALTER TABLE %s DROP COLUMN IF EXISTS c%s', j.tail_relid::regclass, c.attnum);
        EXECUTE format('ALTER TABLE %s DROP COLUMN IF EXISTS %I', j.journal_relid::regclass, c.name);
    END LOOP;
    FOR c IN SELECT k.attnum, k.name, k.type_oid, k.typmod, k.not_null, k.generation, a.attname, a.atttypid,
                    a.atttypmod, a.attnotnull, generation_tree(j.relid, k.attnum) AS tree
               FROM columns k JOIN pg_attribute a ON a.attrelid = k.relid AND a.attnum = k.attnum
              WHERE k.relid = j.relid AND NOT a.attisdropped
                AND (k.name, k.type_oid, k.typmod, k.not_null, k.generation) IS DISTINCT FROM
                    (a.attname::text, a.atttypid, a.atttypmod, a.attnotnull,
                     generation_tree(j.relid, k.attnum)) LOOP
        IF c.name <> c.attname THEN
            EXECUTE format('ALTER TABLE %s RENAME COLUMN %I TO %I',
                           j.journal_relid::regclass, c.name, c.attname);
        END IF;
        IF (c.type_oid, c.typmod) <> (c.atttypid, c.atttypmod) THEN
            spelled := plain_type(c.atttypid, c.atttypmod);
            IF filled AND NOT keeps_values(c.type_oid, c.typmod, c.atttypid, c.atttypmod) THEN
                PERFORM refuse(format('ALTER COLUMN "%s" TYPE %s of a table with rows is', c.attname, spelled),
                               'Add a column of the new type and update it from the old one.');
            ELSIF filled THEN
                EXECUTE format('ALTER TABLE %s ALTER COLUMN c%s TYPE %s',
                               j.tail_relid::regclass, c.attnum, spelled);
            ELSE
                EXECUTE format('ALTER TABLE %s DROP COLUMN c%s', j.tail_relid::regclass, c.attnum);
                EXECUTE format('ALTER TABLE %s ADD COLUMN %s', j.tail_relid::regclass,
                               tail_column(c.attnum, c.atttypid, c.atttypmod));
            END IF;
            EXECUTE format('ALTER TABLE %s ALTER COLUMN %I TYPE %s USING NULL',
                           j.journal_relid::regclass, c.attname, spelled);
        END IF;
        IF c.attnotnull AND NOT c.not_null AND filled
           AND NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = j.relid AND contype = 'p'
                              AND c.attnum = ANY (conkey)) THEN
            PERFORM refuse(format('SET NOT NULL on column "%s" of a table with rows is', c.attname));
        END IF;
        IF c.tree <> c.generation AND filled THEN
            PERFORM refuse(format('SET EXPRESSION on column "%s" of a table with rows is', c.attname));
        END IF;
        UPDATE columns k SET name = c.attname, type_oid = c.atttypid, typmod = c.atttypmod,
                             not_null = c.attnotnull, generation = c.tree
         WHERE k.relid = j.relid AND k.attnum = c.attnum;
    END LOOP;
    FOR c IN SELECT a.* FROM pg_attribute a LEFT JOIN columns k ON k.relid = a.attrelid AND k.attnum = a.attnum
              WHERE a.attrelid = j.relid AND a.attnum > 0 AND NOT a.attisdropped AND k.relid IS NULL
              ORDER BY a.attnum LOOP
        missing := NULL;
        spelled := plain_type(c.atttypid, c.atttypmod);
        IF filled THEN
            IF c.atthasmissing THEN
                missing := (SELECT c.attmissingval::text::text[])[1];
            ELSIF c.attidentity <> '' OR c.attgenerated <> '' OR c.atthasdef THEN
                PERFORM refuse(
                    format('ADD COLUMN "%s" with a default that differs from row to row is', c.attname),
                    'Add the column without default, update it, then set the default.');
            ELSIF c.attnotnull THEN
                RAISE EXCEPTION 'column "%" of relation "%" contains null values', c.attname, j.table_name
                    USING ERRCODE = '23502', SCHEMA = j.schema_name, TABLE = j.table_name, COLUMN = c.attname;
            ELSE
                PERFORM check_domain_default(c.attname, c.atttypid);
            END IF;
        END IF;
        INSERT INTO columns (relid, attnum, name, type_oid, typmod, not_null, storage_name, missing_value,
                             generation)
        VALUES (j.relid, c.attnum, c.attname, c.atttypid, c.atttypmod, c.attnotnull,
                storage_name(j.relid, c.attname), missing, generation_tree(j.relid, c.attnum));
        EXECUTE format('ALTER TABLE %s ADD COLUMN %s%s', j.tail_relid::regclass,
                       tail_column(c.attnum, c.atttypid, c.atttypmod),
                       CASE WHEN missing IS NOT NULL THEN format(' DEFAULT %L', missing) ELSE '' END);
        IF missing IS NOT NULL THEN
            EXECUTE format('ALTER TABLE %s ALTER COLUMN c%s DROP DEFAULT', j.tail_relid::regclass, c.attnum);
        END IF;
        EXECUTE format('ALTER TABLE %s ADD COLUMN %I %s', j.journal_relid::regclass, c.attname, spelled);
    END LOOP;
END $$;

-- Bring key and constraints into line with the table.
CREATE FUNCTION pgwire.reconcile_constraints(relid oid) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pgwire, pg_temp
AS $$
DECLARE
    j journals;
    filled boolean := has_rows(relid);
    primary_key record;
    wanted int2[];
    checks_now oid[];
    added text;
BEGIN
    SELECT * INTO j FROM journals jj WHERE jj.relid = reconcile_constraints.relid;
    checks_now := ARRAY(SELECT x.oid FROM pg_constraint x
                         WHERE x.conrelid = j.relid AND x.contype = 'c' ORDER BY 1);
    SELECT x.conname INTO added FROM pg_constraint x
     WHERE x.oid = ANY (checks_now) AND x.oid <> ALL (j.checks) LIMIT 1;
    IF added IS NOT NULL AND filled THEN
        PERFORM refuse(format('ADD CONSTRAINT "%s" CHECK on a table with rows is', added));
    END IF;
    UPDATE journals jj SET checks = checks_now WHERE jj.relid = j.relid AND jj.checks <> checks_now;

    SELECT x.conname, x.conkey INTO primary_key FROM pg_constraint x
     WHERE x.conrelid = j.relid AND x.contype = 'p';
    wanted := coalesce(primary_key.conkey, '{}');
    UPDATE journals jj SET key_name = primary_key.conname
     WHERE jj.relid = j.relid AND jj.key_name IS DISTINCT FROM primary_key.conname;
    IF wanted = coalesce(j.pending_key, j.key) THEN RETURN; END IF;
    IF filled THEN
        IF wanted = j.key THEN
            UPDATE journals jj SET pending_key = NULL WHERE jj.relid = j.relid;
        ELSIF j.key <> '{}' THEN
            PERFORM refuse('dropping or changing the primary key of a table with rows is');
        ELSE
            UPDATE journals jj SET pending_key = wanted WHERE jj.relid = j.relid;
        END IF;
    ELSE
        PERFORM apply_key(j.relid, wanted);
    END IF;
END $$;

-- Make these columns the key that identifies rows from now on.
CREATE FUNCTION pgwire.apply_key(relid oid, wanted int2[]) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pgwire, pg_temp
AS $$
DECLARE
    j journals;
BEGIN
    SELECT * INTO j FROM journals jj WHERE jj.relid = apply_key.relid;
    UPDATE journals jj SET key = wanted, pending_key = NULL WHERE jj.relid = j.relid;
    PERFORM index_tail(j.relid);
    IF (j.key = '{}') <> (wanted = '{}') THEN
        EXECUTE format('ALTER TABLE %s %s', j.journal_relid::regclass,
                       CASE WHEN wanted = '{}' THEN 'ADD COLUMN row_identity bigint'
                            ELSE 'DROP COLUMN row_identity' END);
    END IF;
END $$;

CREATE FUNCTION pgwire.reconcile(relid oid) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pgwire, pg_temp
AS $$
DECLARE
    j journals;
    t record;
BEGIN
    PERFORM check_features(relid);
    PERFORM fold(relid);
    SELECT * INTO j FROM journals jj WHERE jj.relid = reconcile.relid;
    SELECT n.nspname, c.relname INTO t
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = relid;
    IF j.schema_name <> t.nspname THEN
        EXECUTE format('ALTER TABLE %s SET SCHEMA %I', j.journal_relid::regclass, t.nspname);
    END IF;
    IF j.table_name <> t.relname THEN
        EXECUTE format('ALTER TABLE %s RENAME TO %I', j.journal_relid::regclass, journal_name(t.relname));
    END IF;
    PERFORM reconcile_columns(relid);
    PERFORM reconcile_constraints(relid);
    PERFORM mirror_readers(relid);
    UPDATE journals jj
       SET schema_name = t.nspname, table_name = t.relname, definition = random_mark(),
           epoch = epoch + 1, changes = changes + 1
     WHERE jj.relid = j.relid;
END $$;

-- True when a table with a column that consists of values of this type has or had rows. Until the
-- transaction ends nobody writes to such tables.
CREATE FUNCTION pgwire.is_type_stored(type_oid oid) RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pgwire, pg_temp
AS $$
DECLARE
    using_it oid;
BEGIN
    FOR using_it IN
        WITH RECURSIVE made_of(oid) AS (
            SELECT type_oid
            UNION
            SELECT y.oid FROM made_of m
              JOIN (SELECT oid, typbasetype AS part FROM pg_type WHERE typtype = 'd'
                     UNION ALL SELECT oid, typelem FROM pg_type WHERE typcategory = 'A'
                     UNION ALL SELECT rngtypid, rngsubtype FROM pg_range
                     UNION ALL SELECT rngmultitypid, rngsubtype FROM pg_range) y ON y.part = m.oid)
        SELECT DISTINCT k.relid FROM columns k JOIN made_of m ON m.oid = k.type_oid
         WHERE k.name <> '' ORDER BY k.relid
    LOOP
        EXECUTE format('LOCK TABLE ONLY %s IN SHARE MODE', using_it::regclass);
        IF has_rows(using_it) THEN RETURN true; END IF;
    END LOOP;
    RETURN false;
END $$;

-- What a type is about to lose: its labels, and which constraints its values are known to satisfy.
CREATE FUNCTION pgwire.on_alter_type_start() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pgwire, pg_temp
AS $$
BEGIN
    PERFORM set_config('pgwire.types_before', jsonb_build_object(
        'labels', (SELECT jsonb_object_agg(oid, enumlabel) FROM pg_enum),
        'constraints', (SELECT jsonb_agg(oid) FROM pg_constraint WHERE contypid <> 0 AND convalidated))::text,
        true);
END $$;

-- Refuse changes of types that rows in data files would have to follow, or be checked for.
CREATE FUNCTION pgwire.check_altered_types() RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pgwire, pg_temp
AS $$
DECLARE
    before jsonb := nullif(current_setting('pgwire.types_before', true), '');
    c record;
BEGIN
    FOR c IN SELECT y.oid, y.oid::regtype::text AS spelled
               FROM pg_enum n JOIN pg_type y ON y.oid = n.enumtypid
              WHERE before->'labels'->>n.oid::text <> n.enumlabel LOOP
        CONTINUE WHEN NOT is_type_stored(c.oid);
        PERFORM refuse(format('ALTER TYPE %s RENAME VALUE with rows that may hold the value is', c.spelled),
                       'Add a value of the new name and update the rows.');
    END LOOP;
    FOR c IN SELECT x.conname, y.oid, y.oid::regtype::text AS spelled
               FROM pg_event_trigger_ddl_commands() e
               JOIN pg_constraint x ON e.classid = 'pg_type'::regclass AND x.contypid = e.objid
               JOIN pg_type y ON y.oid = x.contypid
              WHERE e.command_tag = 'ALTER DOMAIN'
                AND NOT coalesce(before->'constraints' @> to_jsonb(x.oid), false) LOOP
        CONTINUE WHEN NOT is_type_stored(c.oid);
        PERFORM refuse(format('adding the constraint "%s" to the domain %s of a column with rows is',
                              c.conname, c.spelled));
    END LOOP;
END $$;

CREATE FUNCTION pgwire.on_table_rewrite() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pgwire, pg_temp
AS $$
DECLARE
    rewritten oid := pg_event_trigger_table_rewrite_oid();
    c record;
BEGIN
    -- AT_REWRITE_COLUMN_REWRITE: the values of a column change. Others are found out when all is done.
    IF pg_event_trigger_table_rewrite_reason() & 4 = 0 OR NOT has_rows(rewritten) THEN RETURN; END IF;
    FOR c IN SELECT a.attname, plain_type(a.atttypid, a.atttypmod) AS spelled
               FROM columns k JOIN pg_attribute a ON a.attrelid = k.relid AND a.attnum = k.attnum
              WHERE k.relid = rewritten AND NOT a.attisdropped AND (k.type_oid, k.typmod) <> (a.atttypid, a.atttypmod)
                AND NOT keeps_values(k.type_oid, k.typmod, a.atttypid, a.atttypmod) LOOP
        PERFORM refuse(format('ALTER COLUMN "%s" TYPE %s of a table with rows is', c.attname, c.spelled),
                       'Add a column of the new type and update it from the old one.');
    END LOOP;
    PERFORM refuse('ALTER COLUMN ... TYPE ... USING of a table with rows is', 'Change the values by UPDATE.');
END $$;

CREATE FUNCTION pgwire.on_ddl_command_end() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pgwire, pg_temp
SET client_min_messages = warning
AS $$
DECLARE
    touched oid;
    ours boolean;
BEGIN
    -- Commands of the functions above come by here as well.
    SELECT bool_and(coalesce(
               schema_name = 'pgwire'
               OR classid = 'pg_class'::regclass AND EXISTS (
                   SELECT FROM journals j LEFT JOIN pg_class c ON c.oid = objid
                    WHERE j.journal_relid = objid
                       OR j.journal_relid = 0 AND c.relname = journal_name(j.table_name)
                          AND c.relnamespace = j.schema_name::regnamespace), false))
      INTO ours FROM pg_event_trigger_ddl_commands();
    IF ours THEN RETURN; END IF;
    PERFORM note_definition();
    FOR touched IN
        WITH e AS MATERIALIZED (
            SELECT classid, objid, command_tag FROM pg_event_trigger_ddl_commands() WHERE objid IS NOT NULL)
        SELECT objid FROM e WHERE classid = 'pg_class'::regclass
        UNION
        -- indexes, triggers, rules and policies come without their table
        SELECT i.indrelid FROM e JOIN pg_index i ON e.classid = 'pg_class'::regclass AND i.indexrelid = e.objid
        UNION
        SELECT x.conrelid FROM e JOIN pg_constraint x
            ON e.classid = 'pg_constraint'::regclass AND x.oid = e.objid AND x.conrelid <> 0
        UNION
        SELECT g.tgrelid FROM e JOIN pg_trigger g ON e.classid = 'pg_trigger'::regclass AND g.oid = e.objid
        UNION
        SELECT w.ev_class FROM e JOIN pg_rewrite w ON e.classid = 'pg_rewrite'::regclass AND w.oid = e.objid
        UNION
        SELECT p.polrelid FROM e JOIN pg_policy p ON e.classid = 'pg_policy'::regclass AND p.oid = e.objid
        UNION
        SELECT a.attrelid FROM e JOIN pg_attribute a
            ON e.classid = 'pg_type'::regclass AND a.atttypid = e.objid AND e.command_tag LIKE 'ALTER%'
    LOOP
        CONTINUE WHEN NOT is_journalable(touched);
        CONTINUE WHEN EXISTS (SELECT FROM journals j WHERE j.journal_relid = touched);
        IF EXISTS (SELECT FROM journals j WHERE j.relid = touched) THEN
            PERFORM reconcile(touched);
        ELSE
            PERFORM create_journal(touched);
        END IF;
    END LOOP;
    IF EXISTS (SELECT FROM pg_event_trigger_ddl_commands() WHERE classid IS NULL OR classid = 0) THEN
        -- GRANT and REVOKE do not say on what.
        PERFORM mirror_readers(j.relid) FROM journals j;
    END IF;
    IF tg_tag IN ('ALTER TYPE', 'ALTER DOMAIN') THEN PERFORM check_altered_types(); END IF;
    -- Domains' checks are evaluated with the bookkeeping's rights too.
    PERFORM check_expression(x.conbin, y.typowner, format('domain constraint "%s"', x.conname))
       FROM pg_event_trigger_ddl_commands() e
       JOIN pg_constraint x ON e.classid = 'pg_type'::regclass AND x.contypid = e.objid AND x.contype = 'c'
       JOIN pg_type y ON y.oid = x.contypid;
END $$;

CREATE FUNCTION pgwire.on_sql_drop() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pgwire, pg_temp
SET client_min_messages = warning
AS $$
DECLARE
    gone record;
    orphan oid;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_event_trigger_dropped_objects() WHERE schema_name IS DISTINCT FROM 'pgwire') THEN
        RETURN;
    END IF;
    PERFORM note_definition();
    FOR gone IN
        DELETE FROM journals j USING pg_event_trigger_dropped_objects() e
         WHERE e.classid = 'pg_class'::regclass AND e.objsubid = 0 AND j.relid = e.objid
        RETURNING j.relid, j.location
    LOOP
        DELETE FROM segments s WHERE s.relid = gone.relid;
        DELETE FROM states s WHERE s.relid = gone.relid;
        INSERT INTO dropped_locations VALUES (gone.location, clock_timestamp()) ON CONFLICT DO NOTHING;
    END LOOP;
    -- A journal table alone can only go with its schema or its owner.
    SELECT j.relid INTO orphan FROM journals j JOIN pg_event_trigger_dropped_objects() e
        ON e.classid = 'pg_class'::regclass AND e.objsubid = 0 AND e.objid IN (j.journal_relid, j.tail_relid);
    IF orphan IS NOT NULL THEN
        RAISE EXCEPTION 'cannot drop the journal of table %', orphan::regclass USING ERRCODE = '2BP01';
    END IF;
    -- Columns that went with their type.
    PERFORM reconcile(relid) FROM (
        SELECT DISTINCT j.relid FROM journals j JOIN pg_event_trigger_dropped_objects() e
            ON e.classid = 'pg_class'::regclass AND e.objsubid > 0 AND j.relid = e.objid
         WHERE tg_tag NOT LIKE 'ALTER TABLE%') x;
END $$;

CREATE FUNCTION pgwire.on_ddl_command_start() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pgwire, pg_temp
AS $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = session_user AND rolsuper) THEN RETURN; END IF;
    RAISE EXCEPTION '% is not supported', tg_tag USING ERRCODE = '0A000';
END $$;

CREATE EVENT TRIGGER pgwire_ddl_command_end ON ddl_command_end
    EXECUTE FUNCTION pgwire.on_ddl_command_end();
CREATE EVENT TRIGGER pgwire_sql_drop ON sql_drop
    EXECUTE FUNCTION pgwire.on_sql_drop();
CREATE EVENT TRIGGER pgwire_table_rewrite ON table_rewrite
    EXECUTE FUNCTION pgwire.on_table_rewrite();
CREATE EVENT TRIGGER pgwire_alter_type_start ON ddl_command_start
    WHEN TAG IN ('ALTER TYPE', 'ALTER DOMAIN')
    EXECUTE FUNCTION pgwire.on_alter_type_start();
CREATE EVENT TRIGGER pgwire_ddl_command_start ON ddl_command_start
    WHEN TAG IN (
        'CREATE FUNCTION', 'CREATE PROCEDURE', 'CREATE TRIGGER', 'CREATE RULE', 'CREATE MATERIALIZED VIEW',
        'CREATE FOREIGN TABLE', 'CREATE FOREIGN DATA WRAPPER', 'CREATE SERVER', 'CREATE USER MAPPING',
        'IMPORT FOREIGN SCHEMA', 'CREATE EXTENSION', 'CREATE LANGUAGE', 'CREATE CAST', 'CREATE TRANSFORM',
        'CREATE OPERATOR CLASS', 'CREATE OPERATOR FAMILY', 'CREATE PUBLICATION', 'CREATE SUBSCRIPTION',
        'CREATE POLICY', 'CREATE ACCESS METHOD', 'CREATE CONVERSION')
    EXECUTE FUNCTION pgwire.on_ddl_command_start();
