-- When the statement began that wrote the rows whose values are looked for.
ALTER TABLE pg_journal.sought ADD COLUMN began_at timestamptz NOT NULL DEFAULT statement_timestamp();
