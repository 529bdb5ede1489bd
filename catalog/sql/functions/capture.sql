-- Capture: what a resident table holds after a statement goes to its tail, whoever changed it and by whatever
-- statement. Internal triggers do it, which no owner can see, drop or disable.
--
-- Triggers of inner statements (cascades, functions, users' triggers) run before those of the statement around
-- them. So row images of the statement itself may be stale: the table is read again by key, and what it holds
-- then is written. Where rows have no key, images are counted instead: +1 as row versions, -1 as tombstones
-- without identity, in whatever order.

-- Values of all columns as the tail takes them, from rows of this name.
CREATE OR REPLACE FUNCTION pg_journal.captured_values(relid oid, source text) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN coalesce((
    SELECT string_agg(tail_expression(format('%s.%I', source, k.name), k.type_oid) || ', ', '' ORDER BY k.attnum)
      FROM columns k WHERE k.relid = captured_values.relid AND k.name <> ''), '');

-- The columns of the tail that these values are for.
CREATE OR REPLACE FUNCTION pg_journal.captured_columns(relid oid) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN coalesce((SELECT string_agg(format('c%s, ', k.attnum), '' ORDER BY k.attnum)
                   FROM columns k WHERE k.relid = captured_columns.relid AND k.name <> ''), '');

-- Refuse rows for a table that is as large as a resident one may be (53400). It has the type of what it stands in, a
-- version number.
CREATE OR REPLACE FUNCTION pg_journal.refuse_growth(relid oid) RETURNS timestamptz
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    reason text := obstacle(relid);
BEGIN
    RAISE EXCEPTION 'table "%" has more rows than the % a resident table may have',
        (SELECT c.relname FROM pg_class c WHERE c.oid = relid), (SELECT resident_hard_rows FROM instance)
        USING ERRCODE = '53400',
              HINT = CASE WHEN reason IS NULL THEN 'It becomes tiered when it rests from small writes.'
                          ELSE format('It cannot become tiered: %s. Raise resident_hard_rows.', reason) END;
END $$;

-- What is told, once, of a table that is larger than a resident one is to be and cannot become tiered for this reason;
-- else NULL. Not in snapshots that may not show that it has been told, nor while another transaction tells it, which an
-- advisory lock shows.
CREATE OR REPLACE FUNCTION pg_journal.growth_notice(wanted oid, reason text) RETURNS text
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    IF reason IS NULL OR current_setting('transaction_isolation') <> 'read committed'
       OR NOT pg_try_advisory_xact_lock((x'70676a74'::bigint << 32) + wanted::bigint) THEN
        RETURN NULL;
    END IF;
    INSERT INTO told_tables VALUES (wanted) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN RETURN NULL; END IF;
    RETURN (SELECT format('table "%s" stays resident although it is large, up to %s rows: %s',
                          c.relname, i.resident_hard_rows, reason)
              FROM pg_class c, instance i WHERE c.oid = wanted);
END $$;

-- Tell that to who writes; the answer is NULL.
CREATE OR REPLACE FUNCTION pg_journal.tell_growth(wanted oid) RETURNS timestamptz
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    notice text := growth_notice(wanted, obstacle(wanted));
BEGIN
    IF notice IS NOT NULL THEN
        RAISE NOTICE '%', notice;
    END IF;
    RETURN NULL;
END $$;

-- SQL of the next version number: later than any that a row of the table has had. The clock alone would do
-- but for one that was set back. Reading the tail would make serializable transactions conflict. Where `grows`, a
-- condition, holds, rows are inserted: that is refused, or told, of tables that are too large. A snapshot that is older than
-- the table does not show its journal, nor row versions of others that PostgreSQL would let it change.
CREATE OR REPLACE FUNCTION pg_journal.next_version(relid oid, serializable boolean, grows text DEFAULT 'false') RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN format('coalesce((SELECT CASE WHEN j.is_full AND %1$s THEN pg_journal.refuse_growth(j.relid) ELSE '
              'greatest(clock_timestamp(), j.version + interval ''1 microsecond''%2$s, '
              'CASE WHEN j.is_outgrown AND %1$s THEN pg_journal.tell_growth(j.relid) END) '
              'END FROM pg_journal.journals j WHERE j.relid = %3$s), greatest(clock_timestamp()%2$s))', grows,
              CASE WHEN NOT serializable
                   THEN format(', (SELECT max(v.version_number) + interval ''1 microsecond'' '
                               'FROM pg_journal.tail_%s v)', relid) ELSE '' END, relid);

-- Condition that the rows of two names have one key; NULL for tables without.
CREATE OR REPLACE FUNCTION pg_journal.same_key(j pg_journal.journals, one text, other text) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN (SELECT string_agg(format('%s.%I = %s.%I', one, k.name, other, k.name), ' AND ' ORDER BY u.o)
          FROM unnest(j.key) WITH ORDINALITY u(attnum, o)
          JOIN columns k ON k.relid = j.relid AND k.attnum = u.attnum);

-- The columns of the key of rows of this name.
CREATE OR REPLACE FUNCTION pg_journal.key_columns(j pg_journal.journals, source text) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN (SELECT string_agg(format('%s.%I', source, k.name), ', ' ORDER BY u.o)
          FROM unnest(j.key) WITH ORDINALITY u(attnum, o)
          JOIN columns k ON k.relid = j.relid AND k.attnum = u.attnum);

-- How many identities a transaction has for the rows that it inserts into one table.
CREATE OR REPLACE FUNCTION pg_journal.identities_each() RETURNS bigint
LANGUAGE sql IMMUTABLE
RETURN (1::bigint << 22) - 1;

-- How many rows the tail of a table has got in this transaction, those included that were rolled back to a savepoint; or more. NULL
-- where PostgreSQL does not count them.
CREATE OR REPLACE FUNCTION pg_journal.numbered(tail oid) RETURNS bigint
LANGUAGE sql
RETURN CASE WHEN current_setting('track_counts') = 'on' THEN pg_stat_get_xact_tuples_inserted(tail) END;

-- Whether a transaction goes on to insert rows into a table beside others. Who has inserted half as many as there are identities for
-- locks the table: how many rows a statement is going to insert is not known.
CREATE OR REPLACE FUNCTION pg_journal.has_identities(tail oid) RETURNS boolean
LANGUAGE sql
RETURN coalesce(pg_journal.numbered(tail) <= pg_journal.identities_each() / 2, false);

-- Refuse more rows than a transaction can have identities for (54000).
CREATE OR REPLACE FUNCTION pg_journal.refuse_numbers(relid oid) RETURNS bigint
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    RAISE EXCEPTION 'cannot insert more than % rows into table "%" in one transaction beside others', identities_each(),
        (SELECT c.relname FROM pg_class c WHERE c.oid = relid)
        USING ERRCODE = '54000', HINT = 'LOCK the table before, or COPY the rows.';
END $$;

-- The identity of a row without a key that this transaction inserts beside those of others: no two transactions have the same
-- number, nor two of its rows. Those that writers of the whole table give are larger.
CREATE OR REPLACE FUNCTION pg_journal.own_identity(number bigint, relid oid) RETURNS bigint
LANGUAGE sql STABLE
RETURN CASE WHEN number <= pg_journal.identities_each()
            THEN -(1::bigint << 62) - (pg_current_xact_id()::text::bigint << 22) - number
            ELSE pg_journal.refuse_numbers(relid) END;

-- Whether rows inserted into a table get identities when they are captured: they are hot, and have no key.
CREATE OR REPLACE FUNCTION pg_journal.captures_identities(j pg_journal.journals) RETURNS boolean
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN j.is_hot AND j.key = '{}';

-- Statements that capture the rows of this name, inserted or updated to, and deleted or updated from.
CREATE OR REPLACE FUNCTION pg_journal.capture_new(relid oid, source text, from_rows text, moment text DEFAULT 'pgwire_version')
RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN (
    SELECT CASE WHEN captures_identities(j) THEN
               format('INSERT INTO pg_journal.tail_%1$s (%2$sversion_number, row_identity) '
                      'SELECT %3$s%4$s, pg_journal.own_identity((SELECT pg_journal.numbered(%6$s)) + row_number() OVER (), %1$s)%5$s;',
                      j.relid, captured_columns(j.relid), captured_values(j.relid, source), moment, from_rows, j.tail_relid)
           WHEN j.key = '{}' THEN
               format('INSERT INTO pg_journal.tail_%s (%sversion_number) SELECT %s%s%s;',
                      j.relid, captured_columns(j.relid), captured_values(j.relid, source), moment, from_rows)
           ELSE
               format('INSERT INTO pg_journal.tail_%s (%sversion_number) SELECT %s%s '
                      'FROM ONLY %I.%I pgwire_held%s %s %s;',
                      j.relid, captured_columns(j.relid), captured_values(j.relid, 'pgwire_held'), moment,
                      j.schema_name, j.table_name, replace(from_rows, ' FROM ', ' JOIN '),
                      CASE WHEN from_rows = '' THEN 'WHERE' ELSE 'ON' END, same_key(j, 'pgwire_held', source))
           END
      FROM journals j WHERE j.relid = capture_new.relid);

CREATE OR REPLACE FUNCTION pg_journal.capture_old(relid oid, source text, from_rows text, moment text DEFAULT 'pgwire_version')
RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN (
    SELECT format('INSERT INTO pg_journal.tail_%1$s (%2$sversion_number, subsequent_version_number) '
                  'SELECT %3$s%4$s, %4$s%5$s', j.relid, captured_columns(j.relid),
                  captured_values(j.relid, source), moment, from_rows)
        || CASE WHEN j.key = '{}' THEN ';' ELSE
               format(' WHERE NOT EXISTS (SELECT FROM ONLY %I.%I pgwire_held WHERE %s);',
                      j.schema_name, j.table_name, same_key(j, 'pgwire_held', source)) END
      FROM journals j WHERE j.relid = capture_old.relid);

-- What marks the last capture of a table in this session, made in the client's statement of this time, when
-- PostgreSQL had counted so many rows of its tail; nobody else can make it.
CREATE OR REPLACE FUNCTION pg_journal.capture_mark(relid oid, inserted bigint, moment timestamptz) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN (SELECT micros(moment) || ' ' || encode(sha256(convert_to(concat_ws(
            ':', 'capture', secret_key, pg_backend_pid(), relid, inserted, micros(moment)), 'UTF8')), 'hex')
          FROM instance);

-- Refuse a statement of whose rows not all have been captured (XX001): so many were to be put into the tail, and so many
-- were. What the statement has done is undone with it.
CREATE OR REPLACE FUNCTION pg_journal.refuse_loss(relid oid, command text, expected bigint, captured bigint) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    RAISE EXCEPTION 'the journal of table "%" got % row versions of % by %',
        (SELECT c.relname FROM pg_class c WHERE c.oid = relid), captured, expected, command
        USING ERRCODE = 'data_corrupted', DETAIL = 'Nothing has been changed.';
END $$;

-- Statements that require that the row of this name has been captured, as the variable `found` is to say. A row that came and has
-- gone again, or went and is there again, has been captured by whoever did that.
CREATE OR REPLACE FUNCTION pg_journal.require_row(relid oid, source text, gone boolean, found text) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN (
    SELECT format(
        $f$GET DIAGNOSTICS %1$s = ROW_COUNT;
                    IF %1$s <> 1 THEN
                        PERFORM pg_journal.refuse_loss(%2$s, tg_op, 1, %1$s)%3$s;
                    END IF;$f$,
        found, relid,
        CASE WHEN j.key = '{}' THEN ''
             ELSE format(' WHERE %1$s > 1 OR %2$s EXISTS (SELECT FROM ONLY %3$I.%4$I pgwire_held WHERE %5$s)', found,
                         CASE WHEN gone THEN 'NOT' ELSE '' END, j.schema_name, j.table_name,
                         same_key(j, 'pgwire_held', source)) END)
      FROM journals j WHERE j.relid = require_row.relid);

-- Statements that capture one row, which a row trigger knows as `new` and `old`. Each is one query, version number
-- included: queries are what a row costs. An update that leaves the key as it is ends no row; where the row has gone
-- meanwhile, the statement that took it away has said so.
CREATE OR REPLACE FUNCTION pg_journal.capture_row(relid oid) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN (
    SELECT format(
        $f$IF tg_op = 'INSERT' THEN
                    %1$s
                    %8$s
                ELSIF tg_op = 'DELETE' THEN
                    %2$s
                    %9$s
                ELSIF %3$s THEN
                    %4$s
                    %8$s
                ELSE
                    pgwire_version := %5$s;
                    %6$s
                    %8$s
                    %7$s
                    %9$s
                END IF;$f$,
        capture_new(j.relid, 'new', '', next_version(j.relid, false, 'true')),
        capture_old(j.relid, 'old', format(' FROM (SELECT %s AS version) pgwire_now', next_version(j.relid, false)),
                    'pgwire_now.version'),
        coalesce(same_key(j, 'new', 'old'), 'false'),
        capture_new(j.relid, 'new', '', next_version(j.relid, false)),
        next_version(j.relid, false), capture_new(j.relid, 'new', ''), capture_old(j.relid, 'old', ''),
        require_row(j.relid, 'new', false, 'pgwire_came'), require_row(j.relid, 'old', true, 'pgwire_went'))
      FROM journals j WHERE j.relid = capture_row.relid);

-- Statements that capture the rows that came by a statement, and require that it were all. Where rows have a key, those that have
-- gone again have been captured by whoever took them away.
CREATE OR REPLACE FUNCTION pg_journal.capture_all_new(relid oid) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN (
    SELECT format(
        $f$%s
                GET DIAGNOSTICS pgwire_came = ROW_COUNT;
                SELECT count(*) INTO pgwire_all FROM pgwire_new;
                IF pgwire_came <> pgwire_all THEN
                    PERFORM pg_journal.refuse_loss(%s, tg_op, pgwire_all, pgwire_came)%s;
                END IF;$f$,
        capture_new(j.relid, 'pgwire_n', ' FROM pgwire_new pgwire_n'), j.relid,
        CASE WHEN j.key = '{}' THEN '' ELSE format(
            ' WHERE pgwire_came <> (SELECT count(*) FROM pgwire_new pgwire_n WHERE EXISTS ('
            'SELECT FROM ONLY %I.%I pgwire_held WHERE %s))',
            j.schema_name, j.table_name, same_key(j, 'pgwire_held', 'pgwire_n')) END)
      FROM journals j WHERE j.relid = capture_all_new.relid);

-- The same of the rows that went; those whose keys are there are no loss. Where all rows of an UPDATE are there, and have all the
-- keys that there were, nothing went; journals tell keys of types of users apart by their texts.
CREATE OR REPLACE FUNCTION pg_journal.capture_all_old(relid oid) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN (
    SELECT CASE WHEN j.key = '{}' THEN format(
        $f$%s
                GET DIAGNOSTICS pgwire_went = ROW_COUNT;
                SELECT count(*) INTO pgwire_expected FROM pgwire_old;
                IF pgwire_went <> pgwire_expected THEN
                    PERFORM pg_journal.refuse_loss(%s, tg_op, pgwire_expected, pgwire_went);
                END IF;$f$, s.captures, j.relid)
    ELSE format(
        $f$IF tg_op = 'DELETE' THEN
                    SELECT count(*) INTO pgwire_expected FROM pgwire_old;
                ELSE
                    SELECT count(*) INTO pgwire_expected
                      FROM (SELECT %1$s FROM pgwire_old pgwire_o EXCEPT SELECT %2$s FROM pgwire_new pgwire_n) pgwire_k;
                END IF;
                IF %3$s pgwire_expected > 0 OR pgwire_came <> pgwire_all THEN
                    %4$s
                    GET DIAGNOSTICS pgwire_went = ROW_COUNT;
                    IF pgwire_went <> pgwire_expected THEN
                        SELECT count(*) INTO pgwire_expected FROM pgwire_old pgwire_o
                         WHERE NOT EXISTS (SELECT FROM ONLY %5$I.%6$I pgwire_held WHERE %7$s);
                        IF pgwire_went <> pgwire_expected THEN
                            PERFORM pg_journal.refuse_loss(%8$s, tg_op, pgwire_expected, pgwire_went);
                        END IF;
                    END IF;
                END IF;$f$,
        key_columns(j, 'pgwire_o'), key_columns(j, 'pgwire_n'),
        CASE WHEN EXISTS (SELECT FROM columns k WHERE k.relid = j.relid AND k.attnum = ANY (j.key)
                             AND NOT is_built_in(k.type_oid)) THEN 'true OR' ELSE '' END,
        s.captures, j.schema_name, j.table_name, same_key(j, 'pgwire_held', 'pgwire_o'), j.relid) END
      FROM journals j CROSS JOIN LATERAL (SELECT capture_old(j.relid, 'pgwire_o', ' FROM pgwire_old pgwire_o') AS captures) s
     WHERE j.relid = capture_all_old.relid);

-- True when no other statement has changed the table since the client's statement began: then the rows an INSERT
-- has brought are still what it brought. Serializable transactions must not look into the tail.
CREATE OR REPLACE FUNCTION pg_journal.is_first(relid oid, tail oid) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    inserted bigint := pg_stat_get_xact_tuples_inserted(tail);
    mark text;
BEGIN
    IF current_setting('track_counts') <> 'on' THEN RETURN false; END IF;
    IF inserted = 0 THEN RETURN true; END IF;
    mark := current_setting('pg_journal.captured_' || relid, true);
    RETURN coalesce(mark <> '' AND moment(split_part(mark, ' ', 1)::bigint) < statement_timestamp()
                    AND mark = capture_mark(relid, inserted, moment(split_part(mark, ' ', 1)::bigint)), false);
EXCEPTION
    WHEN invalid_text_representation OR numeric_value_out_of_range OR datetime_field_overflow THEN
        RETURN false;
END $$;

-- Write the function that captures changes of a table.
CREATE OR REPLACE FUNCTION pg_journal.make_capture(relid oid, by_row boolean) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    hot boolean := (SELECT j.is_hot FROM journals j WHERE j.relid = make_capture.relid);
    identified boolean := (SELECT captures_identities(j) FROM journals j WHERE j.relid = make_capture.relid);
    body text;
BEGIN
    -- One plan serves one row and a million: by the index of the key. The newest version number is found faster
    -- without looking at the visibility map. Without constraint exclusion the planner evaluates no CHECK, which
    -- could run code of users.
    body := format($f$
        #variable_conflict use_variable
        DECLARE
            pgwire_version timestamptz;
            pgwire_way text;
            pgwire_serializable boolean := current_setting('transaction_isolation') = 'serializable';
            pgwire_first boolean := false;
            pgwire_came bigint;
            pgwire_went bigint;
            pgwire_all bigint;
            pgwire_expected bigint;
        BEGIN
            %14$s
            %13$s
            IF pgwire_serializable THEN
                pgwire_version := %2$s;
                pgwire_first := tg_op = 'INSERT' AND NOT %11$s AND pg_journal.is_first(%1$s, %10$s);
            ELSE
                pgwire_version := %3$s;
                pgwire_first := tg_op = 'INSERT' AND NOT %11$s AND coalesce(
                    (SELECT max(v.version_number) < statement_timestamp() FROM pg_journal.tail_%1$s v), true);
            END IF;
            IF pgwire_first THEN
                %12$s
            ELSIF tg_op = 'INSERT' THEN
                %4$s
            ELSIF tg_op = 'UPDATE' THEN
                %4$s
                %5$s
            ELSIF tg_op = 'DELETE' THEN
                %5$s
            ELSE
                INSERT INTO pg_journal.tail_%1$s (version_number, subsequent_version_number, row_identity)
                VALUES (pgwire_version, pgwire_version, %6$s);
                GET DIAGNOSTICS pgwire_came = ROW_COUNT;
                IF pgwire_came <> 1 THEN
                    PERFORM pg_journal.refuse_loss(%1$s, tg_op, 1, pgwire_came);
                END IF;
                -- Triggers of users that came first may have filled the table again.
                INSERT INTO pg_journal.tail_%1$s (%7$sversion_number)
                SELECT %8$spgwire_version + interval '1 microsecond' FROM ONLY %9$s pgwire_held;
            END IF;
            %15$s
            IF pgwire_serializable THEN
                PERFORM set_config('pg_journal.captured_%1$s', pg_journal.capture_mark(
                    %1$s, pg_stat_get_xact_tuples_inserted(%10$s), statement_timestamp()), false);
            END IF;
            RETURN NULL;
        END $f$,
        relid,
        next_version(relid, true, 'tg_op = ''INSERT'''), next_version(relid, false, 'tg_op = ''INSERT'''),
        CASE WHEN by_row THEN concat_ws(E'\n', capture_new(relid, 'new', ''), require_row(relid, 'new', false, 'pgwire_came'))
             ELSE capture_all_new(relid) END,
        CASE WHEN by_row THEN concat_ws(E'\n', capture_old(relid, 'old', ''), require_row(relid, 'old', true, 'pgwire_went'))
             ELSE capture_all_old(relid) END,
        truncation_mark(),
        captured_columns(relid), captured_values(relid, 'pgwire_held'),
        (SELECT format('%I.%I', j.schema_name, j.table_name) FROM journals j WHERE j.relid = make_capture.relid),
        format('pg_journal.tail_%s', relid)::regclass::oid, by_row::text,
        -- By row this is never reached.
        CASE WHEN identified THEN capture_all_new(relid) ELSE format(
            $f$INSERT INTO pg_journal.tail_%1$s (%2$sversion_number) SELECT %3$spgwire_version FROM pgwire_new pgwire_n;
                GET DIAGNOSTICS pgwire_came = ROW_COUNT;
                SELECT count(*) INTO pgwire_all FROM pgwire_new;
                IF pgwire_came <> pgwire_all THEN
                    PERFORM pg_journal.refuse_loss(%1$s, tg_op, pgwire_all, pgwire_came);
                END IF;$f$, relid, captured_columns(relid), captured_values(relid, 'pgwire_n')) END,
        CASE WHEN by_row THEN format(
            $f$IF NOT pgwire_serializable AND tg_op <> 'TRUNCATE' THEN
                %s
                RETURN NULL;
            END IF;$f$, capture_row(relid)) ELSE '' END,
        -- Of rows without a key only those that came lately are here.
        CASE WHEN identified THEN format(
            $f$IF tg_op <> 'INSERT' THEN
                PERFORM pg_journal.refuse_unannounced(%1$s);
            END IF;
            pgwire_way := pg_journal.announced_way(%1$s, tg_op);$f$, relid)
        -- The action of a foreign key that finds no rows needs no announcement.
             WHEN hot AND by_row THEN format(
            $f$pgwire_way := pg_journal.announced_way(%s, tg_op);
            %s$f$, relid, refuse_cold_row(relid))
             WHEN hot THEN format(
            $f$IF tg_op IN ('UPDATE', 'DELETE') AND (pg_trigger_depth() > 1 OR pg_journal.is_acting()) THEN
                IF NOT EXISTS (SELECT FROM pgwire_old) THEN RETURN NULL; END IF;
            END IF;
            pgwire_way := pg_journal.announced_way(%s, tg_op);$f$, relid) ELSE '' END,
        CASE WHEN hot AND NOT by_row AND NOT identified THEN concat_ws(
            E'\n', refuse_cold(relid), refuse_passing(relid)) ELSE '' END);
    -- As a literal: names in it may hold whatever would end another quotation.
    EXECUTE format(
        'CREATE OR REPLACE FUNCTION pg_journal.capture_%s() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER '
        'SET search_path = pg_catalog, pg_temp SET enable_hashjoin = off SET enable_mergejoin = off '
        'SET enable_seqscan = off SET enable_indexonlyscan = off SET constraint_exclusion = off %s AS %L',
        relid,
        CASE WHEN EXISTS (SELECT FROM columns k WHERE k.relid = make_capture.relid AND k.name <> ''
                             AND NOT is_built_in(base_type(k.type_oid)))
             THEN 'SET datestyle = ''ISO'' SET intervalstyle = ''postgres'' SET timezone = ''UTC'' '
                  'SET bytea_output = ''hex'' SET extra_float_digits = 1' ELSE '' END, body);
    PERFORM pg_journal.withhold_function(format('pg_journal.capture_%s()', relid)::regprocedure);
END $$;

-- Refuse to change a tiered table but for the gateway, which has announced it: rows left there would be in no
-- journal. The action of a foreign key finds no rows there; where cold ones reference, the referenced table tells.
CREATE OR REPLACE FUNCTION pg_journal.guard() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    IF tg_op = 'TRUNCATE' THEN
        -- Once for each time it is announced: what ends the rows of the journal comes with it.
        IF current_setting('pg_journal.emptying_' || tg_relid, true)
           IS DISTINCT FROM setting_mark('emptying_' || tg_relid, '') THEN
            -- By one snapshot it is not seen which tables are tiered now.
            IF current_setting('transaction_isolation') <> 'read committed' THEN PERFORM outdated(); END IF;
            RAISE EXCEPTION 'TRUNCATE that reaches the tiered table "%" is not supported here', tg_table_name
                USING ERRCODE = '0A000', HINT = 'Run it by itself, outside of functions.';
        END IF;
        PERFORM set_config('pg_journal.emptying_' || tg_relid, '', true);
        RETURN NULL;
    END IF;
    IF current_setting('pg_journal.writing_' || tg_relid, true) IS DISTINCT FROM announcement(tg_relid)
       AND current_setting('pg_journal.hot_' || tg_relid, true) IS DISTINCT FROM hot_announcement(tg_relid, 'keys')
       AND current_setting('pg_journal.hot_' || tg_relid, true) IS DISTINCT FROM hot_announcement(tg_relid, 'insert')
       AND NOT (tg_op IN ('UPDATE', 'DELETE') AND pg_trigger_depth() > 1) THEN
        PERFORM refuse_unannounced(tg_relid);
    END IF;
    IF tg_op = 'INSERT' THEN PERFORM await_arrival(tg_relid); END IF;
    RETURN NULL;
END $$;

-- What announces a write of this transaction; nobody else can make it.
CREATE OR REPLACE FUNCTION pg_journal.announcement(relid oid) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN (SELECT encode(sha256(convert_to(
            'write:' || secret_key || ':' || pg_current_xact_id()::text || ':' || relid, 'UTF8')), 'hex')
          FROM instance);

-- Whether this transaction has announced that it writes a tiered table, or hot rows of it. Its triggers ask with the rights of
-- whoever writes.
CREATE OR REPLACE FUNCTION pg_journal.is_announced(wanted oid) RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    IF current_setting('pg_journal.writing_' || wanted, true) = announcement(wanted) THEN RETURN true; END IF;
    RETURN has_announced(wanted);
END $$;

-- Give a table the triggers its residency asks for, and take others of ours away. Readers are not disturbed.
CREATE OR REPLACE FUNCTION pg_journal.watch(relid oid) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
SET allow_system_table_mods = on
SET event_triggers = off
AS $$
DECLARE
    j record;
    t text;
    capture oid := to_regproc('pg_journal.capture_' || watch.relid);
    referenced oid := to_regproc('pg_journal.referenced_' || watch.relid);
    seek oid := to_regproc('pg_journal.seek_' || watch.relid);
    reseek oid := to_regproc('pg_journal.reseek_' || watch.relid);
    propose oid := to_regproc('pg_journal.propose_' || watch.relid);
    by_row boolean := is_in_tree(watch.relid);
BEGIN
    SELECT jj.relid, jj.residency, jj.is_hot, jj.key, format('%I.%I', jj.schema_name, jj.table_name) AS name INTO j
      FROM journals jj WHERE jj.relid = watch.relid;
    EXECUTE format('LOCK TABLE ONLY %s IN SHARE ROW EXCLUSIVE MODE', j.name);
    WITH ours AS (
        DELETE FROM pg_trigger g WHERE g.tgrelid = j.relid AND g.tgname LIKE 'pgwire\_%'
           AND g.tgfoid IN (capture, referenced, seek, reseek, propose, 'pg_journal.guard'::regproc, 'pg_journal.guard_row'::regproc)
        RETURNING g.oid)
    DELETE FROM pg_depend d USING ours WHERE d.classid = 'pg_trigger'::regclass AND d.objid = ours.oid;
    IF j.residency = 'resident' OR j.is_hot THEN
        PERFORM make_capture(j.relid, by_row);
    END IF;
    IF j.is_hot AND j.key <> '{}' THEN
        PERFORM make_proposing(j.relid);
        EXECUTE format('CREATE TRIGGER pgwire_propose BEFORE INSERT ON %s FOR EACH ROW '
                       'WHEN (current_setting(''pg_journal.telling'', true) = ''on'') '
                       'EXECUTE FUNCTION pg_journal.propose_%s()', j.name, j.relid);
    END IF;
    PERFORM make_warmth(j.relid);
    PERFORM settle_pending(j.relid);
    IF told_references(j.relid) <> '{}' THEN
        PERFORM make_referenced(j.relid);
        -- By their names they come after PostgreSQL's own.
        FOREACH t IN ARRAY ARRAY[
            'pgwire_referenced_delete AFTER DELETE ON %s REFERENCING OLD TABLE AS pgwire_old FOR EACH STATEMENT %s',
            'pgwire_referenced_update AFTER UPDATE ON %s FOR EACH ROW %s']
        LOOP
            EXECUTE format('CREATE TRIGGER ' || t, j.name,
                           format('EXECUTE FUNCTION pg_journal.referenced_%s()', j.relid));
        END LOOP;
    END IF;
    PERFORM silence_checks(j.relid);
    IF cold_parents(j.relid) <> '{}' THEN
        PERFORM make_seeking(j.relid, false), make_seeking(j.relid, true);
        EXECUTE format('CREATE TRIGGER pgwire_seek_insert AFTER INSERT ON %s REFERENCING NEW TABLE AS pgwire_new '
                       'FOR EACH STATEMENT EXECUTE FUNCTION pg_journal.seek_%s()', j.name, j.relid);
        EXECUTE format('CREATE TRIGGER pgwire_seek_update AFTER UPDATE ON %s REFERENCING NEW TABLE AS pgwire_new '
                       'OLD TABLE AS pgwire_old FOR EACH STATEMENT EXECUTE FUNCTION pg_journal.reseek_%s()', j.name, j.relid);
    ELSIF seek IS NOT NULL THEN
        EXECUTE format('DROP FUNCTION pg_journal.seek_%1$s(), pg_journal.reseek_%1$s()', j.relid);
    END IF;
    FOREACH t IN ARRAY CASE
        WHEN j.residency = 'tiered' AND NOT j.is_hot THEN ARRAY[
            'pgwire_guard BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON %s FOR EACH STATEMENT '
            'EXECUTE FUNCTION pg_journal.guard()']
            -- Rows that are routed here fire no statement trigger. To note each, for a trigger to come, would take longer.
            || CASE WHEN by_row THEN ARRAY[format(
                'pgwire_routed AFTER INSERT ON %%s FOR EACH ROW WHEN (NOT pg_journal.is_announced(%s)) '
                'EXECUTE FUNCTION pg_journal.guard_row()', j.relid)] ELSE '{}'::text[] END
        WHEN by_row AND j.is_hot THEN ARRAY[
            'pgwire_guard BEFORE UPDATE OR DELETE ON %s FOR EACH STATEMENT EXECUTE FUNCTION pg_journal.guard()',
            'pgwire_row AFTER INSERT OR UPDATE OR DELETE ON %s FOR EACH ROW %s',
            'pgwire_truncate AFTER TRUNCATE ON %s FOR EACH STATEMENT %s']
        WHEN by_row THEN ARRAY[
            'pgwire_row AFTER INSERT OR UPDATE OR DELETE ON %s FOR EACH ROW %s',
            'pgwire_truncate AFTER TRUNCATE ON %s FOR EACH STATEMENT %s']
        ELSE ARRAY[
            'pgwire_insert AFTER INSERT ON %s REFERENCING NEW TABLE AS pgwire_new FOR EACH STATEMENT %s',
            'pgwire_update AFTER UPDATE ON %s REFERENCING NEW TABLE AS pgwire_new OLD TABLE AS pgwire_old '
            'FOR EACH STATEMENT %s',
            'pgwire_delete AFTER DELETE ON %s REFERENCING OLD TABLE AS pgwire_old FOR EACH STATEMENT %s',
            'pgwire_truncate AFTER TRUNCATE ON %s FOR EACH STATEMENT %s'] END
    LOOP
        EXECUTE format('CREATE TRIGGER ' || t, j.name,
                       format('EXECUTE FUNCTION pg_journal.capture_%s()', j.relid));
    END LOOP;
    WITH ours AS (
        UPDATE pg_trigger g SET tgisinternal = true
         WHERE g.tgrelid = j.relid AND g.tgname LIKE 'pgwire\_%'
           AND g.tgfoid IN (to_regproc('pg_journal.capture_' || j.relid),
                            to_regproc('pg_journal.referenced_' || j.relid),
                            to_regproc('pg_journal.seek_' || j.relid), to_regproc('pg_journal.reseek_' || j.relid),
                            to_regproc('pg_journal.propose_' || j.relid),
                            'pg_journal.guard'::regproc, 'pg_journal.guard_row'::regproc)
        RETURNING g.oid)
    UPDATE pg_depend d SET deptype = 'i' FROM ours
     WHERE d.classid = 'pg_trigger'::regclass AND d.objid = ours.oid
       AND d.refclassid = 'pg_class'::regclass AND d.refobjid = j.relid;
    UPDATE journals jj SET watched = watch_signature(jj.relid) WHERE jj.relid = j.relid;
END $$;

-- Refuse to journal anew what this transaction's snapshot may not show: rows that others have committed since
-- would be missing. It shows all of a table that the transaction itself has made, or rewritten.
CREATE OR REPLACE FUNCTION pg_journal.check_snapshot(relid oid) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    IF current_setting('transaction_isolation') = 'read committed'
       OR EXISTS (SELECT FROM journals j WHERE j.relid = check_snapshot.relid AND j.rewritten)
       -- Nothing ever updates this row.
       OR EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = check_snapshot.relid AND a.attname = 'tableoid'
                     AND a.xmin = pg_current_xact_id()::xid) THEN
        RETURN;
    END IF;
    PERFORM refuse(format('changing the key or a type of "%s" under REPEATABLE READ or SERIALIZABLE is',
                          relid::regclass), 'Run the statement under READ COMMITTED.');
END $$;

-- Journal all rows a resident table holds; what is older in the journal has ended.
CREATE OR REPLACE FUNCTION pg_journal.journal_rows(relid oid) RETURNS void
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
    j record;
    mark timestamptz;
    filled boolean;
BEGIN
    SELECT jj.relid, jj.schema_name, jj.table_name INTO j FROM journals jj WHERE jj.relid = journal_rows.relid;
    EXECUTE 'SELECT ' || next_version(relid, false) INTO mark;
    EXECUTE format('SELECT EXISTS (SELECT FROM pg_journal.tail_%1$s) '
                   'OR EXISTS (SELECT FROM pg_journal.segments s WHERE s.relid = %1$s AND s.retired_at IS NULL)',
                   relid) INTO filled;
    IF filled THEN
        EXECUTE format('INSERT INTO pg_journal.tail_%s (version_number, subsequent_version_number, row_identity) '
                       'VALUES ($1, $1, $2)', relid) USING mark, truncation_mark();
    END IF;
    EXECUTE format('INSERT INTO pg_journal.tail_%s (%sversion_number) SELECT %s$1 FROM ONLY %I.%I t',
                   relid, captured_columns(relid), captured_values(relid, 't'), j.schema_name, j.table_name)
      USING mark + interval '1 microsecond';
    UPDATE journals jj SET rewritten = false WHERE jj.relid = j.relid AND jj.rewritten;
END $$;

-- Compare a resident table with its tail; the answer is how many rows one has and the other has not. Of use
-- while the tail holds the whole journal.
CREATE OR REPLACE FUNCTION pg_journal.check_tail(relid oid) RETURNS bigint
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
    j journals;
    images text;
    difference bigint;
BEGIN
    SELECT * INTO j FROM journals jj WHERE jj.relid = check_tail.relid;
    images := format('(SELECT ROW(%s NULL)::text AS image FROM ONLY %I.%I t)', captured_values(relid, 't'),
                     j.schema_name, j.table_name);
    EXECUTE format(
        'WITH marked AS (SELECT coalesce(max(version_number), ''-infinity'') AS mark FROM pg_journal.tail_%1$s '
        'WHERE row_identity = %2$s), '
        'versions AS (SELECT v.* FROM pg_journal.tail_%1$s v, marked m WHERE v.version_number > m.mark), '
        'journal AS (%3$s), '
        'difference AS (SELECT image, sum(n) AS n FROM ('
        'SELECT image, 1 AS n FROM %4$s h UNION ALL SELECT image, -n FROM journal) x '
        'GROUP BY image HAVING sum(n) <> 0) '
        'SELECT coalesce(sum(abs(n)), 0)::bigint FROM difference',
        relid, truncation_mark(),
        CASE WHEN j.key = '{}' THEN format(
            'SELECT ROW(%s NULL)::text AS image, CASE WHEN v.subsequent_version_number IS NULL THEN 1 ELSE -1 END AS n '
            'FROM versions v', captured_columns(relid))
        ELSE format(
            'SELECT ROW(%s NULL)::text AS image, 1 AS n FROM (SELECT v.*, row_number() OVER (PARTITION BY %s '
            'ORDER BY %s) AS pgwire_age FROM versions v) v '
            'WHERE v.pgwire_age = 1 AND v.subsequent_version_number IS NULL',
            captured_columns(relid),
            (SELECT string_agg('v.c' || k, ', ') FROM unnest(j.key) k), newest_first('v')) END,
        images)
      INTO difference;
    RETURN difference;
END $$;
