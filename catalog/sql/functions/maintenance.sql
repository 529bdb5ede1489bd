-- Upkeep as clients see it: what there is of each table, what was done, what is being done, and what has failed.

-- Note what this session is doing with a table. Nobody has to wait for its WAL.
CREATE OR REPLACE FUNCTION pg_journal.note_work(wanted oid, new_work text, new_phase text, rows bigint) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    own record;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    SELECT a.pid, a.backend_start INTO own FROM pg_stat_get_activity(pg_backend_pid()) a;
    INSERT INTO upkeep AS u (relid, backend, backend_start, work, phase, row_count, began_at)
    SELECT wanted, own.pid, own.backend_start, new_work, new_phase, rows, clock_timestamp()
     WHERE EXISTS (SELECT FROM journals j WHERE j.relid = wanted)
    ON CONFLICT (relid) DO UPDATE
       SET backend = excluded.backend, backend_start = excluded.backend_start, work = excluded.work,
           phase = excluded.phase, row_count = excluded.row_count,
           began_at = CASE WHEN (u.work, u.backend, u.backend_start)
                              = (excluded.work, excluded.backend, excluded.backend_start)
                           THEN u.began_at ELSE excluded.began_at END;
END $$;

-- Note that it is done, or has failed with a SQLSTATE and is tried again after a pause.
CREATE OR REPLACE FUNCTION pg_journal.note_end(wanted oid, failure text, pause_s float8) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    INSERT INTO upkeep AS u (relid, failures, failed_with, next_attempt)
    SELECT wanted, CASE WHEN failure IS NULL THEN 0 ELSE 1 END, failure,
           clock_timestamp() + pause_s * interval '1 second'
     WHERE EXISTS (SELECT FROM journals j WHERE j.relid = wanted)
    ON CONFLICT (relid) DO UPDATE
       SET backend = NULL, backend_start = NULL, work = NULL, phase = NULL, row_count = NULL, began_at = NULL,
           failures = CASE WHEN failure IS NULL THEN 0 ELSE u.failures + 1 END,
           failed_with = excluded.failed_with, next_attempt = excluded.next_attempt;
END $$;

-- The tables a role may read, or maintain. Nothing is waited for: sizes are left out where somebody keeps readers away.
CREATE OR REPLACE FUNCTION pg_journal.maintained(
    OUT schema_name name, OUT table_name name, OUT state text, OUT options text[], OUT table_bytes bigint,
    OUT hot_rows bigint, OUT is_overheated boolean, OUT tail_rows bigint, OUT tail_bytes bigint,
    OUT last_flushed timestamptz, OUT last_compacted timestamptz, OUT last_cooled timestamptz, OUT work text,
    OUT phase text, OUT phase_rows bigint, OUT working_since timestamptz, OUT failures bigint, OUT last_failure text,
    OUT next_attempt timestamptz)
RETURNS SETOF record
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    j record;
BEGIN
    FOR j IN SELECT x.*, n.nspname, c.relname, u.work AS u_work, u.phase AS u_phase, u.row_count, u.began_at,
                    u.failures AS u_failures,
                    u.failed_with, u.next_attempt AS u_next,
                    EXISTS (SELECT FROM pg_stat_get_activity(u.backend) a WHERE a.backend_start = u.backend_start) AS alive
               FROM journals x JOIN pg_class c ON c.oid = x.relid JOIN pg_namespace n ON n.oid = c.relnamespace
               LEFT JOIN upkeep u ON u.relid = x.relid
              WHERE has_table_privilege(acting_role(), c.oid, 'SELECT')
                 OR has_table_privilege(acting_role(), c.oid, 'MAINTAIN')
              ORDER BY n.nspname, c.relname LOOP
        schema_name := j.nspname; table_name := j.relname;
        state := CASE WHEN j.is_hot THEN 'hot' ELSE j.residency END;
        options := nullif(ARRAY(SELECT format('%s=%s', o.name, o.value)
                                  FROM (VALUES (1, 'residency', nullif(j.wanted_residency, 'auto')),
                                               (2, 'hot_rows', j.hot_rows::text), (3, 'hot_age_s', j.hot_age_s::text),
                                               (4, 'thaw_rows', j.thaw_rows::text)) o(place, name, value)
                                 WHERE o.value IS NOT NULL ORDER BY o.place), '{}');
        table_bytes := NULL; tail_rows := NULL; tail_bytes := NULL; hot_rows := NULL;
        BEGIN
            PERFORM lock_for_count(j.relid, j.tail_relid);
            table_bytes := pg_total_relation_size(j.relid);
            tail_bytes := pg_total_relation_size(j.tail_relid);
            EXECUTE format('SELECT count(*) FROM pg_journal.tail_%s', j.relid) INTO tail_rows;
            IF j.is_hot THEN
                EXECUTE format('SELECT greatest(count(*), (SELECT count(*) FROM ONLY %s)) FROM pg_journal.hot_%s',
                               j.relid::regclass, j.relid) INTO hot_rows;
            END IF;
            PERFORM end_count();
        EXCEPTION
            WHEN SQLSTATE 'GW004' THEN NULL;
            WHEN lock_not_available OR undefined_table THEN NULL;
        END;
        is_overheated := j.is_overheated;
        last_flushed := j.flushed_at; last_compacted := j.compacted_at; last_cooled := j.cooled_at;
        work := CASE WHEN j.alive THEN j.u_work END; phase := CASE WHEN j.alive THEN j.u_phase END;
        phase_rows := CASE WHEN j.alive THEN j.row_count END;
        working_since := CASE WHEN j.alive THEN j.began_at END;
        failures := coalesce(j.u_failures, 0); last_failure := j.failed_with; next_attempt := j.u_next;
        RETURN NEXT;
    END LOOP;
END $$;
CREATE OR REPLACE VIEW pg_journal.maintenance AS SELECT * FROM pg_journal.maintained();
GRANT SELECT ON pg_journal.maintenance TO PUBLIC;

-- Take the locks that swapping segments needs, without waiting for one while another is held: a client could be waiting for
-- that one, and be the one who fails. 55P03 when others have them.
CREATE OR REPLACE FUNCTION pg_journal.seize(wanted oid) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    PERFORM locked(wanted);
    EXECUTE format('LOCK TABLE ONLY pg_journal.tail_%s IN ROW EXCLUSIVE MODE NOWAIT', wanted);
END $$;
