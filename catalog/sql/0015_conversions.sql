-- What CONVERT needs: a role that may read and write files, and identities of rows that Spark writes.

-- Roles are of the whole server; another database may have been the first. Its members may read and write files
-- below the directories the operator allows, as those of pg_read_server_files do everywhere.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'gateway_import') THEN RETURN; END IF;
    CREATE ROLE gateway_import NOLOGIN;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'postgres') THEN
        GRANT gateway_import TO postgres WITH ADMIN OPTION;
    END IF;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
    NULL;
END $$;

-- Take blocks of 2^32 row identities each for rows that are written to files at once; returns the first.
CREATE FUNCTION pg_journal.reserve_identities(secret text, wanted oid, blocks bigint) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    first_block bigint;
BEGIN
    PERFORM authorize(secret);
    UPDATE journals j SET identity_blocks = j.identity_blocks + blocks WHERE j.relid = wanted AND j.key = '{}'
    RETURNING j.identity_blocks - blocks + 1 INTO first_block;
    RETURN convert_to(coalesce(first_block, 0)::text, 'UTF8');
END $$;
