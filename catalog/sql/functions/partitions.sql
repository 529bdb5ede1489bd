-- Partitioned tables: each leaf of a tree has a journal of its own, and is tiered or resident by itself; the tables above
-- have none. A statement that names one of these is the gateway's where a leaf below is tiered. PostgreSQL would find no
-- rows there, and no statement trigger of the leaf would tell: the tables above have a trigger of their own for that.

-- The partitioned tables above a table, the topmost first.
CREATE OR REPLACE FUNCTION pg_journal.ancestors(wanted oid) RETURNS oid[]
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN ARRAY(SELECT a.relid::oid FROM pg_partition_ancestors(wanted) WITH ORDINALITY a(relid, o)
              WHERE a.relid <> wanted ORDER BY a.o DESC);

-- Refuse what a tiered leaf cannot keep to of the tables above it, whose rules are not its own.
CREATE OR REPLACE FUNCTION pg_journal.check_tree(wanted oid) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    above oid[] := ancestors(wanted);
BEGIN
    -- What is put back into a leaf is checked to be in its bounds.
    PERFORM check_expression(p.partexprs, c.relowner, format('PARTITION BY on "%s"', c.relname))
       FROM pg_partitioned_table p JOIN pg_class c ON c.oid = p.partrelid
      WHERE c.oid = ANY (above) AND p.partexprs IS NOT NULL;
    IF EXISTS (SELECT FROM pg_class c WHERE c.oid = ANY (above) AND c.relrowsecurity)
       OR EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = ANY (above)) THEN
        PERFORM refuse('ROW LEVEL SECURITY is');
    END IF;
    IF EXISTS (SELECT FROM pg_trigger g WHERE g.tgrelid = ANY (above) AND NOT g.tgisinternal) THEN
        PERFORM refuse('CREATE TRIGGER is');
    END IF;
    IF EXISTS (SELECT FROM pg_rewrite w WHERE w.ev_class = ANY (above)) THEN PERFORM refuse('CREATE RULE is'); END IF;
    IF EXISTS (SELECT FROM pg_constraint x WHERE x.conrelid = wanted AND x.contype = 'f') THEN
        PERFORM refuse('FOREIGN KEY of a partition is', 'Leave the constraint out.');
    END IF;
    IF EXISTS (SELECT FROM pg_foreign_table f WHERE pg_partition_root(f.ftrelid) = above[1]) THEN
        PERFORM refuse('a foreign table beside it, in a partitioned table, is');
    END IF;
END $$;

-- Leaves below a table that are tiered.
CREATE OR REPLACE FUNCTION pg_journal.tiered_leaves(wanted oid) RETURNS SETOF oid
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
    SELECT j.relid FROM journals j
     WHERE j.ancestors[1] = coalesce((ancestors(wanted))[1], wanted) AND j.residency = 'tiered'
       AND wanted = ANY (j.ancestors)
$$;

-- Refuse to change a partitioned table with tiered leaves but for the gateway, which has announced it.
CREATE OR REPLACE FUNCTION pg_journal.guard_tree() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    IF EXISTS (SELECT FROM tiered_leaves(tg_relid))
       AND current_setting('pg_journal.writing_' || tg_relid, true) IS DISTINCT FROM announcement(tg_relid) THEN
        PERFORM outdated();
    END IF;
    RETURN NULL;
END $$;

-- Refuse a row that PostgreSQL has routed to a tiered leaf which the gateway did not expect it to go to.
CREATE OR REPLACE FUNCTION pg_journal.refuse_routed(wanted oid) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    above oid[] := ancestors(wanted);
BEGIN
    IF EXISTS (SELECT FROM unnest(above) u(a)
                WHERE current_setting('pg_journal.writing_' || u.a, true) = announcement(u.a)) THEN
        RAISE EXCEPTION 'moving rows to the tiered partition "%" in this statement is not supported',
                        (SELECT c.relname FROM pg_class c WHERE c.oid = wanted)
            USING ERRCODE = '0A000', HINT = 'Delete the rows, and insert them anew.';
    END IF;
    PERFORM outdated();
END $$;

CREATE OR REPLACE FUNCTION pg_journal.guard_row() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    PERFORM refuse_routed(tg_relid);
    RETURN NULL;
END $$;

-- Let PostgreSQL change what is above these leaves, whose write is announced. Leaves that earlier statements of the transaction
-- have announced take no rows any more, unless they are told again: nobody would look for these. A transaction that has had no
-- number until now has announced none.
CREATE OR REPLACE FUNCTION pg_journal.announce_above(above oid[], leaves oid[], is_new boolean) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    noted text := noted_setting('leaves_' || above[1]);
    known oid[] := string_to_array(noted, ',')::oid[];
BEGIN
    IF noted IS NULL AND NOT is_new THEN
        known := ARRAY(SELECT j.relid FROM journals j WHERE j.ancestors[1] = above[1] AND j.residency = 'tiered');
    END IF;
    PERFORM set_config('pg_journal.writing_' || u.leaf, '', true), set_config('pg_journal.hot_' || u.leaf, '', true)
       FROM (SELECT unnest(known) EXCEPT SELECT unnest(leaves)) u(leaf)
      WHERE current_setting('pg_journal.writing_' || u.leaf, true) <> ''
         OR current_setting('pg_journal.hot_' || u.leaf, true) <> '';
    PERFORM note_setting('leaves_' || above[1], array_to_string(leaves, ','));
    PERFORM set_config('pg_journal.writing_' || u.a, announcement(u.a), true) FROM unnest(above) u(a);
END $$;

-- Those of some tables that are leaves of the same partitioned table as this leaf.
CREATE OR REPLACE FUNCTION pg_journal.leaves_beside(wanted oid, relids oid[]) RETURNS oid[]
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN ARRAY(SELECT b.relid FROM journals j JOIN journals b ON b.ancestors[1] = j.ancestors[1]
              WHERE j.relid = wanted AND b.relid = ANY (relids));

-- Number of the advisory lock that those share who lock leaves of a tree one by one, until their transactions end.
CREATE OR REPLACE FUNCTION pg_journal.tree_gate(wanted oid) RETURNS bigint
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN (x'70676a70'::bigint << 32) + coalesce((ancestors(wanted))[1], wanted)::bigint;

-- The topmost table of a tree.
CREATE OR REPLACE FUNCTION pg_journal.root(wanted oid) RETURNS oid
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN coalesce((ancestors(wanted))[1], wanted);

-- Go past the gate together with others, as soon as nobody locks leaves. Advisory locks are anybody's to take: who has this one
-- alone, or awaits it, is waited for only if the topmost table is locked, too, as who may not write it cannot. What is gone past
-- all the same can cost a deadlock, or a try more, and nothing else. What PostgreSQL does not see waiting ends by lock_timeout.
CREATE OR REPLACE FUNCTION pg_journal.pass_tree_gate(wanted oid) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    patience interval := current_setting('lock_timeout')::interval;
    began timestamptz := clock_timestamp();
BEGIN
    WHILE NOT pg_try_advisory_xact_lock_shared(tree_gate(wanted)) AND EXISTS (
        SELECT FROM pg_locks l JOIN pg_locks t ON t.pid = l.pid
         WHERE l.locktype = 'advisory' AND l.mode = 'ExclusiveLock' AND l.objsubid = 1 AND l.pid <> pg_backend_pid()
           AND (l.classid::bigint << 32) + l.objid::bigint = tree_gate(wanted)
           AND t.locktype = 'relation' AND t.relation = root(wanted) AND t.granted AND t.mode <> 'AccessShareLock'
           AND t.database = l.database)
    LOOP
        IF patience > interval '0' AND clock_timestamp() > began + patience THEN
            RAISE EXCEPTION 'canceling statement due to lock timeout' USING ERRCODE = '55P03';
        END IF;
        PERFORM pg_sleep(0.005);
    END LOOP;
END $$;

-- Let others lock leaves, if this session keeps them from it.
CREATE OR REPLACE FUNCTION pg_journal.leave_gate(wanted oid) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    IF EXISTS (SELECT FROM pg_locks l
                WHERE l.locktype = 'advisory' AND l.pid = pg_backend_pid() AND l.mode = 'ExclusiveLock' AND l.objsubid = 1
                  AND (l.classid::bigint << 32) + l.objid::bigint = tree_gate(wanted)) THEN
        PERFORM pg_advisory_unlock(tree_gate(wanted));
    END IF;
END $$;

-- Let PostgreSQL change a partitioned table with tiered leaves, where no rows but those of these resident leaves can be
-- concerned, which stay resident until the transaction ends, and rows may go to those tiered ones that are locked for it.
CREATE OR REPLACE FUNCTION pg_journal.announce_tree(code text, wanted oid, resident oid[], tiered oid[]) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    leaf oid;
    is_new boolean := pg_current_xact_id_if_assigned() IS NULL;
BEGIN
    PERFORM authorize(code, 'announce_tree', wanted::text, resident::text, tiered::text);
    PERFORM require_right(wanted, true);
    PERFORM pass_tree_gate(wanted);
    FOR leaf IN SELECT u.r FROM unnest(resident) u(r) ORDER BY u.r LOOP
        PERFORM lock_table(leaf, 'ROW EXCLUSIVE');
        IF NOT EXISTS (SELECT FROM journals j WHERE j.relid = leaf AND j.residency = 'resident') THEN
            PERFORM outdated();
        END IF;
    END LOOP;
    PERFORM announce_above(ancestors(wanted) || wanted, tiered, is_new);
    RETURN convert_to('null', 'UTF8');
END $$;

-- Lock resident leaves of a partitioned table: some are not written by others until the transaction ends, which may write
-- rows of them with change_leaf, and others stay resident. Not those that could not become tiered: code of users would run
-- when they are written, and with which rights is not theirs to say.
CREATE OR REPLACE FUNCTION pg_journal.lock_leaves(wanted oid, held oid[], others oid[]) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    leaf oid;
    reason text;
BEGIN
    FOR leaf IN SELECT DISTINCT u.r FROM unnest(held || others) u(r) ORDER BY u.r LOOP
        PERFORM lock_table(leaf, CASE WHEN leaf = ANY (held) THEN 'SHARE ROW EXCLUSIVE' ELSE 'ROW EXCLUSIVE' END);
        IF NOT EXISTS (SELECT FROM journals j
                        WHERE j.relid = leaf AND j.residency = 'resident' AND wanted = ANY (j.ancestors)) THEN
            PERFORM outdated();
        END IF;
        reason := CASE WHEN leaf = ANY (held) THEN pin(leaf) END;
        IF reason IS NOT NULL THEN
            RAISE EXCEPTION 'writing the partition "%", which cannot become tiered, beside tiered ones in this statement'
                            ' is not supported: %', (SELECT c.relname FROM pg_class c WHERE c.oid = leaf), reason
                USING ERRCODE = '0A000', HINT = 'Name a condition on the columns that the table is partitioned by.';
        END IF;
    END LOOP;
END $$;

-- Do so; the answer is whether it is done. Unless it `waits`, it gives up after a moment, and has locked none then: others may
-- be waiting for leaves that the transaction has. Those that come by announce_tree lock some leaves, and PostgreSQL then, in an
-- order of its own, those of their plan: they are let pass, or kept waiting, before. The caller takes a snapshot afterwards.
CREATE OR REPLACE FUNCTION pg_journal.hold_leaves(code text, wanted oid, held oid[], others oid[], waits boolean) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    longest text := current_setting('lock_timeout');
BEGIN
    PERFORM authorize(code, 'hold_leaves', wanted::text, held::text, others::text, waits::text);
    PERFORM require_right(wanted, true);
    IF waits THEN
        PERFORM lock_leaves(wanted, held, others);
        RETURN convert_to('true', 'UTF8');
    END IF;
    BEGIN
        -- Less than it takes until a deadlock is looked for.
        PERFORM set_config('lock_timeout', '200ms', true);
        PERFORM lock_table(root(wanted), 'ROW EXCLUSIVE');
        PERFORM pg_advisory_lock(tree_gate(wanted));
        PERFORM lock_leaves(wanted, held, others);
        PERFORM leave_gate(wanted);
    EXCEPTION
        WHEN lock_not_available THEN
            PERFORM leave_gate(wanted);
            RETURN convert_to('false', 'UTF8');
        WHEN query_canceled OR assert_failure OR OTHERS THEN
            PERFORM leave_gate(wanted);
            RAISE;
    END;
    PERFORM set_config('lock_timeout', longest, true);
    RETURN convert_to('true', 'UTF8');
END $$;

-- Give rows of a resident leaf that is held new values, and delete others; both come as append takes them, and are known
-- by their keys. Capture sees it as it sees every change.
CREATE OR REPLACE FUNCTION pg_journal.change_leaf(code text, wanted oid, kept text, gone text) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
SET array_nulls = on
SET intervalstyle = 'postgres'
SET extra_float_digits = 1
SET xmloption = content
AS $$
DECLARE
    x record;
    changed bigint;
    found bigint := 0;
BEGIN
    PERFORM authorize(code, 'change_leaf', wanted::text, kept, gone);
    PERFORM require_right(wanted, true);
    x := row_parts(wanted);
    IF gone IS NOT NULL THEN
        EXECUTE format('DELETE FROM ONLY %s n USING json_array_elements($1) u(e) WHERE %s', wanted::regclass, x.given_key)
          USING gone::json;
        GET DIAGNOSTICS found = ROW_COUNT;
    END IF;
    -- Where all columns are the key nothing becomes of a row that keeps it.
    IF kept IS NOT NULL AND x.assignments IS NOT NULL THEN
        EXECUTE format('UPDATE ONLY %s n SET %s FROM json_array_elements($1) u(e) WHERE %s', wanted::regclass,
                       x.assignments, x.given_key) USING kept::json;
        GET DIAGNOSTICS changed = ROW_COUNT;
        found := found + changed;
    ELSIF kept IS NOT NULL THEN
        found := found + json_array_length(kept::json);
    END IF;
    IF found <> coalesce(json_array_length(kept::json), 0) + coalesce(json_array_length(gone::json), 0) THEN
        RAISE EXCEPTION 'could not serialize access due to concurrent update' USING ERRCODE = '40001';
    END IF;
    RETURN convert_to('null', 'UTF8');
END $$;

-- Put rows, which come as append takes those of a leaf, into a partitioned table, for a role that may write it but not insert:
-- PostgreSQL asks for no such right where a row moves. No code of users may run for a leaf, see lock_leaves.
CREATE OR REPLACE FUNCTION pg_journal.add_rows(code text, wanted oid, leaf oid, added text) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
SET array_nulls = on
SET intervalstyle = 'postgres'
SET extra_float_digits = 1
SET xmloption = content
AS $$
DECLARE
    x record;
BEGIN
    PERFORM authorize(code, 'add_rows', wanted::text, leaf::text, added);
    PERFORM require_right(wanted, true);
    IF NOT EXISTS (SELECT FROM journals j WHERE j.relid = leaf AND wanted = ANY (j.ancestors)) THEN
        PERFORM outdated();
    END IF;
    x := row_parts(leaf);
    EXECUTE format('INSERT INTO %s (%s) OVERRIDING SYSTEM VALUE SELECT %s FROM json_array_elements($1) u(e)',
                   wanted::regclass, x.settable_columns, x.settable_values) USING added::json;
    RETURN convert_to('null', 'UTF8');
END $$;

-- Give a partitioned table its trigger. Statements that name a leaf do not fire it.
CREATE OR REPLACE FUNCTION pg_journal.watch_tree(wanted oid) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
SET allow_system_table_mods = on
SET event_triggers = off
AS $$
BEGIN
    IF EXISTS (SELECT FROM pg_trigger g WHERE g.tgrelid = wanted AND g.tgfoid = 'pg_journal.guard_tree'::regproc) THEN
        RETURN;
    END IF;
    EXECUTE format('CREATE TRIGGER pgwire_tree BEFORE INSERT OR UPDATE OR DELETE ON %s '
                   'FOR EACH STATEMENT EXECUTE FUNCTION pg_journal.guard_tree()', wanted::regclass);
    WITH ours AS (
        UPDATE pg_trigger g SET tgisinternal = true
         WHERE g.tgrelid = wanted AND g.tgfoid = 'pg_journal.guard_tree'::regproc
        RETURNING g.oid)
    UPDATE pg_depend d SET deptype = 'i' FROM ours
     WHERE d.classid = 'pg_trigger'::regclass AND d.objid = ours.oid
       AND d.refclassid = 'pg_class'::regclass AND d.refobjid = wanted;
END $$;

-- Keep writers of the tables above a leaf away that is to become tiered: they lock leaves when rows are routed there,
-- later than they have found all of them resident.
CREATE OR REPLACE FUNCTION pg_journal.lock_above(wanted oid, option text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    above oid;
BEGIN
    FOREACH above IN ARRAY ancestors(wanted) LOOP
        EXECUTE format('LOCK TABLE ONLY %s IN SHARE ROW EXCLUSIVE MODE %s', above::regclass, option);
    END LOOP;
END $$;

-- Refuse a new partition beside a default one whose tiered leaves have rows: PostgreSQL would look for rows of the new one
-- where none are.
CREATE OR REPLACE FUNCTION pg_journal.check_default(wanted oid) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    other oid;
    filled regclass;
BEGIN
    FOR other IN SELECT p.partdefid FROM pg_partition_ancestors(wanted) a(relid)
                   JOIN pg_partitioned_table p ON p.partrelid = a.relid
                  WHERE a.relid <> wanted AND p.partdefid <> 0 AND p.partdefid <> wanted
                    AND p.partdefid <> ALL (ancestors(wanted)) LOOP
        SELECT u.leaf INTO filled FROM (SELECT other UNION SELECT tiered_leaves(other)) u(leaf)
         WHERE EXISTS (SELECT FROM journals j WHERE j.relid = u.leaf AND j.residency = 'tiered') AND has_rows(u.leaf) LIMIT 1;
        IF filled IS NOT NULL THEN
            PERFORM refuse(format('a new partition beside the default one, "%s", which is tiered and has rows, is', filled),
                           format('ALTER TABLE %s SET (gateway.residency = always) first.', filled));
        END IF;
    END LOOP;
END $$;

-- Follow what a leaf is a partition of.
CREATE OR REPLACE FUNCTION pg_journal.follow_tree(wanted oid) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    j journals;
    above oid[] := ancestors(wanted);
BEGIN
    SELECT * INTO j FROM journals s WHERE s.relid = wanted;
    IF j.ancestors = above THEN RETURN; END IF;
    IF NOT above <@ j.ancestors THEN
        IF j.residency = 'tiered' AND has_rows(wanted) THEN
            PERFORM refuse('ATTACH PARTITION of a tiered table with rows is',
                           format('ALTER TABLE %s SET (gateway.residency = always) first.', wanted::regclass));
        END IF;
        PERFORM check_default(wanted);
    ELSE
        -- DETACH CONCURRENTLY leaves a constraint behind that says what rows the partition could have.
        UPDATE journals s SET checks = kept_constraints(wanted) WHERE s.relid = wanted;
    END IF;
    UPDATE journals s SET ancestors = above WHERE s.relid = wanted;
END $$;

-- The same for a partitioned table that a command is about: leaves that have left it, which the command does not tell, and
-- partitions that have no leaf yet.
CREATE OR REPLACE FUNCTION pg_journal.follow_partitioned(wanted oid, tag text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    found oid;
BEGIN
    PERFORM watch_tree(wanted);
    IF NOT EXISTS (SELECT FROM pg_event_trigger_ddl_commands() e
                    WHERE e.classid = 'pg_class'::regclass AND e.objid = wanted) THEN
        RETURN;
    ELSIF tag = 'CREATE TABLE' THEN
        PERFORM check_default(wanted);
        RETURN;
    END IF;
    FOR found IN SELECT j.relid FROM journals j
                  WHERE j.ancestors[1] = coalesce((ancestors(wanted))[1], wanted) OR wanted = ANY (j.ancestors) LOOP
        IF (SELECT j.ancestors <> ancestors(found) FROM journals j WHERE j.relid = found) THEN
            PERFORM reconcile(found);
        END IF;
    END LOOP;
    FOR found IN SELECT c.oid FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
                  WHERE i.inhparent = wanted AND c.relkind = 'p'
                    AND NOT EXISTS (SELECT FROM pg_inherits below WHERE below.inhparent = c.oid) LOOP
        PERFORM check_default(found);
    END LOOP;
END $$;

-- The columns of a table, by attribute number, that rows are routed by in these partitioned tables above or below it; NULL
-- where expressions are among them.
CREATE OR REPLACE FUNCTION pg_journal.routing_columns(wanted oid, partitioned oid[]) RETURNS json
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN (SELECT CASE WHEN bool_or(p.partexprs IS NOT NULL) THEN NULL ELSE json_agg(DISTINCT own.attnum) END
          FROM pg_partitioned_table p CROSS JOIN unnest(p.partattrs::int2[]) u(attnum)
          LEFT JOIN pg_attribute a ON a.attrelid = p.partrelid AND a.attnum = u.attnum AND u.attnum > 0
          LEFT JOIN pg_attribute own ON own.attrelid = wanted AND own.attname = a.attname AND NOT own.attisdropped
         WHERE p.partrelid = ANY (partitioned));

-- The leaves that a partitioned table consists of, with the columns of the table itself, and their types where there are no
-- leaves to tell them; NULL where that is not known here, as of temporary ones.
CREATE OR REPLACE FUNCTION pg_journal.tree(wanted oid) RETURNS json
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
    SELECT json_build_object(
               'residency', CASE WHEN l.tiered THEN 'journaled' ELSE 'resident' END, 'turns', l.turns,
               'leaves', l.leaves,
               'columns', (SELECT json_agg(json_build_array(a.attnum, a.attname) ORDER BY a.attnum) FROM pg_attribute a
                            WHERE a.attrelid = wanted AND a.attnum > 0 AND NOT a.attisdropped),
               'types', CASE WHEN l.relids IS NULL THEN (
                   SELECT json_agg(json_build_array(a.attnum, r.read_oid, r.read_typmod) ORDER BY a.attnum)
                     FROM pg_attribute a CROSS JOIN LATERAL read_type(a.atttypid, a.atttypmod) r
                    WHERE a.attrelid = wanted AND a.attnum > 0 AND NOT a.attisdropped) END,
               'moved', (SELECT json_object_agg(m.attrelid::text, m.numbers)
                           FROM (SELECT own.attrelid, json_object_agg(a.attnum::text, own.attnum) AS numbers
                                   FROM pg_attribute a JOIN pg_attribute own
                                     ON own.attname = a.attname AND own.attnum <> a.attnum AND NOT own.attisdropped
                                  WHERE a.attrelid = wanted AND a.attnum > 0 AND NOT a.attisdropped
                                    AND own.attrelid = ANY (l.relids)
                                  GROUP BY own.attrelid) m),
               'key', row_key(wanted),
               'routed_by', routing_columns(wanted, ARRAY(SELECT t.relid::oid FROM pg_partition_tree(wanted) t
                                                           WHERE NOT t.isleaf)))
      FROM (SELECT coalesce(bool_or(j.relid IS NULL), false) AS strange,
                   coalesce(bool_or(j.residency = 'tiered'), false) AS tiered, coalesce(sum(j.turns), 0)::bigint AS turns,
                   array_agg(t.relid::oid) AS relids,
                   coalesce(json_agg(json_build_array(t.relid::oid::bigint, j.schema_name, j.table_name,
                                                      j.residency = 'tiered') ORDER BY t.relid), '[]') AS leaves
              FROM pg_partition_tree(wanted) t LEFT JOIN journals j ON j.relid = t.relid
             WHERE t.isleaf AND t.relid <> wanted) l
     WHERE NOT l.strange AND EXISTS (SELECT FROM pg_class c WHERE c.oid = wanted AND c.relpersistence = 'p')
$$;
