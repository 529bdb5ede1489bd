-- What proves, beside a client's statement and in its round trip, that the plan of it still holds.

-- Random numbers: they tell nothing but that something has changed.
GRANT SELECT ON pg_journal.definition_marks TO PUBLIC;

-- Keep them from roles that PostgreSQL lets write all tables. Row security would do, but whoever reads them without it
-- (row_security = off, as dumps do) would be refused.
CREATE OR REPLACE FUNCTION pg_journal.keep_marks() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NOT pg_has_role(CURRENT_USER, (SELECT c.relowner FROM pg_class c WHERE c.oid = tg_relid), 'USAGE') THEN
        RAISE EXCEPTION 'permission denied for table %', tg_table_name USING ERRCODE = '42501';
    END IF;
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER keep_marks BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON pg_journal.definition_marks
    FOR EACH STATEMENT EXECUTE FUNCTION pg_journal.keep_marks();
-- No list of triggers shows it.
UPDATE pg_trigger g SET tgisinternal = true WHERE g.tgfoid = 'pg_journal.keep_marks'::regproc;

-- Ends a statement whose plan does not hold any more.
CREATE OR REPLACE FUNCTION pg_journal.unproved() RETURNS boolean
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    RAISE EXCEPTION 'definitions have changed' USING ERRCODE = 'GW001';
END $$;
GRANT EXECUTE ON FUNCTION pg_journal.unproved() TO PUBLIC;
