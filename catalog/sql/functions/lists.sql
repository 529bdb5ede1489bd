-- Journals in lists of relations, for sessions with gateway.show_journals on: what stands for a journal is shown by the
-- name the journal has.

-- Whether gateway.show_journals is on; 22023 for a word that is no Boolean.
CREATE OR REPLACE FUNCTION pg_journal.shows_journals() RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN coalesce(nullif(current_setting('gateway.show_journals', true), ''), 'off')::boolean;
EXCEPTION WHEN invalid_text_representation THEN
    RAISE EXCEPTION 'parameter "gateway.show_journals" requires a Boolean value' USING ERRCODE = '22023';
END $$;

-- Journals that a list shows: those the role may read, and whose names nothing else bears.
CREATE OR REPLACE VIEW pg_journal.shown_journals AS
SELECT j.relid, j.journal_relid, 'journal_' || j.relid AS stand_in, n.oid AS schema_oid, n.nspname AS schema_name,
       (c.relname || '_journal')::name AS table_name,
       c.relowner AS owner
  FROM pg_journal.journals j
  JOIN pg_catalog.pg_class c ON c.oid = j.relid
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE pg_journal.shows_journals() AND has_table_privilege(j.relid, 'SELECT') AND octet_length(c.relname) <= 55
   AND NOT EXISTS (SELECT FROM pg_catalog.pg_class o
                    WHERE o.relnamespace = c.relnamespace AND o.relname = c.relname || '_journal');
GRANT SELECT ON pg_journal.shown_journals TO PUBLIC;

-- pg_table_is_visible, also of journals. It keeps to the caller's search path.
CREATE OR REPLACE FUNCTION pg_journal.pg_table_is_visible(wanted oid) RETURNS boolean
LANGUAGE sql STABLE
RETURN coalesce(
    (SELECT pg_catalog.pg_table_is_visible(s.relid) AND to_regclass(quote_ident(s.table_name)) IS NULL
       FROM pg_journal.shown_journals s WHERE s.journal_relid = wanted),
    pg_catalog.pg_table_is_visible(wanted));

-- The lists, with the columns this server's have: shown_<name>, and shown_system_pg_class for statements that ask for
-- system columns.
DO $$
DECLARE
    l record;
BEGIN
    FOR l IN SELECT * FROM (VALUES
            ('shown_pg_class', '', 'pg_catalog.pg_class', 'relnamespace', 's.schema_oid', 'relname',
             's.journal_relid = v.oid', ''),
            ('shown_system_pg_class', 'v.tableoid, v.xmin, v.ctid, ', 'pg_catalog.pg_class', 'relnamespace',
             's.schema_oid', 'relname', 's.journal_relid = v.oid', ''),
            ('shown_pg_tables', '', 'pg_catalog.pg_tables', 'schemaname', 's.schema_name', 'tablename',
             '(v.schemaname, v.tablename) = (''pg_journal'', s.stand_in)',
             ' WHERE v.schemaname <> ''pg_journal'' OR s.relid IS NOT NULL'))
        o (view_name, extra, list, schema_column, schema_value, name_column, same, condition)
        UNION ALL
        SELECT 'shown_' || name, '', 'information_schema.' || name, 'table_schema',
               's.schema_name::information_schema.sql_identifier', 'table_name',
               '(v.table_schema, v.table_name) = (''pg_journal'', s.stand_in)',
               ' WHERE v.table_schema <> ''pg_journal'' OR s.relid IS NOT NULL'
          FROM unnest(ARRAY['tables', 'columns', 'table_privileges', 'column_privileges', 'role_table_grants']) name
    LOOP
        EXECUTE format(
            'CREATE OR REPLACE VIEW pg_journal.%I AS SELECT %s%s FROM %s v LEFT JOIN pg_journal.shown_journals s ON %s%s',
            l.view_name, l.extra,
            (SELECT string_agg(
                        CASE a.attname
                        WHEN l.schema_column THEN format('coalesce(%s, v.%I) AS %2$I', l.schema_value, a.attname)
                        WHEN l.name_column THEN format('coalesce(s.table_name::%s, v.%I) AS %2$I',
                                                       a.atttypid::regtype, a.attname)
                        WHEN 'relowner' THEN 'coalesce(s.owner, v.relowner) AS relowner'
                        WHEN 'tableowner' THEN 'coalesce(pg_get_userbyid(s.owner), v.tableowner) AS tableowner'
                        ELSE format('v.%I', a.attname) END, ', ' ORDER BY a.attnum)
               FROM pg_attribute a WHERE a.attrelid = l.list::regclass AND a.attnum > 0 AND NOT a.attisdropped),
            l.list, l.same, l.condition);
        EXECUTE format('GRANT SELECT ON pg_journal.%I TO PUBLIC', l.view_name);
    END LOOP;
END $$;
