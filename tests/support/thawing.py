"""Runs statements on full tables and on hot rows alone, and compares all that can be seen.

Every table exists in three schemas. ``whole`` holds all rows and is where PostgreSQL says what is
right. ``hot`` holds the rows that happen to be hot, and those that the rule asks for: a statement
runs there unchanged. ``cold`` holds all rows and is what is searched, as a journal would be: by
keys where a need names them, else by its conditions. What was found by a condition is remembered,
and stands for what the same condition asks for later.

Of a queue the first rows are made hot, and more when a statement has got beyond them. Values that
are kept afterwards are looked for among all rows then.

Of some tables all rows are hot. They are looked at before anything is searched, where the rule
takes them for sources of keys.
"""

import random
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import psycopg
from psycopg.pq import ExecStatus

from rewrite.key_types import ValueType
from rewrite.needs import search
from rewrite.needs.keys import Contents, Key, named
from rewrite.needs.results import Fixed, Image, Need, Needs, Refusal
from rewrite.needs.sources import Source, places, sources
from rewrite.needs.statement import needs
from rewrite.tree import Node, walk
from tests.support import queues
from tests.support.expression_text import ExpressionText, names_in
from tests.support.outcomes import Comparison, Outcome, Row, Verdict
from tests.support.shared_values import cold_holders, looked_for_afterwards
from tests.support.table_definitions import Analyst, definitions

Rows = Mapping[str, Sequence[Row]]

CLIENT = "thawing_client"
"""A role that policies are for."""
HOT_SHARE = 0.2
"""How many rows are hot before anything is thawed."""
UNIQUE_VIOLATION = "23505"
_RUNS = 12
_PLANNERS = (
    "select 1",
    "set local enable_hashjoin = off; set local enable_mergejoin = off",
    "set local enable_nestloop = off; set local enable_mergejoin = off",
    "set local enable_nestloop = off; set local enable_hashjoin = off",
    "set local enable_seqscan = off; set local enable_hashagg = off",
    "set local enable_indexscan = off; set local enable_bitmapscan = off",
)
"""Settings under which the same statement may come across rows in another order."""
_LOCK = """case when xmax = pg_current_xact_id_if_assigned()::xid then 'l'
 when xmax = '0'::xid and xmin is distinct from pg_current_xact_id_if_assigned()::xid then 'u'
 else 'w' end"""
_LOCKS = "luw"
_ORDERS = 20
"""In how many orders the rows are met under each of them, before an answer is taken for the one."""


@dataclass
class Thawing:
    """The three schemas of one database."""

    uri: str
    random_source: random.Random
    tables: tuple[str, ...] = ()
    full: dict[str, Counter[Row]] = field(default_factory=dict)

    reused: int = 0
    """How often what a condition asks for was remembered."""

    def __post_init__(self) -> None:
        self.readable: frozenset[str] = frozenset()
        self._role = "none"
        self._begun: list[queues.Begun] = []
        self._told = False
        self._contents_of_sources: Contents = {}
        self._remembered: dict[tuple[int, bytes], Counter[Row]] = {}
        self.connection = psycopg.connect(self.uri, autocommit=True)
        known = self.connection.execute("select from pg_roles where rolname = %s", [CLIENT])
        if known.fetchone() is None:
            self.connection.execute(f"create role {CLIENT}")
        self._analyst = Analyst(self.uri)
        self._text = ExpressionText(names_in(self.connection))
        for setting in ("client_min_messages = error", "synchronous_commit = off", "jit = off"):
            self.connection.execute(f"set {setting}")

    def close(self) -> None:
        """Close the connections."""
        self.connection.close()
        self._analyst.connection.close()

    # -- set-up ------------------------------------------------------------------------------------

    def define(
        self,
        tables: Mapping[str, str],
        others: Sequence[str],
        readable: Collection[str] = (),
        *,
        kept_afterwards: bool = False,
        has_policies: bool = False,
    ) -> None:
        """Create tables, given by the columns and constraints of each, then views and the like.

        Args:
            tables: The body of each.
            others: What is created after them.
            readable: Tables that are no journals: all their rows are hot. Their triggers touch
                nothing but them.
            kept_afterwards: Whether unique keys, but the primary ones, are looked at when a
                statement has run.
            has_policies: Whether statements are those of a role that policies are for.
        """
        self._act_as("none")
        for schema in ("whole", "hot", "cold"):
            statements = [f"drop schema if exists {schema} cascade", f"create schema {schema}"]
            statements.append(f"set search_path = {schema}")
            if schema == "cold":
                statements += [
                    f"create table {name} as select * from whole.{name}" for name in tables
                ]
            else:
                # Nor does PostgreSQL come to know in the middle how few rows there are: the same
                # plans meet rows in the same order on few rows as on all.
                statements += [
                    f"create table {name} ({body}) with (autovacuum_enabled = false)"
                    for name, body in tables.items()
                ]
                statements += ["create sequence clock", "select nextval('clock')"]
                statements += [one.replace("%s", schema) for one in others]
            self._do("; ".join(statements))
        self._do("reset search_path")
        self.tables = tuple(tables)
        self.readable = frozenset(readable)
        self._analyst.search_path("hot")
        found = definitions(self.connection, "hot", set(tables) - self.readable)
        if kept_afterwards:
            keyed = self.connection.execute(
                "select indrelid::int8 from pg_index where indisprimary"
            ).fetchall()
            found = looked_for_afterwards(found, frozenset(relid for (relid,) in keyed))
        if has_policies:
            self._act_as(CLIENT)
        known = found.relations.keys() - found.tiered
        relations = found.relations | {
            relid: replace(found.relation(relid), code=None) for relid in known
        }
        self.definitions = replace(found, relations=relations, readable=frozenset(known))
        columns = self.connection.execute(
            "select attrelid::int8, attnum::int4, attname, atttypid::int8, atttypmod"
            " from pg_attribute where attnum > 0 and attrelid = any (%s) order by attnum",
            [list(self.definitions.relations)],
        ).fetchall()
        self._columns: dict[int, dict[int, str]] = {}
        self._types: dict[int, dict[int, ValueType]] = {}
        for relid, attnum, name, type_oid, typmod in columns:
            self._columns.setdefault(relid, {})[attnum] = name
            self._types.setdefault(relid, {})[attnum] = type_oid, typmod
        self._templates: dict[int, Node] = {}
        self._names: dict[int, str] = dict(
            self.connection.execute(
                "select oid::int8, relname from pg_class where oid = any (%s)",
                [list(self._columns)],
            ).fetchall()
        )

    def _act_as(self, role: str) -> None:
        """Let a role run the statements."""
        self._role = role
        self._analyst.connection.execute(f"set role {role}")

    def fill(self, rows: Rows) -> None:
        """Replace the rows of all tables, without those that a constraint refuses."""
        script = ["begin; set local search_path = whole", *self._emptied()]
        self._do("; ".join([*script, "commit"]))
        for table, values in rows.items():
            for row in values:
                self._send(f"insert into whole.{table} values {_values([row])}")
        self.full = self._contents("whole")[0]
        self._fill("cold", self.full)
        self._remembered.clear()

    def _emptied(self) -> list[str]:
        return ["set local session_replication_role = replica"] + [
            f"delete from {table}" for table in self.tables
        ]

    def _fill(
        self, schema: str, rows: Mapping[str, Counter[Row]], *, shuffled: bool = False
    ) -> None:
        """Put rows into the tables of a schema, with triggers and foreign keys silent."""
        script = [f"begin; set local search_path = {schema}", *self._emptied()]
        for table, counted in rows.items():
            values = list(counted.elements())
            if shuffled:
                self.random_source.shuffle(values)
            if values:
                script.append(f"insert into {table} values {_values(values)}")
        self._do("; ".join([*script, "commit"]))

    # -- comparison --------------------------------------------------------------------------------

    def queries(self, sql: str) -> tuple[Node, ...]:
        """Return the tree of a statement."""
        return self._analyst.queries(sql)

    def check(self, sql: str) -> Comparison:
        """Run a statement on the full tables and on the rows the rule asks for."""
        try:
            return self.compare(sql, needs(self.queries(sql), self.definitions))
        except Refusal as refusal:
            return Comparison(sql, Verdict.REFUSED, str(refusal))

    def compare(self, sql: str, wanted: Needs) -> Comparison:
        """Run a statement on the full tables and on some rows."""
        hot = {
            table: rows if table in self.readable else self._some(rows)
            for table, rows in self.full.items()
        }
        self._told = False
        self._contents_of_sources = self._looked_at(wanted, hot)
        self._add(hot, self._searched(wanted))
        found, runs = self._run_hot(sql, wanted, hot)
        return replace(self._compared(sql, wanted, hot, found, runs), told=self._told)

    def _compared(
        self, sql: str, wanted: Needs, hot: Mapping[str, Counter[Row]], found: Outcome, runs: int
    ) -> Comparison:
        expected = self._run("whole", sql)
        if found.failed and wanted.recorded:
            return Comparison(sql, Verdict.UNDECIDED, found.tag, runs, expected, found)
        late = bool(found.failed and expected.failed and wanted.written)
        if found == expected or late:
            verdict = Verdict.WHOLE if wanted.whole else Verdict.SAME
            reason = "failed" if found.failed else ""
            return Comparison(sql, verdict, reason, runs)
        verdict = Verdict.AMBIGUOUS if self._varies(sql, expected, hot) else Verdict.MISMATCH
        return Comparison(sql, verdict, "", runs, expected, found)

    def _some(self, rows: Counter[Row]) -> Counter[Row]:
        return Counter(row for row in rows.elements() if self.random_source.random() < HOT_SHARE)

    def _add(self, hot: dict[str, Counter[Row]], found: Mapping[str, Counter[Row]]) -> bool:
        """Add rows to the hot ones that are not yet hot; return whether there were any."""
        added = False
        for table, rows in found.items():
            merged = hot[table] | rows
            added = added or merged != hot[table]
            hot[table] = merged
        return added

    def _searched(self, wanted: Needs) -> dict[str, Counter[Row]]:
        # What volatile functions said when the rows were searched they do not say again.
        self._send("begin; select setval('hot.clock', 2); select setval('whole.clock', 2)")
        self._send("set local search_path = hot")
        self._begun = []
        found: dict[str, Counter[Row]] = {}
        for occurrence in wanted.occurrences:
            table = self._names[occurrence.relid]
            for need in occurrence.needs:
                rows = self._asked(occurrence.relid, need)
                found[table] = found.get(table, Counter()) | rows
        self._send("rollback")
        return found

    def _asked(self, relid: int, need: Need) -> Counter[Row]:
        """Return the rows of a need, searched as the gateway does."""
        for key in self._keys(relid):
            known = self._named(relid, need, key)
            if known is not None:
                return self._found(relid, self._among(relid, key, known))
        condition = self._condition(relid, need) if need.conditions else "true"
        if need.queue is not None:
            names = self._columns[relid]
            order = queues.order(need, self._text, lambda attnum: f"t.{names[attnum]}")
            rows = list(self._found(relid, condition + order).elements())
            self._begun.append(queues.Begun(self._names[relid], rows))
            return self._begun[-1].first
        if need.enough is not None:
            (most,) = self._one(f"select {self._text.expression(need.enough, str)}::int")
            found = list(self._found(relid, condition).elements())
            return Counter(self.random_source.sample(found, min(int(most or 0), len(found))))
        if not need.conditions:
            parts = [self._fixed(relid, fixed) for fixed in need.fixed]
            return self._found(relid, " and ".join(parts) or "true")
        asked = search.condition(need, self.definitions.volatility)
        place = (relid, asked.digest)
        if place not in self._remembered:
            self._remembered[place] = self._found(relid, self._condition(relid, need))
        else:
            self.reused += 1
        return self._remembered[place]

    def _keys(self, relid: int) -> list[tuple[int, ...]]:
        """Return the columns of each unique key, those of the primary one first."""
        return [key.columns for key in self.definitions.relation(relid).unique if not key.irregular]

    def _looked_at(self, wanted: Needs, hot: Mapping[str, Counter[Row]]) -> Contents:
        """Return what sources hold before anything is searched, as far as it is asked for."""
        asked: set[Source] = set()
        for occurrence in wanted.occurrences:
            asked |= sources(occurrence.needs, self._keys(occurrence.relid))
            for fixed in (fixed for need in occurrence.needs for fixed in need.fixed):
                asked |= sources([Need(fixed=(fixed,))], [fixed.columns])
        return {
            source: [
                tuple(row[n - 1] for n in source.columns)
                for row in hot[self._names[source.relid]].elements()
            ]
            for source in asked
        }

    def _named(self, relid: int, need: Need, columns: tuple[int, ...]) -> frozenset[Key] | None:
        """Return the values that some columns have in all rows of a need; None if not known."""
        types, contents = self._types[relid], self._contents_of_sources
        found = named(need, columns, types, (), most=1_000, contents=contents)
        if found is not None:
            self._told = self._told or bool(sources([need], [columns]))
        return found

    def _among(self, relid: int, columns: tuple[int, ...], values: Collection[Key]) -> str:
        names = ", ".join(f"t.{self._columns[relid][attnum]}" for attnum in columns)
        listed = ", ".join(f"({', '.join(map(str, value))})" for value in values)
        return f"({names}) in ({listed})" if listed else "false"

    def _fixed(self, relid: int, fixed: Fixed) -> str:
        if not any(places(row) for row in fixed.rows):
            names = self._columns[relid]
            return self._text.fixed(fixed, lambda attnum: f"t.{names[attnum]}")
        known = self._named(relid, Need(fixed=(fixed,)), fixed.columns)
        return "true" if known is None else self._among(relid, fixed.columns, known)

    def _condition(self, relid: int, need: Need) -> str:
        if relid not in self._templates:
            (self._templates[relid],) = self.queries(f"select * from only {self._names[relid]}")
        query = search.search(self._templates[relid], need)
        quals = query.node("jointree").node("quals")
        assert all(node["varno"] == 1 for node, _ in walk(quals) if node.tag == "VAR")
        names = self._columns[relid]
        return self._text.expression(quals, lambda attnum: f"t.{names[attnum]}")

    def _found(self, relid: int, condition: str) -> Counter[Row]:
        result = self._send(f"select t.* from cold.{self._names[relid]} t where {condition}")
        assert result.status == ExecStatus.TUPLES_OK, result.error_message
        return Counter(_row(row) for row in self._rows(result))

    def _one(self, sql: str) -> tuple[str | None, ...]:
        (row,) = self._rows(self._send(sql))
        return row

    def _run_hot(
        self, sql: str, wanted: Needs, hot: dict[str, Counter[Row]]
    ) -> tuple[Outcome, int]:
        """Run on hot rows, again whenever recorded keys turn out to be those of cold rows."""
        for runs in range(1, _RUNS + 1):
            self._fill("hot", hot)
            found = self._run("hot", sql)
            if found.failed:
                # What it locked tells how far it got all the same.
                *_, untouched = self._contents("hot") if self._begun else [{}]
                if not self._add(hot, self._behind(hot, untouched)):
                    return found, runs
                continue
            met = self._met(wanted, hot, found.tables)
            late = self._late(wanted, hot, found.tables)
            if late and not wanted.arbitrates:
                return Outcome(UNIQUE_VIOLATION, True, Counter(), {}), runs
            behind = self._behind(hot, found.untouched)
            added = [self._add(hot, some) for some in (met, late, behind)]
            if not any(added):
                break
        else:
            raise AssertionError(f"{sql}: keys are met without end")
        tables = {t: found.tables[t] + (rows - hot[t]) for t, rows in self.full.items()}
        return replace(found, tables=tables), runs

    def _behind(
        self, hot: Mapping[str, Counter[Row]], untouched: Mapping[str, Counter[Row]]
    ) -> dict[str, Counter[Row]]:
        """Return the rows of queues that a statement may have got to."""
        more: dict[str, Counter[Row]] = {}
        for one in self._begun:
            rows = one.more(hot[one.table], untouched[one.table])
            more[one.table] = more.get(one.table, Counter()) | rows
        return {table: rows for table, rows in more.items() if rows}

    def _late(
        self, wanted: Needs, before: Mapping[str, Counter[Row]], after: Mapping[str, Counter[Row]]
    ) -> dict[str, Counter[Row]]:
        """Return the cold rows that share a value which was written and is kept afterwards."""
        found: dict[str, Counter[Row]] = {}
        for table in {self._names[relid] for relid, _ in wanted.written}:
            cold = self.full[table] - before[table]
            found[table] = cold_holders(self.connection, f"whole.{table}", after[table], cold)
        return {table: rows for table, rows in found.items() if rows}

    def _met(
        self, wanted: Needs, before: Mapping[str, Counter[Row]], after: Mapping[str, Counter[Row]]
    ) -> dict[str, Counter[Row]]:
        """Return the cold rows whose keys are those of row versions that were written."""
        met: dict[str, Counter[Row]] = {}
        for recorded in wanted.recorded:
            written, searched = self._names[recorded.written], self._names[recorded.searched]
            new = recorded.image is Image.NEW
            gone, come = (before, after) if new else (after, before)
            images = come[written] - gone[written]
            keys = {tuple(row[c - 1] for c in recorded.columns) for row in images}
            cold = self.full[searched] - before[searched]
            for row, count in cold.items():
                key = tuple(row[c - 1] for c in recorded.keys)
                if None not in key and key in keys:
                    met.setdefault(searched, Counter())[row] = before[searched][row] + count
        return met

    def _varies(self, sql: str, expected: Outcome, hot: Mapping[str, Counter[Row]]) -> bool:
        """Whether the full tables give other answers when rows are met in another order.

        The first order tried is that in which the statement met them on hot rows.
        """
        ahead = {table: hot[table] + (rows - hot[table]) for table, rows in self.full.items()}
        try:
            self._fill("whole", ahead)
            if any(self._run("whole", sql, planner) != expected for planner in _PLANNERS):
                return True
            for planner in _PLANNERS * _ORDERS:
                self._fill("whole", self.full, shuffled=True)
                if self._run("whole", sql, planner) != expected:
                    return True
            return False
        finally:
            self._fill("whole", self.full)

    def _run(self, schema: str, sql: str, settings: str = "select 1") -> Outcome:
        path = f"set local search_path = {schema}"
        self._do(f"begin; {path}; select setval('clock', 5); {settings}; set role {self._role}")
        try:
            result = self.connection.pgconn.exec_(sql.encode())
            if result.status in {ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK}:
                late = self.connection.pgconn.exec_(b"set constraints all immediate")
                if late.status == ExecStatus.COMMAND_OK:
                    self._do("reset role")
                    tag = (result.command_status or b"").decode()
                    tables, locked, untouched = self._contents(schema)
                    locked = locked if queues.locks_are_told(sql) else {}
                    rows = Counter(self._rows(result))
                    return Outcome(tag, False, rows, tables, locked, untouched)
                result = late
            state = result.error_field(psycopg.pq.DiagnosticField.SQLSTATE) or b""
            return Outcome(state.decode(), True, Counter(), {})
        finally:
            self._do("rollback")

    def _contents(self, schema: str) -> tuple[dict[str, Counter[Row]], ...]:
        """Return the rows of each table; those that are locked; and those not even that."""
        found: tuple[dict[str, Counter[Row]], ...] = ({}, {}, {})
        for table in self.tables:
            rows = self._rows(self._send(f"select {_LOCK}, t.* from {schema}.{table} t"))
            for number, locks in enumerate((_LOCKS, "l", "u")):
                found[number][table] = Counter(_row(row[1:]) for row in rows if row[0] in locks)
        return found

    @staticmethod
    def _rows(result: psycopg.pq.abc.PGresult) -> list[tuple[str | None, ...]]:
        return [
            tuple(
                None if (value := result.get_value(r, c)) is None else value.decode()
                for c in range(result.nfields)
            )
            for r in range(result.ntuples)
        ]

    def _send(self, sql: str) -> psycopg.pq.abc.PGresult:
        return self.connection.pgconn.exec_(sql.encode())

    def _do(self, sql: str) -> None:
        result = self._send(sql)
        if result.status == ExecStatus.FATAL_ERROR:
            raise AssertionError(f"{sql}: {result.error_message.decode()}")


def _row(values: tuple[str | None, ...]) -> Row:
    return tuple(None if value is None else int(value) for value in values)


def _values(rows: Sequence[Row]) -> str:
    return ", ".join(
        "(" + ", ".join("null" if value is None else str(value) for value in row) + ")"
        for row in rows
    )
