-- Journals follow DDL inside the client's own transaction: event triggers compare each touched table with
-- its bookkeeping and bring the bookkeeping, the tail and the journal table into line, or refuse.

CREATE FUNCTION pgwire.refuse(construct text, hint text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    RAISE EXCEPTION '% not supported on journaled tables', construct
        USING ERRCODE = '0A000',
              HINT = coalesce(hint, 'Temporary tables keep all of PostgreSQL''s features.');
END $$;

CREATE FUNCTION pgwire.journal_name(table_name text) RETURNS text
LANGUAGE plpgsql IMMUTABLE
AS $$
BEGIN
    -- Identifiers have 63 bytes; shorten as PostgreSQL does for the names it makes.
    WHILE octet_length(table_name) > 63 - octet_length('_journal') LOOP
        table_name := left(table_name, -1);
    END LOOP;
    RETURN table_name || '_journal';
END $$;

-- Functions an expression calls, operators included. The expression is evaluated with the bookkeeping's
-- rights when the gateway appends rows, so it may call nothing the owner could not, and nothing that is
-- not a function of the row.
CREATE FUNCTION pgwire.check_expression(expression pg_node_tree, owner oid, construct text) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pgwire, pg_temp
AS $$
DECLARE
    called oid;
BEGIN
    FOR called IN
        SELECT DISTINCT m[1]::oid
          FROM regexp_matches(expression::text, ':(?:funcid|opfuncid|hashfuncid|negfuncid) (\d+)', 'g') m
         WHERE m[1] <> '0'
    LOOP
        IF EXISTS (SELECT FROM pg_proc WHERE oid = called
                      AND (provolatile = 'v' OR proname = 'current_setting'
                           OR proname ~ '^(has_.*_privilege|pg_has_role|row_security_active)$')) THEN
            PERFORM refuse(format('%s with the function %s is', construct, called::regprocedure::text));
        END IF;
        IF NOT has_function_privilege(owner, called, 'EXECUTE') THEN
            RAISE EXCEPTION 'permission denied for function %', called::regproc USING ERRCODE = '42501';
        END IF;
    END LOOP;
    -- SVFOP_CURRENT_ROLE and above: the answer would be the bookkeeping's role.
    IF expression::text ~ '\{SQLVALUEFUNCTION :op (9|1[0-9])\M' THEN
        PERFORM refuse(format('%s that depends on the current role is', construct));
    END IF;
END $$;

-- Refuse what a journal cannot keep to.
CREATE FUNCTION pgwire.check_features(relid oid) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pgwire, pg_temp
AS $$
DECLARE
    t record;
    c record;
BEGIN
    SELECT relname, relkind, relpersistence, relrowsecurity, reloftype, relowner INTO t
      FROM pg_class WHERE oid = relid;
    IF t.relkind = 'p' THEN PERFORM refuse('PARTITION BY is', 'Leave the partitioning out.'); END IF;
    IF t.relpersistence = 'u' THEN
        PERFORM refuse('UNLOGGED is', 'Leave UNLOGGED out, or create a temporary table.');
    END IF;
    IF t.reloftype <> 0 THEN PERFORM refuse('OF type is'); END IF;
    IF t.relrowsecurity OR EXISTS (SELECT FROM pg_policy WHERE polrelid = relid) THEN
        PERFORM refuse('ROW LEVEL SECURITY is');
    END IF;
    IF EXISTS (SELECT FROM pg_inherits WHERE inhrelid = relid OR inhparent = relid) THEN
        PERFORM refuse('INHERITS is');
    END IF;
    IF EXISTS (SELECT FROM pg_trigger WHERE tgrelid = relid AND NOT tgisinternal) THEN
        PERFORM refuse('CREATE TRIGGER is');
    END IF;
    IF EXISTS (SELECT FROM pg_rewrite WHERE ev_class = relid) THEN PERFORM refuse('CREATE RULE is'); END IF;
    IF EXISTS (SELECT FROM pg_attribute WHERE attrelid = relid AND attgenerated = 'v') THEN
        PERFORM refuse('a VIRTUAL generated column is', 'Declare the generated column STORED.');
    END IF;
    FOR c IN SELECT conname, contype, condeferrable, conbin FROM pg_constraint WHERE conrelid = relid LOOP
        CASE c.contype
            WHEN 'f' THEN PERFORM refuse('FOREIGN KEY is', 'Leave the constraint out.');
            WHEN 'u' THEN PERFORM refuse('UNIQUE is', 'Only the primary key is kept unique.');
            WHEN 'x' THEN PERFORM refuse('EXCLUDE is', 'Leave the constraint out.');
            WHEN 'p' THEN
                IF c.condeferrable THEN PERFORM refuse('a DEFERRABLE primary key is'); END IF;
            WHEN 'c' THEN
                PERFORM check_expression(c.conbin, t.relowner, format('check constraint "%s"', c.conname));
            ELSE NULL;
        END CASE;
    END LOOP;
    FOR c IN SELECT d.adbin, a.attname FROM pg_attrdef d
              JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
             WHERE d.adrelid = relid AND a.attgenerated = 's' LOOP
        PERFORM check_expression(c.adbin, t.relowner, format('generated column "%s"', c.attname));
    END LOOP;
    FOR c IN SELECT i.indexrelid FROM pg_index i
              WHERE i.indrelid = relid AND NOT i.indisprimary LOOP
        IF EXISTS (SELECT FROM pg_index WHERE indexrelid = c.indexrelid AND indisunique) THEN
            PERFORM refuse('a UNIQUE index is', 'Only the primary key is kept unique.');
        END IF;
    END LOOP;
    FOR c IN SELECT attname FROM pg_attribute
              WHERE attrelid = relid AND attnum > 0 AND NOT attisdropped
                AND attname IN ('version_number', 'subsequent_version_number', 'row_identity') LOOP
        PERFORM refuse(format('a column named "%s" is', c.attname), 'The journal has a column of this name.');
    END LOOP;
    IF NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = relid AND attnum > 0 AND NOT attisdropped) THEN
        PERFORM refuse('a table without columns is');
    END IF;
END $$;

-- The type a copy of a column has, spelled out: a domain's base, so that dropping the domain leaves the copy.
CREATE FUNCTION pgwire.plain_type(type_oid oid, typmod int4) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pgwire, pg_temp
AS $$
DECLARE
    t record;
BEGIN
    LOOP
        SELECT typtype, typbasetype, typtypmod INTO t FROM pg_type WHERE oid = type_oid;
        IF t.typtype <> 'd' THEN RETURN format_type(type_oid, typmod); END IF;
        type_oid := t.typbasetype;
        typmod := t.typtypmod;
    END LOOP;
END $$;

-- Definition of a column of the tail. Infinite dates are refused: segments cannot hold them.
CREATE FUNCTION pgwire.tail_column(attnum int2, type_oid oid, typmod int4) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pgwire, pg_temp
AS $$
DECLARE
    spelled text := plain_type(type_oid, typmod);
    finite text := CASE
        WHEN spelled ~ '^(date|timestamp.*|interval.*)\[\]$' THEN
            format('(''infinity'' = ANY (c%1$s)) IS NOT TRUE AND (''-infinity'' = ANY (c%1$s)) IS NOT TRUE', attnum)
        WHEN spelled ~ '^(date|timestamp|interval)' THEN format('isfinite(c%s)', attnum)
    END;
BEGIN
    RETURN format('c%s %s', attnum, spelled)
        || coalesce(format(' CONSTRAINT pgwire_finite_%s CHECK (', attnum) || finite || ')', '');
END $$;

-- A storage name no other column of the table ever had, whatever the case.
CREATE FUNCTION pgwire.storage_name(relid oid, column_name text) RETURNS text
LANGUAGE plpgsql
SET search_path = pg_catalog, pgwire, pg_temp
AS $$
DECLARE
    candidate text := column_name;
    n int := 1;
BEGIN
    WHILE lower(candidate) IN ('version_number', 'subsequent_version_number', 'row_identity')
       OR EXISTS (SELECT FROM columns k WHERE k.relid = storage_name.relid
                     AND lower(k.storage_name) = lower(candidate)) LOOP
        n := n + 1;
        candidate := column_name || '_' || n;
    END LOOP;
    RETURN candidate;
END $$;

CREATE FUNCTION pgwire.is_journalable(relid oid) RETURNS boolean
LANGUAGE sql STABLE
RETURN EXISTS (
    SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
     WHERE c.oid = relid AND c.relkind IN ('r', 'p') AND c.relpersistence <> 't'
       AND n.nspname NOT IN ('pgwire', 'pg_catalog', 'information_schema')
       AND n.nspname !~ '^pg_(toast|temp)');

-- The tail disappears with its table, and so does the journal table.
CREATE FUNCTION pgwire.tie(dependent oid, relid oid) RETURNS void
LANGUAGE sql
AS $$
    INSERT INTO pg_catalog.pg_depend (classid, objid, objsubid, refclassid, refobjid, refobjsubid, deptype)
    VALUES ('pg_catalog.pg_class'::regclass, dependent, 0, 'pg_catalog.pg_class'::regclass, relid, 0, 'a')
$$;

-- Let those read the journal who may read the table.
CREATE FUNCTION pgwire.mirror_readers(relid oid) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pgwire, pg_temp
AS $$
DECLARE
    j record;
    wanted text;
    reader text;
BEGIN
    SELECT jj.journal_relid, jj.readers, jj.relid INTO j FROM journals jj WHERE jj.relid = mirror_readers.relid;
    SELECT string_agg(DISTINCT name, ', ' ORDER BY name) INTO wanted
      FROM (SELECT c.relowner::regrole::text AS name FROM pg_class c WHERE c.oid = j.relid
             UNION
            SELECT CASE WHEN x.grantee = 0 THEN 'PUBLIC' ELSE x.grantee::regrole::text END
              FROM pg_class c, aclexplode(c.relacl) x
             WHERE c.oid = j.relid AND x.privilege_type = 'SELECT') r;
    IF wanted IS NOT DISTINCT FROM j.readers THEN RETURN; END IF;
    UPDATE journals jj SET readers = wanted WHERE jj.relid = j.relid;
    FOR reader IN
        SELECT DISTINCT CASE WHEN x.grantee = 0 THEN 'PUBLIC' ELSE x.grantee::regrole::text END
          FROM pg_class c, aclexplode(c.relacl) x
         WHERE c.oid = j.journal_relid AND x.grantee <> c.relowner
    LOOP
        EXECUTE format('REVOKE ALL ON %s FROM %s', j.journal_relid::regclass, reader);
    END LOOP;
    EXECUTE format('GRANT SELECT ON %s TO %s', j.journal_relid::regclass, wanted);
END $$;

-- Index the tail by the key, whose latest row version is looked for.
CREATE FUNCTION pgwire.index_tail(relid oid) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pgwire, pg_temp
AS $$
DECLARE
    j record;
BEGIN
    SELECT jj.tail_relid, jj.key, jj.relid INTO j FROM journals jj WHERE jj.relid = index_tail.relid;
    EXECUTE format('DROP INDEX IF EXISTS pgwire.tail_%s_key', j.relid);
    EXECUTE format(
        'CREATE INDEX tail_%s_key ON %s (%s, version_number)', j.relid, j.tail_relid::regclass,
        coalesce((SELECT string_agg('c' || k, ', ' ORDER BY o)
                    FROM unnest(j.key) WITH ORDINALITY u(k, o)), 'row_identity'));
END $$;

CREATE FUNCTION pgwire.create_journal(relid oid) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pgwire, pg_temp
AS $$
DECLARE
    t record;
    a record;
    journal_columns text := '';
    tail_columns text := '';
    journal regclass;
    tail regclass;
    primary_key record;
BEGIN
    PERFORM check_features(relid);
    SELECT c.relname, n.nspname, c.oid INTO t
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = relid;
    SELECT conname, conkey INTO primary_key FROM pg_constraint WHERE conrelid = relid AND contype = 'p';
    INSERT INTO journals (relid, journal_relid, tail_relid, schema_name, table_name, location, key, key_name,
                          checks, definition)
    SELECT t.oid, 0, 0, t.nspname, t.relname, d.oid || '/' || t.oid,
           coalesce(primary_key.conkey, '{}'), primary_key.conname,
           ARRAY(SELECT x.oid FROM pg_constraint x WHERE x.conrelid = t.oid AND x.contype = 'c' ORDER BY 1),
           nextval('definition_numbers')
      FROM pg_database d WHERE d.datname = current_database();
    FOR a IN SELECT attnum, attname, atttypid, atttypmod, attnotnull FROM pg_attribute
              WHERE attrelid = relid AND attnum > 0 AND NOT attisdropped ORDER BY attnum LOOP
        INSERT INTO columns (relid, attnum, name, type_oid, typmod, not_null, storage_name)
        VALUES (t.oid, a.attnum, a.attname, a.atttypid, a.atttypmod, a.attnotnull,
                storage_name(t.oid, a.attname));
        journal_columns := journal_columns
            || format('%I %s, ', a.attname, plain_type(a.atttypid, a.atttypmod));
        tail_columns := tail_columns || tail_column(a.attnum, a.atttypid, a.atttypmod) || ', ';
    END LOOP;
    EXECUTE format(
        'CREATE TABLE pgwire.tail_%s (%s version_number timestamptz NOT NULL, '
        'subsequent_version_number timestamptz, row_identity bigint) '
        'WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000)',
        t.oid, tail_columns);
    tail := format('pgwire.tail_%s', t.oid)::regclass;
    EXECUTE format('CREATE INDEX tail_%s_version ON %s (version_number)', t.oid, tail);
    EXECUTE format('CREATE TABLE %I.%I (%s version_number timestamptz, subsequent_version_number timestamptz%s)',
                   t.nspname, journal_name(t.relname), journal_columns,
                   CASE WHEN primary_key.conkey IS NULL THEN ', row_identity bigint' ELSE '' END);
    journal := format('%I.%I', t.nspname, journal_name(t.relname))::regclass;
    UPDATE journals j SET journal_relid = journal, tail_relid = tail WHERE j.relid = t.oid;
    PERFORM index_tail(t.oid), tie(journal, t.oid), tie(tail, t.oid), mirror_readers(t.oid);
    -- Rows only pass through the table: dead ones must not pile up.
    EXECUTE format('ALTER TABLE %s SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500, '
                   'autovacuum_vacuum_insert_threshold = -1, autovacuum_analyze_threshold = 2000000000)',
                   t.oid::regclass);
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
    FOR c IN SELECT k.attnum, k.name, k.type_oid, k.typmod, k.not_null, a.attname, a.atttypid, a.atttypmod,
                    a.attnotnull
               FROM columns k JOIN pg_attribute a ON a.attrelid = k.relid AND a.attnum = k.attnum
              WHERE k.relid = j.relid AND NOT a.attisdropped
                AND (k.name, k.type_oid, k.typmod, k.not_null)
                    IS DISTINCT FROM (a.attname::text, a.atttypid, a.atttypmod, a.attnotnull) LOOP
        IF c.name <> c.attname THEN
            EXECUTE format('ALTER TABLE %s RENAME COLUMN %I TO %I',
                           j.journal_relid::regclass, c.name, c.attname);
        END IF;
        IF (c.type_oid, c.typmod) <> (c.atttypid, c.atttypmod) THEN
            spelled := plain_type(c.atttypid, c.atttypmod);
            IF filled AND NOT (c.type_oid = 'varchar'::regtype
                               AND (c.atttypmod = -1 OR (c.typmod <> -1 AND c.atttypmod >= c.typmod))
                               AND c.atttypid IN ('varchar'::regtype, 'text'::regtype)) THEN
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
        UPDATE columns k SET name = c.attname, type_oid = c.atttypid, typmod = c.atttypmod,
                             not_null = c.attnotnull
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
            END IF;
        END IF;
        INSERT INTO columns (relid, attnum, name, type_oid, typmod, not_null, storage_name, missing_value)
        VALUES (j.relid, c.attnum, c.attname, c.atttypid, c.atttypmod, c.attnotnull,
                storage_name(j.relid, c.attname), missing);
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
    SELECT * INTO j FROM journals jj WHERE jj.relid = reconcile.relid FOR UPDATE;
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
       SET schema_name = t.nspname, table_name = t.relname, definition = nextval('definition_numbers'),
           epoch = epoch + 1, changes = changes + 1
     WHERE jj.relid = j.relid;
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
CREATE EVENT TRIGGER pgwire_ddl_command_start ON ddl_command_start
    WHEN TAG IN (
        'CREATE FUNCTION', 'CREATE PROCEDURE', 'CREATE TRIGGER', 'CREATE RULE', 'CREATE MATERIALIZED VIEW',
        'CREATE FOREIGN TABLE', 'CREATE FOREIGN DATA WRAPPER', 'CREATE SERVER', 'CREATE USER MAPPING',
        'IMPORT FOREIGN SCHEMA', 'CREATE EXTENSION', 'CREATE LANGUAGE', 'CREATE CAST', 'CREATE TRANSFORM',
        'CREATE OPERATOR CLASS', 'CREATE OPERATOR FAMILY', 'CREATE PUBLICATION', 'CREATE SUBSCRIPTION',
        'CREATE POLICY', 'CREATE ACCESS METHOD', 'CREATE CONVERSION')
    EXECUTE FUNCTION pgwire.on_ddl_command_start();
