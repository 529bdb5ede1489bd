-- Journals follow DDL inside the client's own transaction: event triggers compare each touched table
-- with its bookkeeping and bring the bookkeeping, the tail and the journal table into line, or refuse.

-- True when a column can change its type and the values in data files stay what they are.
CREATE OR REPLACE FUNCTION pg_journal.keeps_values(old_type oid, old_typmod int4, new_type oid, new_typmod int4)
RETURNS boolean
LANGUAGE sql IMMUTABLE
RETURN old_type = 'varchar'::regtype AND new_type IN ('varchar'::regtype, 'text'::regtype)
   AND (new_typmod = -1 OR (old_typmod <> -1 AND new_typmod >= old_typmod));

-- Make sure that NULL is what a new column has in rows that exist, or raise what PostgreSQL would.
CREATE OR REPLACE FUNCTION pg_journal.check_domain_default(column_name text, type_oid oid) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    t record;
    base oid := type_oid;
BEGIN
    LOOP
        SELECT typtype, typbasetype, typdefaultbin IS NOT NULL AS has_default INTO t
          FROM pg_type WHERE oid = base;
        EXIT WHEN t.typtype <> 'd';
        IF t.has_default THEN
            PERFORM refuse(format('ADD COLUMN "%s" with the default of a domain is', column_name),
                           'Name the default with the column.');
        END IF;
        base := t.typbasetype;
    END LOOP;
    IF base <> type_oid THEN EXECUTE format('SELECT NULL::%s', type_oid::regtype); END IF;
END $$;

-- Take columns that the table has lost out of tail and journal table.
CREATE OR REPLACE FUNCTION pg_journal.drop_columns(relid oid) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    c record;
BEGIN
    FOR c IN SELECT k.attnum, k.name, j.relid, j.tail_relid, j.journal_relid
               FROM journals j JOIN columns k ON k.relid = j.relid AND k.name <> ''
               LEFT JOIN pg_attribute a ON a.attrelid = k.relid AND a.attnum = k.attnum AND NOT a.attisdropped
              WHERE j.relid = drop_columns.relid AND a.attnum IS NULL LOOP
        -- The row of a dropped column stays, without name, to keep its storage name taken.
        UPDATE columns k SET name = '' WHERE k.relid = c.relid AND k.attnum = c.attnum;
        EXECUTE format('ALTER TABLE %s DROP COLUMN IF EXISTS c%s', c.tail_relid::regclass, c.attnum);
        EXECUTE format('ALTER TABLE %s DROP COLUMN IF EXISTS %I', c.journal_relid::regclass, c.name);
    END LOOP;
END $$;

-- Give the tail a column that the table has got; rows that are there have this value, as text, in it.
CREATE OR REPLACE FUNCTION pg_journal.add_column(relid oid, attnum int2, missing text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    a record;
    tail regclass;
BEGIN
    SELECT x.attname, x.atttypid, x.atttypmod, x.attnotnull INTO a
      FROM pg_attribute x WHERE x.attrelid = add_column.relid AND x.attnum = add_column.attnum;
    SELECT j.tail_relid INTO tail FROM journals j WHERE j.relid = add_column.relid;
    INSERT INTO columns (relid, attnum, name, type_oid, typmod, not_null, storage_name, missing_value,
                         generation)
    VALUES (add_column.relid, add_column.attnum, a.attname, a.atttypid, a.atttypmod, a.attnotnull,
            storage_name(add_column.relid, a.attname), missing,
            generation_tree(add_column.relid, add_column.attnum));
    IF missing IS NOT NULL THEN PERFORM check_missing(relid); END IF;
    PERFORM bound_rows(relid, false);
    EXECUTE format('ALTER TABLE %s ADD COLUMN %s%s', tail, tail_column(attnum, a.atttypid, a.atttypmod),
                   CASE WHEN missing IS NOT NULL THEN format(' DEFAULT %L', missing) ELSE '' END);
    IF missing IS NOT NULL THEN
        EXECUTE format('ALTER TABLE %s ALTER COLUMN c%s DROP DEFAULT', tail, attnum);
    END IF;
END $$;

-- Refuse columns whose types are gone when the session ends: nobody tells that the columns go, too.
CREATE OR REPLACE FUNCTION pg_journal.check_lasting(relid oid) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    column_name text;
BEGIN
    SELECT a.attname INTO column_name
      FROM pg_attribute a CROSS JOIN LATERAL unnest(made_of(ARRAY[a.atttypid])) m(oid)
      JOIN pg_type t ON t.oid = m.oid JOIN pg_namespace n ON n.oid = t.typnamespace
     WHERE a.attrelid = check_lasting.relid AND a.attnum > 0 AND NOT a.attisdropped AND a.atttypid >= 16384
       AND n.nspname ~ '^pg_temp_'
     ORDER BY a.attnum LIMIT 1;
    IF FOUND THEN
        PERFORM refuse(format('the column "%s" of a temporary type is', column_name),
                       'Create the type in a schema that outlives the session.');
    END IF;
END $$;

-- Refuse a value, as text, that segments cannot hold.
CREATE OR REPLACE FUNCTION pg_journal.check_storable(value text, type_oid oid, typmod int4) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
SET array_nulls = on
AS $$
DECLARE
    condition text := storable(format('%L::%s', value, tail_type(type_oid, typmod)), type_oid, typmod);
    is_storable boolean;
BEGIN
    IF condition IS NULL THEN RETURN; END IF;
    EXECUTE format('SELECT %s', condition) INTO is_storable;
    IF NOT is_storable THEN
        PERFORM refuse(format('the default %L of rows that are there is', value),
                       'Add the column without default, then set the default.');
    END IF;
END $$;

-- The CHECK and NOT NULL constraints and the foreign keys of a table.
CREATE OR REPLACE FUNCTION pg_journal.kept_constraints(relid oid) RETURNS oid[]
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN ARRAY(SELECT x.oid FROM pg_constraint x
              WHERE x.conrelid = kept_constraints.relid AND x.contype IN ('c', 'f', 'n') ORDER BY 1);

-- Those that rows which were there before may violate.
CREATE OR REPLACE FUNCTION pg_journal.unvalidated_constraints(relid oid) RETURNS oid[]
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN ARRAY(SELECT x.oid FROM pg_constraint x
              WHERE x.conrelid = unvalidated_constraints.relid AND x.contype IN ('c', 'n') AND x.conenforced
                AND NOT x.convalidated ORDER BY 1);

-- Those whose rows are still to be looked at: they are new, or have been validated now, which PostgreSQL has done with the
-- rows that are hot.
CREATE OR REPLACE FUNCTION pg_journal.pending_checks(j journals) RETURNS SETOF pg_constraint
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
    SELECT x.* FROM pg_constraint x
     WHERE x.conrelid = j.relid AND x.contype IN ('c', 'n') AND x.conenforced AND x.convalidated
       AND (x.oid <> ALL (j.checks) OR x.oid = ANY (j.unvalidated))
$$;

-- Bring columns of a tiered table's journal into line with the table.
CREATE OR REPLACE FUNCTION pg_journal.reconcile_columns(relid oid) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
SET array_nulls = on
SET datestyle = 'ISO'
SET intervalstyle = 'postgres'
SET timezone = 'UTC'
SET bytea_output = 'hex'
SET extra_float_digits = 1
SET xmloption = content
AS $$
DECLARE
    j journals;
    c record;
    filled boolean := has_rows(relid);
    missing text;
    spelled text;
BEGIN
    SELECT * INTO j FROM journals jj WHERE jj.relid = reconcile_columns.relid;
    PERFORM drop_columns(relid);
    FOR c IN SELECT k.attnum, k.name, k.type_oid, k.typmod, k.not_null, k.generation, a.attname, a.atttypid,
                    a.atttypmod, a.attnotnull, generation_tree(j.relid, k.attnum) AS tree
               FROM columns k JOIN pg_attribute a ON a.attrelid = k.relid AND a.attnum = k.attnum
              WHERE k.relid = j.relid AND NOT a.attisdropped
                AND (k.name, k.type_oid, k.typmod, k.not_null, k.generation) IS DISTINCT FROM
                    (a.attname::text, a.atttypid, a.atttypmod, a.attnotnull,
                     generation_tree(j.relid, k.attnum)) LOOP
        IF c.name <> c.attname THEN
            EXECUTE format('ALTER TABLE %s RENAME COLUMN %I TO %I',
                           j.journal_relid::regclass, c.name, c.attname);
        END IF;
        IF (c.type_oid, c.typmod) <> (c.atttypid, c.atttypmod) THEN
            spelled := plain_type(c.atttypid, c.atttypmod);
            PERFORM bound_rows(relid, false);
            IF filled AND NOT keeps_values(c.type_oid, c.typmod, c.atttypid, c.atttypmod) THEN
                PERFORM refuse(format('ALTER COLUMN "%s" TYPE %s of a table with rows is', c.attname, spelled),
                               'Add a column of the new type and update it from the old one.');
            ELSIF filled THEN
                EXECUTE format('ALTER TABLE %s ALTER COLUMN c%s TYPE %s',
                               j.tail_relid::regclass, c.attnum, spelled);
            ELSE
                EXECUTE format('ALTER TABLE %s DROP COLUMN c%s', j.tail_relid::regclass, c.attnum);
                EXECUTE format('ALTER TABLE %s ADD COLUMN %s', j.tail_relid::regclass,
                               tail_column(c.attnum, c.atttypid, c.atttypmod));
                IF NOT keeps_values(c.type_oid, c.typmod, c.atttypid, c.atttypmod)
                   AND EXISTS (SELECT FROM segments s WHERE s.relid = j.relid AND s.retired_at IS NULL) THEN
                    -- Archived row versions have no value of the new type.
                    UPDATE columns k SET storage_name = storage_name(j.relid, k.storage_name), missing_value = NULL
                     WHERE k.relid = j.relid AND k.attnum = c.attnum;
                END IF;
            END IF;
            EXECUTE format('ALTER TABLE %s ALTER COLUMN %I TYPE %s USING NULL',
                           j.journal_relid::regclass, c.attname, spelled);
        END IF;
        IF c.tree <> c.generation AND filled THEN
            PERFORM refuse(format('SET EXPRESSION on column "%s" of a table with rows is', c.attname), residency_hint(relid));
        END IF;
        UPDATE columns k SET name = c.attname, type_oid = c.atttypid, typmod = c.atttypmod,
                             not_null = c.attnotnull, generation = c.tree
         WHERE k.relid = j.relid AND k.attnum = c.attnum;
    END LOOP;
    FOR c IN SELECT a.* FROM pg_attribute a LEFT JOIN columns k ON k.relid = a.attrelid AND k.attnum = a.attnum
              WHERE a.attrelid = j.relid AND a.attnum > 0 AND NOT a.attisdropped AND k.relid IS NULL
              ORDER BY a.attnum LOOP
        missing := NULL;
        spelled := plain_type(c.atttypid, c.atttypmod);
        IF filled THEN
            IF c.atthasmissing THEN
                missing := (SELECT c.attmissingval::text::text[])[1];
                PERFORM check_storable(missing, c.atttypid, c.atttypmod);
            ELSIF c.attidentity <> '' OR c.attgenerated <> '' OR c.atthasdef THEN
                PERFORM refuse(
                    format('ADD COLUMN "%s" with a default that differs from row to row is', c.attname),
                    'Add the column without default, update it, then set the default.');
            ELSIF c.attnotnull THEN
                RAISE EXCEPTION 'column "%" of relation "%" contains null values', c.attname, j.table_name
                    USING ERRCODE = '23502', SCHEMA = j.schema_name, TABLE = j.table_name, COLUMN = c.attname;
            ELSE
                PERFORM check_domain_default(c.attname, c.atttypid);
            END IF;
        END IF;
        PERFORM add_column(relid, c.attnum, missing);
        -- Rows that were there have its default.
        UPDATE journals jj
           SET checks = jj.checks || ARRAY(SELECT x.oid FROM pg_constraint x
                                            WHERE x.conrelid = j.relid AND x.contype = 'n' AND x.conkey = ARRAY[c.attnum])
         WHERE jj.relid = j.relid AND c.attnotnull;
        EXECUTE format('ALTER TABLE %s ADD COLUMN %I %s', j.journal_relid::regclass, c.attname, spelled);
    END LOOP;
    PERFORM bound_rows(relid, true);
END $$;

-- Bring key and constraints into line with the table. By `unreferencing` foreign keys no row references anything.
CREATE OR REPLACE FUNCTION pg_journal.reconcile_constraints(relid oid, unreferencing oid[]) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    j journals;
    filled boolean := has_rows(relid);
    primary_key record;
    wanted int2[];
    kept oid[];
    added text;
BEGIN
    SELECT * INTO j FROM journals jj WHERE jj.relid = reconcile_constraints.relid;
    SELECT format('"%s" %s%s', x.conname,
                  CASE x.contype WHEN 'c' THEN 'CHECK' WHEN 'n' THEN 'NOT NULL' ELSE 'FOREIGN KEY' END,
                  CASE WHEN x.contype <> 'f' AND NOT x.convalidated THEN ' NOT VALID' ELSE '' END)
      INTO added
      FROM pg_constraint x
     WHERE x.conrelid = j.relid AND x.oid <> ALL (j.checks)
       AND CASE WHEN x.contype = 'f' THEN NOT is_adding() AND x.oid <> ALL (unreferencing)
                -- Others write to it who know of no constraints.
                ELSE x.contype IN ('c', 'n') AND x.conenforced AND (NOT x.convalidated OR j.external IS NOT NULL) END
     LIMIT 1;
    IF added IS NOT NULL AND filled THEN
        PERFORM refuse(format('ADD CONSTRAINT %s on a table with rows is', added),
                       CASE WHEN j.external IS NULL THEN residency_hint(relid)
                            ELSE 'Leave it out: the journal has other writers.' END);
    END IF;
    -- Where there are rows they are looked at when the command has been run, for new constraints and new unique indexes.
    kept := CASE WHEN NOT filled THEN kept_constraints(j.relid)
                 ELSE ARRAY(SELECT k FROM unnest(kept_constraints(j.relid)) k
                             WHERE k NOT IN (SELECT p.oid FROM pending_checks(j) p WHERE p.oid <> ALL (j.checks))) END;
    UPDATE journals jj
       SET checks = kept, unvalidated = CASE WHEN filled THEN jj.unvalidated ELSE '{}' END
     WHERE jj.relid = j.relid AND (jj.checks <> kept OR NOT filled AND jj.unvalidated <> '{}');
    UPDATE journals jj SET unique_indexes = ARRAY(SELECT u FROM unnest(unique_indexes(j.relid)) u
                                                   WHERE NOT filled OR u = ANY (jj.unique_indexes))
     WHERE jj.relid = j.relid;

    SELECT x.conname, x.conkey INTO primary_key FROM pg_constraint x
     WHERE x.conrelid = j.relid AND x.contype = 'p';
    wanted := coalesce(primary_key.conkey, '{}');
    UPDATE journals jj SET key_name = primary_key.conname
     WHERE jj.relid = j.relid AND jj.key_name IS DISTINCT FROM primary_key.conname;
    IF wanted = coalesce(j.pending_key, j.key) THEN RETURN; END IF;
    IF filled THEN
        IF wanted = j.key THEN
            UPDATE journals jj SET pending_key = NULL WHERE jj.relid = j.relid;
        ELSIF j.key <> '{}' THEN
            PERFORM refuse('dropping or changing the primary key of a table with rows is', residency_hint(relid));
        ELSE
            UPDATE journals jj SET pending_key = wanted WHERE jj.relid = j.relid;
        END IF;
    ELSE
        PERFORM apply_key(j.relid, wanted);
    END IF;
END $$;

-- Make these columns the key that identifies rows from now on.
CREATE OR REPLACE FUNCTION pg_journal.apply_key(relid oid, wanted int2[]) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    j journals;
BEGIN
    SELECT * INTO j FROM journals jj WHERE jj.relid = apply_key.relid;
    UPDATE journals jj SET key = wanted, pending_key = NULL WHERE jj.relid = j.relid;
    PERFORM index_tail(j.relid);
    IF (j.key = '{}') <> (wanted = '{}') THEN
        EXECUTE format('ALTER TABLE %s %s', j.journal_relid::regclass,
                       CASE WHEN wanted = '{}' THEN 'ADD COLUMN row_identity bigint'
                            ELSE 'DROP COLUMN row_identity' END);
    END IF;
END $$;

-- Whether a column has come with the command, without a value for the rows there are.
CREATE OR REPLACE FUNCTION pg_journal.is_new_null(wanted oid, wanted_column int2) RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN (SELECT NOT (a.atthasdef OR a.atthasmissing OR a.attidentity <> '')
               AND NOT EXISTS (SELECT FROM columns k WHERE k.relid = wanted AND k.attnum = wanted_column)
          FROM pg_attribute a WHERE a.attrelid = wanted AND a.attnum = wanted_column);

-- Foreign keys of columns that have come with the command and are NULL in all rows: one of them is enough, unless MATCH FULL
-- wants all to be.
CREATE OR REPLACE FUNCTION pg_journal.unreferencing_keys(relid oid) RETURNS oid[]
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN ARRAY(SELECT x.oid FROM pg_constraint x
              WHERE x.conrelid = unreferencing_keys.relid AND x.contype = 'f' AND (
                  SELECT CASE WHEN x.confmatchtype = 'f' THEN bool_and(n.is_null) ELSE bool_or(n.is_null) END
                    FROM unnest(x.conkey) u(attnum) CROSS JOIN LATERAL is_new_null(x.conrelid, u.attnum) n(is_null)));

-- Refuse foreign keys to tiered tables that are not kept, and changes of what tiered tables reference: PostgreSQL makes the
-- keys of these anew, by whose rows nobody would look.
CREATE OR REPLACE FUNCTION pg_journal.check_references(relid oid) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    referenced regclass;
    reason text;
    validated boolean;
    added_column text;
BEGIN
    SELECT x.confrelid, parent_irregularity(x) INTO referenced, reason
      FROM pg_constraint x JOIN journals p ON p.relid = x.confrelid
     WHERE check_references.relid IN (x.conrelid, x.confrelid) AND x.contype = 'f' AND p.residency = 'tiered'
       AND parent_irregularity(x) IS NOT NULL LIMIT 1;
    IF FOUND THEN
        PERFORM refuse(format('a FOREIGN KEY that references the tiered table "%s" and %s is', referenced, reason),
                       CASE reason WHEN 'is not validated' THEN 'Leave NOT VALID and NOT ENFORCED out.'
                                   ELSE format('ALTER TABLE %s SET (gateway.residency = always) first.', referenced) END);
    END IF;
    SELECT x.convalidated, x.conrelid, (
               SELECT a.attname FROM pg_attribute a LEFT JOIN columns k ON k.relid = a.attrelid AND k.attnum = a.attnum
                WHERE a.attrelid = x.conrelid AND a.attnum = ANY (x.conkey) AND k.relid IS NULL
                  AND NOT is_new_null(x.conrelid, a.attnum) LIMIT 1)
      INTO validated, referenced, added_column
      FROM pg_constraint x JOIN journals referencing ON referencing.relid = x.conrelid
     WHERE x.confrelid = check_references.relid AND x.conrelid <> x.confrelid AND x.contype = 'f'
       AND referencing.residency = 'tiered' AND x.oid <> ALL (referencing.checks) AND NOT is_adding()
       AND x.oid <> ALL (unreferencing_keys(referencing.relid)) AND has_rows(referencing.relid) ORDER BY x.convalidated LIMIT 1;
    IF NOT validated THEN
        -- A key that PostgreSQL makes anew is as valid as it was, and those of tiered tables are.
        PERFORM refuse(format('a FOREIGN KEY of the tiered table "%s" that is not validated is', referenced),
                       'Leave NOT VALID and NOT ENFORCED out.');
    ELSIF validated AND added_column IS NOT NULL THEN
        PERFORM refuse(format('ADD COLUMN "%s" with a value and a FOREIGN KEY on a table with rows is', added_column),
                       'Add the column without default, update it, then set the default.');
    ELSIF validated THEN
        PERFORM refuse('changing the type of a column that tiered tables reference is', 'Leave it as it is.');
    END IF;
END $$;

-- Bring the journal of a resident table into line with it, values included.
CREATE OR REPLACE FUNCTION pg_journal.reconcile_resident(relid oid) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
SET array_nulls = on
SET datestyle = 'ISO'
SET intervalstyle = 'postgres'
SET timezone = 'UTC'
SET bytea_output = 'hex'
SET extra_float_digits = 1
SET xmloption = content
AS $$
DECLARE
    j journals;
    c record;
    keyed int2[] := row_key(relid);
    anew boolean;
    told_otherwise boolean;
    missing text;
BEGIN
    SELECT * INTO j FROM journals jj WHERE jj.relid = reconcile_resident.relid;
    PERFORM check_references(relid);
    IF cold_references(relid) <> '{}' AND is_in_tree(relid) THEN
        PERFORM refuse('a partition, or INHERITS, of a table that tiered tables reference is', 'Leave it out.');
    END IF;
    IF (SELECT relpersistence FROM pg_class WHERE oid = j.relid) = 'u' THEN
        PERFORM tell_later(logged_notice(j.relid));
        EXECUTE format('ALTER TABLE ONLY %s SET LOGGED', j.relid::regclass);
    END IF;
    anew := j.rewritten OR keyed <> j.key;
    told_otherwise := keyed <> j.key;
    PERFORM drop_columns(relid);
    -- Two columns may have changed names: out of the way with all of them first.
    FOR c IN SELECT k.attnum, k.name FROM columns k JOIN pg_attribute a ON a.attrelid = k.relid AND a.attnum = k.attnum
              WHERE k.relid = j.relid AND NOT a.attisdropped AND k.name <> a.attname LOOP
        EXECUTE format('ALTER TABLE %s RENAME COLUMN %I TO %I', j.journal_relid::regclass, c.name,
                       'pgwire_renamed_' || c.attnum);
    END LOOP;
    FOR c IN SELECT k.attnum, k.name, k.type_oid, k.typmod, a.attname, a.atttypid, a.atttypmod, a.attnotnull,
                    generation_tree(j.relid, k.attnum) AS tree
               FROM columns k JOIN pg_attribute a ON a.attrelid = k.relid AND a.attnum = k.attnum
              WHERE k.relid = j.relid AND NOT a.attisdropped
                AND (k.name, k.type_oid, k.typmod, k.not_null, k.generation) IS DISTINCT FROM
                    (a.attname::text, a.atttypid, a.atttypmod, a.attnotnull,
                     generation_tree(j.relid, k.attnum)) LOOP
        IF c.name <> c.attname THEN
            PERFORM make_room(j.journal_relid, c.attname);
            EXECUTE format('ALTER TABLE %s RENAME COLUMN %I TO %I', j.journal_relid::regclass,
                           'pgwire_renamed_' || c.attnum, c.attname);
        END IF;
        IF (c.type_oid, c.typmod) <> (c.atttypid, c.atttypmod) THEN
            PERFORM bound_rows(relid, false);
            IF keeps_values(c.type_oid, c.typmod, c.atttypid, c.atttypmod) THEN
                EXECUTE format('ALTER TABLE %s ALTER COLUMN c%s TYPE %s', j.tail_relid::regclass, c.attnum,
                               tail_type(c.atttypid, c.atttypmod));
            ELSE
                -- Older row versions have no value of the new type.
                EXECUTE format('ALTER TABLE %s DROP COLUMN c%s', j.tail_relid::regclass, c.attnum);
                EXECUTE format('ALTER TABLE %s ADD COLUMN %s', j.tail_relid::regclass,
                               tail_column(c.attnum, c.atttypid, c.atttypmod));
                UPDATE columns k SET storage_name = storage_name(j.relid, k.storage_name), missing_value = NULL
                 WHERE k.relid = j.relid AND k.attnum = c.attnum;
                anew := true;
                told_otherwise := told_otherwise OR c.attnum = ANY (keyed);
            END IF;
            EXECUTE format('ALTER TABLE %s ALTER COLUMN %I TYPE %s USING NULL',
                           j.journal_relid::regclass, c.attname, tail_type(c.atttypid, c.atttypmod));
        END IF;
        UPDATE columns k SET name = c.attname, type_oid = c.atttypid, typmod = c.atttypmod,
                             not_null = c.attnotnull, generation = c.tree
         WHERE k.relid = j.relid AND k.attnum = c.attnum;
    END LOOP;
    FOR c IN SELECT a.* FROM pg_attribute a LEFT JOIN columns k ON k.relid = a.attrelid AND k.attnum = a.attnum
              WHERE a.attrelid = j.relid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated <> 'v'
                AND k.relid IS NULL ORDER BY a.attnum LOOP
        missing := CASE WHEN c.atthasmissing THEN (SELECT c.attmissingval::text::text[])[1] END;
        PERFORM add_column(relid, c.attnum, missing);
        PERFORM make_room(j.journal_relid, c.attname);
        EXECUTE format('ALTER TABLE %s ADD COLUMN %I %s', j.journal_relid::regclass, c.attname,
                       tail_type(c.atttypid, c.atttypmod));
    END LOOP;
    PERFORM bound_rows(relid, true);
    IF told_otherwise THEN
        -- What segments hold is told apart otherwise, or by values of another type: it is history from now on.
        UPDATE segments s SET kind = 'archive'
         WHERE s.relid = j.relid AND s.retired_at IS NULL AND s.kind <> 'archive';
        IF (j.key = '{}') <> (keyed = '{}') THEN
            EXECUTE format('ALTER TABLE %s %s', j.journal_relid::regclass,
                           CASE WHEN keyed = '{}' THEN 'ADD COLUMN IF NOT EXISTS row_identity bigint'
                                ELSE 'DROP COLUMN IF EXISTS row_identity' END);
        END IF;
    END IF;
    IF j.pinned_by IS NULL AND pin(j.relid) IS NOT NULL AND is_large(j.relid) THEN
        PERFORM tell_later(growth_notice(j.relid, pin(j.relid)));
    END IF;
    UPDATE journals jj
       SET key = keyed, pinned_by = pin(jj.relid),
           key_name = (SELECT x.conname FROM pg_constraint x
                        WHERE x.conrelid = jj.relid AND x.contype = 'p' AND keyed <> '{}'),
           checks = kept_constraints(jj.relid),
           schema_name = n.nspname, table_name = t.relname
      FROM pg_class t JOIN pg_namespace n ON n.oid = t.relnamespace
     WHERE jj.relid = j.relid AND t.oid = j.relid;
    IF anew THEN
        PERFORM check_snapshot(j.relid);
        PERFORM journal_rows(j.relid);
    END IF;
END $$;

-- Take a version column away where the table has got a column of its name.
CREATE OR REPLACE FUNCTION pg_journal.make_room(journal_relid oid, column_name text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    IF is_hidden(column_name) THEN
        EXECUTE format('ALTER TABLE %s DROP COLUMN IF EXISTS %I', journal_relid::regclass, column_name);
    END IF;
END $$;

-- True for partitions and members of inheritance trees: statements that name a table above them fire no
-- statement triggers of theirs.
CREATE OR REPLACE FUNCTION pg_journal.is_in_tree(relid oid) RETURNS boolean
LANGUAGE sql STABLE
RETURN EXISTS (SELECT FROM pg_catalog.pg_inherits i WHERE i.inhrelid = relid OR i.inhparent = relid);

-- Foreign keys by which rows of tiered tables reference a table.
CREATE OR REPLACE FUNCTION pg_journal.cold_references(relid oid) RETURNS oid[]
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN ARRAY(SELECT x.oid FROM pg_constraint x JOIN journals j ON j.relid = x.conrelid
              WHERE x.confrelid = cold_references.relid AND x.contype = 'f' AND j.residency = 'tiered' ORDER BY 1);

-- Foreign keys by which a table references tiered ones; of a tiered table those, too, that are deferrable: its rows are not
-- where PostgreSQL looks for them when the transaction ends.
CREATE OR REPLACE FUNCTION pg_journal.cold_parents(relid oid) RETURNS oid[]
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN ARRAY(SELECT x.oid FROM pg_constraint x JOIN journals p ON p.relid = x.confrelid
               JOIN journals c ON c.relid = x.conrelid
              WHERE x.conrelid = cold_parents.relid AND x.contype = 'f'
                AND (p.residency = 'tiered' OR x.condeferrable AND c.residency = 'tiered') ORDER BY 1);

-- Foreign keys of which the triggers of the referenced table have to tell what is taken away.
CREATE OR REPLACE FUNCTION pg_journal.told_references(relid oid) RETURNS oid[]
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN ARRAY(SELECT u FROM unnest(cold_references(told_references.relid)) u
             UNION
             -- What is put back need not be where PostgreSQL looks for it when the transaction ends.
             SELECT x.oid FROM pg_constraint x JOIN journals p ON p.relid = x.confrelid
              WHERE x.confrelid = told_references.relid AND x.contype = 'f' AND p.residency = 'tiered'
                AND x.condeferrable AND 'a' IN (x.confdeltype, x.confupdtype) ORDER BY 1);

-- What triggers of a table depend on.
CREATE OR REPLACE FUNCTION pg_journal.watch_signature(relid oid) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN (SELECT md5(concat_ws('|', j.residency, j.is_hot, is_in_tree(j.relid), quote_ident(j.schema_name),
                             quote_ident(j.table_name), j.key, cold_references(j.relid), told_references(j.relid),
                             (SELECT string_agg(concat_ws(' ', x.oid, x.condeferrable, x.condeferred), ',' ORDER BY x.oid)
                                FROM pg_constraint x WHERE x.oid = ANY (cold_parents(j.relid) || told_references(j.relid))),
                             (SELECT string_agg(concat_ws(' ', x.oid, x.confrelid::regclass, a.attname, a.atttypid), ','
                                                ORDER BY x.oid, a.attnum)
                                FROM pg_constraint x
                                JOIN pg_attribute a ON a.attrelid = x.confrelid AND a.attnum = ANY (x.confkey)
                               WHERE x.oid = ANY (cold_parents(j.relid))),
                             (SELECT string_agg(concat_ws(' ', x.oid, x.conrelid::regclass, quote_ident(a.attname)), ','
                                                ORDER BY x.oid, a.attnum)
                                FROM pg_constraint x
                                JOIN pg_attribute a ON a.attrelid = x.conrelid AND a.attnum = ANY (x.conkey)
                               WHERE x.oid = ANY (told_references(j.relid))),
                             -- PostgreSQL makes them anew when types of columns change.
                             (SELECT string_agg(concat_ws(' ', g.oid, g.tgtype), ',' ORDER BY g.oid) FROM pg_trigger g
                               WHERE g.tgrelid = j.relid AND g.tgconstraint = ANY (cold_parents(j.relid))),
                             (SELECT string_agg(concat_ws(' ', k.attnum, quote_ident(k.name), k.type_oid), ','
                                                ORDER BY k.attnum)
                                FROM columns k WHERE k.relid = j.relid AND k.name <> '')))
          FROM journals j WHERE j.relid = watch_signature.relid);

-- Bring journal, triggers and readers of a table into line with it.
CREATE OR REPLACE FUNCTION pg_journal.reconcile(relid oid) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    j journals;
    unreferencing oid[];
BEGIN
    IF (SELECT jj.is_hot FROM journals jj WHERE jj.relid = reconcile.relid) THEN
        -- What the command has found in the catalog table are some of its rows.
        IF current_setting('transaction_isolation') <> 'read committed' THEN
            -- The snapshot may not show all of them.
            RAISE EXCEPTION 'could not serialize access due to concurrent update' USING ERRCODE = '40001';
        END IF;
        PERFORM pass_gate(relid, 'EXCLUSIVE');
    END IF;
    PERFORM fold(relid);
    PERFORM follow_tree(relid);
    SELECT * INTO j FROM journals jj WHERE jj.relid = reconcile.relid;
    IF j.is_hot THEN PERFORM cool(relid); END IF;
    IF j.residency = 'resident' THEN
        PERFORM reconcile_resident(relid);
    ELSE
        PERFORM check_features(relid);
        PERFORM check_references(relid);
        IF j.external IS NOT NULL THEN PERFORM check_external(relid); END IF;
        unreferencing := unreferencing_keys(relid);
        PERFORM reconcile_columns(relid);
        PERFORM reconcile_constraints(relid, unreferencing);
        UPDATE journals jj SET schema_name = n.nspname, table_name = t.relname
          FROM pg_class t JOIN pg_namespace n ON n.oid = t.relnamespace
         WHERE jj.relid = j.relid AND t.oid = j.relid;
        PERFORM settle_references(relid);
    END IF;
    PERFORM mirror_readers(relid);
    IF j.watched IS DISTINCT FROM watch_signature(relid) THEN PERFORM watch(relid); END IF;
    UPDATE journals jj SET definition = random_mark(), epoch = epoch + 1, changes = changes + 1
     WHERE jj.relid = j.relid;
END $$;

-- Tables and the views over them: what code can name to reach the tables.
CREATE OR REPLACE FUNCTION pg_journal.names_of(relids oid[]) RETURNS TABLE (relid oid, reached oid, name text)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
    WITH RECURSIVE over(relid, oid) AS (
        SELECT u.relid, u.relid FROM unnest(relids) u(relid)
        UNION
        SELECT j.relid, a FROM journals j CROSS JOIN unnest(j.ancestors) a WHERE j.relid = ANY (relids)
        UNION
        SELECT o.relid, w.ev_class FROM over o
          JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = o.oid
                          AND d.classid = 'pg_rewrite'::regclass
          JOIN pg_rewrite w ON w.oid = d.objid)
    SELECT o.relid, c.oid, c.relname::text FROM over o JOIN pg_class c ON c.oid = o.oid
$$;

CREATE OR REPLACE FUNCTION pg_journal.tiered_tables() RETURNS oid[]
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN ARRAY(SELECT j.relid FROM journals j WHERE j.residency = 'tiered');

-- True when code makes SQL of text, or writes names in a way that cannot be read.
CREATE OR REPLACE FUNCTION pg_journal.may_reach_all(body text) RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN body ~* '\mexecute\M|\mu&';

-- Which of these relations code may name: its text holds the name as a word, which ends where PostgreSQL cuts names.
-- Names that are no plain words are looked for as they stand.
CREATE OR REPLACE FUNCTION pg_journal.named_in(body text, names text[]) RETURNS SETOF text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
    WITH words AS (SELECT DISTINCT lower(m[1]::name::text) AS word FROM regexp_matches(body, '\w+', 'g') m)
    SELECT n FROM unnest(names) n JOIN words w ON w.word = lower(n)
     WHERE n ~ '^[A-Za-z_][A-Za-z0-9_]*$'
    UNION ALL
    SELECT n FROM unnest(names) n
     WHERE n !~ '^[A-Za-z_][A-Za-z0-9_]*$' AND strpos(lower(body), lower(replace(n, '"', '""'))) > 0
$$;

-- Code of users that may reach one of these tables while PostgreSQL runs it, with the table; NULLs when there is none.
CREATE OR REPLACE FUNCTION pg_journal.code_reaching(relids oid[], OUT relid oid, OUT what text) RETURNS record
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
    WITH n AS MATERIALIZED (SELECT * FROM names_of(relids))
    SELECT (SELECT n.relid FROM n WHERE n.name = coalesce(reach.name, n.name) LIMIT 1) AS relid,
           format('the function %s', p.oid::regprocedure) AS what
      FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
      CROSS JOIN LATERAL (SELECT l.lanname NOT IN ('sql', 'plpgsql') OR may_reach_all(p.prosrc)) every(thing)
      CROSS JOIN LATERAL (
          SELECT CASE WHEN NOT every.thing THEN
              (SELECT w FROM named_in(p.prosrc, (SELECT array_agg(n.name) FROM n)) w LIMIT 1) END) reach(name)
     WHERE p.oid >= 16384 AND p.pronamespace <> 'pg_journal'::regnamespace
       AND l.lanname NOT IN ('c', 'internal') AND p.prokind <> 'a'
       AND (every.thing OR reach.name IS NOT NULL) AND relids <> '{}'
    UNION ALL
    SELECT n.relid, CASE d.classid WHEN 'pg_proc'::regclass THEN format('the function %s', d.objid::regprocedure)
                                   ELSE 'a row security policy' END
      FROM n JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = n.reached
     WHERE d.classid IN ('pg_proc'::regclass, 'pg_policy'::regclass)
       AND NOT (d.classid = 'pg_proc'::regclass AND EXISTS (
           SELECT FROM pg_proc p WHERE p.oid = d.objid AND p.pronamespace = 'pg_journal'::regnamespace))
    UNION ALL
    SELECT n.relid, CASE c.relkind WHEN 'm' THEN format('the materialized view %s', c.oid::regclass)
                                   ELSE format('a rule on %s', c.oid::regclass) END
      FROM n JOIN pg_class c ON c.oid = n.reached WHERE c.relkind NOT IN ('v', 'p') AND n.reached <> n.relid
     LIMIT 1
$$;

-- Refuse code that could read or change tiered tables where only PostgreSQL sees it: it would find no rows.
CREATE OR REPLACE FUNCTION pg_journal.check_code() RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    found record;
BEGIN
    SELECT * INTO found FROM code_reaching(tiered_tables());
    IF found.what IS NOT NULL THEN
        RAISE EXCEPTION '% can reach the tiered table "%", whose rows are not in PostgreSQL',
            found.what, (SELECT relname FROM pg_class WHERE oid = found.relid)
            USING ERRCODE = '0A000',
                  HINT = format('ALTER TABLE %s SET (gateway.residency = always) first.', found.relid::regclass);
    END IF;
END $$;

-- The same for code that is sent to be run at once.
CREATE OR REPLACE FUNCTION pg_journal.check_body(code text, body text) RETURNS bytea
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    tiered oid[] := tiered_tables();
    reached regclass;
BEGIN
    PERFORM authorize(code, 'check_body');
    IF may_reach_all(body) THEN
        reached := tiered[1];
    ELSE
        SELECT n.relid INTO reached FROM names_of(tiered) n
         WHERE n.name IN (SELECT named_in(body, ARRAY(SELECT m.name FROM names_of(tiered) m))) LIMIT 1;
    END IF;
    IF reached IS NOT NULL THEN
        RAISE EXCEPTION 'the code can reach the tiered table "%", whose rows are not in PostgreSQL', reached
            USING ERRCODE = '0A000',
                  HINT = format('ALTER TABLE %s SET (gateway.residency = always) first.', reached);
    END IF;
    RETURN convert_to('null', 'UTF8');
END $$;

-- True when a table with a column that consists of values of this type has or had rows. Until the
-- transaction ends nobody writes to such tables.
CREATE OR REPLACE FUNCTION pg_journal.is_type_stored(type_oid oid) RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    using_it oid;
BEGIN
    FOR using_it IN
        WITH RECURSIVE made_of(oid) AS (
            SELECT type_oid
            UNION
            SELECT y.oid FROM made_of m
              JOIN (SELECT oid, typbasetype AS part FROM pg_type WHERE typtype = 'd'
                     UNION ALL SELECT oid, typelem FROM pg_type WHERE typcategory = 'A'
                     UNION ALL SELECT rngtypid, rngsubtype FROM pg_range
                     UNION ALL SELECT rngmultitypid, rngsubtype FROM pg_range) y ON y.part = m.oid)
        SELECT DISTINCT k.relid FROM columns k JOIN made_of m ON m.oid = k.type_oid
          JOIN journals j ON j.relid = k.relid AND j.residency = 'tiered'
         WHERE k.name <> '' ORDER BY k.relid
    LOOP
        EXECUTE format('LOCK TABLE ONLY %s IN SHARE MODE', using_it::regclass);
        IF has_rows(using_it) THEN RETURN true; END IF;
    END LOOP;
    RETURN false;
END $$;

-- What a type is about to lose: its labels, and which constraints its values are known to satisfy.
CREATE OR REPLACE FUNCTION pg_journal.on_alter_type_start() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    PERFORM note_setting('types_before', jsonb_build_object(
        'labels', (SELECT jsonb_object_agg(oid, enumlabel) FROM pg_enum),
        'constraints', (SELECT jsonb_agg(oid) FROM pg_constraint WHERE contypid <> 0 AND convalidated))::text);
END $$;

-- Refuse changes of types that rows in data files would have to follow, or be checked for.
CREATE OR REPLACE FUNCTION pg_journal.check_altered_types() RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    before jsonb := noted_setting('types_before');
    c record;
BEGIN
    FOR c IN SELECT y.oid, y.oid::regtype::text AS spelled
               FROM pg_enum n JOIN pg_type y ON y.oid = n.enumtypid
              WHERE before->'labels'->>n.oid::text <> n.enumlabel LOOP
        CONTINUE WHEN NOT is_type_stored(c.oid);
        PERFORM refuse(format('ALTER TYPE %s RENAME VALUE with rows that may hold the value is', c.spelled),
                       'Add a value of the new name and update the rows.');
    END LOOP;
    FOR c IN SELECT x.conname, y.oid, y.oid::regtype::text AS spelled
               FROM pg_event_trigger_ddl_commands() e
               JOIN pg_constraint x ON e.classid = 'pg_type'::regclass AND x.contypid = e.objid
               JOIN pg_type y ON y.oid = x.contypid
              WHERE e.command_tag = 'ALTER DOMAIN'
                AND NOT coalesce(before->'constraints' @> to_jsonb(x.oid), false) LOOP
        CONTINUE WHEN NOT is_type_stored(c.oid);
        PERFORM refuse(format('adding the constraint "%s" to the domain %s of a column with rows is',
                              c.conname, c.spelled));
    END LOOP;
END $$;

-- Journal the rows of resident tables anew whose values are written otherwise now: tails hold values of users'
-- types as text, with an enumeration's labels, and with the attributes that a row type has.
CREATE OR REPLACE FUNCTION pg_journal.follow_altered_types(altered oid[]) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    before jsonb := noted_setting('types_before');
    using_it record;
BEGIN
    IF NOT EXISTS (SELECT FROM columns k WHERE k.type_oid >= 16384 AND k.name <> '') THEN RETURN; END IF;
    FOR using_it IN
        WITH RECURSIVE made_of(oid) AS (
            SELECT n.enumtypid FROM pg_enum n WHERE before->'labels'->>n.oid::text <> n.enumlabel
            UNION
            SELECT c.reltype FROM pg_class c WHERE c.oid = ANY (altered) AND c.reltype <> 0
            UNION
            SELECT y.oid FROM made_of m
              JOIN (SELECT oid, typbasetype AS part FROM pg_type WHERE typtype = 'd'
                     UNION ALL SELECT oid, typelem FROM pg_type WHERE typcategory = 'A'
                     UNION ALL SELECT rngtypid, rngsubtype FROM pg_range
                     UNION ALL SELECT rngmultitypid, rngsubtype FROM pg_range
                     UNION ALL SELECT c.reltype, a.atttypid FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
                                WHERE a.attnum > 0 AND NOT a.attisdropped AND c.reltype <> 0
                     UNION ALL SELECT c.reltype, p.reltype FROM pg_inherits i
                                 JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_class p ON p.oid = i.inhparent) y
                ON y.part = m.oid)
        SELECT DISTINCT j.relid, j.schema_name, j.table_name FROM columns k JOIN made_of m ON m.oid = k.type_oid
          JOIN journals j ON j.relid = k.relid AND j.residency = 'resident'
         WHERE k.name <> '' ORDER BY j.relid
    LOOP
        EXECUTE format('LOCK TABLE ONLY %I.%I IN SHARE ROW EXCLUSIVE MODE', using_it.schema_name, using_it.table_name);
        PERFORM check_snapshot(using_it.relid);
        PERFORM journal_rows(using_it.relid);
    END LOOP;
END $$;

CREATE OR REPLACE FUNCTION pg_journal.on_table_rewrite() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    table_oid oid := pg_event_trigger_table_rewrite_oid();
    c record;
BEGIN
    -- AT_REWRITE_DEFAULT_VAL, AT_REWRITE_COLUMN_REWRITE: values come or change.
    IF pg_event_trigger_table_rewrite_reason() & 6 <> 0 THEN
        UPDATE journals j SET rewritten = true WHERE j.relid = table_oid AND j.residency = 'resident';
    END IF;
    -- AT_REWRITE_COLUMN_REWRITE: the values of a column change. Others are found out when all is done.
    IF pg_event_trigger_table_rewrite_reason() & 4 = 0 OR NOT has_rows(table_oid)
       OR NOT EXISTS (SELECT FROM journals j WHERE j.relid = table_oid AND j.residency = 'tiered') THEN
        RETURN;
    END IF;
    FOR c IN SELECT a.attname, plain_type(a.atttypid, a.atttypmod) AS spelled
               FROM columns k JOIN pg_attribute a ON a.attrelid = k.relid AND a.attnum = k.attnum
              WHERE k.relid = table_oid AND NOT a.attisdropped AND (k.type_oid, k.typmod) <> (a.atttypid, a.atttypmod)
                AND NOT keeps_values(k.type_oid, k.typmod, a.atttypid, a.atttypmod) LOOP
        PERFORM refuse(format('ALTER COLUMN "%s" TYPE %s of a table with rows is', c.attname, c.spelled),
                       'Add a column of the new type and update it from the old one.');
    END LOOP;
    PERFORM refuse('ALTER COLUMN ... TYPE ... USING of a table with rows is', 'Change the values by UPDATE.');
END $$;

-- True when planning a query could run a function of a user's: the planner evaluates what has constant arguments
-- only, with the rights of whoever plans, in indexes and statistics of any table it looks at. A function that is
-- given a column is safe, unless its body is put in its place.
CREATE OR REPLACE FUNCTION pg_journal.is_run_by_planner(expression text) RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN EXISTS (
    SELECT FROM regexp_matches(
             expression, ':(?:op)?funcid (\d+)( [^{}()]*:args \(\{(?:VAR|RELABELTYPE :arg \{VAR) )?', 'g') m
      JOIN pg_proc p ON p.oid = m[1]::oid
      JOIN pg_language l ON l.oid = p.prolang
     WHERE p.oid >= 16384 AND l.lanname NOT IN ('c', 'internal')
       AND (m[2] IS NULL OR l.lanname = 'sql' AND p.proconfig IS NULL AND NOT p.prosecdef));

-- What the planner would run of a user's code, with the rights of whoever reads a table: an index, or statistics.
CREATE OR REPLACE FUNCTION pg_journal.run_by_planner(relid oid) RETURNS SETOF text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
BEGIN ATOMIC
    SELECT format('the index %s', i.indexrelid::regclass) FROM pg_index i
     WHERE i.indrelid = $1 AND is_run_by_planner(concat(i.indexprs, i.indpred))
    UNION ALL
    SELECT format('the statistics object %s', x.stxname) FROM pg_statistic_ext x
     WHERE x.stxrelid = $1 AND is_run_by_planner(x.stxexprs::text);
END;

-- Refuse indexes and statistics that would run a user's code with the bookkeeping's rights whenever it reads
-- the table. To be asked before anything reads it. Temporary tables it does not read then.
CREATE OR REPLACE FUNCTION pg_journal.check_planning() RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    what text;
BEGIN
    WITH e AS MATERIALIZED (
        SELECT classid, objid FROM pg_event_trigger_ddl_commands() WHERE objid IS NOT NULL),
    calls AS (
        -- what is made, and what depends on a function or an operator that changes
        SELECT classid, objid FROM e
        UNION
        SELECT d.classid, d.objid FROM e JOIN pg_depend d
            ON e.classid = 'pg_proc'::regclass AND d.refclassid = e.classid AND d.refobjid = e.objid
        UNION
        SELECT d.classid, d.objid FROM e JOIN pg_operator o ON e.classid = 'pg_proc'::regclass AND o.oprcode = e.objid
          JOIN pg_depend d ON d.refclassid = 'pg_operator'::regclass AND d.refobjid = o.oid),
    found AS MATERIALIZED (
        SELECT i.indrelid AS relid
          FROM pg_index i WHERE EXISTS (SELECT FROM calls c WHERE c.classid = 'pg_class'::regclass
                                           AND c.objid IN (i.indexrelid, i.indrelid))
           AND num_nonnulls(i.indexprs, i.indpred) > 0
        UNION
        SELECT x.stxrelid
          FROM pg_statistic_ext x
         WHERE x.stxexprs IS NOT NULL
           AND EXISTS (SELECT FROM calls c WHERE c.classid = 'pg_class'::regclass AND c.objid = x.stxrelid
                                              OR c.classid = 'pg_statistic_ext'::regclass AND c.objid = x.oid))
    SELECT r INTO what FROM found f JOIN pg_class t ON t.oid = f.relid AND t.relpersistence <> 't'
     CROSS JOIN run_by_planner(f.relid) r LIMIT 1;
    IF what IS NOT NULL THEN
        PERFORM refuse(format('%s with a function that is called with constants, or that can be inlined, is', what),
                       'Pass a column, and write the function in PL/pgSQL or with a SET clause.');
    END IF;
END $$;

-- Refuse to rename the triggers that capture changes: other changes of them PostgreSQL refuses itself.
CREATE OR REPLACE FUNCTION pg_journal.check_triggers() RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    ours text;
BEGIN
    SELECT g.tgname INTO ours FROM pg_event_trigger_ddl_commands() e
      JOIN pg_trigger g ON e.classid = 'pg_trigger'::regclass AND g.oid = e.objid AND g.tgisinternal
      JOIN pg_proc p ON p.oid = g.tgfoid AND p.pronamespace = 'pg_journal'::regnamespace;
    IF ours IS NOT NULL THEN
        RAISE EXCEPTION 'permission denied: "%" is a system trigger', ours USING ERRCODE = '42501';
    END IF;
END $$;

-- Refuse definitions that would keep the bookkeeping from being changed or dropped with the table it is about, whosever that is:
-- PostgreSQL asks for no right on what a definition names. Queries may name journals and what is shown to every role.
CREATE OR REPLACE FUNCTION pg_journal.check_dependencies() RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles r WHERE r.rolname = session_user AND r.rolsuper) THEN RETURN; END IF;
    IF EXISTS (
        WITH e AS MATERIALIZED (
            SELECT classid, objid FROM pg_event_trigger_ddl_commands()
             WHERE objid IS NOT NULL AND schema_name IS DISTINCT FROM 'pg_journal'),
        made AS (
            SELECT classid, objid FROM e
            UNION
            SELECT 'pg_rewrite'::regclass, w.oid FROM e JOIN pg_rewrite w
                ON e.classid = 'pg_class'::regclass AND w.ev_class = e.objid
            UNION
            SELECT 'pg_attrdef'::regclass, f.oid FROM e JOIN pg_attrdef f
                ON e.classid = 'pg_class'::regclass AND f.adrelid = e.objid
            UNION
            SELECT 'pg_constraint'::regclass, x.oid FROM e JOIN pg_constraint x
                ON e.classid = 'pg_class'::regclass AND x.conrelid = e.objid
            UNION
            SELECT 'pg_constraint'::regclass, x.oid FROM e JOIN pg_constraint x
                ON e.classid = 'pg_type'::regclass AND x.contypid = e.objid
            UNION
            -- of a composite type
            SELECT 'pg_class'::regclass, y.typrelid FROM e JOIN pg_type y
                ON e.classid = 'pg_type'::regclass AND y.oid = e.objid AND y.typrelid <> 0)
        SELECT FROM made m JOIN pg_depend d USING (classid, objid)
          LEFT JOIN pg_class c ON d.refclassid = 'pg_class'::regclass AND c.oid = d.refobjid
          LEFT JOIN pg_proc p ON d.refclassid = 'pg_proc'::regclass AND p.oid = d.refobjid
          LEFT JOIN pg_type y ON d.refclassid = 'pg_type'::regclass AND y.oid = d.refobjid
         WHERE c.relnamespace = 'pg_journal'::regnamespace
           AND NOT (d.classid IN ('pg_rewrite'::regclass, 'pg_proc'::regclass)
                    AND (c.relkind = 'v' OR EXISTS (SELECT FROM journals j WHERE j.journal_relid = c.oid)))
            OR p.pronamespace = 'pg_journal'::regnamespace
           AND (p.proargnames[1] = 'code' OR NOT has_function_privilege('public', p.oid, 'EXECUTE'))
            -- whole rows are columns of views, which go with what they read
            OR y.typnamespace = 'pg_journal'::regnamespace
           AND NOT (d.classid = 'pg_class'::regclass
                    -- an old snapshot sees what was there and what has just been made of it
                    AND EXISTS (SELECT FROM pg_class v WHERE v.oid = d.objid AND v.relkind IN ('v', 'm')))) THEN
        PERFORM unauthorized();
    END IF;
END $$;

-- Have what reads a journal depend on its table, as it would if the journal were in it.
CREATE OR REPLACE FUNCTION pg_journal.tie_named_journals() RETURNS void
LANGUAGE sql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
    INSERT INTO pg_depend (classid, objid, objsubid, refclassid, refobjid, refobjsubid, deptype)
    SELECT 'pg_class'::regclass, j.journal_relid, 0, 'pg_class'::regclass, j.relid, 0, 'a'
      FROM journals j
     WHERE EXISTS (SELECT FROM pg_depend d
                    WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = j.journal_relid
                      AND d.classid IN ('pg_rewrite'::regclass, 'pg_proc'::regclass))
       AND NOT EXISTS (SELECT FROM pg_depend d
                        WHERE d.classid = 'pg_class'::regclass AND d.objid = j.journal_relid
                          AND d.refclassid = 'pg_class'::regclass AND d.refobjid = j.relid)
$$;

-- No table becomes tiered by a transaction that does not see the code of this one yet.
CREATE OR REPLACE FUNCTION pg_journal.await_residency() RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    LOCK TABLE pg_journal.code_gate IN ROW SHARE MODE;
END $$;

-- The same for code that the transaction is about to run.
CREATE OR REPLACE FUNCTION pg_journal.hold_code(code text) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    PERFORM authorize(code, 'hold_code');
    PERFORM await_residency();
    RETURN convert_to('null', 'UTF8');
END $$;

-- True when this transaction has a lock on a table that keeps writers waiting.
CREATE OR REPLACE FUNCTION pg_journal.keeps_writers(relid oid) RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN EXISTS (SELECT FROM pg_locks l
                WHERE l.pid = pg_backend_pid() AND l.locktype = 'relation' AND l.relation = keeps_writers.relid
                  AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
                  AND l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock'));

-- True where an ALTER TABLE has kept no writers from what it is about: then it has set storage parameters or statistics, whose
-- new values journals do not keep, or has looked at rows for a constraint.
CREATE OR REPLACE FUNCTION pg_journal.is_slight(tg_tag text) RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN tg_tag = 'ALTER TABLE'
   AND NOT EXISTS (SELECT FROM pg_event_trigger_ddl_commands() e LEFT JOIN pg_class c ON c.oid = e.objid
                    WHERE e.classid IS DISTINCT FROM 'pg_class'::regclass OR c.relkind NOT IN ('r', 'p')
                       OR keeps_writers(e.objid));

-- True when a slight ALTER TABLE has left a table as its journal has it: constraints have not been validated, nor has it got
-- another place in a tree.
CREATE OR REPLACE FUNCTION pg_journal.is_left_alone(relid oid) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    RETURN NOT keeps_writers(relid)
       AND EXISTS (SELECT FROM journals j
                    WHERE j.relid = is_left_alone.relid AND j.ancestors = ancestors(j.relid)
                      AND j.watched IS NOT DISTINCT FROM watch_signature(j.relid))
       -- Numbers of this transaction, and later ones.
       AND NOT EXISTS (SELECT FROM pg_constraint x
                        WHERE is_left_alone.relid IN (x.conrelid, x.confrelid) AND age(x.xmin) <= 0);
END $$;

-- Let the bookkeeping follow a command, in silence: notices of its own commands would be the client's. What the client
-- is to be told is kept for tell_deferred().
CREATE OR REPLACE FUNCTION pg_journal.follow_command(tg_tag text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
SET client_min_messages = warning
SET event_triggers = off
AS $$
DECLARE
    touched oid;
    slight boolean := is_slight(tg_tag);
BEGIN
    PERFORM check_dependencies();
    -- Of a session's own functions too: indexes and statistics of lasting tables may call them.
    PERFORM check_planning();
    -- Temporary relations are their session's: what names stand for is looked at there. Those that inherit from a lasting table
    -- are among its rows.
    IF (SELECT bool_and(schema_name IS NOT DISTINCT FROM 'pg_temp') FROM pg_event_trigger_ddl_commands())
       AND NOT EXISTS (SELECT FROM pg_event_trigger_ddl_commands() e JOIN pg_inherits i ON i.inhrelid = e.objid
                         JOIN journals j ON j.relid = i.inhparent
                        WHERE e.classid = 'pg_class'::regclass AND tg_tag IN ('CREATE TABLE', 'ALTER TABLE')) THEN
        IF EXISTS (SELECT FROM pg_event_trigger_ddl_commands() e
                    WHERE e.classid = 'pg_proc'::regclass
                       OR e.classid = 'pg_class'::regclass
                          AND (SELECT c.relkind FROM pg_class c WHERE c.oid = e.objid) = 'v') THEN
            PERFORM await_residency();
            PERFORM check_code();
        END IF;
        RETURN;
    END IF;
    -- What DROP has taken away is noted there, unless it was a session's own.
    IF tg_tag NOT LIKE 'DROP %' OR tg_tag = 'DROP OWNED' THEN PERFORM note_definition(); END IF;
    IF tg_tag = 'ALTER TRIGGER' THEN PERFORM check_triggers(); END IF;
    FOR touched IN
        WITH RECURSIVE e AS MATERIALIZED (
            SELECT classid, objid, command_tag FROM pg_event_trigger_ddl_commands() WHERE objid IS NOT NULL),
        named AS (
            SELECT objid FROM e WHERE classid = 'pg_class'::regclass
            UNION
            -- indexes, triggers, rules and policies come without their table
            SELECT i.indrelid FROM e JOIN pg_index i ON e.classid = 'pg_class'::regclass AND i.indexrelid = e.objid
            UNION
            SELECT x.conrelid FROM e JOIN pg_constraint x
                ON e.classid = 'pg_constraint'::regclass AND x.oid = e.objid AND x.conrelid <> 0
            UNION
            SELECT g.tgrelid FROM e JOIN pg_trigger g ON e.classid = 'pg_trigger'::regclass AND g.oid = e.objid
            UNION
            SELECT w.ev_class FROM e JOIN pg_rewrite w ON e.classid = 'pg_rewrite'::regclass AND w.oid = e.objid
            UNION
            SELECT p.polrelid FROM e JOIN pg_policy p ON e.classid = 'pg_policy'::regclass AND p.oid = e.objid
            UNION
            -- commands on tables are many, and all columns are looked at
            SELECT a.attrelid FROM e JOIN pg_attribute a
                ON e.classid = 'pg_type'::regclass AND e.command_tag LIKE 'ALTER%'
               AND a.atttypid >= 16384 AND e.objid = ANY (made_of(ARRAY[a.atttypid]))
             WHERE tg_tag LIKE 'ALTER%' AND tg_tag <> 'ALTER TABLE'
            UNION
            -- tables of a composite type, which comes as the relation that describes it
            SELECT t.oid FROM e JOIN pg_class y
                ON e.classid = 'pg_class'::regclass AND y.oid = e.objid AND y.relkind = 'c'
              JOIN pg_class t ON t.reloftype = y.reltype),
        -- what an ALTER of a table does it does to all below it
        tree AS (
            SELECT objid FROM named
            UNION
            SELECT i.inhrelid FROM tree t JOIN pg_inherits i ON i.inhparent = t.objid WHERE tg_tag <> 'CREATE TABLE')
        SELECT objid FROM tree
        UNION
        -- the other side of foreign keys, parents in inheritance trees, tables of a schema
        SELECT x.confrelid FROM e JOIN pg_constraint x
            ON e.classid = 'pg_class'::regclass AND x.conrelid = e.objid AND x.contype = 'f'
        UNION
        SELECT o.relid FROM e JOIN pg_class c ON e.classid = 'pg_namespace'::regclass AND c.relnamespace = e.objid
          JOIN pg_constraint x ON c.oid IN (x.conrelid, x.confrelid) AND x.contype = 'f'
         CROSS JOIN LATERAL (VALUES (x.conrelid), (x.confrelid)) o(relid)
        UNION
        SELECT i.inhparent FROM e JOIN pg_inherits i ON e.classid = 'pg_class'::regclass AND i.inhrelid = e.objid
        UNION
        SELECT j.relid FROM e JOIN pg_class c ON e.classid = 'pg_namespace'::regclass AND c.relnamespace = e.objid
          JOIN journals j ON j.relid = c.oid
        UNION
        -- tables elsewhere that have columns of its types
        SELECT k.relid FROM e JOIN columns k ON e.classid = 'pg_namespace'::regclass AND k.type_oid >= 16384 AND k.name <> ''
          JOIN pg_type y ON y.oid = ANY (made_of(ARRAY[k.type_oid])) AND y.typnamespace = e.objid
         WHERE tg_tag = 'ALTER SCHEMA'
    LOOP
        IF EXISTS (SELECT FROM pg_class c WHERE c.oid = touched AND c.relkind = 'p' AND c.relpersistence = 'p') THEN
            PERFORM follow_partitioned(touched, tg_tag);
        END IF;
        -- COMMENT changes nothing that is kept, and is not to wait for writers.
        CONTINUE WHEN tg_tag = 'COMMENT' OR NOT is_journalable(touched) OR slight AND is_left_alone(touched);
        PERFORM check_lasting(touched);
        IF EXISTS (SELECT FROM journals j WHERE j.relid = touched) THEN
            PERFORM reconcile(touched);
        ELSE
            PERFORM create_journal(touched);
            PERFORM check_references(touched);
        END IF;
    END LOOP;
    IF tg_tag = 'DROP OWNED' OR
       EXISTS (SELECT FROM pg_event_trigger_ddl_commands() e
                WHERE e.classid IS NULL OR e.classid = 0
                   OR tg_tag = 'ALTER TABLE' AND e.classid = 'pg_class'::regclass
                      AND EXISTS (SELECT FROM pg_class c WHERE c.oid = e.objid AND c.relkind = 'p')) THEN
        -- It does not say on what, GRANT and REVOKE neither, DETACH PARTITION not what.
        PERFORM mirror_readers(j.relid) FROM journals j;
    END IF;
    IF tg_tag IN ('ALTER TYPE', 'ALTER DOMAIN') THEN PERFORM check_altered_types(); END IF;
    -- Only what has been noted as this command began is true.
    IF tg_tag = 'ALTER TABLE' THEN PERFORM set_config('pg_journal.types_before', '', true); END IF;
    IF tg_tag IN ('ALTER TYPE', 'ALTER TABLE') AND NOT slight THEN
        PERFORM follow_altered_types(ARRAY(
            SELECT e.objid FROM pg_event_trigger_ddl_commands() e WHERE e.classid = 'pg_class'::regclass));
    END IF;
    -- ALTER TABLE renames views as well, and CREATE SCHEMA makes some.
    IF tg_tag ~ ' (FUNCTION|PROCEDURE|ROUTINE|VIEW|RULE|POLICY|TRIGGER)$'
       OR EXISTS (SELECT FROM pg_event_trigger_ddl_commands() e LEFT JOIN pg_class c
                      ON e.classid = 'pg_class'::regclass AND c.oid = e.objid
                   WHERE c.relkind IN ('v', 'm') OR e.classid = 'pg_trigger'::regclass) THEN
        PERFORM await_residency();
    END IF;
    IF tg_tag IN ('CREATE VIEW', 'CREATE MATERIALIZED VIEW', 'CREATE RULE', 'CREATE FUNCTION', 'CREATE PROCEDURE',
                  'CREATE SCHEMA') THEN
        PERFORM tie_named_journals();
    END IF;
    IF EXISTS (SELECT FROM journals j WHERE j.residency = 'tiered') THEN PERFORM check_code(); END IF;
    -- Domains' checks are evaluated with the bookkeeping's rights too.
    PERFORM check_expression(x.conbin, y.typowner, format('domain constraint "%s"', x.conname))
       FROM pg_event_trigger_ddl_commands() e
       JOIN pg_constraint x ON e.classid = 'pg_type'::regclass AND x.contypid = e.objid AND x.contype = 'c'
       JOIN pg_type y ON y.oid = x.contypid
      WHERE NOT has_resident_tables();
END $$;

CREATE OR REPLACE FUNCTION pg_journal.on_ddl_command_end() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    PERFORM follow_command(tg_tag);
    PERFORM tell_deferred();
END $$;

CREATE OR REPLACE FUNCTION pg_journal.on_sql_drop() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
SET client_min_messages = warning
SET event_triggers = off
AS $$
DECLARE
    gone record;
    orphan oid;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_event_trigger_dropped_objects()
                    WHERE schema_name IS DISTINCT FROM 'pg_journal' AND NOT is_temporary
                      -- rules of temporary views have no schema
                      AND NOT (schema_name IS NULL AND NOT original AND object_identity ~ ' on pg_temp\.')) THEN
        RETURN;
    END IF;
    PERFORM note_definition();
    FOR gone IN
        DELETE FROM journals j USING pg_event_trigger_dropped_objects() e
         WHERE e.classid = 'pg_class'::regclass AND e.objsubid = 0 AND j.relid = e.objid
        RETURNING j.relid, j.location
    LOOP
        DELETE FROM segments s WHERE s.relid = gone.relid;
        DELETE FROM states s WHERE s.relid = gone.relid;
        DELETE FROM told_tables o WHERE o.relid = gone.relid;
        DELETE FROM upkeep u WHERE u.relid = gone.relid;
        DELETE FROM commits c WHERE c.relid = gone.relid;
        DELETE FROM rollbacks r WHERE r.relid = gone.relid;
        DELETE FROM savepoints p WHERE p.relid = gone.relid;
        DELETE FROM redefinitions d WHERE d.relid = gone.relid;
        INSERT INTO dropped_locations VALUES (gone.location, clock_timestamp()) ON CONFLICT DO NOTHING;
        -- By hand: dependencies on the table would have pg_dump write tables before functions.
        EXECUTE format('DROP TABLE IF EXISTS pg_journal.tail_%1$s, pg_journal.journal_%1$s, pg_journal.hot_%1$s',
                       gone.relid);
        EXECUTE format('DROP FUNCTION IF EXISTS pg_journal.capture_%1$s(), pg_journal.referenced_%1$s(), '
                       'pg_journal.seek_%1$s(), pg_journal.reseek_%1$s(), pg_journal.propose_%1$s(), '
                       'pg_journal.cold_%1$s(json), pg_journal.thaw_%1$s(bigint, pg_snapshot, json, json), '
                       'pg_journal.heat_%1$s(json, json), pg_journal.warmth_%1$s()', gone.relid);
    END LOOP;
    -- A journal table alone can only go with its schema or its owner.
    SELECT j.relid INTO orphan FROM journals j JOIN pg_event_trigger_dropped_objects() e
        ON e.classid = 'pg_class'::regclass AND e.objsubid = 0 AND e.objid IN (j.journal_relid, j.tail_relid);
    IF orphan IS NOT NULL THEN
        RAISE EXCEPTION 'cannot drop the journal of table %', orphan::regclass USING ERRCODE = '2BP01';
    END IF;
    -- Columns that went with their type.
    PERFORM reconcile(relid) FROM (
        SELECT DISTINCT j.relid FROM journals j JOIN pg_event_trigger_dropped_objects() e
            ON e.classid = 'pg_class'::regclass AND e.objsubid > 0 AND j.relid = e.objid
         WHERE tg_tag NOT LIKE 'ALTER TABLE%') x;
    PERFORM follow_altered_types(ARRAY(
        SELECT e.objid FROM pg_event_trigger_dropped_objects() e
         WHERE e.classid = 'pg_class'::regclass AND e.objsubid > 0 AND tg_tag NOT LIKE 'ALTER T%'));
    -- What pinned a table may be gone: a trigger, a policy, an index, a child, a table that referenced it.
    UPDATE journals j SET pinned_by = pin(j.relid)
     WHERE j.residency = 'resident' AND j.pinned_by IS NOT NULL AND pin(j.relid) IS DISTINCT FROM j.pinned_by;
    FOR gone IN
        SELECT j.relid FROM journals j
         WHERE j.residency = 'tiered'
           AND (NOT j.unique_indexes <@ unique_indexes(j.relid)
                OR EXISTS (SELECT FROM unnest(j.checks) u WHERE NOT EXISTS (SELECT FROM pg_constraint x WHERE x.oid = u)))
         ORDER BY j.relid
    LOOP
        PERFORM fold(gone.relid);
        UPDATE journals j
           SET unique_indexes = ARRAY(SELECT u FROM unnest(j.unique_indexes) u WHERE u = ANY (unique_indexes(j.relid))),
               checks = ARRAY(SELECT u FROM unnest(j.checks) u WHERE EXISTS (SELECT FROM pg_constraint x WHERE x.oid = u)),
               definition = random_mark(), changes = changes + 1
         WHERE j.relid = gone.relid;
    END LOOP;
    PERFORM settle_references(0);
    -- A table that left its tree is captured by statement again.
    IF EXISTS (SELECT FROM pg_event_trigger_dropped_objects() e WHERE e.object_type = 'table') THEN
        PERFORM watch(g.tgrelid) FROM pg_trigger g
          WHERE g.tgname = 'pgwire_row' AND g.tgisinternal AND NOT is_in_tree(g.tgrelid);
    END IF;
END $$;

CREATE OR REPLACE FUNCTION pg_journal.on_ddl_command_start() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = session_user AND rolsuper) THEN RETURN; END IF;
    IF has_resident_tables() THEN RETURN; END IF;
    RAISE EXCEPTION '% is not supported', tg_tag USING ERRCODE = '0A000';
END $$;

CREATE EVENT TRIGGER pgwire_ddl_command_end ON ddl_command_end
    EXECUTE FUNCTION pg_journal.on_ddl_command_end();
CREATE EVENT TRIGGER pgwire_sql_drop ON sql_drop
    EXECUTE FUNCTION pg_journal.on_sql_drop();
CREATE EVENT TRIGGER pgwire_table_rewrite ON table_rewrite
    EXECUTE FUNCTION pg_journal.on_table_rewrite();
CREATE EVENT TRIGGER pgwire_alter_type_start ON ddl_command_start
    WHEN TAG IN ('ALTER TYPE', 'ALTER DOMAIN')
    EXECUTE FUNCTION pg_journal.on_alter_type_start();
CREATE EVENT TRIGGER pgwire_ddl_command_start ON ddl_command_start
    WHEN TAG IN (
        'CREATE FUNCTION', 'CREATE PROCEDURE', 'CREATE TRIGGER', 'CREATE RULE', 'CREATE MATERIALIZED VIEW',
        'CREATE FOREIGN TABLE', 'CREATE FOREIGN DATA WRAPPER', 'CREATE SERVER', 'CREATE USER MAPPING',
        'IMPORT FOREIGN SCHEMA', 'CREATE EXTENSION', 'CREATE LANGUAGE', 'CREATE CAST', 'CREATE TRANSFORM',
        'CREATE OPERATOR CLASS', 'CREATE OPERATOR FAMILY', 'CREATE PUBLICATION', 'CREATE SUBSCRIPTION',
        'CREATE POLICY', 'CREATE ACCESS METHOD', 'CREATE CONVERSION')
    EXECUTE FUNCTION pg_journal.on_ddl_command_start();
