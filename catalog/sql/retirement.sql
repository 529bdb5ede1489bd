-- What is done before functions and views are made where there are some: they get names that nothing calls, and what was
-- made of them for single tables goes. renewal.sql makes that anew, and drops what has retired.
--
-- What users' objects depend on keeps its name and is replaced in place: a view over gateway.commits is to survive. It is
-- given up like the others where no file has it any more (pg_journal.kept: names of all functions that there will be).

DO $$
DECLARE
    found record;
BEGIN
    FOR found IN SELECT e.evtname FROM pg_event_trigger e JOIN pg_proc p ON p.oid = e.evtfoid
                  WHERE p.pronamespace = 'pg_journal'::regnamespace LOOP
        EXECUTE format('DROP EVENT TRIGGER %I', found.evtname);
    END LOOP;

    -- Partitioned tables have no row in pg_journal.journals.
    PERFORM set_config('pg_journal.trees', coalesce(string_agg(g.tgrelid::text, ' '), ''), true)
       FROM pg_trigger g JOIN pg_proc p ON p.oid = g.tgfoid
      WHERE p.pronamespace = 'pg_journal'::regnamespace AND g.tgname = 'pgwire_tree';

    -- Those of the bookkeeping's own tables. Tables that only tell whether a foreign key is deferred have nothing else.
    FOR found IN SELECT g.tgname, c.oid::regclass AS name, c.relname ~ '^pending_\d+$' AS is_made
                   FROM pg_trigger g JOIN pg_proc p ON p.oid = g.tgfoid JOIN pg_class c ON c.oid = g.tgrelid
                  WHERE p.pronamespace = 'pg_journal'::regnamespace
                    AND c.relnamespace = 'pg_journal'::regnamespace LOOP
        IF found.is_made THEN
            EXECUTE format('DROP TABLE %s', found.name);
        ELSE
            EXECUTE format('DROP TRIGGER %I ON %s', found.tgname, found.name);
        END IF;
    END LOOP;
    -- Those of users' tables, which owners cannot drop.
    WITH ours AS (
        DELETE FROM pg_trigger g USING pg_proc p
         WHERE p.oid = g.tgfoid AND p.pronamespace = 'pg_journal'::regnamespace
        RETURNING g.oid)
    DELETE FROM pg_depend d USING ours WHERE d.classid = 'pg_trigger'::regclass AND d.objid = ours.oid;

    FOR found IN SELECT x.conrelid::regclass AS name FROM pg_constraint x JOIN pg_class c ON c.oid = x.conrelid
                  WHERE c.relnamespace = 'pg_journal'::regnamespace AND x.conname = 'pgwire_size' LOOP
        EXECUTE format('ALTER TABLE %s DROP CONSTRAINT pgwire_size', found.name);
    END LOOP;
END $$;

DO $$
DECLARE
    found record;
BEGIN
    FOR found IN
        WITH ours AS MATERIALIZED (
            SELECT 'pg_proc'::regclass AS classid, p.oid, p.proname AS name,
                   p.proname = ANY (string_to_array(current_setting('pg_journal.kept'), ' ')) AS may_stay
              FROM pg_proc p WHERE p.pronamespace = 'pg_journal'::regnamespace
            UNION ALL
            SELECT 'pg_class'::regclass, c.oid, c.relname, true
              FROM pg_class c WHERE c.relnamespace = 'pg_journal'::regnamespace AND c.relkind = 'v'),
        used AS MATERIALIZED (
            SELECT o.classid, o.oid
              FROM ours o JOIN pg_depend d ON d.refclassid = o.classid AND d.refobjid = o.oid
             WHERE CASE d.classid
                   WHEN 'pg_proc'::regclass THEN (SELECT p.pronamespace FROM pg_proc p WHERE p.oid = d.objid)
                   WHEN 'pg_type'::regclass THEN (SELECT y.typnamespace FROM pg_type y WHERE y.oid = d.objid)
                   ELSE (SELECT c.relnamespace FROM pg_class c
                          WHERE c.oid = coalesce((SELECT w.ev_class FROM pg_rewrite w
                                                   WHERE d.classid = 'pg_rewrite'::regclass AND w.oid = d.objid),
                                                 (SELECT f.adrelid FROM pg_attrdef f
                                                   WHERE d.classid = 'pg_attrdef'::regclass AND f.oid = d.objid)))
                   END IS DISTINCT FROM 'pg_journal'::regnamespace)
        SELECT * FROM ours o
         WHERE NOT (o.may_stay AND EXISTS (SELECT FROM used u WHERE u.classid = o.classid AND u.oid = o.oid))
    LOOP
        IF found.classid = 'pg_proc'::regclass THEN
            -- As ALTER FUNCTION would, but without a lock for each.
            UPDATE pg_proc p SET proname = 'retired_' || p.oid WHERE p.oid = found.oid;
        ELSE
            EXECUTE format('ALTER VIEW pg_journal.%I RENAME TO retired_%s', found.name, found.oid);
        END IF;
    END LOOP;
END $$;
