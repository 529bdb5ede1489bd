-- Bookkeeping: what is a journal, which segments and row versions it consists of.
-- Every function clients' sessions call is SECURITY DEFINER and demands a code first that is good for this one call.

REVOKE ALL ON SCHEMA pg_journal FROM PUBLIC;
GRANT USAGE ON SCHEMA pg_journal TO PUBLIC;
COMMENT ON SCHEMA pg_journal IS 'bookkeeping of journals; maintained by the gateway';

-- Take what default privileges have given of something that has been made from all but its owner, who in an external catalog has
-- uses of his own for them.
CREATE OR REPLACE FUNCTION pg_journal.withhold_from_others(own text, granted aclitem[], owner oid) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
SET event_triggers = off
AS $$
DECLARE
    grantee text;
BEGIN
    FOR grantee IN
        SELECT DISTINCT CASE x.grantee WHEN 0 THEN 'PUBLIC' ELSE x.grantee::regrole::text END
          FROM aclexplode(granted) x WHERE x.grantee <> owner
    LOOP
        EXECUTE format('REVOKE ALL ON %s FROM %s CASCADE', own, grantee);
    END LOOP;
END $$;

CREATE OR REPLACE FUNCTION pg_journal.withhold(own regclass) RETURNS void
LANGUAGE sql
SET search_path = pg_catalog, pg_journal, pg_temp
BEGIN ATOMIC
    SELECT pg_journal.withhold_from_others('TABLE ' || own, c.relacl, c.relowner) FROM pg_class c WHERE c.oid = own;
END;

CREATE OR REPLACE FUNCTION pg_journal.withhold_function(own regprocedure) RETURNS void
LANGUAGE sql
SET search_path = pg_catalog, pg_journal, pg_temp
BEGIN ATOMIC
    SELECT pg_journal.withhold_from_others('FUNCTION ' || own, coalesce(p.proacl, acldefault('f', p.proowner)), p.proowner)
      FROM pg_proc p WHERE p.oid = own;
END;

-- Keep the rows of a table of the bookkeeping's own from roles that PostgreSQL gives rights on all tables, as pg_read_all_data
-- and pg_write_all_data: no policy lets them pass. The owner is exempt.
CREATE OR REPLACE FUNCTION pg_journal.seal(own regclass) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
SET event_triggers = off
AS $$
BEGIN
    EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', own);
    PERFORM withhold(own);
END $$;

CREATE OR REPLACE FUNCTION pg_journal.add_series() RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
SET client_min_messages = warning
SET event_triggers = off
AS $$
DECLARE
    known int;
BEGIN
    -- A row that no role can lock: tables roles do lock, by preparing what they may not execute.
    PERFORM FROM instance FOR UPDATE;
    known := coalesce((SELECT max(s.number) FROM series s), 0);
    FOR added IN known + 1 .. known + 4 LOOP
        -- After a crash there are sequences that nothing is known of.
        EXECUTE format('CREATE UNLOGGED SEQUENCE IF NOT EXISTS pg_journal.calls_%s', added);
        PERFORM withhold(('pg_journal.calls_' || added)::regclass);
        INSERT INTO series (number, sequence) VALUES (added, ('pg_journal.calls_' || added)::regclass);
    END LOOP;
END $$;

-- Take a sequence for this session before it runs anything of its client's, and tell what it has come to; NULL where all
-- are taken. Later on nothing is locked, whoever calls it. Nobody is waited for: who connects to the catalog beside the gateway
-- takes one, too, in a transaction that may last.
CREATE OR REPLACE FUNCTION pg_journal.take_series(OUT sequence oid, OUT last_number bigint)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
SET lock_timeout = 0
AS $$
DECLARE
    begun timestamptz := (SELECT a.backend_start FROM pg_stat_get_activity(pg_backend_pid()) a);
    free int := 0;
BEGIN
    SELECT s.sequence INTO sequence FROM series s WHERE s.backend = pg_backend_pid() AND s.backend_start = begun;
    WHILE sequence IS NULL LOOP
        SELECT s.number INTO free FROM series s
         WHERE s.number > free AND NOT EXISTS (
               SELECT FROM pg_stat_get_backend_idset() b WHERE pg_stat_get_backend_pid(b) = s.backend)
         ORDER BY s.number LIMIT 1 FOR UPDATE SKIP LOCKED;
        EXIT WHEN NOT FOUND;
        -- Sessions may have begun, and taken it, since this transaction looked at them.
        PERFORM pg_stat_clear_snapshot();
        UPDATE series t SET backend = pg_backend_pid(), backend_start = begun
         WHERE t.number = free AND NOT EXISTS (
               SELECT FROM pg_stat_get_backend_idset() b WHERE pg_stat_get_backend_pid(b) = t.backend)
        RETURNING t.sequence INTO sequence;
    END LOOP;
    last_number := coalesce(pg_sequence_last_value(sequence), 0);
END $$;

-- Draw what calls are proved by anew: whoever knew it before is refused.
CREATE OR REPLACE FUNCTION pg_journal.renew_key() RETURNS void
LANGUAGE sql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
    UPDATE instance SET (secret_key, inner_key, outer_key) = (
        SELECT k.drawn, p.inside, p.outside
          FROM (SELECT replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', '') AS drawn OFFSET 0) k
         CROSS JOIN LATERAL (
               SELECT string_agg(set_byte('\x00', 0, ascii(c) # x'36'::int), '' ORDER BY o) AS inside,
                      string_agg(set_byte('\x00', 0, ascii(c) # x'5c'::int), '' ORDER BY o) AS outside
                 FROM string_to_table(k.drawn, NULL) WITH ORDINALITY u(c, o)) p)
$$;

-- Go on only if this call is the gateway's: the code names the session's sequence, a number that no call had before, and
-- the HMAC of both, of the backend, the function and its arguments. It is used up, whatever becomes of the transaction.
-- A transaction that is read-only cannot note that: there a code lasts until the session's next call elsewhere.
CREATE OR REPLACE FUNCTION pg_journal.authorize(code text, called text, VARIADIC arguments text[] DEFAULT '{}') RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    series text := split_part(code, ' ', 1);
    number text := split_part(code, ' ', 2);
    used bigint;
BEGIN
    PERFORM FROM instance
      WHERE split_part(code, ' ', 3) = encode(sha256(outer_key || sha256(inner_key || convert_to(
                concat_ws(' ', pg_backend_pid(), series, number, called, arguments::text), 'UTF8'))), 'hex');
    IF NOT FOUND THEN PERFORM unauthorized(); END IF;
    IF pg_sequence_last_value(series::oid) >= number::bigint THEN PERFORM unauthorized(); END IF;
    IF current_setting('transaction_read_only') = 'off' THEN used := setval(series::oid, number::bigint); END IF;
    -- Code of users that a call runs would find the code in the contexts of errors.
    IF current_setting('log_parameter_max_length_on_error') <> '0' THEN
        RAISE EXCEPTION 'log_parameter_max_length_on_error is not supported on journaled tables'
            USING ERRCODE = '0A000', HINT = 'RESET log_parameter_max_length_on_error first.';
    END IF;
END $$;

CREATE OR REPLACE FUNCTION pg_journal.unauthorized() RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    RAISE EXCEPTION 'permission denied for schema pg_journal' USING ERRCODE = '42501';
END $$;

-- What proves that a setting of the bookkeeping's got its value in this transaction, from the bookkeeping: settings are anybody's
-- to write. Small writes note some, so that nothing is done here but what it takes: callers have set the search path.
CREATE OR REPLACE FUNCTION pg_journal.setting_mark(name text, value text) RETURNS text
LANGUAGE plpgsql STABLE
AS $$
DECLARE
    mark text;
BEGIN
    SELECT encode(sha256(convert_to(concat_ws(':', 'setting', i.secret_key, pg_current_xact_id(), name, value), 'UTF8')), 'hex')
      INTO mark FROM pg_journal.instance i;
    RETURN mark;
END $$;

-- Note something in a setting until the transaction ends, or is rolled back to a savepoint.
CREATE OR REPLACE FUNCTION pg_journal.note_setting(name text, value text) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM set_config('pg_journal.' || name, value || ' ' || pg_journal.setting_mark(name, value), true);
END $$;

-- What has been noted so; NULL for nothing, and for what others have written.
CREATE OR REPLACE FUNCTION pg_journal.noted_setting(name text) RETURNS text
LANGUAGE plpgsql STABLE
AS $$
DECLARE
    said text := current_setting('pg_journal.' || name, true);
BEGIN
    IF coalesce(said, '') = '' THEN RETURN NULL; END IF;
    RETURN CASE WHEN right(said, 64) = pg_journal.setting_mark(name, left(said, -65)) THEN left(said, -65) END;
END $$;

-- STABLE as what they call is: so they are inlined.
CREATE OR REPLACE FUNCTION pg_journal.micros(moment timestamptz) RETURNS bigint
LANGUAGE sql STABLE
RETURN (extract(epoch FROM moment) * 1000000)::bigint;

CREATE OR REPLACE FUNCTION pg_journal.moment(micros bigint) RETURNS timestamptz
LANGUAGE sql STABLE
RETURN timestamptz 'epoch' + micros / 86400000000 * interval '24:00:00'
     + micros % 86400000000 * interval '0.000001 second';

-- A journal's row with what later writes changed.
CREATE OR REPLACE FUNCTION pg_journal.latest(j pg_journal.journals) RETURNS pg_journal.journals
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    s record;
BEGIN
    SELECT changes, version, tail_rows INTO s FROM states
     WHERE relid = j.relid AND changes > j.changes ORDER BY changes DESC LIMIT 1;
    IF FOUND THEN
        j.changes := s.changes;
        j.version := s.version;
        j.tail_rows := s.tail_rows;
    END IF;
    RETURN j;
END $$;

-- Lock a journal for writing until the transaction ends.
CREATE OR REPLACE FUNCTION pg_journal.locked(wanted oid) RETURNS pg_journal.journals
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    j journals;
BEGIN
    SELECT * INTO j FROM journals s WHERE s.relid = wanted FOR NO KEY UPDATE;
    IF NOT FOUND THEN PERFORM outdated(); END IF;
    RETURN latest(j);
END $$;

-- Bring a journal's own row up to its latest state.
CREATE OR REPLACE FUNCTION pg_journal.fold(wanted oid) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    j journals := locked(wanted);
BEGIN
    DELETE FROM states s WHERE s.relid = wanted;
    IF FOUND THEN
        UPDATE journals s SET version = j.version, changes = j.changes, tail_rows = j.tail_rows
         WHERE s.relid = wanted;
    END IF;
END $$;

-- Row versions in the tail of a tiered table without hot rows that its journal does not count, or does not show; and back.
CREATE OR REPLACE FUNCTION pg_journal.unaccounted(wanted oid) RETURNS bigint
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    j journals;
    answer bigint;
BEGIN
    SELECT * INTO j FROM journals s WHERE s.relid = wanted AND s.residency = 'tiered' AND NOT s.is_hot;
    IF NOT FOUND THEN RETURN 0; END IF;
    j := latest(j);
    EXECUTE format('SELECT abs(count(*) - $1) + count(*) FILTER (WHERE version_number > $2) FROM %s',
                   j.tail_relid::regclass)
       INTO answer USING j.tail_rows, j.version;
    RETURN answer;
END $$;

-- True for a tiered table that may have current rows; what is archived is history.
CREATE OR REPLACE FUNCTION pg_journal.has_rows(relid oid) RETURNS boolean
LANGUAGE sql STABLE
RETURN EXISTS (SELECT FROM pg_journal.journals j
                WHERE j.relid = $1 AND (j.is_hot OR j.tail_rows > 0 OR j.external IS NOT NULL))
    OR EXISTS (SELECT FROM pg_journal.states s WHERE s.relid = $1 AND s.tail_rows > 0)
    OR EXISTS (SELECT FROM pg_journal.segments s
                WHERE s.relid = $1 AND s.retired_at IS NULL AND s.row_count > 0 AND s.kind <> 'archive');

-- 62 random bits; gen_random_uuid() is the only strong source without extensions.
CREATE OR REPLACE FUNCTION pg_journal.random_mark() RETURNS bigint
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
RETURN ('x' || left(replace(gen_random_uuid()::text, '-', ''), 12))::bit(48)::bigint
       # (('x' || right(gen_random_uuid()::text, 12))::bit(48)::bigint << 14);

CREATE OR REPLACE FUNCTION pg_journal.note_definition() RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    chosen bigint;
BEGIN
    IF current_setting('transaction_isolation') = 'read committed' THEN
        SELECT slot INTO chosen FROM definition_marks ORDER BY slot LIMIT 1 FOR UPDATE SKIP LOCKED;
    END IF;
    IF chosen IS NULL THEN
        INSERT INTO definition_marks (slot, mark) VALUES (random_mark(), random_mark());
    ELSE
        UPDATE definition_marks SET mark = mark # random_mark() WHERE slot = chosen;
    END IF;
END $$;

CREATE OR REPLACE FUNCTION pg_journal.fingerprint() RETURNS bigint
LANGUAGE sql STABLE
RETURN (SELECT coalesce(bit_xor(mark), 0) FROM pg_journal.definition_marks);

-- The last timestamp data files can hold, in microseconds since 1970 of 64 bits. There is one more, which
-- extract() rounds.
CREATE OR REPLACE FUNCTION pg_journal.latest_moment() RETURNS text
LANGUAGE sql IMMUTABLE
RETURN '294247-01-10 04:00:54.775806+00';

-- Refuse a timestamp data files cannot hold.
CREATE OR REPLACE FUNCTION pg_journal.endless() RETURNS bigint
LANGUAGE plpgsql
AS $$
BEGIN
    RAISE EXCEPTION 'infinite dates and times are not read by Spark' USING ERRCODE = '0A000';
END $$;

CREATE OR REPLACE FUNCTION pg_journal.too_late() RETURNS bigint
LANGUAGE plpgsql
AS $$
BEGIN
    RAISE EXCEPTION 'timestamps after 294247-01-10 are not supported on journaled tables'
        USING ERRCODE = '0A000';
END $$;

-- Whose privileges count: in a function with the bookkeeping's rights the current role is that of the bookkeeping.
CREATE OR REPLACE FUNCTION pg_journal.acting_role() RETURNS name
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
RETURN coalesce(nullif(current_setting('role'), 'none'), session_user);

-- Refuse (42501) a table that the session's role has nothing to do with: no right on it to read or write, or to write, none on
-- what leads to it in PostgreSQL (views and rules, tables above it, foreign keys), and neither it nor the database is its own.
-- What a statement may do with it in particular PostgreSQL has found out.
CREATE OR REPLACE FUNCTION pg_journal.require_right(wanted oid, writes boolean) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    acting name := coalesce(nullif(current_setting('role'), 'none'), session_user);
    rights text := 'INSERT, UPDATE, DELETE, TRUNCATE, MAINTAIN';
    column_rights text := 'INSERT, UPDATE';
BEGIN
    IF NOT writes THEN
        rights := 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER, MAINTAIN';
        column_rights := 'SELECT, INSERT, UPDATE, REFERENCES';
    END IF;
    IF has_table_privilege(acting, wanted, rights) OR has_any_column_privilege(acting, wanted, column_rights) THEN
        RETURN;
    END IF;
    -- Of partitions there may be many.
    IF EXISTS (SELECT FROM journals j CROSS JOIN unnest(j.ancestors) a
                WHERE j.relid = wanted AND has_table_privilege(acting, a, rights)) THEN
        RETURN;
    END IF;
    IF EXISTS (
        WITH RECURSIVE upwards(relid) AS (
            SELECT wanted
            UNION
            SELECT x.relid FROM upwards l CROSS JOIN LATERAL (
                   SELECT i.inhparent FROM pg_inherits i WHERE i.inhrelid = l.relid
                   UNION ALL
                   SELECT w.ev_class FROM pg_depend d JOIN pg_rewrite w ON w.oid = d.objid
                    WHERE d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass AND d.refobjid = l.relid
                   UNION ALL
                   SELECT CASE c.conrelid WHEN l.relid THEN c.confrelid ELSE c.conrelid END FROM pg_constraint c
                    WHERE c.contype = 'f' AND l.relid IN (c.conrelid, c.confrelid)) x(relid))
        SELECT FROM upwards l JOIN pg_class c ON c.oid = l.relid
         WHERE pg_has_role(acting, c.relowner, 'USAGE') OR has_table_privilege(acting, c.oid, rights)
            OR has_any_column_privilege(acting, c.oid, column_rights)) THEN
        RETURN;
    END IF;
    -- One that has gone is found out by who looks at it.
    IF EXISTS (SELECT FROM pg_class c JOIN pg_database d ON d.datname = current_database()
                WHERE c.oid = wanted AND NOT pg_has_role(acting, d.datdba, 'USAGE')) THEN
        RAISE EXCEPTION 'permission denied for table %', (SELECT c.relname FROM pg_class c WHERE c.oid = wanted)
            USING ERRCODE = '42501';
    END IF;
END $$;

-- Whether errors may show the session's role values of some columns: as PostgreSQL's, only such as it may read.
CREATE OR REPLACE FUNCTION pg_journal.may_show(wanted oid, attnums int2[]) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    acting name := acting_role();
BEGIN
    IF EXISTS (SELECT FROM pg_class c JOIN pg_roles r ON r.rolname = acting
                WHERE c.oid = wanted AND c.relrowsecurity AND NOT (r.rolsuper OR r.rolbypassrls)
                  AND (c.relforcerowsecurity OR NOT pg_has_role(acting, c.relowner, 'USAGE'))) THEN
        RETURN false;
    END IF;
    RETURN has_table_privilege(acting, wanted, 'SELECT')
        OR NOT EXISTS (SELECT FROM unnest(attnums) a WHERE NOT has_column_privilege(acting, wanted, a, 'SELECT'));
END $$;

-- Text a stored value travels in between catalog and gateway; `plain` when JSON's own form will do.
CREATE OR REPLACE FUNCTION pg_journal.transfer_expression(reference text, type_oid oid) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    base oid := base_type(type_oid);
    element oid;
    inner_expression text;
BEGIN
    CASE base
        WHEN 'bool'::regtype, 'int2'::regtype, 'int4'::regtype, 'int8'::regtype, 'oid'::regtype,
             'text'::regtype, 'varchar'::regtype, 'bpchar'::regtype THEN
            RETURN CASE WHEN base = type_oid THEN reference
                        ELSE format('%s::%s', reference, format_type(base, -1)) END;
        WHEN 'bytea'::regtype THEN
            RETURN format('encode(%s, ''hex'')', reference);
        WHEN 'date'::regtype THEN
            RETURN format('CASE WHEN isfinite(%1$s) IS FALSE THEN pg_journal.endless() ELSE %1$s - date ''1970-01-01'' END',
                          reference);
        WHEN 'time'::regtype THEN
            RETURN format('(extract(epoch FROM %s) * 1000000)::bigint', reference);
        WHEN 'timestamp'::regtype, 'timestamptz'::regtype THEN
            RETURN format('CASE WHEN isfinite(%1$s) IS FALSE THEN pg_journal.endless() '
                          'WHEN %1$s > %2$L THEN pg_journal.too_late() '
                          'ELSE (extract(epoch FROM %1$s) * 1000000)::bigint END', reference, latest_moment());
        WHEN 'interval'::regtype THEN
            RETURN format(
                '(extract(year FROM %1$s) * 12 + extract(month FROM %1$s))::int || '' '' '
                '|| extract(day FROM %1$s)::int || '' '' || (extract(hour FROM %1$s) * 3600000000 '
                '+ extract(minute FROM %1$s) * 60000000 + extract(microseconds FROM %1$s))::bigint',
                reference);
        ELSE
            SELECT typelem INTO element FROM pg_type
             WHERE oid = base AND typcategory = 'A' AND typelem <> 0;
            IF element IN ('bytea'::regtype, 'date'::regtype, 'timestamp'::regtype, 'timestamptz'::regtype,
                           'time'::regtype, 'interval'::regtype) THEN
                inner_expression := transfer_expression('u.e', element);
                RETURN format(
                    'CASE WHEN %1$s IS NOT NULL THEN ARRAY(SELECT %2$s FROM unnest(%1$s) u(e))::text END',
                    reference, inner_expression);
            END IF;
            -- As the type's output function writes it: a cast may differ (inet), JSON loses the sign of -0.
            RETURN format('CASE WHEN %1$s IS NOT NULL THEN concat(%1$s) END', reference);
    END CASE;
END $$;

-- Expression of a stored generated column, NULL for others.
CREATE OR REPLACE FUNCTION pg_journal.generation_expression(relid oid, attnum int2) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN (SELECT pg_get_expr(d.adbin, d.adrelid)
          FROM pg_attribute a JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
         WHERE a.attrelid = relid AND a.attnum = generation_expression.attnum AND a.attgenerated = 's');

CREATE OR REPLACE FUNCTION pg_journal.generation_tree(relid oid, attnum int2) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN (SELECT regexp_replace(d.adbin::text, ':location -?\d+', '', 'g')
          FROM pg_attribute a JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
         WHERE a.attrelid = relid AND a.attnum = generation_tree.attnum AND a.attgenerated = 's');

-- Columns that a unique index looks at: in its order, those it only includes left out; or, where its values are not those
-- of plain columns in all rows that have them, in order of their numbers.
CREATE OR REPLACE FUNCTION pg_journal.unique_columns(index_oid oid) RETURNS int2[]
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN (SELECT CASE WHEN num_nonnulls(i.indpred, i.indexprs) > 0 OR i.indnullsnotdistinct THEN ARRAY(
                    SELECT DISTINCT c.attnum FROM (
                        SELECT u.attnum FROM unnest(i.indkey::int2[]) WITH ORDINALITY u(attnum, o)
                         WHERE u.o <= i.indnkeyatts AND u.attnum <> 0
                         UNION ALL
                        SELECT m[1]::int2 FROM regexp_matches(concat(i.indexprs, i.indpred), ':varattno (-?\d+)', 'g') m
                    ) c(attnum) ORDER BY 1)
                ELSE ARRAY(SELECT u.attnum FROM unnest(i.indkey::int2[]) WITH ORDINALITY u(attnum, o)
                            WHERE u.o <= i.indnkeyatts ORDER BY u.o) END
          FROM pg_index i WHERE i.indexrelid = index_oid);

-- A unique index as the gateway keeps it: its name, its columns, and, where its values are not those of plain columns in
-- all rows that have them, what they are.
CREATE OR REPLACE FUNCTION pg_journal.unique_key(index_oid oid) RETURNS json
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN (SELECT json_build_array(x.relname, pg_journal.unique_columns(x.oid),
                   CASE WHEN num_nonnulls(i.indpred, i.indexprs) > 0 OR i.indnullsnotdistinct THEN json_build_array(
                       x.oid::bigint,
                       ARRAY(SELECT pg_get_indexdef(x.oid, n, true) FROM generate_series(1, i.indnkeyatts) n ORDER BY n),
                       (i.indkey::int2[])[0:i.indnkeyatts - 1],
                       regexp_replace(i.indexprs::text, ':location -?\d+', '', 'g'),
                       regexp_replace(i.indpred::text, ':location -?\d+', '', 'g'), NOT i.indnullsnotdistinct) END)
          FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid WHERE x.oid = index_oid);

-- What a domain, or a domain over one, is made of.
CREATE OR REPLACE FUNCTION pg_journal.base_type(type_oid oid) RETURNS oid
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    t record;
BEGIN
    -- PostgreSQL's own types below this number are no domains, and are not looked for: each snapshot asks for all columns.
    WHILE type_oid >= 10000 LOOP
        SELECT typtype, typbasetype INTO t FROM pg_type WHERE oid = type_oid;
        IF NOT FOUND OR t.typtype <> 'd' THEN RETURN type_oid; END IF;
        type_oid := t.typbasetype;
    END LOOP;
    RETURN type_oid;
END $$;

-- Whether values of a type have a form of their own in data files, whose text depends on the session.
CREATE OR REPLACE FUNCTION pg_journal.has_own_form(type_oid oid) RETURNS boolean
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
RETURN type_oid IN ('bytea'::regtype, 'date'::regtype, 'timestamp'::regtype, 'timestamptz'::regtype, 'time'::regtype,
                    'timetz'::regtype, 'interval'::regtype);

-- Whether values, or elements, that are carried as text look different in other sessions: composite types (of anything), names of
-- objects, money, and ranges of what is written in more than one way.
CREATE OR REPLACE FUNCTION pg_journal.depends_on_session(type_oid oid) RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN EXISTS (
    SELECT FROM pg_type y LEFT JOIN pg_range r ON y.oid IN (r.rngtypid, r.rngmultitypid)
     WHERE y.oid = base_type(type_oid)
       AND (y.typtype = 'c'
            OR y.typname ~ '^(reg|money$)' AND y.typnamespace = 'pg_catalog'::regnamespace
            OR base_type(r.rngsubtype) IN ('date'::regtype, 'timestamp'::regtype, 'timestamptz'::regtype, 'money'::regtype)));

-- The type by which queries that PostgreSQL does not answer read a column of this type, and its modifier: of a domain over what
-- has a form of its own there, that; `record` for what they cannot read.
CREATE OR REPLACE FUNCTION pg_journal.read_type(type_oid oid, typmod int4, OUT read_oid bigint, OUT read_typmod int4)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    plain oid := base_type(type_oid);
    element oid := (SELECT y.typelem FROM pg_type y WHERE y.oid = plain AND y.typcategory = 'A' AND y.typelem <> 0);
BEGIN
    read_oid := type_oid;
    read_typmod := typmod;
    IF depends_on_session(coalesce(element, plain))
       OR base_type(element) <> element AND has_own_form(base_type(element)) THEN
        read_oid := 'record'::regtype;
    ELSIF plain <> type_oid AND is_built_in(plain) THEN
        read_oid := plain;
        read_typmod := -1;
    END IF;
END $$;

-- Schema and name by which statements find a relation, whatever the snapshot of the transaction shows: another relation may have
-- the name that it shows. Without elements that are null where there is no such relation any more.
CREATE OR REPLACE FUNCTION pg_journal.current_names(relid oid) RETURNS text[]
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN (SELECT parse_ident(o.schema) || parse_ident(o.name) FROM pg_identify_object('pg_class'::regclass, relid, 0) o);

-- Definition of a journaled table as the gateway keeps it.
CREATE OR REPLACE FUNCTION pg_journal.definition(relid oid) RETURNS json
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
BEGIN ATOMIC
SELECT json_build_object(
    'relid', j.relid::bigint, 'schema', n.nspname, 'name', c.relname,
    'definition', j.definition, 'location', j.location, 'row_bytes', (SELECT i.row_bytes FROM pg_journal.instance i),
    'key', j.key, 'key_name', j.key_name, 'external', j.external, 'division', j.division,
    'columns', (
        SELECT json_agg(json_build_array(
                   a.attnum, a.attname, r.read_oid, r.read_typmod, a.attnotnull, k.storage_name,
                   k.missing_value, pg_journal.generation_expression(a.attrelid, a.attnum))
                   ORDER BY a.attnum)
          FROM pg_attribute a
          JOIN pg_journal.columns k ON k.relid = a.attrelid AND k.attnum = a.attnum
         CROSS JOIN LATERAL pg_journal.read_type(a.atttypid, a.atttypmod) r
         WHERE a.attrelid = j.relid AND NOT a.attisdropped),
    'checks', (
        SELECT json_agg(json_build_array(x.conname, pg_get_expr(x.conbin, x.conrelid)) ORDER BY x.conname)
          FROM pg_constraint x WHERE x.conrelid = j.relid AND x.contype = 'c'),
    'unique_keys', (
        SELECT json_agg(pg_journal.unique_key(u.oid) ORDER BY u.oid) FROM unnest(j.unique_indexes) u(oid)),
    'referencing', (
        SELECT json_agg(DISTINCT u.attnum) FROM pg_constraint x CROSS JOIN unnest(x.conkey) u(attnum)
         WHERE x.conrelid = j.relid AND x.contype = 'f'))
  FROM pg_journal.journals j
  JOIN pg_class c ON c.oid = j.relid
  JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE j.relid = $1;
END;
