-- What a journal consists of, and what it cannot keep to.

CREATE OR REPLACE FUNCTION pg_journal.refuse(construct text, hint text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    RAISE EXCEPTION '% not supported on journaled tables', construct
        USING ERRCODE = '0A000',
              HINT = coalesce(hint, 'Temporary tables keep all of PostgreSQL''s features.');
END $$;

-- What to do about what only resident tables have; NULL for tables of others, which are never resident.
CREATE OR REPLACE FUNCTION pg_journal.residency_hint(wanted oid) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN (SELECT format('ALTER TABLE %s SET (gateway.residency = always) first.', wanted::regclass)
          FROM journals j WHERE j.relid = wanted AND j.external IS NULL);

-- The types of users that an expression makes values of.
CREATE OR REPLACE FUNCTION pg_journal.named_types(expression pg_node_tree) RETURNS SETOF oid
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
    SELECT DISTINCT m[1]::oid FROM regexp_matches(expression::text, ':(?!\w*[mM]od )\w*typ\w* (\d+)', 'g') m
     WHERE m[1]::bigint >= 16384
$$;

-- All types that values of these types consist of, and that their domains' constraints name: whoever makes such a value
-- has these constraints evaluated, which may call functions of users.
CREATE OR REPLACE FUNCTION pg_journal.made_of(types oid[]) RETURNS oid[]
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN ARRAY(
    WITH RECURSIVE made_of(oid) AS (
        SELECT u.oid FROM unnest(types) u(oid)
        UNION
        SELECT y.part FROM made_of m CROSS JOIN LATERAL (
            SELECT t.typbasetype AS part FROM pg_type t WHERE t.oid = m.oid AND t.typtype = 'd'
            UNION ALL SELECT t.typelem FROM pg_type t WHERE t.oid = m.oid AND t.typelem <> 0
            UNION ALL SELECT r.rngsubtype FROM pg_range r WHERE r.rngtypid = m.oid
            UNION ALL SELECT r.rngtypid FROM pg_range r WHERE r.rngmultitypid = m.oid
            UNION ALL SELECT a.atttypid FROM pg_type t JOIN pg_attribute a ON a.attrelid = t.typrelid
                       WHERE t.oid = m.oid AND t.typtype = 'c' AND a.attnum > 0 AND NOT a.attisdropped
            UNION ALL SELECT n.oid FROM pg_constraint x CROSS JOIN LATERAL named_types(x.conbin) n(oid)
                       WHERE x.contypid = m.oid AND x.contype = 'c') y
         WHERE m.oid >= 16384)
    SELECT m.oid FROM made_of m);

-- Refuse functions an expression calls, operators included. The expression is evaluated with the bookkeeping's
-- rights when the gateway appends rows, so it may call nothing the owner could not, and nothing that is
-- not a function of the row.
CREATE OR REPLACE FUNCTION pg_journal.check_calls(expression pg_node_tree, owner oid, construct text) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    called oid;
BEGIN
    FOR called IN
        SELECT DISTINCT m[1]::oid
          FROM regexp_matches(expression::text, ':(?:funcid|opfuncid|hashfuncid|negfuncid) (\d+)', 'g') m
         WHERE m[1] <> '0'
    LOOP
        -- Functions that take a type by its name evaluate the constraints of domains, too.
        IF called >= 16384 OR EXISTS (SELECT FROM pg_proc WHERE oid = called
                      AND (provolatile = 'v' OR proname IN ('current_setting', 'pg_input_is_valid', 'pg_input_error_info')
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

-- The same for the constraints that values of these types are checked by.
CREATE OR REPLACE FUNCTION pg_journal.check_domains(types oid[], owner oid) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    all_types oid[];
BEGIN
    IF types = '{}' THEN RETURN; END IF;
    all_types := made_of(types);
    PERFORM check_calls(x.conbin, owner, format('domain constraint "%s"', x.conname))
       FROM pg_constraint x WHERE x.contypid = ANY (all_types) AND x.contype = 'c';
END $$;

-- The same for an expression, and for the values that it makes on its way.
CREATE OR REPLACE FUNCTION pg_journal.check_expression(expression pg_node_tree, owner oid, construct text) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    PERFORM check_calls(expression, owner, construct);
    PERFORM check_domains(ARRAY(SELECT named_types(expression)), owner);
END $$;

-- True for types whose values data files can be told apart by, so that keys may consist of them.
-- `tests/catalog/test_altered_types.py` holds the list to what the gateway's compiler can compare.
-- Numbers without fixed scale, or of more than 38 digits, are compared as long as they are short enough: one
-- that is not would make its table unreadable.
CREATE OR REPLACE FUNCTION pg_journal.is_key_type(type_oid oid, typmod int4) RETURNS boolean
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

-- True for types whose values tell keys of rows that can be hot. `tests/catalog/test_hot_keys.py` holds the list to that of
-- the gateway's rewriter.
CREATE OR REPLACE FUNCTION pg_journal.is_compared_type(type_oid oid) RETURNS boolean
LANGUAGE sql IMMUTABLE
RETURN type_oid IN (
    'int2'::regtype, 'int4'::regtype, 'int8'::regtype, 'text'::regtype, 'varchar'::regtype, 'uuid'::regtype,
    'date'::regtype, 'time'::regtype, 'timestamp'::regtype, 'timestamptz'::regtype, 'bool'::regtype, 'numeric'::regtype,
    'bpchar'::regtype, 'bytea'::regtype, 'oid'::regtype);

-- True for types of keys whose rows can be hot, as they are looked up beside Spark. Equal values have one text, of ISO dates,
-- UTC and hexadecimal bytea: numbers have one scale, character types without varying length one length.
CREATE OR REPLACE FUNCTION pg_journal.is_hot_key_type(type_oid oid, typmod int4) RETURNS boolean
LANGUAGE sql IMMUTABLE
RETURN CASE type_oid WHEN 'numeric'::regtype THEN is_key_type(type_oid, typmod)
                     WHEN 'bpchar'::regtype THEN typmod >= 4
                     ELSE is_compared_type(type_oid) END;

-- True for types of keys that segments tell bounds of, in transfer forms.
CREATE OR REPLACE FUNCTION pg_journal.has_key_bounds(type_oid oid) RETURNS boolean
LANGUAGE sql IMMUTABLE
RETURN type_oid IN ('int2'::regtype, 'int4'::regtype, 'int8'::regtype, 'date'::regtype, 'timestamp'::regtype,
                    'timestamptz'::regtype);

-- The same for a unique index whose values are computed: they are compared as texts.
CREATE OR REPLACE FUNCTION pg_journal.computed_irregularity(i pg_index) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN CASE
    WHEN 0 >= ANY (unique_columns(i.indexrelid)) THEN 'a UNIQUE index that looks at whole rows'
    ELSE coalesce(
        -- What a text of a user's type stands for can change.
        (SELECT format('a UNIQUE index that looks at column "%s" of type %s', a.attname, format_type(a.atttypid, a.atttypmod))
           FROM pg_attribute a
          WHERE a.attrelid = i.indrelid AND a.attnum = ANY (unique_columns(i.indexrelid)) AND a.atttypid >= 16384
          ORDER BY a.attnum LIMIT 1),
        (SELECT format('a UNIQUE index over a value of type %s', format_type(a.atttypid, a.atttypmod))
           FROM pg_attribute a
          WHERE a.attrelid = i.indexrelid AND a.attnum <= i.indnkeyatts
            AND (NOT is_key_type(a.atttypid, a.atttypmod)
                 OR a.atttypid IN ('float4'::regtype, 'float8'::regtype, 'interval'::regtype, 'bpchar'::regtype))
          ORDER BY a.attnum LIMIT 1))
END;

-- Why the journal cannot keep a unique index; NULL where it can.
CREATE OR REPLACE FUNCTION pg_journal.irregularity(i pg_index) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN CASE
    WHEN i.indisexclusion THEN 'UNIQUE WITHOUT OVERLAPS'
    WHEN NOT i.indisvalid THEN 'an invalid UNIQUE index'
    WHEN NOT i.indimmediate THEN 'a DEFERRABLE UNIQUE constraint'
    WHEN EXISTS (SELECT FROM unnest(i.indclass::oid[]) WITH ORDINALITY u(class, o) JOIN pg_opclass c ON c.oid = u.class
                  WHERE u.o <= i.indnkeyatts AND NOT c.opcdefault) THEN 'a UNIQUE index with an operator class'
    WHEN EXISTS (SELECT FROM unnest(i.indkey::int2[], i.indcollation::oid[]) WITH ORDINALITY u(attnum, collated, o)
                   JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = u.attnum
                  WHERE u.o <= i.indnkeyatts AND u.collated <> a.attcollation)
      OR EXISTS (SELECT FROM pg_collation c WHERE c.oid = ANY (i.indcollation::oid[]) AND NOT c.collisdeterministic)
        THEN 'a UNIQUE index with COLLATE'
    WHEN num_nonnulls(i.indpred, i.indexprs) > 0 OR i.indnullsnotdistinct THEN computed_irregularity(i)
    ELSE (SELECT format('UNIQUE with column "%s" of type %s', a.attname, format_type(a.atttypid, a.atttypmod))
            FROM unnest(i.indkey::int2[]) WITH ORDINALITY u(attnum, o)
            JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = u.attnum
           WHERE u.o <= i.indnkeyatts AND NOT is_key_type(a.atttypid, a.atttypmod) ORDER BY u.o LIMIT 1)
END;

-- Unique indexes of a table that the journal keeps, the primary key's left out.
CREATE OR REPLACE FUNCTION pg_journal.unique_indexes(relid oid) RETURNS oid[]
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN ARRAY(SELECT i.indexrelid FROM pg_index i
              WHERE i.indrelid = relid AND i.indisunique AND NOT i.indisprimary AND irregularity(i) IS NULL ORDER BY 1);

-- Refuse what a journal cannot keep to.
CREATE OR REPLACE FUNCTION pg_journal.check_features(relid oid) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    t record;
    c record;
BEGIN
    SELECT relname, relispartition, relpersistence, relrowsecurity, reloftype, relowner INTO t
      FROM pg_class WHERE oid = relid;
    IF t.relpersistence = 'u' THEN
        PERFORM refuse('UNLOGGED is', 'Leave UNLOGGED out, or create a temporary table.');
    END IF;
    IF t.reloftype <> 0 THEN PERFORM refuse('OF type is'); END IF;
    IF t.relrowsecurity OR EXISTS (SELECT FROM pg_policy WHERE polrelid = relid) THEN
        PERFORM refuse('ROW LEVEL SECURITY is', residency_hint(relid));
    END IF;
    IF t.relispartition THEN
        PERFORM check_tree(relid);
    ELSIF EXISTS (SELECT FROM pg_inherits WHERE inhrelid = relid OR inhparent = relid) THEN
        PERFORM refuse('INHERITS is');
    END IF;
    IF EXISTS (SELECT FROM pg_trigger WHERE tgrelid = relid AND NOT tgisinternal) THEN
        PERFORM refuse('CREATE TRIGGER is', residency_hint(relid));
    END IF;
    IF EXISTS (SELECT FROM pg_rewrite WHERE ev_class = relid) THEN
        PERFORM refuse('CREATE RULE is', residency_hint(relid));
    END IF;
    IF EXISTS (SELECT FROM pg_attribute WHERE attrelid = relid AND attgenerated = 'v') THEN
        PERFORM refuse('a VIRTUAL generated column is', 'Declare the generated column STORED.');
    END IF;
    FOR c IN SELECT x.conname, x.contype, x.condeferrable, x.conbin,
                    CASE WHEN x.contype = 'f' THEN reference_irregularity(x) END AS irregularity
               FROM pg_constraint x WHERE x.conrelid = relid LOOP
        CASE c.contype
            WHEN 'f' THEN
                IF c.irregularity IS NOT NULL THEN
                    PERFORM refuse(c.irregularity || ' is', 'Leave the constraint out.');
                END IF;
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
    PERFORM check_domains(ARRAY(SELECT a.atttypid FROM pg_attribute a
                                 WHERE a.attrelid = relid AND a.attnum > 0 AND NOT a.attisdropped AND a.atttypid >= 16384),
                          t.relowner);
    FOR c IN SELECT i.indexrelid::regclass AS name, e.expression
               FROM pg_index i CROSS JOIN LATERAL (VALUES (i.indexprs), (i.indpred)) e(expression)
              WHERE i.indrelid = relid AND e.expression IS NOT NULL LOOP
        PERFORM check_expression(c.expression, t.relowner, format('index %s', c.name));
    END LOOP;
    FOR c IN SELECT irregularity(i) AS construct FROM pg_index i
              WHERE i.indrelid = relid AND i.indisunique AND NOT i.indisprimary AND irregularity(i) IS NOT NULL LOOP
        PERFORM refuse(c.construct || ' is', 'UNIQUE over values of types that keys can have is kept, if it is not deferrable.');
    END LOOP;
    FOR c IN SELECT a.attname, l.collname FROM pg_attribute a JOIN pg_collation l ON l.oid = a.attcollation
              WHERE a.attrelid = relid AND NOT a.attisdropped
                AND l.collname NOT IN ('default', 'C', 'POSIX', 'ucs_basic', 'C.UTF-8', 'C.utf8', 'pg_c_utf8',
                                       'pg_unicode_fast') LOOP
        PERFORM refuse(format('COLLATE "%s" is', c.collname), 'Text is ordered by its bytes.');
    END LOOP;
    FOR c IN SELECT attname FROM pg_attribute
              WHERE attrelid = relid AND attnum > 0 AND NOT attisdropped
                AND is_hidden(attname) LOOP
        PERFORM refuse(format('a column named "%s" is', c.attname), 'The journal has a column of this name.');
    END LOOP;
    -- Values whose text depends on the session, or on names only PostgreSQL knows.
    FOR c IN SELECT a.attname, format_type(a.atttypid, a.atttypmod) AS spelled
               FROM pg_attribute a
              WHERE a.attrelid = relid AND a.attnum > 0 AND NOT a.attisdropped
                AND (read_type(a.atttypid, a.atttypmod)).read_oid = 'record'::regtype LOOP
        PERFORM refuse(format('column "%s" of type %s is', c.attname, c.spelled),
                       'Use a base type that holds the same values.');
    END LOOP;
    IF NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = relid AND attnum > 0 AND NOT attisdropped) THEN
        PERFORM refuse('a table without columns is');
    END IF;
END $$;

-- The type a copy of a column has, spelled out: a domain's base, so that dropping the domain leaves the copy.
CREATE OR REPLACE FUNCTION pg_journal.plain_type(type_oid oid, typmod int4) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
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

-- True for types that no user can drop or redefine; tails hold no others.
CREATE OR REPLACE FUNCTION pg_journal.is_built_in(type_oid oid) RETURNS boolean
LANGUAGE sql IMMUTABLE
RETURN type_oid < 16384;

-- The type a value has in the tail: its own, or text for one of users' making.
CREATE OR REPLACE FUNCTION pg_journal.tail_type(type_oid oid, typmod int4) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN CASE WHEN is_built_in(base_type(type_oid)) THEN plain_type(type_oid, typmod) ELSE 'text' END;

-- A value as the tail holds it. concat() takes the type's output function: a cast could be a user's.
CREATE OR REPLACE FUNCTION pg_journal.tail_expression(reference text, type_oid oid) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN CASE WHEN is_built_in(base_type(type_oid)) THEN reference
            ELSE format('CASE WHEN num_nonnulls(%1$s) = 1 THEN concat(%1$s) END', reference) END;

-- SQL of how many bytes the values take up, in transfer forms, of a row that has this name: one of the tail, or of the
-- catalog table. Text counts as it is, although JSON and CSV may write it longer; long text and bytea are told without
-- being read.
CREATE OR REPLACE FUNCTION pg_journal.row_size(wanted oid, source text, of_tail boolean DEFAULT true) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN (SELECT concat_ws(' + ', 40 * (count(*) + 3), string_agg(
                   format(CASE WHEN t.spelled = 'bytea' THEN 'coalesce(2 * octet_length(%s)::bigint, 0)'
                               WHEN t.spelled ~ '^(text|character)[^[]*$' THEN 'coalesce(octet_length(%s)::bigint, 0)'
                               ELSE 'coalesce(octet_length(%s::text)::bigint, 0)' END, t.reference),
                   ' + ' ORDER BY t.attnum) FILTER (WHERE t.is_long))
          FROM (SELECT k.attnum, CASE WHEN of_tail THEN format('%s.c%s', source, k.attnum)
                                      ELSE tail_expression(format('%s.%I', source, k.name), k.type_oid) END AS reference,
                       tail_type(k.type_oid, k.typmod) AS spelled,
                       (NOT is_built_in(base_type(k.type_oid))
                        OR (SELECT y.typlen < 0 FROM pg_type y WHERE y.oid = base_type(k.type_oid)))
                       AND tail_type(k.type_oid, k.typmod) !~ '^numeric[(][^[]*$' AS is_long
                  FROM columns k WHERE k.relid = wanted AND k.name <> '') t);

-- Bytes of a relation, with those that its rows have by columns that were added later: PostgreSQL stores the default once,
-- for all rows that were there. A row takes up 40 bytes at least.
CREATE OR REPLACE FUNCTION pg_journal.size_at_most(relation oid) RETURNS bigint
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN (SELECT pg_table_size(relation)
               + coalesce(pg_relation_size(relation) / 40 * sum(octet_length(a.attmissingval::text)), 0)::bigint
          FROM pg_attribute a WHERE a.attrelid = relation AND a.atthasmissing);

-- Refuse columns whose defaults for the rows that are there, as text, are more than a row can hold.
CREATE OR REPLACE FUNCTION pg_journal.check_missing(wanted oid) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    PERFORM require_size(coalesce(sum(octet_length(k.missing_value)), 0))
       FROM columns k WHERE k.relid = wanted AND k.name <> '';
END $$;

-- True for rows that journals can hold; others are refused (54000).
CREATE OR REPLACE FUNCTION pg_journal.require_size(size bigint) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    most bigint := (SELECT i.row_bytes FROM instance i);
BEGIN
    IF size <= most THEN RETURN true; END IF;
    RAISE EXCEPTION 'row is too big for a journaled table: size %, maximum size %', size, most
        USING ERRCODE = '54000', HINT = 'Values count as text; a bytea takes up two characters a byte.';
END $$;

-- Have the tail of a table refuse rows that are too large to be read again, or forget that while its columns change. Rows
-- that are small whatever the setting cost no call.
CREATE OR REPLACE FUNCTION pg_journal.bound_rows(relid oid, bounded boolean) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    tail regclass := (SELECT j.tail_relid FROM journals j WHERE j.relid = bound_rows.relid);
    size text := row_size(bound_rows.relid, 'x');
BEGIN
    IF NOT bounded THEN
        EXECUTE format('ALTER TABLE %s DROP CONSTRAINT IF EXISTS pgwire_size', tail);
    ELSIF size ~ ' ' AND NOT EXISTS (SELECT FROM pg_constraint c WHERE c.conrelid = tail AND c.conname = 'pgwire_size') THEN
        size := replace(size, 'x.', '');
        EXECUTE format('ALTER TABLE %s ADD CONSTRAINT pgwire_size CHECK (%s <= 65536 OR pg_journal.require_size(%s)) NOT VALID',
                       tail, size, size);
    END IF;
END $$;

-- Definition of a column of the tail.
CREATE OR REPLACE FUNCTION pg_journal.tail_column(attnum int2, type_oid oid, typmod int4) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN format('c%s %s', attnum, tail_type(type_oid, typmod));

-- Condition of what segments can hold: no infinite dates, timestamps too late for them, NaN in a numeric of
-- fixed scale, arrays of several dimensions or not counted from 1. NULL when they hold every value.
CREATE OR REPLACE FUNCTION pg_journal.storable(reference text, type_oid oid, typmod int4) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    spelled text := tail_type(type_oid, typmod);
    simple_array constant text :=
        'coalesce(array_ndims(%1$s), 1) = 1 AND coalesce(array_lower(%1$s, 1), 1) = 1';
BEGIN
    RETURN CASE
        WHEN spelled ~ '^(date|timestamp.*|interval.*)\[\]$' THEN
            format('(''infinity'' = ANY (%1$s)) IS NOT TRUE AND (''-infinity'' = ANY (%1$s)) IS NOT TRUE AND '
                   || CASE WHEN spelled ~ '^timestamp'
                           THEN format('(%L < ANY (%%1$s)) IS NOT TRUE AND ', latest_moment()) ELSE '' END
                   || simple_array, reference)
        WHEN spelled ~ '^numeric\(.*\[\]$' THEN
            format('(''NaN'' = ANY (%1$s)) IS NOT TRUE AND ' || simple_array, reference)
        WHEN spelled ~ '\[\]$' THEN format(simple_array, reference)
        WHEN spelled ~ '^numeric\(' THEN format('%s <> ''NaN''', reference)
        WHEN spelled ~ '^timestamp' THEN
            format('isfinite(%1$s) AND %1$s <= %2$L', reference, latest_moment())
        WHEN spelled ~ '^(date$|interval)' THEN format('isfinite(%s)', reference)
    END;
END $$;

-- Have the tail of a tiered table refuse what segments cannot hold, or that of a resident one take it.
CREATE OR REPLACE FUNCTION pg_journal.constrain_tail(relid oid, constrained boolean) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    c record;
BEGIN
    FOR c IN SELECT j.tail_relid::regclass AS tail, k.attnum,
                    storable('c' || k.attnum, k.type_oid, k.typmod) AS condition
               FROM journals j JOIN columns k ON k.relid = j.relid AND k.name <> ''
              WHERE j.relid = constrain_tail.relid LOOP
        IF NOT constrained THEN
            EXECUTE format('ALTER TABLE %s DROP CONSTRAINT IF EXISTS pgwire_finite_%s', c.tail, c.attnum);
        ELSIF c.condition IS NOT NULL THEN
            EXECUTE format('ALTER TABLE %s ADD CONSTRAINT pgwire_finite_%s CHECK (%s)',
                           c.tail, c.attnum, c.condition);
        END IF;
    END LOOP;
END $$;

-- A storage name no other column of the table ever had, whatever the case.
CREATE OR REPLACE FUNCTION pg_journal.storage_name(relid oid, column_name text) RETURNS text
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    candidate text := column_name;
    n int := 1;
BEGIN
    WHILE is_hidden(lower(candidate))
       OR EXISTS (SELECT FROM columns k WHERE k.relid = storage_name.relid
                     AND lower(k.storage_name) = lower(candidate)) LOOP
        n := n + 1;
        candidate := column_name || '_' || n;
    END LOOP;
    RETURN candidate;
END $$;

-- True when new tables are resident.
CREATE OR REPLACE FUNCTION pg_journal.has_resident_tables() RETURNS boolean
LANGUAGE sql STABLE
RETURN (SELECT resident_rows > 0 FROM pg_journal.instance);

CREATE OR REPLACE FUNCTION pg_journal.is_journalable(relid oid) RETURNS boolean
LANGUAGE sql STABLE
RETURN EXISTS (
    SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
     WHERE c.oid = relid AND c.relkind = 'r'
       AND c.relpersistence <> 't'
       AND n.nspname NOT IN ('pg_journal', 'pg_catalog', 'information_schema')
       AND n.nspname !~ '^pg_(toast|temp)');

-- The columns a table's rows are told apart by; none where there may be equal rows, where data files cannot
-- compare the keys, or where two transactions can hold the same key until they end.
CREATE OR REPLACE FUNCTION pg_journal.row_key(relid oid) RETURNS int2[]
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN coalesce((
    SELECT x.conkey FROM pg_constraint x
     WHERE x.conrelid = relid AND x.contype = 'p' AND NOT x.condeferrable
       AND NOT EXISTS (SELECT FROM pg_attribute a LEFT JOIN pg_collation l ON l.oid = a.attcollation
                        WHERE a.attrelid = relid AND a.attnum = ANY (x.conkey)
                          AND (NOT is_key_type(a.atttypid, a.atttypmod) OR NOT l.collisdeterministic))), '{}');

-- What the owner of an unlogged table is told, which does not stay one.
CREATE OR REPLACE FUNCTION pg_journal.logged_notice(wanted oid) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN (SELECT format('table "%s" becomes logged, as its journal is', c.relname)
          FROM pg_class c WHERE c.oid = wanted);

-- Keep a notice until the bookkeeping has followed a command, as it does so silently; NULL is none.
CREATE OR REPLACE FUNCTION pg_journal.tell_later(notice text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    IF notice IS NULL THEN RETURN; END IF;
    PERFORM set_config(
        'pg_journal.notices',
        (coalesce(nullif(current_setting('pg_journal.notices', true), ''), '[]')::jsonb || to_jsonb(notice))::text,
        true);
END $$;

-- Raise the notices kept.
CREATE OR REPLACE FUNCTION pg_journal.tell_deferred() RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    notices text := nullif(current_setting('pg_journal.notices', true), '');
    notice text;
BEGIN
    IF notices IS NULL THEN RETURN; END IF;
    PERFORM set_config('pg_journal.notices', '', true);
    FOR notice IN SELECT jsonb_array_elements_text(notices::jsonb) LOOP
        RAISE NOTICE '%', notice;
    END LOOP;
END $$;

-- What a tiered table would lack; NULL for nothing.
CREATE OR REPLACE FUNCTION pg_journal.pin(relid oid) RETURNS text
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    reason text;
BEGIN
    IF cardinality(ancestors(relid)) > 0
       AND EXISTS (SELECT FROM pg_constraint x WHERE x.confrelid = ANY (relid || ancestors(relid))) THEN
        RETURN 'a FOREIGN KEY that references it';
    END IF;
    reason := (SELECT parent_irregularity(x) FROM pg_constraint x
                WHERE x.confrelid = pin.relid AND parent_irregularity(x) IS NOT NULL ORDER BY x.oid LIMIT 1);
    IF reason IS NOT NULL THEN
        RETURN 'a FOREIGN KEY that references it and ' || reason;
    END IF;
    PERFORM check_features(relid);
    RETURN NULL;
EXCEPTION
    WHEN feature_not_supported OR insufficient_privilege THEN
        RETURN regexp_replace(SQLERRM, ' (is )?not supported on journaled tables$', '');
END $$;

-- Let no role read the journal to whom row security of the table applies, or of one that it is a partition of: versions of
-- rows that policies hide would show. Owners are exempt as they are in PostgreSQL.
CREATE OR REPLACE FUNCTION pg_journal.mirror_row_security(relid oid, tables oid[]) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    journal regclass := (SELECT j.journal_relid FROM journals j WHERE j.relid = mirror_row_security.relid);
    policed boolean;
    exempt oid[];
BEGIN
    SELECT count(*) > 0, CASE WHEN NOT bool_or(c.relforcerowsecurity) AND count(DISTINCT c.relowner) = 1
                              THEN array_agg(DISTINCT c.relowner) END
      INTO policed, exempt
      FROM pg_class c WHERE c.oid = ANY (tables) AND c.relrowsecurity;
    IF policed IS DISTINCT FROM (SELECT c.relrowsecurity FROM pg_class c WHERE c.oid = journal) THEN
        EXECUTE format('ALTER TABLE %s %s ROW LEVEL SECURITY', journal, CASE WHEN policed THEN 'ENABLE' ELSE 'DISABLE' END);
    END IF;
    IF exempt IS DISTINCT FROM (SELECT p.polroles FROM pg_policy p WHERE p.polrelid = journal) THEN
        EXECUTE format('DROP POLICY IF EXISTS exempt ON %s', journal);
        IF exempt IS NOT NULL THEN
            EXECUTE format('CREATE POLICY exempt ON %s FOR SELECT TO %s USING (true)', journal, exempt[1]::regrole);
        END IF;
    END IF;
END $$;

-- Who may read these tables and not the journal, and who may read the journal alone.
CREATE OR REPLACE FUNCTION pg_journal.unlike_readers(journal oid, tables oid[])
RETURNS TABLE (reader text, may_read boolean)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
    WITH wanted AS (SELECT c.relowner AS oid FROM pg_class c WHERE c.oid = ANY (tables)
                    UNION
                    SELECT x.grantee FROM pg_class c, aclexplode(c.relacl) x
                     WHERE c.oid = ANY (tables) AND x.privilege_type = 'SELECT'),
         had AS (SELECT DISTINCT x.grantee AS oid FROM pg_class c, aclexplode(c.relacl) x WHERE c.oid = journal)
    SELECT CASE oid WHEN 0 THEN 'PUBLIC' ELSE oid::regrole::text END, wanted.oid IS NOT NULL
      FROM wanted FULL JOIN had USING (oid)
     WHERE (wanted.oid IS NULL OR had.oid IS NULL) AND oid <> (SELECT c.relowner FROM pg_class c WHERE c.oid = journal)
     ORDER BY 1
$$;

-- Let those read the journal who may read the table, or one that it is a partition of, whose journal shows it. Writers of
-- the table are not waited for, nor kept waiting.
CREATE OR REPLACE FUNCTION pg_journal.mirror_readers(relid oid) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    journal regclass := (SELECT j.journal_relid FROM journals j WHERE j.relid = mirror_readers.relid);
    tables oid[] := ARRAY(SELECT mirror_readers.relid
                          UNION SELECT a::oid FROM pg_partition_ancestors(mirror_readers.relid) a);
    r record;
BEGIN
    PERFORM mirror_row_security(mirror_readers.relid, tables);
    IF NOT EXISTS (SELECT FROM unlike_readers(journal, tables)) THEN RETURN; END IF;
    -- What others are changing is seen when they have done it.
    EXECUTE format('LOCK TABLE ONLY %s IN SHARE UPDATE EXCLUSIVE MODE', journal);
    FOR r IN SELECT * FROM unlike_readers(journal, tables) LOOP
        EXECUTE format(CASE WHEN r.may_read THEN 'GRANT SELECT ON %s TO %s' ELSE 'REVOKE ALL ON %s FROM %s' END,
                       journal, r.reader);
    END LOOP;
END $$;

-- Bring the readers of all journals into line with their tables, after what no event trigger tells of: REASSIGN OWNED.
CREATE OR REPLACE FUNCTION pg_journal.follow_owners(code text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
SET event_triggers = off
AS $$
BEGIN
    PERFORM authorize(code, 'follow_owners');
    PERFORM note_definition();
    PERFORM mirror_readers(j.relid) FROM journals j;
END $$;

-- Index the tail of a tiered table by the key, whose latest row version is looked for.
CREATE OR REPLACE FUNCTION pg_journal.index_tail(relid oid) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    j record;
BEGIN
    SELECT jj.tail_relid, jj.key, jj.relid, jj.residency INTO j FROM journals jj WHERE jj.relid = index_tail.relid;
    EXECUTE format('DROP INDEX IF EXISTS pg_journal.tail_%s_key', j.relid);
    IF j.residency = 'tiered' THEN
        EXECUTE format(
            'CREATE INDEX tail_%s_key ON %s (%s, version_number)', j.relid, j.tail_relid::regclass,
            coalesce((SELECT string_agg('c' || k, ', ' ORDER BY o)
                        FROM unnest(j.key) WITH ORDINALITY u(k, o)), 'row_identity'));
    END IF;
END $$;

-- The columns a journal has besides those of its table, to whose names theirs give way.
CREATE OR REPLACE FUNCTION pg_journal.journal_suffix(relid oid, keyed int2[]) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
    SELECT string_agg(format('%I %s', n.name, n.type), ', ' ORDER BY n.place)
      FROM hidden_columns() n
     WHERE (n.place < 3 OR keyed = '{}')
       AND NOT EXISTS (SELECT FROM columns k WHERE k.relid = journal_suffix.relid AND k.name = n.name)
$$;

CREATE OR REPLACE FUNCTION pg_journal.create_journal(relid oid) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    t record;
    a record;
    resident boolean := has_resident_tables();
    journal_columns text := '';
    tail_columns text := '';
    journal regclass;
    tail regclass;
    keyed int2[];
BEGIN
    IF NOT resident THEN PERFORM check_features(relid); END IF;
    SELECT c.relname, n.nspname, c.oid, c.relpersistence INTO t
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = relid;
    IF t.relpersistence = 'u' THEN
        PERFORM tell_later(logged_notice(t.oid));
        EXECUTE format('ALTER TABLE ONLY %s SET LOGGED', t.oid::regclass);
    END IF;
    keyed := row_key(relid);
    INSERT INTO journals (relid, journal_relid, tail_relid, schema_name, table_name, residency, pinned_by,
                          location, key, key_name, checks, unique_indexes, definition, ancestors)
    SELECT t.oid, 0, 0, t.nspname, t.relname, CASE WHEN resident THEN 'resident' ELSE 'tiered' END,
           CASE WHEN resident THEN pin(t.oid) END, d.oid || '/' || t.oid, keyed,
           (SELECT x.conname FROM pg_constraint x
             WHERE x.conrelid = t.oid AND x.contype = 'p' AND keyed <> '{}'),
           kept_constraints(t.oid),
           CASE WHEN resident THEN '{}' ELSE unique_indexes(t.oid) END, random_mark(), ancestors(t.oid)
      FROM pg_database d WHERE d.datname = current_database();
    FOR a IN SELECT attnum, attname, atttypid, atttypmod, attnotnull FROM pg_attribute
              WHERE attrelid = t.oid AND attnum > 0 AND NOT attisdropped AND attgenerated <> 'v'
              ORDER BY attnum LOOP
        INSERT INTO columns (relid, attnum, name, type_oid, typmod, not_null, storage_name, generation)
        VALUES (t.oid, a.attnum, a.attname, a.atttypid, a.atttypmod, a.attnotnull,
                storage_name(t.oid, a.attname), generation_tree(t.oid, a.attnum));
        journal_columns := journal_columns
            || format('%I %s, ', a.attname, tail_type(a.atttypid, a.atttypmod));
        tail_columns := tail_columns || tail_column(a.attnum, a.atttypid, a.atttypmod) || ', ';
    END LOOP;
    EXECUTE format(
        'CREATE TABLE pg_journal.tail_%s (%s %s, writer xid8 NOT NULL DEFAULT pg_current_xact_id()) '
        'WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000)',
        t.oid, tail_columns,
        (SELECT string_agg(format('%I %s', h.name, h.type) || CASE WHEN h.place = 1 THEN ' NOT NULL' ELSE '' END, ', '
                           ORDER BY h.place) FROM hidden_columns() h));
    tail := format('pg_journal.tail_%s', t.oid)::regclass;
    PERFORM seal(tail);
    EXECUTE format('CREATE INDEX tail_%s_version ON %s (version_number)', t.oid, tail);
    -- Without rows; it stands for the journal where names and privileges are concerned.
    EXECUTE format('CREATE TABLE pg_journal.journal_%s (%s)', t.oid,
                   concat_ws(', ', nullif(rtrim(journal_columns, ', '), ''), journal_suffix(t.oid, keyed)));
    journal := format('pg_journal.journal_%s', t.oid)::regclass;
    PERFORM withhold(journal);
    UPDATE journals j SET journal_relid = journal, tail_relid = tail WHERE j.relid = t.oid;
    PERFORM index_tail(t.oid);
    IF NOT resident THEN PERFORM constrain_tail(t.oid, true); END IF;
    PERFORM bound_rows(t.oid, true);
    PERFORM check_default(t.oid);
    IF NOT resident THEN PERFORM settle_references(t.oid); END IF;
    PERFORM mirror_readers(t.oid);
    PERFORM watch(t.oid);
    IF resident THEN PERFORM journal_rows(t.oid); END IF;
END $$;
