-- What tells the directory of the data files from all others; NULL where the catalog is embedded beside it.
ALTER TABLE pg_journal.instance ADD COLUMN warehouse text;
