-- Who may read a journal its own privileges tell.
ALTER TABLE pg_journal.journals DROP COLUMN readers;
