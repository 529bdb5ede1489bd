-- What proves, beside a client's statement and in its round trip, that the plan of it still holds.

-- Random numbers: they tell nothing but that something has changed.
GRANT SELECT ON pg_journal.definition_marks TO PUBLIC;

-- Ends a statement whose plan does not hold any more.
CREATE OR REPLACE FUNCTION pg_journal.unproved() RETURNS boolean
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    RAISE EXCEPTION 'definitions have changed' USING ERRCODE = 'GW001';
END $$;
GRANT EXECUTE ON FUNCTION pg_journal.unproved() TO PUBLIC;
