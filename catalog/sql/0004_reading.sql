-- What a statement reads: one call, one snapshot.

-- True when the writer of a journals row, known by its xmin, has committed.
CREATE FUNCTION pg_journal.is_committed(writer bigint) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    now_at bigint := pg_snapshot_xmax(pg_current_snapshot())::text::bigint;
    full_id bigint := (now_at & ~4294967295) | writer;
BEGIN
    IF full_id >= now_at THEN full_id := full_id - 4294967296; END IF;
    RETURN full_id > 2 AND coalesce(pg_xact_status(full_id::text::xid8) = 'committed', false);
END $$;

CREATE FUNCTION pg_journal.visible_segments(wanted oid) RETURNS json
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN (SELECT json_agg(json_build_array(segment_id, kind, path, row_count, size_bytes, attnums,
                                         micros(min_version), micros(max_version), key_min, key_max)
                        ORDER BY segment_id)
          FROM segments s WHERE s.relid = wanted AND s.retired_at IS NULL);

-- Whether the statement sees all that a snapshot showed.
CREATE FUNCTION pg_journal.contains(seen pg_snapshot) RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
RETURN pg_snapshot_xmax(pg_current_snapshot()) >= pg_snapshot_xmax(seen)
   AND NOT EXISTS (SELECT FROM pg_snapshot_xip(pg_current_snapshot()) x WHERE pg_visible_in_snapshot(x, seen));

-- Snapshot of the journal of a resident or hot table. Versions of its tail are ordered by row, not by table, and come
-- without a lock: the state tells which transactions are in it. Of a hot table only what a known snapshot did not show
-- is looked at.
CREATE FUNCTION pg_journal.resident_snapshot(
    wanted oid, known_definition bigint, known_state text, with_rows boolean, known_seen pg_snapshot)
RETURNS json
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    j record;
    t record;
    state text;
    known text[] := string_to_array(known_state, '_');
    increment boolean;
    added text := '';
    rows json;
    same boolean;
BEGIN
    SELECT b.relid, b.epoch, b.tail_relid::regclass AS tail, b.definition, b.version, b.is_hot INTO j
      FROM journals b WHERE b.relid = wanted;
    increment := j.is_hot AND with_rows AND coalesce(known[1]::bigint = j.epoch AND contains(known_seen), false);
    IF increment THEN
        added := ' WHERE writer >= pg_snapshot_xmin($1) AND NOT pg_visible_in_snapshot(writer, $1)';
    ELSE
        known := ARRAY[NULL, '0', NULL, '0'];
    END IF;
    EXECUTE format('SELECT count(*) AS added, count(*) + $2 AS row_count, '
                   'micros(greatest(max(version_number), moment($3))) AS version_micros, '
                   'coalesce(sum(hashtextextended(writer::text, 0)), 0) + $4 AS writers FROM %s%s', j.tail, added)
       INTO t USING known_seen, known[2]::bigint, coalesce(known[3]::bigint, micros(j.version)), known[4]::numeric;
    state := concat_ws('_', j.epoch, t.row_count, t.version_micros, t.writers);
    same := state IS NOT DISTINCT FROM known_state;
    IF t.added > 0 AND with_rows AND NOT same THEN
        EXECUTE format(
            'SELECT json_agg(json_build_array(%s pg_journal.micros(version_number), '
            'pg_journal.micros(subsequent_version_number), row_identity)) FROM %s%s',
            (SELECT string_agg(transfer_expression('c' || k.attnum, k.type_oid) || ', ', '' ORDER BY k.attnum)
               FROM columns k WHERE k.relid = wanted AND k.name <> ''), j.tail, added) INTO rows USING known_seen;
    END IF;
    RETURN json_build_object(
        'relid', wanted::bigint, 'state', state, 'version', t.version_micros, 'tail_rows', t.row_count,
        'same', same, 'increment', increment, 'rows', rows,
        'segments', CASE WHEN NOT same THEN visible_segments(wanted) END, 'definition_version', j.definition,
        'resident', true, 'seen', pg_current_snapshot()::text,
        -- A snapshot's text shows the transaction it is of as one that has ended.
        'own', pg_current_xact_id_if_assigned() IS NOT NULL,
        'definition', CASE WHEN j.definition IS DISTINCT FROM known_definition THEN definition(wanted) END);
END $$;

-- The state of tiered tables without hot rows, as a transaction sees it that may have written them: it is equal only for
-- equal contents.
CREATE VIEW pg_journal.cold_states AS
SELECT x.*, concat_ws('_', x.epoch, x.changes, x.version_micros, x.writer) AS state
  FROM (SELECT b.relid, b.epoch, b.tail_relid, b.definition, coalesce(s.changes, b.changes) AS changes,
               pg_journal.micros(coalesce(s.version, b.version)) AS version_micros,
               coalesce(s.tail_rows, b.tail_rows) AS tail_rows,
               coalesce(s.xmin, b.xmin)::text::bigint AS writer
          FROM pg_journal.journals b
          LEFT JOIN LATERAL (
              SELECT t.changes, t.version, t.tail_rows, t.xmin FROM pg_journal.states t
               WHERE t.relid = b.relid AND t.changes > b.changes ORDER BY t.changes DESC LIMIT 1) s ON true
         WHERE b.residency <> 'resident' AND NOT b.is_hot) x;

CREATE FUNCTION pg_journal.table_snapshot(
    wanted oid, known_definition bigint, known_state text, with_rows boolean, known_seen pg_snapshot,
    OUT result json)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    j record;
    known text[] := string_to_array(known_state, '_');
    after bigint;
    rows json;
    segment_list json;
BEGIN
    IF (SELECT b.residency = 'resident' OR b.is_hot FROM journals b WHERE b.relid = wanted) THEN
        result := resident_snapshot(wanted, known_definition, known_state, with_rows, known_seen);
        RETURN;
    END IF;
    SELECT * INTO j FROM cold_states s WHERE s.relid = wanted;
    IF NOT FOUND THEN PERFORM outdated(); END IF;
    IF j.state IS DISTINCT FROM known_state THEN
        -- What the caller holds is the beginning of this tail if its writer has committed, or is the writer
        -- of the present state, and nothing left the tail since.
        IF known[1]::bigint = j.epoch AND known[3]::bigint <= j.version_micros
           AND (known[4]::bigint = j.writer OR is_committed(known[4]::bigint)) THEN
            after := known[3]::bigint;
        END IF;
        IF j.tail_rows > 0 THEN
            EXECUTE (SELECT format(
                        'SELECT json_agg(json_build_array(%s, pg_journal.micros(version_number), '
                        'pg_journal.micros(subsequent_version_number), row_identity)) FROM %s%s',
                        string_agg(transfer_expression('c' || k.attnum, k.type_oid), ', ' ORDER BY k.attnum),
                        j.tail_relid::regclass,
                        CASE WHEN after IS NOT NULL THEN ' WHERE version_number > pg_journal.moment($1)' ELSE '' END)
                       FROM columns k WHERE k.relid = wanted AND k.name <> '')
               INTO rows USING after;
        END IF;
        segment_list := visible_segments(wanted);
    END IF;
    result := json_build_object(
        'relid', wanted::bigint, 'state', j.state, 'version', j.version_micros, 'tail_rows', j.tail_rows,
        'same', j.state IS NOT DISTINCT FROM known_state, 'increment', after IS NOT NULL,
        'rows', rows, 'segments', segment_list, 'definition_version', j.definition,
        'definition', CASE WHEN j.definition IS DISTINCT FROM known_definition THEN definition(wanted) END);
END $$;

-- STABLE, so that every query inside sees the calling statement's snapshot.
CREATE FUNCTION pg_journal.snapshot(secret text, requests json) RETURNS bytea
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
SET datestyle = 'ISO'
SET intervalstyle = 'postgres'
SET timezone = 'UTC'
SET bytea_output = 'hex'
SET extra_float_digits = 1
AS $$
DECLARE
    tables json;
BEGIN
    PERFORM authorize(secret);
    -- Of most tables of a large statement nothing has changed, which is told without a call for each.
    SELECT json_agg(CASE WHEN s.relid IS NULL
                         THEN table_snapshot(r.relid, r.definition, r.state, coalesce(r.rows, true), r.seen)
                         ELSE json_build_object('relid', r.relid::bigint, 'state', r.state, 'same', true,
                                                'definition_version', r.definition, 'definition', NULL) END) INTO tables
      FROM json_to_recordset(requests) AS r(relid oid, definition bigint, state text, rows boolean, seen pg_snapshot)
      LEFT JOIN LATERAL (SELECT c.relid FROM cold_states c WHERE c.relid = r.relid AND c.definition = r.definition
                            AND c.state = r.state OFFSET 0) s ON true;
    RETURN convert_to(json_build_object(
        'tables', tables, 'definitions', fingerprint(), 'temporary_schema', pg_my_temp_schema()::bigint,
        'transaction_timestamp', micros(transaction_timestamp()))::text, 'UTF8');
END $$;

CREATE FUNCTION pg_journal.definitions(secret text) RETURNS bytea
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    PERFORM authorize(secret);
    RETURN convert_to(fingerprint()::text, 'UTF8');
END $$;

CREATE FUNCTION pg_journal.relations(secret text, relids oid[]) RETURNS bytea
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    found_relations json;
BEGIN
    PERFORM authorize(secret);
    SELECT json_agg(json_build_array(
               c.oid::bigint, n.nspname, c.relname,
               CASE WHEN j.relid = c.oid AND j.residency = 'resident' THEN 'resident'
                    WHEN j.relid = c.oid THEN 'journaled'
                    WHEN j.relid IS NOT NULL THEN 'journal'
                    WHEN c.relkind = 'v' THEN 'view'
                    ELSE coalesce(c.tree ->> 'residency', 'catalog') END,
               CASE WHEN j.relid <> c.oid THEN j.relid::bigint END, coalesce(j.turns, (c.tree ->> 'turns')::bigint, 0),
               CASE WHEN j.relid = c.oid THEN referenced_columns(c.oid) END, seeks(c.oid),
               c.tree, CASE WHEN c.relispartition THEN routing_columns(c.oid, ancestors(c.oid)) END,
               c.relispartition, coalesce(j.relid = c.oid AND j.external IS NOT NULL, false)))
      INTO found_relations
      FROM unnest(relids) u(wanted)
      JOIN LATERAL (SELECT x.oid, x.relname, x.relkind, x.relnamespace, x.relispartition,
                           CASE WHEN x.relkind = 'p' THEN tree(x.oid) END AS tree
                      FROM pg_class x WHERE x.oid = u.wanted OFFSET 0) c ON true
      JOIN pg_namespace n ON n.oid = c.relnamespace
      LEFT JOIN journals j ON c.oid IN (j.relid, j.journal_relid);
    RETURN convert_to(json_build_array(fingerprint(), found_relations)::text, 'UTF8');
END $$;
