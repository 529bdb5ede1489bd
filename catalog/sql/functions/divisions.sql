-- Tables whose base is divided into partitions, which are directories: PARTITIONED BY in CREATE TABLE … USING. What is
-- hot, in the tail or in a delta is not divided.

-- Divide a table from now on; what its base has is divided when it is next compacted. Of each field: transform, column,
-- type of the column, argument. An empty list: no longer. 42501 for others than the owner.
CREATE OR REPLACE FUNCTION pg_journal.set_division(code text, wanted oid, fields json) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    j journals;
BEGIN
    PERFORM authorize(code, 'set_division', wanted::text, fields::text);
    PERFORM require_owner(wanted);
    SELECT * INTO j FROM journals s WHERE s.relid = wanted;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'PARTITIONED BY of "%", which is no table with rows of its own, is not supported', wanted::regclass
            USING ERRCODE = '0A000';
    END IF;
    IF j.external IS NOT NULL THEN
        RAISE EXCEPTION 'PARTITIONED BY of the external journal "%" is not supported', j.table_name USING ERRCODE = '0A000';
    END IF;
    IF j.ancestors <> '{}' THEN
        RAISE EXCEPTION 'PARTITIONED BY of a partition of a partitioned table is not supported'
            USING ERRCODE = '0A000', HINT = 'Partition it further with PARTITION BY.';
    END IF;
    PERFORM fold(wanted);
    UPDATE journals s
       SET division = CASE WHEN json_array_length(fields) > 0
                           THEN jsonb_build_object('number', random_mark() & 2147483647, 'fields', fields::jsonb) END,
           definition = random_mark(), changes = changes + 1
     WHERE s.relid = wanted;
    PERFORM note_definition();
    RETURN convert_to('null', 'UTF8');
END $$;

-- Whether the columns that a division rests on are still there, with the types they had; else it counts no more.
CREATE OR REPLACE FUNCTION pg_journal.is_divided(j pg_journal.journals) RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN j.division IS NOT NULL AND NOT EXISTS (
    SELECT FROM jsonb_array_elements(j.division->'fields') f(e)
      LEFT JOIN pg_attribute a ON a.attrelid = j.relid AND a.attnum = (f.e->>1)::int2 AND NOT a.attisdropped
     WHERE a.atttypid IS DISTINCT FROM (f.e->>2)::oid);

-- How tables are divided, as PARTITIONED BY has it, with the number of partitions in their bases.
CREATE OR REPLACE FUNCTION pg_journal.listed_divisions(
    OUT schema_name name, OUT table_name name, OUT partitioned_by text, OUT partitions bigint)
RETURNS SETOF record
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
    SELECT n.nspname, c.relname,
           (SELECT string_agg(CASE WHEN f.e->>0 = 'identity' THEN quote_ident(a.attname)
                                   WHEN f.e->>0 IN ('bucket', 'truncate')
                                   THEN format('%s(%s, %I)', f.e->>0, f.e->>3, a.attname)
                                   ELSE format('%s(%I)', f.e->>0, a.attname) END, ', ' ORDER BY f.o)
              FROM jsonb_array_elements(j.division->'fields') WITH ORDINALITY f(e, o)
              JOIN pg_attribute a ON a.attrelid = j.relid AND a.attnum = (f.e->>1)::int2),
           (SELECT count(DISTINCT (s.partition->2)::text) FROM pg_journal.segments s
             WHERE s.relid = j.relid AND s.retired_at IS NULL AND s.kind = 'base'
               AND (s.partition->>0)::bigint = (j.division->>'number')::bigint)
      FROM pg_journal.journals j JOIN pg_class c ON c.oid = j.relid JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE is_divided(j) AND has_table_privilege(acting_role(), c.oid, 'SELECT')
$$;
CREATE OR REPLACE VIEW pg_journal.division_list AS SELECT * FROM pg_journal.listed_divisions();
GRANT SELECT ON pg_journal.division_list TO PUBLIC;

-- The partitions of the bases of tables; NULL for what has not been divided yet, or as it was before.
CREATE OR REPLACE FUNCTION pg_journal.listed_partitions(
    OUT schema_name name, OUT table_name name, OUT partition text, OUT segments bigint, OUT row_count bigint,
    OUT size_bytes bigint)
RETURNS SETOF record
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
    SELECT n.nspname, c.relname,
           CASE WHEN (s.partition->>0)::bigint = (j.division->>'number')::bigint
                THEN substring(s.path FROM '^\d+/\d+/(.+)/[^/]+$') END,
           count(*), sum(s.row_count)::bigint, sum(s.size_bytes)::bigint
      FROM pg_journal.journals j JOIN pg_class c ON c.oid = j.relid JOIN pg_namespace n ON n.oid = c.relnamespace
      JOIN pg_journal.segments s ON s.relid = j.relid AND s.retired_at IS NULL AND s.kind = 'base'
     WHERE is_divided(j) AND has_table_privilege(acting_role(), c.oid, 'SELECT')
     GROUP BY 1, 2, 3
$$;
CREATE OR REPLACE VIEW pg_journal.partition_list AS SELECT * FROM pg_journal.listed_partitions();
GRANT SELECT ON pg_journal.partition_list TO PUBLIC;
