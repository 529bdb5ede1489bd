-- Who defines something has this table locked from the beginning of the statement on, before anything else; a statement whose
-- plan others outdate time and again locks it against them. No advisory lock: those anybody may take, and let go.
CREATE TABLE pg_journal.definition_gate ();
