"""DDL: journals follow definitions in the client's transaction, or the definition is refused."""

import pytest

from catalog.errors import GatewayError
from catalog.model import UniqueKey
from catalog.results import PendingConstraints, RelationKind

pytestmark = pytest.mark.catalog


def _columns(client, table):
    (snapshot,) = client.snapshot(table).snapshots.values()
    return {c.attnum: c.name for c in snapshot.table.columns}


def _table(client, table):
    (snapshot,) = client.snapshot(table).snapshots.values()
    return snapshot.table


def test_a_new_table_is_journaled(client):
    client.run("CREATE TABLE t (a int PRIMARY KEY, b text)")
    table = _table(client, "t")
    assert (table.schema, table.name, table.key, table.key_name) == ("public", "t", (1,), "t_pkey")
    assert [c.storage_name for c in table.columns] == ["a", "b"]


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE t AS SELECT 1 AS a WITH NO DATA",
        "SELECT 1 AS a INTO t WHERE false",
        "CREATE TABLE t (LIKE pg_class)",
        "CREATE TABLE public.t (a serial)",
    ],
)
def test_every_way_to_make_a_table_makes_a_journal(client, sql):
    client.run(sql)
    relid = client.relid("t")
    assert client.session.observations.relations([relid])[relid].kind is RelationKind.JOURNALED


def test_a_temporary_table_stays_with_postgresql(client):
    client.run("CREATE TEMP TABLE t (a int UNIQUE)")
    relid = client.relid("t")
    assert client.session.observations.relations([relid])[relid].kind is RelationKind.CATALOG


def test_columns_of_temporary_types_are_refused(client):
    client.run("CREATE TABLE t (a int PRIMARY KEY)")
    client.run("CREATE DOMAIN pg_temp.d AS int")
    client.run("CREATE TYPE pg_temp.e AS ENUM ('x')")
    assert client.sqlstate("ALTER TABLE t ADD COLUMN b pg_temp.d") == "0A000"
    assert client.sqlstate("CREATE TABLE u (a int PRIMARY KEY, b pg_temp.e[])") == "0A000"
    client.run("CREATE TEMP TABLE v (a pg_temp.d, b pg_temp.e)")


def test_temporary_relations_change_no_definition_for_others(client, other):
    client.run("CREATE TABLE t (a int PRIMARY KEY)")
    fingerprint = "SELECT bit_xor(mark) FROM pg_journal.definition_marks"
    before = client.value(fingerprint)
    other.run("CREATE TEMP TABLE x (a serial PRIMARY KEY, b text)")
    other.run("CREATE INDEX y ON x (b)")
    other.run("CREATE TEMP VIEW z AS SELECT b FROM x")
    other.run("DROP VIEW z")
    other.run("DROP INDEX y")
    other.run("DROP TABLE x")
    assert client.value(fingerprint) == before
    other.run("DROP TABLE t")
    assert client.value(fingerprint) != before


def _journal(client, name):
    """The relation that stands for a table's journal."""
    return f"pg_journal.journal_{client.relid(name)}"


def test_the_journal_is_a_relation_of_its_own(client):
    client.run("CREATE TABLE t (a int PRIMARY KEY)")
    relid, journal = client.relid("t"), client.relid(_journal(client, "t"))
    relation = client.session.observations.relations([journal])[journal]
    assert (relation.kind, relation.journal_of) == (RelationKind.JOURNAL, relid)


def test_the_journal_has_the_columns_of_the_convention(client):
    client.run("CREATE TABLE keyed (a int PRIMARY KEY, b text)")
    client.run("CREATE TABLE keyless (a int)")
    names = (
        "SELECT string_agg(attname, ' ' ORDER BY attnum) FROM pg_attribute"
        " WHERE attnum > 0 AND attrelid = "
    )
    assert client.value(f"{names}'{_journal(client, 'keyed')}'::regclass") == (
        "a b version_number subsequent_version_number"
    )
    assert client.value(f"{names}'{_journal(client, 'keyless')}'::regclass") == (
        "a version_number subsequent_version_number row_identity"
    )


def test_rollback_takes_the_journal_back(client):
    client.session.transaction.begin()
    client.run("CREATE TABLE t (a int)")
    relid = client.relid("t")
    client.session.transaction.rollback()
    assert client.session.observations.relations([relid])[relid].kind is RelationKind.CATALOG
    assert client.value(f"SELECT count(*) FROM pg_class WHERE relname = 'journal_{relid}'") == "0"


def test_renames_move_the_journal_and_keep_storage_names(client):
    client.run("CREATE TABLE t (a int PRIMARY KEY, b text)")
    client.run("CREATE SCHEMA s")
    client.run("ALTER TABLE t RENAME TO u")
    client.run("ALTER TABLE u RENAME COLUMN b TO c")
    client.run("ALTER TABLE u SET SCHEMA s")
    table = _table(client, "s.u")
    client.run(f"SELECT a, c, version_number FROM pg_journal.journal_{table.relid}")
    assert [(c.name, c.storage_name) for c in table.columns] == [("a", "a"), ("c", "b")]


def test_a_storage_name_is_never_given_twice(client):
    client.run('CREATE TABLE t (a int PRIMARY KEY, b text, "B" text)')
    client.run("ALTER TABLE t DROP COLUMN b")
    client.run("ALTER TABLE t ADD COLUMN b int")
    names = [c.storage_name for c in _table(client, "t").columns]
    assert len({n.lower() for n in names} | {"b"}) == 4
    assert _columns(client, "t") == {1: "a", 3: "B", 4: "b"}


def test_an_added_column_has_its_default_in_older_row_versions(client):
    client.run("CREATE TABLE t (a int PRIMARY KEY)")
    client.insert("t", "INSERT INTO t VALUES (1)")
    client.run("ALTER TABLE t ADD COLUMN b date NOT NULL DEFAULT '2024-02-29', ADD COLUMN c text")
    b, c = _table(client, "t").columns[1:]
    assert (b.missing_value, c.missing_value) == ("2024-02-29", None)
    assert client.tail("t") == [[1, 19782, None]]


def test_a_default_that_differs_from_row_to_row_is_refused_on_rows(client):
    client.run("CREATE TABLE t (a int PRIMARY KEY)")
    client.run("ALTER TABLE t ADD COLUMN b float8 DEFAULT random()")
    client.insert("t", "INSERT INTO t VALUES (1)")
    assert client.sqlstate("ALTER TABLE t ADD COLUMN c float8 DEFAULT random()") == "0A000"
    assert client.sqlstate("ALTER TABLE t ADD COLUMN c serial") == "0A000"
    assert (
        client.sqlstate("ALTER TABLE t ADD COLUMN c int GENERATED ALWAYS AS (a) STORED") == "0A000"
    )


def test_not_null_without_default_on_rows_fails_as_in_postgresql(client):
    client.run("CREATE TABLE t (a int PRIMARY KEY)")
    client.insert("t", "INSERT INTO t VALUES (1)")
    with pytest.raises(GatewayError) as caught:
        client.run("ALTER TABLE t ADD COLUMN b int NOT NULL")
    assert caught.value.sqlstate == "23502"
    assert caught.value.message == 'column "b" of relation "t" contains null values'
    assert caught.value.fields["c"] == "b"


@pytest.mark.parametrize(
    "change",
    [
        "ALTER COLUMN b TYPE int USING b::int",
        "ADD CONSTRAINT present NOT NULL b NOT VALID",
        "ADD CHECK (a > 0) NOT VALID",
        "DROP CONSTRAINT t_pkey",
        "ALTER COLUMN c TYPE varchar(5)",
    ],
)
def test_changes_that_need_the_rows_are_refused_only_when_there_are_rows(client, change):
    client.run("CREATE TABLE t (a int PRIMARY KEY, b text, c varchar(10))")
    client.insert("t", "INSERT INTO t VALUES (1, '2', '3')")
    assert client.sqlstate(f"ALTER TABLE t {change}") == "0A000"
    client.truncate("t")
    client.run(f"ALTER TABLE t {change}")


def test_a_varchar_may_grow_over_rows(client):
    client.run("CREATE TABLE t (a int PRIMARY KEY, b varchar(3))")
    client.insert("t", "INSERT INTO t VALUES (1, 'abc')")
    client.run("ALTER TABLE t ALTER COLUMN b TYPE varchar(5)")
    client.insert("t", "INSERT INTO t VALUES (2, 'abcde')")
    client.run("ALTER TABLE t ALTER COLUMN b TYPE text")
    assert client.tail("t") == [[1, "abc"], [2, "abcde"]]


def test_a_key_added_over_rows_is_pending_until_completed(client):
    client.run("CREATE TABLE t (a int, b int)")
    client.insert("t", "INSERT INTO t VALUES (1, 2)")
    relid = client.relid("t")
    client.session.transaction.begin()
    client.run("ALTER TABLE t ADD PRIMARY KEY (b, a)")
    assert client.session.journals.pending_constraints() == [PendingConstraints(relid, (2, 1))]
    assert _table(client, "t").key == ()
    client.session.journals.replace(
        relid, [], [], 2**62, expected_state=client.state("t"), tail_read=1
    )
    client.session.journals.set_key(relid)
    client.session.transaction.commit()
    assert client.session.journals.pending_constraints() == []
    assert _table(client, "t").key == (2, 1)


def test_checks_over_rows_are_pending_until_they_have_been_looked_at(client):
    client.run("CREATE TABLE t (a int PRIMARY KEY, b int, CHECK (b > 0))")
    client.insert("t", "INSERT INTO t VALUES (1, 2)")
    relid = client.relid("t")
    client.session.transaction.begin()
    client.run("ALTER TABLE t ADD CONSTRAINT little CHECK (b < 9), ALTER b SET NOT NULL")
    client.run("ALTER TABLE t ADD CONSTRAINT ignored CHECK (b > 5) NOT ENFORCED")
    (pending,) = client.session.journals.pending_constraints()
    (check,) = pending.checks
    assert check.name == "little"
    assert check.tree.startswith("{OPEXPR")
    assert pending == PendingConstraints(relid, checks=(check,), not_null=(2,))
    client.session.journals.set_satisfied(relid)
    client.session.transaction.commit()
    assert client.session.journals.pending_constraints() == []
    client.run("ALTER TABLE t DROP CONSTRAINT little, ALTER b DROP NOT NULL")
    assert client.session.journals.pending_constraints() == []


def test_a_unique_key_over_rows_is_pending_until_they_have_been_checked(client):
    client.run("CREATE TABLE t (a int PRIMARY KEY, b int, c int UNIQUE)")
    client.insert("t", "INSERT INTO t VALUES (1, 2, 3)")
    relid, kept = client.relid("t"), UniqueKey("t_c_key", (3,))
    assert _table(client, "t").unique_keys == (kept,)
    client.session.transaction.begin()
    client.run("CREATE UNIQUE INDEX pair ON t (c, b) INCLUDE (a)")
    added = UniqueKey("pair", (3, 2))
    assert client.session.journals.pending_constraints() == [
        PendingConstraints(relid, unique=(added,))
    ]
    assert _table(client, "t").unique_keys == (kept,)
    client.session.journals.set_satisfied(relid)
    client.session.transaction.commit()
    assert client.session.journals.pending_constraints() == []
    assert _table(client, "t").unique_keys == (kept, added)
    client.run("ALTER TABLE t DROP CONSTRAINT t_c_key")
    assert _table(client, "t").unique_keys == (added,)
    client.run("DROP INDEX pair")
    assert _table(client, "t").unique_keys == ()


def test_dropping_a_table_drops_all_of_it(client, catalog, database):
    client.run("CREATE TABLE t (a int PRIMARY KEY)")
    journal = _journal(client, "t")
    client.run(f"CREATE VIEW v AS SELECT a, version_number FROM {journal}")
    client.insert("t", "INSERT INTO t VALUES (1)")
    assert client.sqlstate("DROP TABLE t") == "2BP01"
    client.run("DROP TABLE t CASCADE")
    assert (
        client.value("SELECT count(*) FROM pg_class WHERE relname ~ '^(v|(journal|tail)_[0-9]+)$'")
        == "0"
    )


def test_a_journal_table_cannot_be_dropped_by_itself(client):
    client.run("CREATE TABLE t (a int PRIMARY KEY)")
    assert client.sqlstate(f"DROP TABLE {_journal(client, 't')}") in {"42501", "2BP01"}


def test_dropping_a_schema_or_a_type_takes_what_depends_on_it(client):
    client.run("CREATE SCHEMA s CREATE TABLE t (a int PRIMARY KEY)")
    client.run("CREATE DOMAIN positive AS int CHECK (value > 0)")
    client.run("CREATE TYPE colour AS ENUM ('red')")
    client.run("CREATE TABLE u (a int PRIMARY KEY, b positive, c colour)")
    client.run("DROP SCHEMA s CASCADE")
    client.run("DROP DOMAIN positive CASCADE")
    client.run("DROP TYPE colour CASCADE")
    client.insert("u", "INSERT INTO u VALUES (1)")
    assert client.tail("u") == [[1]]


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE u (a int UNIQUE DEFERRABLE)",
        "CREATE TABLE u (a float8 UNIQUE NULLS NOT DISTINCT)",
        "CREATE TABLE u (a numeric UNIQUE)",
        "CREATE TABLE u (a int PRIMARY KEY, b bigint REFERENCES t)",
        "CREATE TABLE u (a int PRIMARY KEY DEFERRABLE)",
        "CREATE TABLE u () INHERITS (t)",
        "CREATE TABLE u (a int, EXCLUDE (a WITH =))",
        "CREATE TABLE u (a int, b int GENERATED ALWAYS AS (a) VIRTUAL)",
        "CREATE TABLE u (version_number int)",
        "CREATE UNLOGGED TABLE u (a int)",
        "CREATE UNIQUE INDEX ON t ((a + 1.5))",
        "CREATE UNIQUE INDEX ON t (a, (t IS NULL))",
        "ALTER TABLE t ENABLE ROW LEVEL SECURITY",
        "ALTER TABLE t SET UNLOGGED",
        "CREATE MATERIALIZED VIEW v AS SELECT 1",
        "CREATE FUNCTION f() RETURNS int LANGUAGE sql RETURN 1",
        "CREATE RULE r AS ON INSERT TO t DO INSTEAD NOTHING",
        "CREATE POLICY p ON t",
        "CREATE EXTENSION hstore",
    ],
)
def test_what_a_journal_cannot_keep_to_is_refused(client, sql):
    client.run("CREATE TABLE t (a int PRIMARY KEY)")
    with pytest.raises(GatewayError) as caught:
        client.run(sql)
    assert caught.value.sqlstate == "0A000"
    assert "W" not in caught.value.fields


def test_definitions_have_a_fingerprint_that_never_returns(client, other):
    seen = [client.session.observations.definitions()]
    client.session.transaction.begin()
    client.run("CREATE TABLE t (a int)")
    seen.append(client.session.observations.definitions())
    assert other.session.observations.definitions() == seen[0]
    client.session.transaction.rollback()
    assert client.session.observations.definitions() == seen[0]
    client.run("CREATE TABLE t (a int)")
    seen.append(client.session.observations.definitions())
    client.run("DROP TABLE t")
    seen.append(client.session.observations.definitions())
    assert len(set(seen)) == 4


def test_concurrent_definitions_do_not_wait_for_each_other(client, other):
    client.session.transaction.begin()
    client.run("CREATE TABLE t (a int)")
    other.run("SET lock_timeout = '2s'")
    other.run("CREATE TABLE u (a int)")
    before = other.session.observations.definitions()
    client.session.transaction.commit()
    assert other.session.observations.definitions() != before


def test_readers_of_a_table_may_read_its_journal(client, reader):
    client.run("CREATE TABLE t (a int PRIMARY KEY)")
    query = f"SELECT * FROM {_journal(client, 't')}"
    assert reader.sqlstate(query) == "42501"
    client.run("GRANT SELECT ON t TO PUBLIC")
    reader.run(query)
    client.run("REVOKE SELECT ON t FROM PUBLIC")
    assert reader.sqlstate(query) == "42501"


def test_a_table_named_like_a_journal_is_in_nobodys_way(client):
    client.run("CREATE TABLE t_journal (a int)")
    client.run("CREATE TABLE t (a int)")


def test_names_of_any_length_have_journals(client):
    name = "n" * 63
    client.run(f"CREATE TABLE {name} (a int)")
    client.run(f"SELECT version_number FROM pg_journal.journal_{_table(client, name).relid}")


def test_an_expression_is_not_changed_over_rows(client):
    client.run("CREATE TABLE t (a int PRIMARY KEY, b int GENERATED ALWAYS AS (a * 2) STORED)")
    client.run("ALTER TABLE t ALTER COLUMN b SET EXPRESSION AS (a * 3)")
    client.insert("t", "INSERT INTO t VALUES (1)")
    assert client.tail("t") == [[1, 3]]
    client.run("ALTER TABLE t RENAME COLUMN a TO c")
    assert _table(client, "t").columns[1].generated == "(c * 3)"
    assert client.sqlstate("ALTER TABLE t ALTER COLUMN b SET EXPRESSION AS (c * 4)") == "0A000"
    client.run("ALTER TABLE t ALTER COLUMN b DROP EXPRESSION")
    assert _table(client, "t").columns[1].generated is None


def test_a_new_partition_is_compared_with_no_others_one_by_one(client, inspector):
    inspector.run("SELECT pg_journal.configure(0, 67108864, 1000000)")
    client.run("CREATE TABLE parent (a int PRIMARY KEY)")
    client.run("CREATE TABLE child (a int PRIMARY KEY REFERENCES parent)")
    client.run("CREATE TABLE p (a int PRIMARY KEY CHECK (a < 100)) PARTITION BY LIST (a)")
    for number in range(20):
        client.run(f"CREATE TABLE p{number} PARTITION OF p FOR VALUES IN ({number})")
    # So PostgreSQL joins them where they are many.
    inspector.run("SET enable_nestloop = off")
    inspector.run("SET track_functions = 'all'")
    inspector.run("BEGIN")
    inspector.run("CREATE TABLE p20 PARTITION OF p FOR VALUES IN (20)")
    inspector.run("SELECT pg_journal.settle_references('p20'::regclass)")
    assert inspector.session.journals.pending_constraints() == []
    calls = inspector.run(
        "SELECT funcname, calls FROM pg_stat_xact_user_functions"
        " WHERE funcname IN ('pending_constraints', 'watch_signature', 'unique_indexes')"
    )
    inspector.run("ROLLBACK")
    found = {str(name): int(count or 0) for name, count in calls}
    assert found["pending_constraints"] == 1
    assert found.get("watch_signature", 0) < 10
    assert found.get("unique_indexes", 0) < 10
