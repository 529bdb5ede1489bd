"""Runs one statement on PostgreSQL and, compiled, on Spark, and compares the rows as typed text.

The tables live in PostgreSQL as ordinary tables; :class:`Oracle` copies their rows into Spark
relations in storage representation whenever a compiled query asks for one of its sources.
"""

import datetime as dt
import decimal
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from catalog.model import Column, JournalTable, Segment, SegmentKind, TableSnapshot
from pgwire_gateway.spark import row_values
from pgwire_gateway.spark.row_values import NotEvaluatedError
from pgwire_gateway.wire_types.row_differences import occur
from rewrite.context import ParameterValue, RewriteContext, SessionConstants
from rewrite.dialect.type_mapping import storage_type
from rewrite.pipeline import (
    compile_delete,
    compile_insert_source,
    compile_merge,
    compile_merge_source,
    compile_query,
    compile_update,
    parse_tree,
    relations,
)
from rewrite.results import (
    MergeSource,
    OutputColumn,
    RowChange,
    Selection,
    Source,
    SourcePart,
    SparkQuery,
)
from rewrite.tree import Node
from tests.support.java import JAVA_OPTIONS

UTC = dt.UTC
# Loses track of columns when a projection over a union holds a subquery.
BROKEN_RULE = "org.apache.spark.sql.catalyst.optimizer.PushProjectionThroughUnion"
EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - storage timestamps are naive

# How a column is fetched so that its storage representation follows by a plain conversion.
_FETCH = {
    1700: "{}::text",
    114: "{}::text",
    3802: "{}::text",
    1082: "({} - date '1970-01-01')",
    1114: "(extract(epoch from {})*1000000)::bigint",
    1184: "(extract(epoch from {})*1000000)::bigint",
    1083: "(extract(epoch from {})*1000000)::bigint",
    1186: "array[(extract(year from {0})*12+extract(month from {0}))::int, "
    "extract(day from {0})::int::bigint, "
    "(extract(hour from {0})*3600000000::bigint+extract(minute from {0})*60000000+"
    "extract(microseconds from {0}))::bigint]",
    2950: "{}::text",
    18: "{}::text",
    19: "{}::text",
}


def make_spark() -> SparkSession:
    """Start a small local Spark with the settings the gateway uses."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.ansi.enabled": "true",
        "spark.sql.caseSensitive": "true",
        "spark.sql.decimalOperations.allowPrecisionLoss": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.driver.memory": "1g",
        "spark.ui.retainedJobs": "10",
        "spark.ui.retainedStages": "10",
        "spark.ui.retainedTasks": "100",
        "spark.sql.ui.retainedExecutions": "1",
        "spark.driver.extraJavaOptions": JAVA_OPTIONS,
        "spark.sql.optimizer.excludedRules": BROKEN_RULE,
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.pyspark.plotting.max_rows": "10",
    }
    builder = SparkSession.builder.master("local[1]").appName("rewrite-oracle")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


@dataclass
class Answer:
    """Rows of one execution, every value as PostgreSQL's text (floats as floats)."""

    columns: list[tuple[str, int]]
    rows: list[tuple[object, ...]]


@dataclass
class Oracle:
    """One PostgreSQL database and one Spark session that hold the same tables."""

    connection: psycopg.Connection
    spark: SparkSession
    registered: set[str] = field(default_factory=set)
    parts: dict[int, dict[SourcePart, str]] = field(default_factory=dict)
    """Tables whose journal a test lays out itself: part → SQL for its row versions."""
    snapshots: dict[int, TableSnapshot] = field(default_factory=dict)
    journals: dict[int, int] = field(default_factory=dict)
    selections: int = 0
    """How many queries have been evaluated without Spark, too."""

    def execute(self, sql: str) -> None:
        """Run statements on PostgreSQL; what Spark holds is copied again afterwards."""
        self.connection.execute(sql)
        for view in self.registered:
            self.spark.catalog.dropGlobalTempView(view.removeprefix("global_temp."))
        self.registered.clear()
        self.snapshots.clear()

    # -- definitions -------------------------------------------------------------------------------

    def relid(self, name: str) -> int:
        """Return the OID of a table."""
        return self.connection.execute("select %s::regclass::oid", [name]).fetchone()[0]

    def snapshot(self, relid: int) -> TableSnapshot | None:
        """Return a snapshot of an ordinary table: one base segment; None for other relations."""
        if relid not in self.snapshots:
            found = self._snapshot(relid)
            if found is None:
                return None
            self.snapshots[relid] = found
        return self.snapshots[relid]

    def _snapshot(self, relid: int) -> TableSnapshot | None:
        row = self.connection.execute(
            "select c.relname, n.nspname from pg_class c "
            "join pg_namespace n on n.oid = relnamespace "
            "where c.oid = %s and relkind = 'r'",
            [relid],
        ).fetchone()
        if row is None or row[1] == "pg_catalog":
            return None
        attributes = self.connection.execute(
            "select attnum, attname, atttypid, atttypmod, attnotnull from pg_attribute "
            "where attrelid = %s and attnum > 0 and not attisdropped order by attnum",
            [relid],
        ).fetchall()
        key = self.connection.execute(
            "select conkey from pg_constraint where conrelid = %s and contype = 'p'", [relid]
        ).fetchone()
        columns = tuple(Column(*attribute, storage_name=attribute[1]) for attribute in attributes)
        table = JournalTable(
            relid=relid,
            schema=row[1],
            name=row[0],
            columns=columns,
            key=tuple(key[0]) if key else (),
            key_name=f"{row[0]}_pkey" if key else None,
            definition_version=1,
            location=f"1/{relid}",
        )
        segments = []
        tail_rows = 0
        for part, sql in self.parts.get(
            relid, {SourcePart.BASE: f"table {row[1]}.{row[0]}"}
        ).items():
            count = self.connection.execute(f"select count(*) from ({sql}) s").fetchone()[0]
            if part is SourcePart.BASE:
                attnums = tuple(column.attnum for column in columns)
                segments.append(
                    Segment(
                        len(segments) + 1, SegmentKind.BASE, f"{relid}", count, 0, attnums, 0, 0
                    )
                )
            else:
                tail_rows = count
        return TableSnapshot(table, f"s{relid}", 1, tuple(segments), tail_rows)

    # -- compilation -------------------------------------------------------------------------------

    def analyse(self, sql: str) -> tuple[str, list[int]]:
        """Return the rewritten tree PostgreSQL reports for a statement, and its parameter types."""
        found: list[str] = []
        self.connection.add_notice_handler(
            handler := lambda notice: (
                found.append(notice.message_detail)
                if notice.message_primary == "rewritten parse tree:"
                else None
            )
        )
        try:
            self.connection.execute("set client_min_messages = log")
            self.connection.execute("set debug_pretty_print = off")
            self.connection.execute("set debug_print_rewritten = on")
            found.clear()
            result = self.connection.pgconn.prepare(b"", sql.encode(), None)
            described = self.connection.pgconn.describe_prepared(b"")
        finally:
            self.connection.remove_notice_handler(handler)
            self.connection.execute("set debug_print_rewritten = off")
            self.connection.execute("set client_min_messages = notice")
        if not found:
            raise AssertionError(result.error_message.decode())
        return found[0], [described.param_type(i) for i in range(described.nparams)]

    def context(
        self, queries: Sequence[Node], parameters: Sequence[ParameterValue] = ()
    ) -> RewriteContext:
        """Return the context of a statement: snapshots of all tables it names."""
        found = {relid: self.snapshot(relid) for relid in relations(queries)}
        found |= {
            table: self.snapshot(table)
            for journal, table in self.journals.items()
            if journal in found
        }
        constants = SessionConstants(
            transaction_timestamp=dt.datetime(2024, 2, 29, 12, 30, 15, 123456, tzinfo=UTC),
            time_zone="UTC",
            current_user="alice",
            session_user="alice",
            current_database="shop",
            current_schema="public",
        )
        return RewriteContext(
            snapshots={
                relid: snapshot for relid, snapshot in found.items() if snapshot is not None
            },
            constants=constants,
            journals=self.journals,
            parameters=tuple(parameters),
        )

    def compile(self, sql: str, values: Sequence[object] = ()) -> SparkQuery:
        """Compile a SELECT against the present contents of the tables."""
        text, types = self.analyse(sql)
        queries = parse_tree(text)
        parameters = [ParameterValue(oid, value) for oid, value in zip(types, values, strict=True)]
        return compile_query(queries[0], self.context(queries, parameters))

    # -- execution ---------------------------------------------------------------------------------

    def register(self, source: Source) -> None:
        """Create the Spark view of a source from the rows PostgreSQL holds."""
        if source.view in self.registered:
            return
        snapshot = self.snapshot(source.relid)
        assert snapshot is not None
        table = snapshot.table
        layout = self.parts.get(source.relid)
        sql = layout[source.part] if layout else f"table {table.schema}.{table.name}"
        fetched = []
        schema = []
        for column in table.columns:
            quoted = '"' + column.name.replace('"', '""') + '"'
            fetched.append(_FETCH.get(column.type_oid, "{}").format(quoted))
            schema.append(f"c{column.attnum} {storage_type(column.type_oid, column.typmod)}")
        if layout:
            fetched += [f"(extract(epoch from {name})*1000000)::bigint" for name in _VERSIONS]
            schema += [f"{name} TIMESTAMP" for name in _VERSIONS]
        if not table.key:
            fetched.append("row_number() over ()" if not layout else "row_identity")
            schema.append("row_identity BIGINT")
        rows = self.connection.execute(f"select {', '.join(fetched)} from ({sql}) s").fetchall()
        frame_schema = ", ".join(schema)
        kinds = [definition.split(" ", 1)[1] for definition in schema]
        data = [
            tuple(_stored(value, kind) for value, kind in zip(row, kinds, strict=True))
            for row in rows
        ]
        # Rows from Python pass through a Python worker in every scan, unless the JVM keeps them.
        frame = self.spark.createDataFrame(data, schema=frame_schema).localCheckpoint()
        frame.createOrReplaceGlobalTempView(source.view.removeprefix("global_temp."))
        self.registered.add(source.view)

    def run(self, query: SparkQuery) -> Answer:
        """Run a compiled query on Spark."""
        for source in query.sources:
            self.register(source)
        table = self.spark.sql(query.sql).toArrow()
        if query.selection is not None:
            selected = self.selected(query.selection)
            if selected is not None:
                assert_selected(selected, table)
                self.selections += 1
        return Answer(
            [(c.name, c.type_oid) for c in query.columns], list(_rows(table, query.columns))
        )

    def selected(self, selection: Selection) -> pa.Table | None:
        """Evaluate a selection on the rows that Spark has, without it; None where it cannot be."""
        base, recent = (
            None if source is None else self.spark.table(source.view).toArrow()
            for source in (selection.base, selection.recent)
        )
        parts = []
        try:
            if recent is not None:
                parts.append(recent.filter(pc.is_null(recent.column(_VERSIONS[1]))))
            if base is not None and recent is not None:
                names = list(selection.identity)
                base = base.filter(pc.invert(occur(base.select(names), recent.select(names))))
            parts += [] if base is None else [base]
            found = [_selected(selection, part) for part in parts]
        except NotEvaluatedError:
            return None
        whole = pa.concat_tables(found)
        return whole.slice(selection.offset, selection.limit)

    def expect(self, sql: str, values: Sequence[object] = ()) -> Answer:
        """Run a statement on PostgreSQL."""
        texts = [None if v is None else _input(v).encode() for v in values]
        result = self.connection.pgconn.exec_params(sql.encode(), texts)
        if result.status not in (psycopg.pq.ExecStatus.TUPLES_OK, psycopg.pq.ExecStatus.COMMAND_OK):
            raise AssertionError(result.error_message.decode())
        columns = [(result.fname(i).decode(), result.ftype(i)) for i in range(result.nfields)]
        rows = [
            tuple(_comparable(result.get_value(r, i), columns[i][1]) for i in range(result.nfields))
            for r in range(result.ntuples)
        ]
        return Answer(columns, rows)

    def check(
        self, sql: str, values: Sequence[object] = (), *, ordered: bool = False
    ) -> SparkQuery:
        """Compare PostgreSQL's answer with that of the compiled statement, which is returned."""
        query = self.compile(sql, values)
        expected = self.expect(sql, values)
        actual = self.run(query)
        assert actual.columns == expected.columns
        assert_rows(actual.rows, expected.rows, ordered=ordered)
        if query.row_bound is not None:
            assert len(actual.rows) <= query.row_bound
        return query

    def compile_change(
        self,
        sql: str,
        values: Sequence[object] = (),
        *,
        with_old: bool = False,
        **options: object,
    ) -> RowChange:
        """Compile an UPDATE or DELETE; options are further fields of the context."""
        text, types = self.analyse(sql)
        queries = parse_tree(text)
        parameters = [ParameterValue(oid, value) for oid, value in zip(types, values, strict=True)]
        context = replace(self.context(queries, parameters), **options)
        command = {2: compile_update, 4: compile_delete}[queries[0].integer("commandType")]
        return command(queries[0], context, with_old=with_old)

    def changed_rows(self, sql: str, **options: object) -> list[dict[str, object]]:
        """Return the rows an UPDATE or DELETE writes, by column name."""
        query = self.compile_change(sql, **options).query
        names = [column.column for column in query.columns]
        return [dict(zip(names, row, strict=True)) for row in self.run(query).rows]

    def check_change(self, sql: str, values: Sequence[object] = (), **options: object) -> RowChange:
        """Compare what an UPDATE or DELETE leaves and returns with PostgreSQL; undo it there."""
        change = self.compile_change(sql, values, **options)
        table = self.snapshot(change.relid).table
        whole = f'table {table.schema}."{table.name}"'
        before = self.expect(whole).rows
        self.connection.execute("begin")
        try:
            returned = self.expect(sql, values).rows
            after = self.expect(whole).rows
        finally:
            self.connection.execute("rollback")
        found = self.run(change.query)
        place = {column.column: i for i, column in enumerate(change.query.columns)}
        attnums = [column.attnum for column in table.columns]
        changed = {}
        for row in found.rows:
            if not table.key:
                changed[row[place["row_identity"]]] = row
            else:
                prefix = "k" if change.changes_key else "n"
                changed[tuple(row[place[f"{prefix}{attno}"]] for attno in table.key)] = row
        assert len(changed) == len(found.rows), "a row occurs twice"
        result = []
        for number, old in enumerate(before, 1):
            key = tuple(old[attnums.index(attno)] for attno in table.key) or str(number)
            new = changed.pop(key, None)
            if new is None:
                result.append(old)
            elif change.kind == "update":
                result.append(tuple(new[place[f"n{attno}"]] for attno in attnums))
        assert not changed
        assert_rows(result, after)
        if change.returning:
            places = [place[column.column] for column in change.returning]
            assert_rows([tuple(row[i] for i in places) for row in found.rows], returned)
        assert change.row_bound is None or len(found.rows) <= change.row_bound
        return change

    def compile_merge(
        self, sql: str, values: Sequence[object] = (), **options: object
    ) -> RowChange:
        """Compile a MERGE; options are further fields of the context."""
        text, types = self.analyse(sql)
        queries = parse_tree(text)
        parameters = [ParameterValue(oid, value) for oid, value in zip(types, values, strict=True)]
        return compile_merge(queries[0], replace(self.context(queries, parameters), **options))

    def compile_merge_source(self, sql: str) -> MergeSource | None:
        """Compile the source of a MERGE alone."""
        queries = parse_tree(self.analyse(sql)[0])
        return compile_merge_source(queries[0], self.context(queries, []))

    def check_merge(self, sql: str, values: Sequence[object] = (), **options: object) -> RowChange:
        """Compare what a MERGE leaves and returns with PostgreSQL; undo it there."""
        change = self.compile_merge(sql, values, **options)
        table = self.snapshot(change.relid).table
        whole = f'table {table.schema}."{table.name}"'
        before = self.expect(whole).rows
        self.connection.execute("begin")
        try:
            returned = self.expect(sql, values).rows
            after = self.expect(whole).rows
        finally:
            self.connection.execute("rollback")
        found = self.run(change.query).rows
        place = {column.column: i for i, column in enumerate(change.query.columns)}
        assert {row[place["conflict"]] for row in found} <= {"0"}
        attnums = [column.attnum for column in table.columns]
        identity = [f"n{attno}" for attno in table.key] or ["row_identity"]
        rows = {
            tuple(row[attnums.index(attno)] for attno in table.key) or (str(number),): row
            for number, row in enumerate(before, 1)
        }
        # Of rows that move, those that go come first: then what comes meets none of them.
        for number, row in enumerate(
            sorted(found, key=lambda row: row[place["action"]] == _INSERTED)
        ):
            if not table.key and row[place["action"]] == _INSERTED:
                assert row[place["row_identity"]] is None
                rows[("new", str(number))] = tuple(row[place[f"n{attno}"]] for attno in attnums)
                continue
            key = tuple(row[place[name]] for name in identity)
            assert (key in rows) is (row[place["action"]] != _INSERTED)
            rows[key] = tuple(row[place[f"n{attno}"]] for attno in attnums)
            if row[place["action"]] == _DELETED:
                del rows[key]
        assert_rows(list(rows.values()), after)
        if change.returning:
            places = [place[column.column] for column in change.returning]
            told = [row for row in found if not ("moved" in place and _comes(row, place))]
            assert_rows([tuple(row[i] for i in places) for row in told], returned)
        return change

    def conflicts(self, sql: str, **options: object) -> list[str]:
        """Return the conflicts that the rows of a MERGE are in."""
        query = self.compile_merge(sql, **options).query
        place = [column.column for column in query.columns].index("conflict")
        return sorted(row[place] for row in self.run(query).rows)

    def check_insert(self, sql: str, values: Sequence[object] = ()) -> SparkQuery:
        """Compare the rows an INSERT adds with those of its compiled source; undo it."""
        text, types = self.analyse(sql)
        queries = parse_tree(text)
        parameters = [ParameterValue(oid, value) for oid, value in zip(types, values, strict=True)]
        query = compile_insert_source(queries[0], self.context(queries, parameters))
        relid = (
            queries[0].nodes("rtable")[queries[0].integer("resultRelation") - 1].integer("relid")
        )
        table = self.snapshot(relid).table
        names = ", ".join(f'"{column.name}"' for column in query.columns)
        selected = f'select {names} from {table.schema}."{table.name}"'
        self.connection.execute("begin")
        try:
            before = self.expect(selected).rows
            self.expect(sql, values)
            after = self.expect(selected).rows
        finally:
            self.connection.execute("rollback")
        assert_rows(before + self.run(query).rows, after)
        return query


_INSERTED, _DELETED = "3", "4"
"""Texts of Commands."""

_VERSIONS = ("version_number", "subsequent_version_number")


def assert_rows(
    actual: list[tuple[object, ...]], expected: list[tuple[object, ...]], *, ordered: bool = False
) -> None:
    """Compare rows, as a multiset unless ``ordered``; floats up to the last digits."""
    if not ordered:
        actual = sorted(actual, key=_sortable)
        expected = sorted(expected, key=_sortable)
    assert len(actual) == len(expected), f"{actual[:20]} != {expected[:20]}"
    for one, other in zip(actual, expected, strict=True):
        assert all(_equal(a, b) for a, b in zip(one, other, strict=True)), f"{one} != {other}"


def assert_selected(selected: pa.Table, expected: pa.Table) -> None:
    """Compare what has been evaluated without Spark with Spark's rows: types, and all values."""
    assert selected.schema.names == expected.schema.names
    for one, other in zip(selected.schema.types, expected.schema.types, strict=True):
        assert one == other or {str(one), str(other)} <= {"string", "large_string"}, (one, other)
    texts = [sorted(map(repr, table.to_pylist())) for table in (selected, expected)]
    assert texts[0] == texts[1]


def _selected(selection: Selection, rows: pa.Table) -> pa.Table:
    if selection.condition is not None:
        places = row_values.true_places(selection.condition, rows)
        rows = rows if places is None else rows.take(places)
    return pa.Table.from_batches([row_values.columns(selection.columns, rows.combine_chunks())])


def _equal(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return (
            one == other
            or (math.isnan(one) and math.isnan(other))
            or math.isclose(one, other, rel_tol=1e-11)
        )
    return type(one) is type(other) and one == other


def _sortable(row: tuple[object, ...]) -> list[tuple[int, str]]:
    return [
        (value is None, f"{value:.9g}" if isinstance(value, float) else str(value)) for value in row
    ]


def _comparable(value: bytes | None, type_oid: int) -> object:
    if value is None:
        return None
    text = value.decode()
    return float(text) if type_oid in (700, 701) else text


def _input(value: object) -> str:
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, bytes):
        return "\\x" + value.hex()
    if isinstance(value, list):
        return "{" + ",".join("NULL" if v is None else '"' + _input(v) + '"' for v in value) + "}"
    if isinstance(value, tuple):
        return "{} mons {} days {} microseconds".format(*value)
    return str(value)


def _stored(value: object, kind: str) -> object:  # noqa: PLR0911 - one line per type
    if value is None:
        return None
    if kind.startswith("ARRAY<"):
        return [_stored(element, kind[6:-1]) for element in value]
    if kind.startswith("STRUCT"):
        return None if None in value else tuple(int(part) for part in value)
    if kind.startswith("DECIMAL"):
        return decimal.Decimal(value)
    if kind == "TIMESTAMP":
        return (EPOCH + dt.timedelta(microseconds=value)).replace(tzinfo=UTC)
    if kind == "TIMESTAMP_NTZ":
        return EPOCH + dt.timedelta(microseconds=value)
    if kind == "DATE":
        return value if isinstance(value, dt.date) else EPOCH.date() + dt.timedelta(days=value)
    if kind == "BINARY":
        return bytearray(value)
    return value if not isinstance(value, dt.time | dt.timedelta) else str(value)


def _rows(table: pa.Table, columns: Sequence[OutputColumn]) -> Iterator[tuple[object, ...]]:
    names = [column.column for column in columns]
    values: Mapping[str, list[object]] = table.to_pydict()
    for index in range(table.num_rows):
        row = []
        for column, name in zip(columns, names, strict=True):
            value = values[name][index]
            resolved = column
            if isinstance(column.scale, str) and value is not None:
                resolved = replace(column, scale=values[column.scale][index])
            row.append(_output(value, resolved.type_oid, resolved.scale))
        yield tuple(row)


_ARRAYS = dict(
    (
        *((1000, 16), (1001, 17), (1005, 21), (1007, 23), (1009, 25), (1014, 1042), (1015, 1043)),
        *((1016, 20), (1021, 700), (1022, 701), (1115, 1114), (1182, 1082), (1183, 1083)),
        *((1185, 1184), (1187, 1186), (1231, 1700), (2951, 2950)),
    )
)


def _output(  # noqa: PLR0911 - one line per type
    value: object, type_oid: int, scale: int | str | None = None
) -> object:
    """Return PostgreSQL's text of a value Spark returned."""
    if value is None:
        return None
    if type_oid in _ARRAYS:
        return (
            "{" + ",".join(_element(element, _ARRAYS[type_oid], scale) for element in value) + "}"
        )
    if type_oid == 1700 and isinstance(scale, int):
        return f"{value:.{scale}f}"
    if type_oid in (700, 701):
        return float(value)
    if type_oid == 16:
        return "t" if value else "f"
    if type_oid == 17:
        return "\\x" + value.hex()
    if type_oid in (1114, 1184):
        text = value.strftime("%Y-%m-%d %H:%M:%S")
        text += f".{value.microsecond:06}".rstrip("0") if value.microsecond else ""
        return text + ("+00" if type_oid == 1184 else "")
    if type_oid == 1083:
        seconds, micros = divmod(value, 1_000_000)
        text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        return text + (f".{micros:06}".rstrip("0") if micros else "")
    if type_oid == 1186:
        return _interval(value["months"], value["days"], value["microseconds"])
    return str(value)


def _element(value: object, type_oid: int, scale: int | str | None) -> str:
    if value is None:
        return "NULL"
    text = _output(value, type_oid, scale)
    if isinstance(text, float):
        return f"{text:g}"
    if not text or text.upper() == "NULL" or any(c in '{},"\\ \t\n' for c in text):
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return text


def _interval(months: int, days: int, micros: int) -> str:
    parts = []
    negative = False
    for amount, unit in ((int(months / 12), "year"), (math.fmod(months, 12), "mon"), (days, "day")):
        if amount:
            sign = "+" if negative and amount > 0 else ""
            parts.append(f"{sign}{int(amount)} {unit}{'' if amount == 1 else 's'}")
            negative = amount < 0
    if micros or not parts:
        rest = abs(micros)
        sign = "-" if micros < 0 else ("+" if negative else "")
        hours, minutes = rest // 3_600_000_000, rest // 60_000_000 % 60
        text = f"{sign}{hours:02}:{minutes:02}:{rest // 1_000_000 % 60:02}"
        parts.append(text + (f".{rest % 1_000_000:06}".rstrip("0") if rest % 1_000_000 else ""))
    return " ".join(parts)


@contextmanager
def database(uri: str, name: str = "oracle") -> Iterator[psycopg.Connection]:
    """Yield a connection to a new, empty database with PostgreSQL's own byte order of text."""
    with psycopg.connect(uri, autocommit=True) as admin:
        admin.execute(f"drop database if exists {name} with (force)")
        admin.execute(
            f"create database {name} template template0 locale_provider builtin "
            "builtin_locale 'C.UTF-8' encoding 'UTF8'"
        )
    with psycopg.connect(uri, autocommit=True, dbname=name) as connection:
        connection.execute("set timezone = 'UTC'")
        connection.prepare_threshold = None
        yield connection


def _comes(row: tuple, place: dict[str, int]) -> bool:
    """Return whether a row of a MERGE is what has become of one that moves."""
    return row[place["moved"]] in {"t", "true"} and row[place["action"]] == _INSERTED
