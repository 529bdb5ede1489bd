-- Journals that others keep, too: the rows of such a table lie elsewhere. What a statement of ours writes is in its tail and
-- segments for a moment, until the gateway has appended it there in the same transaction.

-- Refuse what would change how rows lie in the journal of others.
CREATE OR REPLACE FUNCTION pg_journal.check_external(relid oid) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    IF (SELECT array_agg(a.attnum ORDER BY a.attnum) FROM pg_attribute a
         WHERE a.attrelid = check_external.relid AND a.attnum > 0 AND NOT a.attisdropped)
       IS DISTINCT FROM (SELECT array_agg(k.attnum ORDER BY k.attnum) FROM columns k
                          WHERE k.relid = check_external.relid AND k.name <> '') THEN
        RAISE EXCEPTION 'adding and dropping columns of external journals is not supported'
            USING ERRCODE = '0A000', HINT = 'Change the journal where it is, DROP the table and register it again.';
    END IF;
    IF EXISTS (SELECT FROM pg_inherits i WHERE check_external.relid IN (i.inhrelid, i.inhparent)) THEN
        RAISE EXCEPTION 'partitions and INHERITS are not supported on external journals' USING ERRCODE = '0A000';
    END IF;
    IF EXISTS (SELECT FROM pg_constraint x WHERE x.conrelid = check_external.relid AND x.contype = 'f') THEN
        RAISE EXCEPTION 'FOREIGN KEY is not supported on external journals' USING ERRCODE = '0A000';
    END IF;
    -- Whoever changes rows by a key would append them, as to a journal.
    IF (SELECT j.external->>'version' FROM journals j WHERE j.relid = check_external.relid) = ''
       AND EXISTS (SELECT FROM pg_index i WHERE i.indrelid = check_external.relid AND i.indisunique) THEN
        RAISE EXCEPTION 'unique keys are not supported on tables of others that are no journals' USING ERRCODE = '0A000';
    END IF;
END $$;

-- Let a tiered table without rows stand for a journal that lies elsewhere.
CREATE OR REPLACE FUNCTION pg_journal.make_external(code text, wanted oid, description text) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
SET event_triggers = off
AS $$
DECLARE
    j journals;
BEGIN
    PERFORM authorize(code, 'make_external', wanted::text, description);
    PERFORM require_owner(wanted);
    PERFORM fold(wanted);
    j := locked(wanted);
    IF j.residency <> 'tiered' OR has_rows(wanted) THEN
        RAISE EXCEPTION 'table "%" cannot stand for an external journal', j.table_name USING ERRCODE = '55000';
    END IF;
    IF (description::jsonb->>'counts')::boolean THEN
        EXECUTE format('ALTER TABLE %s ALTER version_number TYPE bigint USING NULL, '
                       'ALTER subsequent_version_number TYPE bigint USING NULL', j.journal_relid::regclass);
    END IF;
    UPDATE columns k SET storage_name = k.name WHERE k.relid = wanted AND k.storage_name <> k.name;
    UPDATE journals s
       SET external = description::jsonb, definition = random_mark(), epoch = epoch + 1, changes = changes + 1
     WHERE s.relid = wanted;
    PERFORM check_external(wanted);
    PERFORM note_definition();
    RETURN convert_to('null', 'UTF8');
END $$;

-- Forget what a statement has written: it is in the journal that lies elsewhere now.
CREATE OR REPLACE FUNCTION pg_journal.shipped(code text, wanted oid) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    j journals;
BEGIN
    PERFORM authorize(code, 'shipped', wanted::text);
    PERFORM require_right(wanted, true);
    PERFORM fold(wanted);
    j := locked(wanted);
    EXECUTE format('DELETE FROM %s', j.tail_relid::regclass);
    UPDATE segments s SET retired_at = clock_timestamp() WHERE s.relid = wanted AND s.retired_at IS NULL;
    DELETE FROM commits c WHERE c.relid = wanted;
    UPDATE journals s SET epoch = epoch + 1, changes = changes + 1, tail_rows = 0 WHERE s.relid = wanted;
    RETURN convert_to('null', 'UTF8');
END $$;

-- No transaction leaves rows here: nobody would look for them.
CREATE OR REPLACE FUNCTION pg_journal.refuse_unshipped() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    left_behind boolean;
BEGIN
    EXECUTE format('SELECT EXISTS (SELECT FROM %s)', NEW.tail_relid::regclass) INTO left_behind;
    IF left_behind OR EXISTS (SELECT FROM segments s WHERE s.relid = NEW.relid AND s.retired_at IS NULL) THEN
        RAISE EXCEPTION 'this way of writing the external journal "%" is not supported', NEW.table_name
            USING ERRCODE = '0A000', HINT = 'INSERT, UPDATE, DELETE and MERGE are.';
    END IF;
    RETURN NULL;
EXCEPTION WHEN undefined_table THEN
    RETURN NULL;  -- dropped since
END $$;
CREATE CONSTRAINT TRIGGER unshipped AFTER UPDATE ON pg_journal.journals DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.external IS NOT NULL) EXECUTE FUNCTION pg_journal.refuse_unshipped();
UPDATE pg_trigger SET tgisinternal = true WHERE tgfoid = 'pg_journal.refuse_unshipped()'::regprocedure;
