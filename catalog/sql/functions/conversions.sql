-- What CONVERT needs: a role that may read and write files, identities of rows that Spark writes, and where it is shown how
-- far it is.

-- Roles are of the whole server; another database may have been the first. Its members may read and write files
-- below the directories the operator allows, as those of pg_read_server_files do everywhere.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'gateway_import') THEN RETURN; END IF;
    CREATE ROLE gateway_import NOLOGIN;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'postgres') THEN
        GRANT gateway_import TO postgres WITH ADMIN OPTION;
    END IF;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
    NULL;
END $$;

-- Take blocks of 2^32 row identities each for rows that are written to files at once; returns the first.
CREATE OR REPLACE FUNCTION pg_journal.reserve_identities(code text, wanted oid, blocks bigint) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    first_block bigint;
BEGIN
    PERFORM authorize(code, 'reserve_identities', wanted::text, blocks::text);
    PERFORM require_right(wanted, true);
    UPDATE journals j SET identity_blocks = j.identity_blocks + blocks WHERE j.relid = wanted AND j.key = '{}'
    RETURNING j.identity_blocks - blocks + 1 INTO first_block;
    RETURN convert_to(coalesce(first_block, 0)::text, 'UTF8');
END $$;

-- Note how far the statement of a session is. What sessions have left that are no more goes.
CREATE OR REPLACE FUNCTION pg_journal.note_progress(of_backend int, progress json) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    DELETE FROM progress p
     WHERE p.backend <> of_backend
       AND NOT EXISTS (SELECT FROM pg_stat_get_activity(p.backend) a WHERE a.backend_start = p.backend_start);
    INSERT INTO progress AS p
    SELECT of_backend, a.backend_start, r.command, r.source, r.target, r.phase, r.rows_read, r.rows_written, r.rows_total,
           r.tasks_done, r.tasks_total,
           clock_timestamp() - r.seconds * interval '1 second', clock_timestamp()
      FROM pg_stat_get_activity(of_backend) a,
           json_to_record(progress) r(command text, source text, target text, phase text, rows_read bigint,
               rows_written bigint, rows_total bigint, tasks_done bigint, tasks_total bigint, seconds float8)
    ON CONFLICT (backend) DO UPDATE
       SET backend_start = excluded.backend_start, command = excluded.command, source = excluded.source,
           target = excluded.target, phase = excluded.phase, rows_read = excluded.rows_read,
           rows_written = excluded.rows_written, rows_total = excluded.rows_total, tasks_done = excluded.tasks_done,
           tasks_total = excluded.tasks_total,
           started_at = excluded.started_at, noted_at = excluded.noted_at;
END $$;

CREATE OR REPLACE FUNCTION pg_journal.end_progress(of_backend int) RETURNS void
LANGUAGE sql
SET search_path = pg_catalog, pg_journal, pg_temp
BEGIN ATOMIC
    DELETE FROM pg_journal.progress p WHERE p.backend = of_backend;
END;

-- Statements of roles whose sessions one may look at: as pg_stat_activity shows their texts.
CREATE OR REPLACE FUNCTION pg_journal.listed_progress(
    OUT pid int, OUT usename name, OUT command text, OUT source text, OUT target text, OUT phase text,
    OUT rows_read bigint, OUT rows_written bigint, OUT rows_total bigint, OUT tasks_done bigint,
    OUT tasks_total bigint, OUT started_at timestamptz, OUT noted_at timestamptz)
RETURNS SETOF record
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
    SELECT p.backend, r.rolname, p.command, p.source, p.target, p.phase, p.rows_read, p.rows_written, p.rows_total,
           p.tasks_done, p.tasks_total, p.started_at, p.noted_at
      FROM pg_journal.progress p
     CROSS JOIN LATERAL pg_stat_get_activity(p.backend) a
      JOIN pg_roles r ON r.oid = a.usesysid
     WHERE a.backend_start = p.backend_start
       AND (pg_has_role(pg_journal.acting_role(), a.usesysid, 'USAGE')
            OR pg_has_role(pg_journal.acting_role(), 'pg_read_all_stats', 'USAGE'))
$$;
CREATE OR REPLACE VIEW pg_journal.progress_list AS SELECT * FROM pg_journal.listed_progress();
GRANT SELECT ON pg_journal.progress_list TO PUBLIC;
