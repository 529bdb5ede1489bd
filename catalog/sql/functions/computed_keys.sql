-- Unique indexes whose values are computed: on expressions, with WHERE, or NULLS NOT DISTINCT. A value is a text, equal
-- where what the index compares is: a JSON array of the texts of its parts, evaluated here alone, as PostgreSQL does.
-- The expressions call built-in functions only (pg_journal.check_features).

-- The value of a unique index as an expression over columns that have their names in the table, NULL for rows that the
-- index does not compare; NULL for an index over plain columns.
CREATE OR REPLACE FUNCTION pg_journal.unique_value(index_oid oid) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN (SELECT format('CASE WHEN %s THEN CASE WHEN %s THEN json_build_array(%s)::text END END',
                      coalesce(pg_get_expr(i.indpred, i.indrelid), 'true'),
                      CASE WHEN i.indnullsnotdistinct THEN 'true' ELSE p.present END, p.texts)
          FROM pg_index i CROSS JOIN LATERAL (
              SELECT string_agg(format('(%s)::text', pg_get_indexdef(i.indexrelid, n, false)), ', ' ORDER BY n) AS texts,
                     string_agg(format('(%s) IS NOT NULL', pg_get_indexdef(i.indexrelid, n, false)), ' AND '
                                ORDER BY n) AS present
                FROM generate_series(1, i.indnkeyatts) n) p
         WHERE i.indexrelid = index_oid AND (num_nonnulls(i.indpred, i.indexprs) > 0 OR i.indnullsnotdistinct));

-- The columns that such an index looks at, by their names in the table; `spelled` tells where they come from, by number or
-- by place.
CREATE OR REPLACE FUNCTION pg_journal.unique_reading(index_oid oid, spelled text, by_place boolean DEFAULT false) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN (SELECT string_agg(format('(%s)::%s%s AS %I', format(spelled, CASE WHEN by_place THEN u.o - 1 ELSE a.attnum END),
                                 plain_type(a.atttypid, -1),
                                 CASE WHEN a.attcollation <> 0
                                      THEN format(' COLLATE %I.%I', n.nspname, l.collname) ELSE '' END, a.attname),
                          ', ' ORDER BY u.o)
          FROM pg_index i CROSS JOIN unnest(unique_columns(index_oid)) WITH ORDINALITY u(attnum, o)
          JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = u.attnum
          LEFT JOIN pg_collation l ON l.oid = a.attcollation
          LEFT JOIN pg_namespace n ON n.oid = l.collnamespace
         WHERE i.indexrelid = index_oid);

-- The values of a unique index for rows: arrays of PostgreSQL's texts of the columns it looks at. Where an old row has none,
-- as its expression fails, the answer is null if that is tolerated.
CREATE OR REPLACE FUNCTION pg_journal.computed_values(code text, index_oid oid, rows text, tolerant boolean) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
SET extra_float_digits = 1
SET datestyle = 'ISO'
SET intervalstyle = 'postgres'
SET timezone = 'UTC'
SET bytea_output = 'hex'
SET array_nulls = on
AS $$
DECLARE
    answer text;
BEGIN
    PERFORM authorize(code, 'computed_values', index_oid::text, rows, tolerant::text);
    BEGIN
        EXECUTE format('SELECT json_agg(x.value ORDER BY u.o)::text FROM json_array_elements($1) WITH ORDINALITY u(e, o) '
                       'CROSS JOIN LATERAL (SELECT %s AS value FROM (SELECT %s) r) x',
                       unique_value(index_oid), unique_reading(index_oid, 'u.e->>%s', true))
           INTO answer USING rows::json;
    EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
        IF NOT tolerant THEN RAISE; END IF;
        answer := NULL;
    END;
    RETURN convert_to(coalesce(answer, 'null'), 'UTF8');
END $$;

-- The keys, in transfer forms, of row versions in the tail of a table that have one of some values of a unique index; null
-- where an expression fails for one of them.
CREATE OR REPLACE FUNCTION pg_journal.computed_holders(code text, wanted oid, index_oid oid, sought text[]) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
SET extra_float_digits = 1
SET datestyle = 'ISO'
SET intervalstyle = 'postgres'
SET timezone = 'UTC'
SET bytea_output = 'hex'
AS $$
DECLARE
    answer json;
BEGIN
    PERFORM authorize(code, 'computed_holders', wanted::text, index_oid::text, sought::text);
    PERFORM require_right(wanted, false);
    BEGIN
        EXECUTE format('SELECT coalesce(json_agg(DISTINCT v.key::jsonb), ''[]'') FROM ('
                       'SELECT json_build_array(%1$s)::text AS key, x.value '
                       'FROM pg_journal.tail_%2$s v CROSS JOIN LATERAL (SELECT %3$s AS value FROM (SELECT %4$s) r) x) v '
                       'WHERE v.value = ANY ($1)',
                       (key_parts(wanted)).transferred, wanted, unique_value(index_oid),
                       unique_reading(index_oid, 'v.c%s'))
           INTO answer USING sought;
    EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
        answer := NULL;
    END;
    RETURN convert_to(coalesce(answer::text, 'null'), 'UTF8');
END $$;
