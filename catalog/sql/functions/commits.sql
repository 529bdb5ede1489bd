-- Which transactions have changed which tables, and by which row versions. Row versions in a tail carry the transaction that
-- wrote them, so a small write leaves no more than these; what leaves the tail for files is noted here before.

ALTER TABLE pg_journal.rollbacks ALTER COLUMN rolled_back_by SET DEFAULT pg_journal.acting_role();
ALTER TABLE pg_journal.savepoints ALTER COLUMN created_by SET DEFAULT pg_journal.acting_role();

-- When a transaction committed, as far as PostgreSQL knows: it keeps the times of those that vacuum has not frozen. An external
-- catalog may keep none. Short enough to become part of the query that calls it for thousands of rows.
CREATE OR REPLACE FUNCTION pg_journal.commit_time(writer xid8) RETURNS timestamptz
LANGUAGE sql STABLE
RETURN CASE WHEN pg_catalog.current_setting('track_commit_timestamp') OPERATOR(pg_catalog.=) 'on'
            THEN pg_catalog.pg_xact_commit_timestamp(writer::pg_catalog.xid) END;

CREATE OR REPLACE FUNCTION pg_journal.note_redefinition() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    INSERT INTO redefinitions AS r VALUES (coalesce(new.relid, old.relid), pg_current_xact_id(), clock_timestamp())
    ON CONFLICT (relid) DO UPDATE SET writer = excluded.writer, redefined_at = excluded.redefined_at;
    RETURN NULL;
END $$;
CREATE TRIGGER redefined AFTER INSERT OR DELETE OR UPDATE OF storage_name, type_oid, typmod ON pg_journal.columns
    FOR EACH ROW EXECUTE FUNCTION pg_journal.note_redefinition();
CREATE TRIGGER redefined AFTER UPDATE OF key ON pg_journal.journals
    FOR EACH ROW WHEN (old.key IS DISTINCT FROM new.key) EXECUTE FUNCTION pg_journal.note_redefinition();
-- Whoever lists the triggers of users lists none of ours.
UPDATE pg_trigger SET tgisinternal = true WHERE tgfoid = 'pg_journal.note_redefinition()'::regprocedure;

-- Whether another transaction has written row versions with one of some numbers.
CREATE OR REPLACE FUNCTION pg_journal.shares_versions(wanted oid, own xid8, numbers timestamptz[]) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    shared boolean;
BEGIN
    EXECUTE format('SELECT EXISTS (SELECT FROM pg_journal.tail_%s t WHERE t.version_number = ANY ($2) AND t.writer <> $1)',
                   wanted) INTO shared USING own, numbers;
    RETURN shared OR EXISTS (SELECT FROM commits c
                              WHERE c.relid = wanted AND c.writer <> own AND c.versions && numbers);
END $$;

-- How a commit is named: the moment of it, in digits.
CREATE OR REPLACE FUNCTION pg_journal.commit_name(committed_at timestamptz) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
RETURN to_char(committed_at AT TIME ZONE 'UTC', 'YYYYMMDDHH24MISSUS');

-- Note the commits of row versions that are about to leave the tail: those of transactions in a snapshot, or up to a version
-- number, else all.
CREATE OR REPLACE FUNCTION pg_journal.note_commits(wanted oid, seen pg_snapshot, newest timestamptz) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    EXECUTE format(
        'INSERT INTO pg_journal.commits AS c (relid, writer, committed_at, versions, row_count, ended) '
        'SELECT $1, x.writer, CASE WHEN x.writer IS DISTINCT FROM pg_current_xact_id_if_assigned() '
        '                          THEN coalesce(pg_journal.commit_time(x.writer), x.versions[1]) END, x.versions, '
        '       x.row_count, x.ended '
        '  FROM (SELECT t.writer, array_agg(DISTINCT t.version_number ORDER BY t.version_number) AS versions, '
        '               count(*) AS row_count, count(t.subsequent_version_number) AS ended '
        '          FROM pg_journal.tail_%s t '
        '         WHERE ($2 IS NULL OR pg_visible_in_snapshot(t.writer, $2)) AND ($3 IS NULL OR t.version_number <= $3) '
        '         GROUP BY t.writer) x '
        'ON CONFLICT (relid, writer) DO UPDATE '
        '   SET versions = c.versions || excluded.versions, row_count = c.row_count + excluded.row_count, '
        '       ended = c.ended + excluded.ended, committed_at = excluded.committed_at', wanted)
      USING wanted, seen, newest;
    UPDATE commits c SET committed_at = coalesce(commit_time(c.writer), c.versions[1])
     WHERE c.relid = wanted AND c.committed_at IS NULL AND c.writer IS DISTINCT FROM pg_current_xact_id_if_assigned();
END $$;

-- Note what this transaction has published in segments. Its time is known when it has ended.
CREATE OR REPLACE FUNCTION pg_journal.note_published(wanted oid, segment_list json) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    INSERT INTO commits AS c (relid, writer, versions, row_count)
    SELECT wanted, pg_current_xact_id(), x.versions, x.row_count
      FROM (SELECT (SELECT array_agg(DISTINCT moment(v.version)) FROM unnest(array_agg(s.min_version) || array_agg(s.max_version))
                                                                     v(version)) AS versions,
                   sum(s.row_count) AS row_count
              FROM json_to_recordset(segment_list) AS s(row_count bigint, min_version bigint, max_version bigint)) x
     WHERE x.row_count > 0
    ON CONFLICT (relid, writer) DO UPDATE
       SET versions = c.versions || excluded.versions, row_count = c.row_count + excluded.row_count, ended = NULL;
END $$;

-- Note a TRUNCATE: so many rows have ended, with one version number.
CREATE OR REPLACE FUNCTION pg_journal.note_truncation(wanted oid, version timestamptz, ended_rows bigint) RETURNS void
LANGUAGE sql
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
    INSERT INTO pg_journal.commits AS c (relid, writer, versions, row_count, ended)
    SELECT wanted, pg_current_xact_id(), ARRAY[version], ended_rows, ended_rows WHERE ended_rows > 0
    ON CONFLICT (relid, writer) DO UPDATE
       SET versions = c.versions || excluded.versions, row_count = c.row_count + excluded.row_count,
           ended = c.ended + excluded.ended, committed_at = NULL;
$$;

-- The newest commits of a table between two moments, with those whose row versions are in the tail still.
CREATE OR REPLACE FUNCTION pg_journal.commits_of(wanted oid, since timestamptz, until timestamptz, at_most bigint)
RETURNS TABLE (writer xid8, committed_at timestamptz, versions timestamptz[], row_count bigint, ended bigint)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    -- Most transactions are in one of the parts alone.
    RETURN QUERY EXECUTE format(
        'WITH parts AS ('
        '    (SELECT c.writer, c.committed_at, c.versions, c.row_count, c.ended FROM pg_journal.commits c '
        '      WHERE c.relid = $1 AND c.committed_at BETWEEN $2 AND $3 '
        '      ORDER BY c.committed_at DESC, c.writer DESC LIMIT $4) '
        '    UNION ALL '
        '    SELECT c.writer, coalesce(pg_journal.commit_time(c.writer), c.versions[1]), c.versions, c.row_count, c.ended '
        '      FROM pg_journal.commits c '
        '     WHERE c.relid = $1 AND c.committed_at IS NULL AND c.writer IS DISTINCT FROM pg_current_xact_id_if_assigned() '
        '    UNION ALL '
        '    SELECT t.writer, coalesce(pg_journal.commit_time(t.writer), min(t.version_number)), '
        '           array_agg(DISTINCT t.version_number), count(*), count(t.subsequent_version_number) '
        '      FROM pg_journal.tail_%s t WHERE t.writer IS DISTINCT FROM pg_current_xact_id_if_assigned() '
        '     GROUP BY t.writer) '
        'SELECT p.writer, max(p.committed_at), '
        '       CASE WHEN count(*) = 1 THEN min(p.versions) '
        '            ELSE (SELECT array_agg(DISTINCT v.version ORDER BY v.version) FROM parts q '
        '                   CROSS JOIN LATERAL unnest(q.versions) v(version) WHERE q.writer = p.writer) END, '
        '       sum(p.row_count)::bigint, CASE WHEN count(*) = count(p.ended) THEN sum(p.ended) END::bigint '
        '  FROM parts p WHERE p.committed_at BETWEEN $2 AND $3 GROUP BY p.writer ORDER BY 2 DESC, 1 DESC LIMIT $4', wanted)
      USING wanted, since, until, at_most;
EXCEPTION
    WHEN undefined_table THEN
        -- It has been dropped since the list of tables was read.
        IF to_regclass(format('pg_journal.tail_%s', wanted)) IS NOT NULL THEN RAISE; END IF;
END $$;

-- The moment that the name of a commit stands for; NULL for what is no name of one.
CREATE OR REPLACE FUNCTION pg_journal.commit_moment(commit text) RETURNS timestamptz
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    IF commit !~ '^\d{20}$' THEN RETURN NULL; END IF;
    RETURN to_timestamp(commit || '+00', 'YYYYMMDDHH24MISSUSTZH');
EXCEPTION
    WHEN datetime_field_overflow THEN RETURN NULL;
END $$;

-- What clients see of that, of tables whose rows they may read: the newest commits, of all tables or some, or those of one
-- name. So many of each table are looked for as are wanted of all.
CREATE OR REPLACE FUNCTION pg_journal.listed_commits(
    wanted oid[], named text, at_most bigint,
    OUT commit text, OUT committed_at timestamptz, OUT schema_name name, OUT table_name name, OUT row_versions bigint,
    OUT rows_ended bigint, OUT min_version timestamptz, OUT max_version timestamptz)
RETURNS SETOF record
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
    SELECT pg_journal.commit_name(l.committed_at), l.committed_at, l.nspname, l.relname, l.row_count, l.ended,
           l.versions[1], l.versions[cardinality(l.versions)]
      FROM (SELECT n.nspname, c.relname, x.*
              FROM pg_journal.journals j JOIN pg_class c ON c.oid = j.relid JOIN pg_namespace n ON n.oid = c.relnamespace
             CROSS JOIN (SELECT pg_journal.commit_moment(named) AS moment) m
             CROSS JOIN LATERAL pg_journal.commits_of(
                 j.relid, coalesce(m.moment, '-infinity'), coalesce(m.moment, 'infinity'), at_most) x
             WHERE j.tail_relid <> 0 AND has_table_privilege(acting_role(), c.oid, 'SELECT')
               AND (wanted IS NULL OR c.oid = ANY (wanted)) AND (named IS NULL OR m.moment IS NOT NULL)
             ORDER BY x.committed_at DESC, x.writer DESC LIMIT at_most) l
$$;
CREATE OR REPLACE VIEW pg_journal.commit_list AS SELECT * FROM pg_journal.listed_commits(NULL, NULL, 9223372036854775807);
GRANT SELECT ON pg_journal.commit_list TO PUBLIC;

-- The files that commits of tables have written, upkeep's among them, while they are known.
CREATE OR REPLACE FUNCTION pg_journal.listed_commit_files(
    OUT commit text, OUT schema_name name, OUT table_name name, OUT kind text, OUT path text, OUT row_versions bigint,
    OUT size_bytes bigint, OUT is_retired boolean)
RETURNS SETOF record
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
    SELECT pg_journal.commit_name(coalesce(k.committed_at, pg_journal.commit_time(s.writer), s.max_version)), n.nspname,
           c.relname, s.kind, s.path, s.row_count, s.size_bytes, s.retired_at IS NOT NULL
      FROM pg_journal.segments s JOIN pg_class c ON c.oid = s.relid JOIN pg_namespace n ON n.oid = c.relnamespace
      LEFT JOIN pg_journal.commits k ON k.relid = s.relid AND k.writer = s.writer
     WHERE has_table_privilege(acting_role(), c.oid, 'SELECT') AND s.writer IS DISTINCT FROM pg_current_xact_id_if_assigned()
$$;
CREATE OR REPLACE VIEW pg_journal.commit_file_list AS SELECT * FROM pg_journal.listed_commit_files();
GRANT SELECT ON pg_journal.commit_file_list TO PUBLIC;

-- How many row versions commits have written to tables, and how many were written in all, as upkeep copies them.
CREATE OR REPLACE FUNCTION pg_journal.listed_amplification(
    OUT schema_name name, OUT table_name name, OUT row_versions numeric, OUT rows_written numeric)
RETURNS SETOF record
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
    SELECT n.nspname, c.relname, x.rows, x.rows + j.copied_rows
      FROM pg_journal.journals j JOIN pg_class c ON c.oid = j.relid JOIN pg_namespace n ON n.oid = c.relnamespace
     CROSS JOIN LATERAL (
           SELECT coalesce(sum(k.row_count), 0) AS rows
             FROM pg_journal.commits_of(j.relid, '-infinity', 'infinity', 9223372036854775807) k) x
     WHERE j.tail_relid <> 0 AND has_table_privilege(acting_role(), c.oid, 'SELECT')
$$;
CREATE OR REPLACE VIEW pg_journal.amplification_list AS SELECT * FROM pg_journal.listed_amplification();
GRANT SELECT ON pg_journal.amplification_list TO PUBLIC;

CREATE OR REPLACE FUNCTION pg_journal.listed_savepoints(
    OUT savepoint text, OUT schema_name name, OUT table_name name, OUT created_at timestamptz, OUT created_by name,
    OUT comment text)
RETURNS SETOF record
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
    SELECT s.commit, n.nspname, c.relname, s.created_at, s.created_by, s.comment
      FROM pg_journal.savepoints s JOIN pg_class c ON c.oid = s.relid JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE has_table_privilege(acting_role(), c.oid, 'SELECT')
$$;
CREATE OR REPLACE VIEW pg_journal.savepoint_list AS SELECT * FROM pg_journal.listed_savepoints();
GRANT SELECT ON pg_journal.savepoint_list TO PUBLIC;

CREATE OR REPLACE FUNCTION pg_journal.listed_rollbacks(
    OUT commit text, OUT rolled_back_to text, OUT schema_name name, OUT table_name name, OUT row_versions bigint,
    OUT rolled_back_by name)
RETURNS SETOF record
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
    SELECT pg_journal.commit_name(coalesce(pg_journal.commit_time(r.writer), k.committed_at)), r.commit, n.nspname,
           c.relname, r.row_count, r.rolled_back_by
      FROM pg_journal.rollbacks r JOIN pg_class c ON c.oid = r.relid JOIN pg_namespace n ON n.oid = c.relnamespace
      LEFT JOIN pg_journal.commits k ON k.relid = r.relid AND k.writer = r.writer
     WHERE has_table_privilege(acting_role(), c.oid, 'SELECT')
$$;
CREATE OR REPLACE VIEW pg_journal.rollback_list AS SELECT * FROM pg_journal.listed_rollbacks();
GRANT SELECT ON pg_journal.rollback_list TO PUBLIC;

-- What has to be taken back for a table to be as it was before a commit, or, where it is to be kept, after it: version
-- numbers; NULL where the commit is none of the table. What cannot be told from the journal is refused: commits of before a
-- redefinition, and those that share their name, or a version number, with another one.
CREATE OR REPLACE FUNCTION pg_journal.versions_of(wanted oid, moment timestamptz, kept boolean) RETURNS timestamptz[]
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    taken timestamptz[] := '{}';
    named xid8;
    found record;
BEGIN
    FOR found IN SELECT * FROM commits_of(wanted, moment, CASE WHEN kept THEN 'infinity'::timestamptz ELSE moment END,
                                          CASE WHEN kept THEN 9223372036854775807 ELSE 2 END) LOOP
        IF (found.committed_at > moment) = kept THEN taken := taken || found.versions; END IF;
        CONTINUE WHEN found.committed_at > moment;
        IF EXISTS (SELECT FROM redefinitions r
                    WHERE r.relid = wanted AND (found.writer < r.writer OR found.writer = r.writer AND NOT kept
                                                OR found.committed_at <= r.redefined_at)) THEN
            RAISE EXCEPTION 'rolling back commits from before columns or keys of table "%" were changed is not supported',
                            (SELECT relname FROM pg_class WHERE oid = wanted) USING ERRCODE = '0A000';
        END IF;
        IF named IS NOT NULL OR NOT kept AND shares_versions(wanted, found.writer, found.versions) THEN
            RAISE EXCEPTION 'rolling back a commit that shares its time with another one is not supported'
                USING ERRCODE = '0A000';
        END IF;
        named := found.writer;
    END LOOP;
    RETURN CASE WHEN named IS NOT NULL THEN ARRAY (SELECT DISTINCT v.version FROM unnest(taken) v(version) ORDER BY 1) END;
END $$;

-- Of the row versions of a table after a moment those of commits that were taken back, and of what has taken them back: together
-- they have changed nothing. A transaction that has written more than its rollback is none of these, nor one that has taken
-- later changes of the same rows back as well.
CREATE OR REPLACE FUNCTION pg_journal.settled_versions(wanted oid, moment timestamptz) RETURNS timestamptz[]
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    settled timestamptz[] := '{}';
    taken xid8[] := '{}';
    pair record;
BEGIN
    IF NOT EXISTS (SELECT FROM rollbacks r WHERE r.relid = wanted AND r.is_plain) THEN RETURN settled; END IF;
    FOR pair IN
        WITH later AS MATERIALIZED (SELECT * FROM commits_of(wanted, moment, 'infinity', 9223372036854775807))
        SELECT r.writer AS taker, c.writer AS taken, b.versions || c.versions AS versions
          FROM rollbacks r
          JOIN later b ON b.writer = r.writer AND b.row_count = r.row_count
          JOIN later c ON c.committed_at = commit_moment(r.commit) AND c.committed_at > moment
         WHERE r.relid = wanted AND r.is_plain
         ORDER BY r.writer DESC
    LOOP
        -- What took back something may itself have been taken back.
        CONTINUE WHEN pair.taker = ANY (taken);
        taken := taken || pair.taken;
        settled := settled || pair.versions;
    END LOOP;
    RETURN settled;
END $$;

-- The same of all tables that the commit has changed, or of the one that is named. Of commits of tables that the role may not
-- read it learns nothing; but half a commit is not taken back (42501).
CREATE OR REPLACE FUNCTION pg_journal.versions_to_roll_back(code text, commit text, wanted oid, kept boolean) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
DECLARE
    moment timestamptz := commit_moment(commit);
    answer json[] := '{}';
    denied name;
    j record;
    numbers timestamptz[];
BEGIN
    PERFORM authorize(code, 'versions_to_roll_back', commit, wanted::text, kept::text);
    FOR j IN SELECT s.relid, s.table_name FROM journals s
              WHERE s.tail_relid <> 0 AND (wanted IS NULL OR s.relid = wanted
                                           OR s.relid IN (SELECT p.relid FROM pg_partition_tree(wanted) p))
              ORDER BY s.relid LOOP
        IF NOT has_table_privilege(acting_role(), j.relid, 'SELECT') THEN
            -- Of such a table nothing else is told.
            IF denied IS NULL AND EXISTS (SELECT FROM commits_of(j.relid, moment, moment, 1)) THEN
                denied := j.table_name;
            END IF;
            CONTINUE;
        END IF;
        numbers := versions_of(j.relid, moment, kept);
        CONTINUE WHEN numbers IS NULL;
        answer := answer || json_build_object('relid', j.relid::bigint, 'versions', (
            SELECT coalesce(json_agg(micros(v.version)), '[]') FROM unnest(numbers) v(version)), 'settled', (
            SELECT coalesce(json_agg(micros(v.version)), '[]')
              FROM unnest(CASE WHEN NOT kept THEN settled_versions(j.relid, moment) END) v(version)));
    END LOOP;
    IF denied IS NOT NULL AND cardinality(answer) > 0 THEN
        RAISE EXCEPTION 'permission denied for table %', denied
            USING ERRCODE = '42501', HINT = 'The commit has changed it as well. Name the table that is to be changed back.';
    END IF;
    RETURN convert_to(array_to_json(answer)::text, 'UTF8');
END $$;

CREATE OR REPLACE FUNCTION pg_journal.note_rollback(code text, wanted oid, commit text, plain boolean, changed bigint) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    PERFORM authorize(code, 'note_rollback', wanted::text, commit, plain::text, changed::text);
    PERFORM require_right(wanted, true);
    INSERT INTO rollbacks (relid, commit, is_plain, row_count) VALUES (wanted, note_rollback.commit, plain, changed);
    RETURN convert_to('null', 'UTF8');
END $$;

-- Keep the name of a commit to go back to, or forget it. 42501 for others than the owner of the table, 42704 for a commit
-- that there is not, 42710 for a savepoint that there is.
CREATE OR REPLACE FUNCTION pg_journal.keep_savepoint(code text, wanted oid, commit text, kept boolean) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_journal, pg_temp
AS $$
BEGIN
    PERFORM authorize(code, 'keep_savepoint', wanted::text, commit, kept::text);
    PERFORM require_owner(wanted);
    IF NOT kept THEN
        DELETE FROM savepoints s WHERE s.relid = wanted AND s.commit = keep_savepoint.commit;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'savepoint "%" of table "%" does not exist', commit, wanted::regclass USING ERRCODE = '42704';
        END IF;
    ELSIF EXISTS (SELECT FROM pg_partitioned_table p WHERE p.partrelid = wanted) THEN
        RAISE EXCEPTION 'savepoints of the partitioned table "%" are not supported', wanted::regclass
            USING ERRCODE = '0A000', HINT = 'Create savepoints of its partitions.';
    ELSIF NOT EXISTS (SELECT FROM commits_of(wanted, commit_moment(commit), commit_moment(commit), 1)) THEN
        RAISE EXCEPTION 'commit "%" of table "%" does not exist', commit, wanted::regclass
            USING ERRCODE = '42704', HINT = 'Commits are listed by gateway.commits.';
    ELSE
        INSERT INTO savepoints (relid, commit) VALUES (wanted, keep_savepoint.commit) ON CONFLICT DO NOTHING;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'savepoint "%" of table "%" already exists', commit, wanted::regclass USING ERRCODE = '42710';
        END IF;
    END IF;
    RETURN convert_to('null', 'UTF8');
END $$;
