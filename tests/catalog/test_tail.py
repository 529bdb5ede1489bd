"""Small writes: rows pass PostgreSQL's constraints into the tail, or stay for a bulk write."""

import pytest

from catalog.errors import GatewayError
from catalog.model import Segment, SegmentKind
from catalog.results import SnapshotRequest

pytestmark = pytest.mark.catalog

EMPTY = "SELECT count(*) FROM ONLY t"


@pytest.fixture
def keyed(client):
    client.run(
        "CREATE TABLE t (a int PRIMARY KEY, b varchar(5) DEFAULT 'x', c int CHECK (c < 100))"
    )
    return client


@pytest.fixture
def keyless(client):
    client.run("CREATE TABLE t (a int, b text)")
    return client


def _segment(client, number, rows=1, low=None, high=None):
    path = client.segment_path("t", "delta", number)
    return Segment(0, SegmentKind.DELTA, path, rows, 1000, (1, 2, 3), 1, 2, low, high)


def _publish(client, *segments):
    relid = client.relid("t")
    versions, _ = client.session.writes.begin_write([relid])
    client.session.journals.publish(relid, versions[relid], segments)
    client.session.transaction.commit()


def test_an_insert_returns_its_rows_and_leaves_the_catalog_table_empty(keyed):
    result, receipt = keyed.insert("t", "INSERT INTO t (a) VALUES (1), (2) RETURNING b, a")
    assert list(result.rows) == [[b"x", b"1"], [b"x", b"2"]]
    assert result.command_tag == "INSERT 0 2"
    assert (receipt.count, receipt.captured, receipt.unresolved) == (2, True, ())
    assert keyed.value(EMPTY) == "0"
    assert keyed.tail("t") == [[1, "x", None], [2, "x", None]]


def test_an_insert_of_no_rows_writes_nothing(keyed):
    before = keyed.state("t")
    result, receipt = keyed.insert("t", "INSERT INTO t (a) SELECT 1 WHERE false")
    assert (result.command_tag, receipt.count, keyed.state("t")) == ("INSERT 0 0", 0, before)


def test_each_statement_has_a_greater_version_number(keyed):
    receipts = [keyed.insert("t", f"INSERT INTO t VALUES ({i})")[1] for i in range(3)]
    versions = [r.version for r in receipts]
    assert versions == sorted(set(versions))
    (snapshot,) = keyed.snapshot("t").snapshots.values()
    assert snapshot.version == versions[-1]


def test_rows_without_key_get_distinct_identities(keyless):
    keyless.insert("t", "INSERT INTO t VALUES (1), (1), (1)")
    (tail,) = keyless.snapshot("t").tails.values()
    identities = [row[-1] for row in tail.rows]
    assert len(set(identities)) == 3
    assert all(i < 0 for i in identities)


@pytest.mark.parametrize(
    ("sql", "sqlstate"),
    [
        ("INSERT INTO t VALUES (1)", "23505"),
        ("INSERT INTO t VALUES (2), (2)", "23505"),
        ("INSERT INTO t VALUES (2, 'abcdef')", "22001"),
        ("INSERT INTO t VALUES (2, 'x', 100)", "23514"),
        ("INSERT INTO t VALUES (NULL)", "23502"),
    ],
)
def test_constraints_are_postgresqls_and_leave_the_session_idle(keyed, sql, sqlstate):
    keyed.insert("t", "INSERT INTO t VALUES (1)")
    with pytest.raises(GatewayError) as caught:
        keyed.insert("t", sql)
    assert caught.value.sqlstate == sqlstate
    assert keyed.session.transaction_status == "I"
    assert len(keyed.tail("t")) == 1


def test_a_duplicate_key_is_reported_as_postgresql_does(keyed):
    keyed.run('CREATE TEMP TABLE real ("A" int, b text, CONSTRAINT "Real" PRIMARY KEY (b, "A"))')
    keyed.run('CREATE TABLE ours ("A" int, b text, CONSTRAINT "Ours" PRIMARY KEY (b, "A"))')
    keyed.run("INSERT INTO real VALUES (1, 'x')")
    keyed.insert("ours", "INSERT INTO ours VALUES (1, 'x')")
    with pytest.raises(GatewayError) as real:
        keyed.run("INSERT INTO real VALUES (1, 'x')")
    with pytest.raises(GatewayError) as ours:
        keyed.insert("ours", "INSERT INTO ours VALUES (1, 'x')")
    assert ours.value.message == real.value.message.replace("Real", "Ours")
    assert ours.value.detail == real.value.detail
    assert {c: ours.value.fields[c] for c in "stn"} == {"s": "public", "t": "ours", "n": "Ours"}


def test_a_deleted_key_can_be_inserted_again(keyed):
    relid = keyed.relid("t")
    keyed.insert("t", "INSERT INTO t VALUES (1)")
    versions, _ = keyed.session.writes.begin_write([relid])
    keyed.session.journals.append(relid, versions[relid], [], [["1", "x", None, None]])
    keyed.session.transaction.commit()
    keyed.insert("t", "INSERT INTO t VALUES (1, 'again')")
    assert len(keyed.tail("t")) == 3


def test_keys_that_segments_may_contain_are_unresolved(keyed):
    _publish(keyed, _segment(keyed, 1, 10, 100, 200), _segment(keyed, 2, 10, 300, 400))
    keyed.insert("t", "INSERT INTO t VALUES (150)")
    _, receipt = keyed.insert(
        "t", "INSERT INTO t VALUES (1), (100), (250), (400), (500)", commit=False
    )
    assert sorted(receipt.unresolved) == [(100,), (400,)]
    keyed.session.transaction.rollback()
    with pytest.raises(GatewayError, match="duplicate key"):
        keyed.insert("t", "INSERT INTO t VALUES (150)")


def test_many_rows_stay_and_are_drained_as_csv(client):
    client.run(
        "CREATE TABLE t (a int, f float8, n numeric(8,2), s text, c char(3), b bytea, d date,"
        " ts timestamp, tz timestamptz, i interval, o bool, r text[], dd date[])"
    )
    client.run("SET extra_float_digits = 0")
    client.run("SET datestyle = 'German'")
    client.session.writes.begin_write([client.relid("t")])
    client.run(
        """INSERT INTO t VALUES
        (1, 0.1::float8 + 0.2, 1.5, E'a"b\\nc,', 'x', '\\x00ff', '1969-12-31',
         '1970-01-01 00:00:01',
         '1970-01-01 01:00:00+01', '1 mon -2 days 00:00:03.5', true, '{"q,",NULL}', '{1970-01-02}'),
        (NULL, 'NaN', NULL, '', NULL, '', NULL, NULL, NULL, NULL, NULL, '{}', NULL)"""
    )
    receipt = client.session.journals.capture(client.relid("t"), 1, 1 << 30)
    assert (receipt.count, receipt.captured) == (2, False)
    drained = client.session.journals.drain(client.relid("t"))
    assert drained.attnums == tuple(range(1, 14))
    lines = b"".join(drained.chunks).decode()
    first, second, identity_1, identity_2 = (
        *(line.rpartition(",")[0] for line in lines.replace("\nc", "\\nc").splitlines()),
        *(int(line.rpartition(",")[2]) for line in lines.replace("\nc", "\\nc").splitlines()),
    )
    assert first == (
        '1,0.30000000000000004,1.50,"a""b\\nc,","x  ","00ff",-1,1000000,0,1 -2 3500000,true,'
        '"{""q,"",NULL}","{1}"'
    )
    assert second == ',NaN,,"",,"",,,,,,"{}",'
    assert 0 < identity_1 < identity_2
    assert client.value("SHOW datestyle") == "German, DMY"
    client.session.journals.clear_drained(client.relid("t"), ending=False)
    assert client.value(EMPTY) == "0"
    client.session.transaction.rollback()


def test_transfer_forms_do_not_depend_on_settings(client):
    client.run(
        "CREATE TABLE t (f float8, d date, ts timestamp, tz timestamptz, tm time, i interval,"
        " b bytea,"
        " u uuid, j jsonb, c char(4), a timestamp[], n inet, z float8)"
    )
    client.run("SET extra_float_digits = 0")
    client.run("SET datestyle = 'SQL, DMY'")
    client.run("SET timezone = 'Asia/Tokyo'")
    client.run("SET bytea_output = 'escape'")
    client.run("SET intervalstyle = 'iso_8601'")
    client.insert(
        "t",
        "INSERT INTO t VALUES (1e-7::float8 / 3, '2000-01-01', '2000-01-01 12:00',"
        " '2000-01-01 09:00+09',"
        " '24:00', '-1 year 2 days 1us', '\\x01', 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11',"
        " '{\"b\":1}',"
        " 'ab', '{2000-01-01,NULL}', '10.0.0.1', '-0')",
    )
    assert client.tail("t") == [
        [
            repr(1e-7 / 3),
            10957,
            946728000000000,
            946684800000000,
            86400000000,
            "-12 2 1",
            "01",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            '{"b": 1}',
            "ab  ",
            "{946684800000000,NULL}",
            "10.0.0.1",
            "-0",
        ]
    ]


@pytest.mark.parametrize(
    "column",
    ["r tstzrange", "r datemultirange", "r regclass", "r regtype[]", "r moment[]", "r money"],
)
def test_types_whose_text_depends_on_the_session_are_refused(client, column):
    client.run("CREATE DOMAIN moment AS timestamptz")
    with pytest.raises(GatewayError, match=r'column "r" of type .* is not supported') as caught:
        client.run(f"CREATE TABLE t (a int, {column})")
    assert caught.value.sqlstate == "0A000"


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("int[]", "'{{1,2},{3,4}}'"),
        ("int[]", "'[0:1]={1,2}'"),
        ("numeric(10,2)", "'NaN'"),
        ("numeric(10,2)[]", "'{NaN}'"),
        ("date", "'infinity'"),
    ],
)
def test_values_no_segment_can_hold_are_refused_when_written(client, column, value):
    client.run(f"CREATE TABLE t (a {column})")
    with pytest.raises(GatewayError, match="not supported on journaled tables") as caught:
        client.insert("t", f"INSERT INTO t VALUES ({value})")
    assert caught.value.sqlstate == "0A000"


def test_appended_rows_pass_the_constraints_and_recompute_generated_columns(client):
    client.run(
        "CREATE TABLE t (a int PRIMARY KEY, b varchar(3), g int GENERATED ALWAYS AS (a * 2) STORED)"
    )
    relid = client.relid("t")
    versions, _ = client.session.writes.begin_write([relid])
    client.session.journals.append(relid, versions[relid], [["5", "abc", None, None]])
    assert client.tail("t") == [[5, "abc", 10]]
    with pytest.raises(GatewayError, match="value too long for type character varying"):
        client.session.journals.append(relid, versions[relid] + 1, [["6", "abcd", "0", None]])
    client.session.transaction.rollback()


def test_appended_rows_keep_the_identity_they_are_given(keyless):
    relid = keyless.relid("t")
    versions, _ = keyless.session.writes.begin_write([relid])
    rows = [[str(i), "x", str(1000 - i)] for i in range(50)] + [["50", None, None]]
    keyless.session.journals.append(relid, versions[relid], rows, [["7", "y", "-3"]])
    (tail,) = keyless.snapshot("t").tails.values()
    assert {(r[0], r[-1]) for r in tail.rows if r[3] is None and r[0] < 50} == {
        (i, 1000 - i) for i in range(50)
    }
    assert [r[-1] for r in tail.rows if r[3] is not None] == [-3]
    keyless.session.transaction.rollback()


def test_keys_exchanged_in_one_statement_leave_no_tombstones(keyed):
    relid = keyed.relid("t")
    keyed.insert("t", "INSERT INTO t VALUES (1, 'one'), (2, 'two')")
    versions, _ = keyed.session.writes.begin_write([relid])
    keyed.session.journals.append(
        relid,
        versions[relid],
        [["2", "one", None, None], ["1", "two", None, None]],
        [["1", None, None, None], ["2", None, None, None]],
        check_keys=True,
    )
    keyed.session.transaction.commit()
    (tail,) = keyed.snapshot("t").tails.values()
    assert [row[-2] for row in tail.rows] == [None] * 4


def test_a_changed_key_must_be_free(keyed):
    relid = keyed.relid("t")
    keyed.insert("t", "INSERT INTO t VALUES (1), (2)")
    versions, _ = keyed.session.writes.begin_write([relid])
    with pytest.raises(GatewayError) as caught:
        keyed.session.journals.append(
            relid,
            versions[relid],
            [["2", None, None, None]],
            [["1", None, None, None]],
            check_keys=True,
        )
    assert caught.value.sqlstate == "23505"
    keyed.session.transaction.rollback()


def test_infinite_dates_are_refused_because_segments_cannot_hold_them(client):
    client.run("CREATE TABLE t (a date, b timestamptz, c date[])")
    with pytest.raises(GatewayError) as caught:
        client.insert("t", "INSERT INTO t VALUES ('infinity', now())")
    assert caught.value.sqlstate == "0A000"
    for sql in (
        "INSERT INTO t VALUES ('2000-01-01', '-infinity')",
        "INSERT INTO t VALUES (NULL, NULL, '{2000-01-01,infinity}')",
    ):
        with pytest.raises(GatewayError) as caught:
            client.insert("t", sql)
        assert caught.value.sqlstate == "0A000"
    client.insert("t", "INSERT INTO t VALUES (NULL, NULL, '{2000-01-01,NULL}')")


def test_the_secret_does_not_leak_through_parameter_logging(keyed):
    keyed.run("SET log_parameter_max_length_on_error = -1")
    with pytest.raises(GatewayError) as caught:
        keyed.insert("t", "INSERT INTO t VALUES (1)")
    assert caught.value.sqlstate == "0A000"
    assert "W" not in caught.value.fields
    keyed.run("RESET log_parameter_max_length_on_error")
    keyed.insert("t", "INSERT INTO t VALUES (1)")


@pytest.mark.exhaustive
def test_a_tail_of_many_large_values_is_read(client):
    client.run("CREATE TABLE t (a int PRIMARY KEY, b bytea)")
    rows = "SELECT g, decode(repeat('00', 16 * 1024 * 1024), 'hex') FROM generate_series(1, 33) g"
    client.insert("t", f"INSERT INTO t {rows}")
    (tail,) = client.snapshot("t").tails.values()
    assert sum(map(len, tail.parts)) > 1 << 30
    numbers = [int(row.partition(b",")[0]) for part in tail.parts for row in part.split(b"[")[2:]]
    assert sorted(numbers) == list(range(1, 34))


def test_the_tail_counts_its_rows(keyed):
    keyed.insert("t", "INSERT INTO t VALUES (1), (2)")
    relid = keyed.relid("t")
    versions, _ = keyed.session.writes.begin_write([relid])
    keyed.session.journals.append(
        relid, versions[relid], [["1", None, None, None]], [["2", None, None, None]]
    )
    keyed.session.transaction.commit()
    result = keyed.session.observations.snapshot([SnapshotRequest(relid)])
    assert result.snapshots[relid].tail_rows == len(result.tails[relid].rows) == 4
