-- What clients' roles may not do in this database.

-- Procedural code comes with resident tables: on tiered ones it would find no rows.
SELECT pg_journal.configure(i.resident_rows, i.resident_bytes, i.resident_hard_rows) FROM pg_journal.instance i;

-- Functions that run SQL text, or read any relation or file they are told.
DO $$
DECLARE
    f regprocedure;
BEGIN
    FOR f IN
        SELECT p.oid FROM pg_proc p
         WHERE p.pronamespace = 'pg_catalog'::regnamespace
           AND (p.proname ~ '^(query|table|schema|database|cursor)_to_xml'
                OR p.proname IN ('ts_stat', 'lo_import', 'lo_export', 'pg_read_file', 'pg_read_binary_file',
                                 'pg_ls_dir', 'pg_ls_logdir', 'pg_ls_waldir', 'pg_stat_file')
                OR p.oid = 'pg_catalog.ts_rewrite(tsquery,text)'::regprocedure)
    LOOP
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', f);
    END LOOP;
END $$;

-- Only what demands a code is callable, and what tells no more than its caller may know.
DO $$
DECLARE
    f record;
BEGIN
    FOR f IN SELECT p.oid::regprocedure AS name,
                    (('code' = (p.proargnames)[1] AND p.proname <> 'authorize')
                     OR p.proname IN ('residencies', 'maintained', 'listed_commits', 'listed_commit_files',
                                      'listed_savepoints', 'listed_rollbacks', 'listed_amplification', 'listed_progress',
                                      'listed_divisions', 'listed_partitions',
                                      'named_resolution', 'unproved', 'shows_journals', 'take_series', 'is_announced',
                                      'pg_table_is_visible')) AS callable
               FROM pg_proc p WHERE p.pronamespace = 'pg_journal'::regnamespace LOOP
        PERFORM pg_journal.withhold_function(f.name);
        IF f.callable THEN
            EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO PUBLIC', f.name);
        END IF;
    END LOOP;
END $$;

-- Nor has anybody rights on relations and the schema by default privileges. Tables and sequences are nobody's, lists and marks
-- everybody's to read; journals have the readers of their tables.
DO $$
DECLARE
    found record;
BEGIN
    FOR found IN SELECT x.grantee::regrole AS role FROM pg_namespace n, aclexplode(n.nspacl) x
                  WHERE n.nspname = 'pg_journal' AND x.grantee NOT IN (0, n.nspowner) GROUP BY 1 LOOP
        EXECUTE format('REVOKE ALL ON SCHEMA pg_journal FROM %s CASCADE', found.role);
    END LOOP;
    FOR found IN SELECT c.oid::regclass AS own, j.relid,
                        c.relkind = 'v' AND c.relname <> 'cold_states' OR c.relname = 'definition_marks' AS is_shown
                   FROM pg_class c LEFT JOIN pg_journal.journals j ON j.journal_relid = c.oid
                  WHERE c.relnamespace = 'pg_journal'::regnamespace AND c.relkind IN ('r', 'S', 'v')
                    AND EXISTS (SELECT FROM aclexplode(c.relacl) x
                                 WHERE x.grantee <> c.relowner AND (j.relid IS NULL OR x.privilege_type <> 'SELECT')) LOOP
        PERFORM pg_journal.withhold(found.own);
        IF found.is_shown THEN EXECUTE format('GRANT SELECT ON %s TO PUBLIC', found.own); END IF;
        IF found.relid IS NOT NULL THEN PERFORM pg_journal.mirror_readers(found.relid); END IF;
    END LOOP;
END $$;

-- Those that stand for journals have no rows, and readers; for what else every role reads see proof.sql.
DO $$
DECLARE
    own regclass;
BEGIN
    FOREACH own IN ARRAY ARRAY(
        SELECT c.oid FROM pg_class c
         WHERE c.relnamespace = 'pg_journal'::regnamespace AND c.relkind = 'r' AND NOT c.relrowsecurity
           AND c.oid NOT IN (SELECT j.journal_relid FROM pg_journal.journals j)
           AND c.oid <> 'pg_journal.definition_marks'::regclass)
    LOOP
        PERFORM pg_journal.seal(own);
    END LOOP;
END $$;

-- Bodies are parsed when a session first runs them: as they were written, whatever its string literals mean.
DO $$
DECLARE
    f regprocedure;
BEGIN
    FOR f IN SELECT p.oid FROM pg_proc p WHERE p.pronamespace = 'pg_journal'::regnamespace AND p.prosecdef LOOP
        EXECUTE format('ALTER FUNCTION %s SET standard_conforming_strings = on', f);
    END LOOP;
END $$;

-- Dumps compare privileges with those a new database has.
SET LOCAL allow_system_table_mods = on;
INSERT INTO pg_catalog.pg_init_privs (objoid, classoid, objsubid, privtype, initprivs)
SELECT p.oid, 'pg_catalog.pg_proc'::regclass, 0, 'i', p.proacl FROM pg_catalog.pg_proc p
 WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.proacl IS NOT NULL
   AND NOT EXISTS (SELECT FROM pg_catalog.pg_init_privs i
                    WHERE i.objoid = p.oid AND i.classoid = 'pg_catalog.pg_proc'::regclass);
UPDATE pg_catalog.pg_init_privs i SET initprivs = p.proacl FROM pg_catalog.pg_proc p
 WHERE i.classoid = 'pg_catalog.pg_proc'::regclass AND i.objoid = p.oid
   AND p.pronamespace = 'pg_catalog'::regnamespace AND i.initprivs <> p.proacl;
