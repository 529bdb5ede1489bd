-- Code that runs, or is defined, has this table locked, and what makes a table tiered wants it alone. No advisory lock:
-- those anybody may take, and code let go that they stand for.
CREATE TABLE pg_journal.code_gate ();
