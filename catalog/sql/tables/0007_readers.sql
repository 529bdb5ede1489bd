-- Who may read a journal the journal itself tells: what was noted here had to wait for the writers of the table.
ALTER TABLE pg_journal.journals DROP COLUMN readers;
