-- What a journal consists of, and what it cannot keep to.

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

-- True for types whose values data files can be told apart by, so that keys may consist of them.
-- `tests/catalog/test_altered_types.py` holds the list to what the gateway's compiler can compare.
-- Numbers without fixed scale, or of more than 38 digits, are compared as long as they are short enough: one
-- that is not would make its table unreadable.
CREATE FUNCTION pgwire.is_key_type(type_oid oid, typmod int4) RETURNS boolean
LANGUAGE sql IMMUTABLE
RETURN CASE WHEN type_oid = 'numeric'::regtype
            THEN typmod >= 4 AND ((typmod - 4) >> 16) & 65535 <= 38
                 AND ((typmod - 4) & 2047) <= (((typmod - 4) >> 16) & 65535)
            ELSE type_oid IN (
    'bool'::regtype, 'bytea'::regtype, '"char"'::regtype, 'name'::regtype, 'int2'::regtype, 'int4'::regtype,
    'int8'::regtype, 'text'::regtype, 'varchar'::regtype, 'bpchar'::regtype, 'float4'::regtype,
    'float8'::regtype, 'date'::regtype, 'time'::regtype, 'timestamp'::regtype,
    'timestamptz'::regtype, 'interval'::regtype, 'uuid'::regtype, 'oid'::regtype,
    'bool[]'::regtype, 'bytea[]'::regtype, '"char"[]'::regtype, 'name[]'::regtype, 'int2[]'::regtype,
    'int4[]'::regtype, 'int8[]'::regtype, 'text[]'::regtype, 'varchar[]'::regtype, 'date[]'::regtype,
    'time[]'::regtype, 'timestamp[]'::regtype, 'timestamptz[]'::regtype, 'uuid[]'::regtype, 'oid[]'::regtype) END;

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
    FOR c IN SELECT a.attname, format_type(a.atttypid, a.atttypmod) AS spelled
               FROM pg_constraint x JOIN pg_attribute a ON a.attrelid = x.conrelid AND a.attnum = ANY (x.conkey)
              WHERE x.conrelid = relid AND x.contype = 'p' AND NOT is_key_type(a.atttypid, a.atttypmod) LOOP
        PERFORM refuse(format('a PRIMARY KEY with column "%s" of type %s is', c.attname, c.spelled),
                       'Use a key of integers, numeric(p,s), text, dates or uuid.');
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
    FOR c IN SELECT a.attname, l.collname FROM pg_attribute a JOIN pg_collation l ON l.oid = a.attcollation
              WHERE a.attrelid = relid AND NOT a.attisdropped
                AND l.collname NOT IN ('default', 'C', 'POSIX', 'ucs_basic', 'C.UTF-8', 'C.utf8', 'pg_c_utf8',
                                       'pg_unicode_fast') LOOP
        PERFORM refuse(format('COLLATE "%s" is', c.collname), 'Text is ordered by its bytes.');
    END LOOP;
    FOR c IN SELECT attname FROM pg_attribute
              WHERE attrelid = relid AND attnum > 0 AND NOT attisdropped
                AND attname IN ('version_number', 'subsequent_version_number', 'row_identity') LOOP
        PERFORM refuse(format('a column named "%s" is', c.attname), 'The journal has a column of this name.');
    END LOOP;
    -- Values whose text depends on the session, or on names only PostgreSQL knows.
    FOR c IN SELECT a.attname, format_type(a.atttypid, a.atttypmod) AS spelled
               FROM pg_attribute a
               JOIN pg_type declared ON declared.oid = a.atttypid
               JOIN pg_type y ON y.oid = CASE WHEN declared.typcategory = 'A' AND declared.typelem <> 0
                                              THEN declared.typelem ELSE declared.oid END
               LEFT JOIN pg_range r ON y.oid IN (r.rngtypid, r.rngmultitypid)
              WHERE a.attrelid = relid AND a.attnum > 0 AND NOT a.attisdropped
                AND (y.typtype = 'c'
                     OR y.typtype = 'd' AND plain_type(y.oid, -1) ~ '^(date|time|interval|bytea|reg)'
                     OR y.typname ~ '^reg' AND y.typnamespace = 'pg_catalog'::regnamespace
                     OR r.rngsubtype IN ('date'::regtype, 'timestamp'::regtype, 'timestamptz'::regtype)) LOOP
        PERFORM refuse(format('column "%s" of type %s is', c.attname, c.spelled),
                       'Use a base type that holds the same values.');
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
        IF NOT FOUND OR t.typtype <> 'd' THEN RETURN format_type(type_oid, typmod); END IF;
        type_oid := t.typbasetype;
        typmod := t.typtypmod;
    END LOOP;
END $$;

-- Definition of a column of the tail. Refused is what segments cannot hold: infinite dates, timestamps too
-- late for them, NaN in a numeric of fixed scale, arrays of several dimensions or not counted from 1.
CREATE FUNCTION pgwire.tail_column(attnum int2, type_oid oid, typmod int4) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pgwire, pg_temp
AS $$
DECLARE
    spelled text := plain_type(type_oid, typmod);
    simple_array constant text :=
        'coalesce(array_ndims(c%1$s), 1) = 1 AND coalesce(array_lower(c%1$s, 1), 1) = 1';
    finite text := CASE
        WHEN spelled ~ '^(date|timestamp.*|interval.*)\[\]$' THEN
            format('(''infinity'' = ANY (c%1$s)) IS NOT TRUE AND (''-infinity'' = ANY (c%1$s)) IS NOT TRUE AND '
                   || CASE WHEN spelled ~ '^timestamp'
                           THEN format('(%L < ANY (c%%1$s)) IS NOT TRUE AND ', latest_moment()) ELSE '' END
                   || simple_array, attnum)
        WHEN spelled ~ '^numeric\(.*\[\]$' THEN
            format('(''NaN'' = ANY (c%1$s)) IS NOT TRUE AND ' || simple_array, attnum)
        WHEN spelled ~ '\[\]$' THEN format(simple_array, attnum)
        WHEN spelled ~ '^numeric\(' THEN format('c%s <> ''NaN''', attnum)
        WHEN spelled ~ '^timestamp' THEN format('isfinite(c%1$s) AND c%1$s <= %2$L', attnum, latest_moment())
        WHEN spelled ~ '^(date$|interval)' THEN format('isfinite(c%s)', attnum)
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
           random_mark()
      FROM pg_database d WHERE d.datname = current_database();
    FOR a IN SELECT attnum, attname, atttypid, atttypmod, attnotnull FROM pg_attribute
              WHERE attrelid = relid AND attnum > 0 AND NOT attisdropped ORDER BY attnum LOOP
        INSERT INTO columns (relid, attnum, name, type_oid, typmod, not_null, storage_name, generation)
        VALUES (t.oid, a.attnum, a.attname, a.atttypid, a.atttypmod, a.attnotnull,
                storage_name(t.oid, a.attname), generation_tree(t.oid, a.attnum));
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
END $$;
