-- What is done when functions and views have been made: those that were made by earlier ones for single tables are made anew,
-- what has retired goes, and nobody can call the new ones who has known the earlier ones.

DO $$
DECLARE
    found record;
BEGIN
    FOR found IN SELECT j.relid, j.is_hot FROM pg_journal.journals j ORDER BY j.relid LOOP
        PERFORM pg_journal.bound_rows(found.relid, true), pg_journal.watch(found.relid);
        IF found.is_hot THEN PERFORM pg_journal.make_thawing(found.relid); END IF;
    END LOOP;
    PERFORM pg_journal.watch_tree(u::oid)
       FROM string_to_table(current_setting('pg_journal.trees', true), ' ') u WHERE u <> '';
END $$;

DO $$
DECLARE
    functions text;
    views text;
    dependent text;
BEGIN
    WITH retired AS (
        SELECT 'pg_proc'::regclass AS classid, p.oid FROM pg_proc p
         WHERE p.pronamespace = 'pg_journal'::regnamespace AND p.proname ~ '^retired_\d+$'
        UNION ALL
        SELECT 'pg_class'::regclass, c.oid FROM pg_class c
         WHERE c.relnamespace = 'pg_journal'::regnamespace AND c.relkind = 'v' AND c.relname ~ '^retired_\d+$'),
    gone AS (
        SELECT r.classid, r.oid FROM retired r
        UNION ALL
        -- rules and types of the views
        SELECT 'pg_rewrite'::regclass, w.oid FROM retired r JOIN pg_rewrite w
            ON r.classid = 'pg_class'::regclass AND w.ev_class = r.oid
        UNION ALL
        SELECT 'pg_type'::regclass, y.oid FROM retired r JOIN pg_class c ON r.classid = 'pg_class'::regclass AND c.oid = r.oid
          JOIN pg_type y ON c.reltype IN (y.oid, y.typelem))
    SELECT (SELECT string_agg(r.oid::regclass::text, ', ') FROM retired r WHERE r.classid = 'pg_class'::regclass),
           (SELECT CASE d.classid WHEN 'pg_rewrite'::regclass
                                  THEN (SELECT pg_describe_object('pg_class'::regclass, w.ev_class, 0)
                                          FROM pg_rewrite w WHERE w.oid = d.objid)
                                  ELSE pg_describe_object(d.classid, d.objid, d.objsubid) END
              FROM gone g JOIN pg_depend d ON d.refclassid = g.classid AND d.refobjid = g.oid
             WHERE NOT EXISTS (SELECT FROM gone o WHERE o.classid = d.classid AND o.oid = d.objid) LIMIT 1)
      INTO views, dependent;
    IF dependent IS NOT NULL THEN
        RAISE EXCEPTION '% depends on what is no more', dependent USING ERRCODE = 'dependent_objects_still_exist';
    END IF;
    -- Of each other they may depend.
    IF views IS NOT NULL THEN EXECUTE 'DROP VIEW ' || views || ' CASCADE'; END IF;
    SELECT string_agg(p.oid::regprocedure::text, ', ') INTO functions FROM pg_proc p
     WHERE p.pronamespace = 'pg_journal'::regnamespace AND p.proname ~ '^retired_\d+$';
    IF functions IS NOT NULL THEN EXECUTE 'DROP FUNCTION ' || functions || ' CASCADE'; END IF;
END $$;

SELECT pg_journal.renew_key();

-- Gateways keep what they have learnt of definitions.
SELECT pg_journal.note_definition();

-- Without statistics PostgreSQL expects thousands of marks, and plans the proof anew each time to save on them.
ANALYZE pg_journal.definition_marks;
