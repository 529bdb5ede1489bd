-- How far long statements are, one row for each session. The gateway writes it by a session of its own, since the statement's
-- transaction shows nothing before its end.
CREATE UNLOGGED TABLE pg_journal.progress (
    backend int PRIMARY KEY,
    backend_start timestamptz NOT NULL,
    command text NOT NULL,
    source text NOT NULL,
    target text NOT NULL,
    phase text NOT NULL,
    rows_read bigint,
    rows_written bigint,
    rows_total bigint,
    tasks_done bigint,
    tasks_total bigint,
    started_at timestamptz NOT NULL,
    noted_at timestamptz NOT NULL
) WITH (fillfactor = 30, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);
