"""Taking commits back, and going back to one: what was before is written anew, nothing is erased.

The row versions of a commit tell the rows it has changed, and the journal what these were before.
That is kept in a temporary table, and merged into the table by the client's own rights, so that
constraints, triggers and capture see a statement like any other. The commit that results can be
taken back as well.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Final

import pyarrow as pa

from catalog.errors import GatewayError
from catalog.journal.layout import RESERVED, VERSION, column_name
from catalog.journal.order import is_tombstone, order_of, order_of_whole
from catalog.model import Column, JournalTable
from catalog.pg import sqlstate as codes
from catalog.session import names, residency
from catalog.statements.splitting import RelationName
from catalog.upkeep import commits
from catalog.upkeep.commits import CommittedVersions
from pgwire_gateway.dml import inserts
from pgwire_gateway.rows import former_rows
from pgwire_gateway.session import local_queries
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.observer import Observer
from pgwire_gateway.session.portals import StatementResult
from pgwire_gateway.wire_types.row_encoder import ResultColumn
from pgwire_gateway.wire_types.type_oids import BOOL
from rewrite.errors import UnsupportedError

Run = Callable[[str], StatementResult]
"""Runs a statement in the client's session, by whichever road."""

MOST_VERSIONS: Final = 10_000
"""Of how many statements the rows are looked for at once."""

_NUMBERS: Final = count(1)
_FIRST_OF_USERS: Final = 16_384
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_OBSTACLE: Final = """
SELECT o.reason FROM pg_catalog.pg_class c CROSS JOIN LATERAL (VALUES
    (1, 'row security', pg_catalog.row_security_active(c.oid)),
    (2, 'triggers', EXISTS (SELECT FROM pg_catalog.pg_trigger g
                             WHERE g.tgrelid = c.oid AND NOT g.tgisinternal)),
    (3, 'rules', c.relhasrules),
    (4, 'partitions or INHERITS', EXISTS (SELECT FROM pg_catalog.pg_inherits i
                                           WHERE i.inhrelid = c.oid OR i.inhparent = c.oid)),
    (5, 'identity columns GENERATED ALWAYS', EXISTS (SELECT FROM pg_catalog.pg_attribute a
        WHERE a.attrelid = c.oid AND a.attidentity = 'a' AND NOT a.attisdropped)),
    (6, 'foreign keys with actions that reference it', EXISTS (
        SELECT FROM pg_catalog.pg_constraint x WHERE x.contype = 'f' AND x.confrelid = c.oid
           AND (x.confdeltype IN ('c', 'n', 'd') OR x.confupdtype IN ('c', 'n', 'd'))))
) o(place, reason, is_there) WHERE c.oid = $1 AND o.is_there ORDER BY o.place LIMIT 1
"""
_UNIQUE: Final = """
SELECT i.indkey, i.indexprs IS NULL AND i.indpred IS NULL AND i.indisunique AS has_columns_alone,
       EXISTS (SELECT FROM pg_catalog.pg_constraint x
                WHERE x.contype = 'f' AND x.confrelid = i.indrelid) AS is_referenced
  FROM pg_catalog.pg_index i
 WHERE i.indrelid = $1 AND (i.indisunique OR i.indisexclusion) AND NOT i.indisprimary
"""
_NOT_GIVEN_BACK: Final = (
    "Unique values that have passed from row to row are given back in tables alone"
    " that no foreign key references."
)
_OWN_WRITES: Final = "SELECT 1 WHERE pg_catalog.pg_current_xact_id_if_assigned() IS NOT NULL"
_REFERENCES: Final = """
SELECT x.conrelid::pg_catalog.text, x.confrelid::pg_catalog.text FROM pg_catalog.pg_constraint x
 WHERE x.contype = 'f' AND x.conrelid = ANY ($1) AND x.confrelid = ANY ($1)
   AND x.conrelid <> x.confrelid
"""


def roll_back(
    call: Invocation,
    run: Run,
    commit: str | None,
    table: str | None = None,
    cascade: bool | None = None,
) -> int:
    """Take a commit back: in all tables that it has changed, or in one of them.

    Args:
        call: The statement that asks for it.
        run: Runs what has to be done.
        commit: The name of the commit.
        table: The table; that of ``gateway.table`` where none is given, else all.
        cascade: Whether later changes of the same rows go as well.

    Returns:
        How many rows have changed.

    Raises:
        GatewayError: 42704 for a commit that there is not, 55000 where later commits have changed
            the same rows, and whatever PostgreSQL says of a change of the tables.
    """
    relid, name = _relid(call, table), commit or ""

    def find() -> Sequence[CommittedVersions]:
        return commits.written_by(call.session.catalog, name, relid)

    return _Rollback(call, run, name, cascade=bool(cascade)).of(find)


def go_back(call: Invocation, run: Run, table: str | None, commit: str | None) -> int:
    """Make a table what it was after a commit.

    Raises:
        GatewayError: As `roll_back`; 22023 without a table.
    """
    relid, name = _required(_relid(call, table)), commit or ""

    def find() -> Sequence[CommittedVersions]:
        return commits.written_after(call.session.catalog, name, relid)

    return _Rollback(call, run, name, cascade=True).of(find)


def create_savepoint(call: Invocation, run: Run, table: str | None, commit: str | None) -> int:
    """Keep a commit of a table to go back to; return how many savepoints that makes."""
    del run
    commits.create_savepoint(call.session.catalog, _required(_relid(call, table)), commit or "")
    return 1


def delete_savepoint(call: Invocation, run: Run, table: str | None, commit: str | None) -> int:
    """Forget a savepoint; return how many."""
    del run
    commits.delete_savepoint(call.session.catalog, _required(_relid(call, table)), commit or "")
    return 1


def _relid(call: Invocation, table: str | None) -> int | None:
    catalog = call.session.catalog
    if table is None:
        ((found,),) = catalog.execute(
            "SELECT pg_catalog.current_setting('gateway.table', true)", is_own=True
        ).rows
        table = (found or b"").decode() or None
    return None if table is None else names.named_relation(catalog, table)


def _required(relid: int | None) -> int:
    if relid is None:
        raise GatewayError(
            "no table is named",
            sqlstate=codes.INVALID_PARAMETER_VALUE,
            hint="Give the parameter table, or SET gateway.table.",
        )
    return relid


@dataclass(frozen=True, slots=True)
class _Former:
    """What the rows of a table were that are to be changed back."""

    table: JournalTable
    rows: str
    """The temporary table: columns of the table, and whether the row was there."""

    def free(self, name: str) -> str:
        """Return a name that no column of the table has."""
        taken = {column.name for column in self.table.columns}
        while name in taken:
            name += "_"
        return name

    def own(self, name: str) -> str:
        """Return a name, as SQL, that no column of the table has."""
        return names.quoted(self.free(name))


class _Rollback:
    """Takes commits back that are found to be; `commit` is the one that was asked for."""

    def __init__(self, call: Invocation, run: Run, commit: str, *, cascade: bool) -> None:
        self._call = call
        self._catalog = call.session.catalog
        self._run = run
        self._commit = commit
        self._cascade = cascade

    def of(self, find: Callable[[], Sequence[CommittedVersions]]) -> int:
        found = find()
        if not found:
            raise GatewayError(
                f'commit "{self._commit}" does not exist',
                sqlstate=codes.UNDEFINED_OBJECT,
                hint="Commits are listed by gateway.commits.",
            )
        call = self._call
        call.session.transaction.begin_implicit()
        call.session.watch(call.running, call.statement.text, call.limits or call.plan.limits)
        if any(True for _ in self._catalog.execute(_OWN_WRITES).rows):
            raise UnsupportedError(
                "rolling back commits in a transaction that has written something is not supported"
            )
        for one in found:
            self._lock(one.relid)
        # Others may have committed before the locks.
        found = find()
        written = {one.relid: one for one in found if one.versions}
        ordered = self._in_order(list(written))
        formers = [self._former(written[relid]) for relid in ordered]
        changed = dict.fromkeys(ordered, 0)
        # Rows go before those they reference, and come after them.
        with names.array_nulls(self._catalog):
            for former in reversed(formers):
                changed[former.table.relid] += self._merged(former, self._deletion(former))
                self._make_room(former)
            for former in formers:
                changed[former.table.relid] += self._restored(former)
                local_queries.pass_on(self._call.session, f"DROP TABLE {former.rows}")
        for relid, rows in changed.items():
            commits.note_rollback(self._catalog, relid, self._commit, rows, plain=not self._cascade)
        return sum(changed.values())

    def _in_order(self, relids: list[int]) -> list[int]:
        """Return tables so that each comes after those it references, as far as there is an end."""
        listed = "{" + ",".join(map(str, relids)) + "}"
        result = self._catalog.execute_parameters(
            _REFERENCES, [listed.encode()], parameter_oids=[1028]
        )
        needed: dict[int, set[int]] = {relid: set() for relid in relids}
        for referencing, referenced in result.rows:
            needed[int(referencing or b"0")].add(int(referenced or b"0"))
        ordered: list[int] = []
        while needed:
            free = [relid for relid, others in needed.items() if not others & needed.keys()]
            for relid in sorted(free or needed):
                ordered.append(relid)
                del needed[relid]
        return ordered

    def _former(self, written: CommittedVersions) -> _Former:
        observation = Observer(self._call.session).observe([written.relid])
        table = observation.result.snapshots[written.relid].table
        self._require_alone(table)
        if not table.key or RESERVED & {column.name for column in table.columns}:
            raise UnsupportedError(
                f'rolling back commits of table "{table.name}", whose journal has no primary key,'
                " is not supported"
                if not table.key
                else f'rolling back commits of table "{table.name}", which has columns of the'
                " names that a journal has, is not supported"
            )
        if len(written.versions) > MOST_VERSIONS:
            raise UnsupportedError(
                f"rolling back more than {MOST_VERSIONS} statements at once is not supported",
                hint="Roll back fewer commits at a time.",
            )
        journal = residency.journals_named(self._catalog, [table.relid])[table.relid]
        former = _Former(table, names.quoted("pg_temp", f"pgwire former {next(_NUMBERS)}"))
        created = f"CREATE TEMPORARY TABLE {former.rows.partition('.')[2]} ON COMMIT DROP AS "
        known = former_rows.find(self._call.services, observation, written)
        self._call.running.check()
        if known is None:
            self._run(created + _former_rows(former, journal, written)).status()
        else:
            local_queries.pass_on(self._call.session, created + _no_rows(former, journal))
            self._load(former, known)
        overtaken = f"SELECT 1 FROM {former.rows} WHERE {former.own(former_rows.OVERTAKEN)} LIMIT 1"  # noqa: S608
        if not self._cascade and any(True for _ in self._catalog.execute(overtaken).rows):
            raise GatewayError(
                f'commit "{self._commit}" cannot be rolled back because later commits have changed'
                f' the same rows of table "{table.name}"',
                sqlstate=codes.OBJECT_NOT_IN_PREREQUISITE_STATE,
                hint="Roll back the later commits first, or roll back with CASCADE.",
            )
        return former

    def _load(self, former: _Former, known: pa.Table) -> None:
        """Fill the table of former rows."""
        marks = (former_rows.GONE, former_rows.OVERTAKEN)
        stored = {
            c.name: ResultColumn(c.type_oid, c.typmod, 0, column_name(c.attnum))
            for c in former.table.columns
        } | {former.free(mark): ResultColumn(BOOL, -1, 0, mark) for mark in marks}
        encoded, columns = list(stored.values()), list(stored)
        batches = known.to_batches()
        inserts.copy_columns(self._call.session, encoded, batches, former.rows, columns)

    def _lock(self, relid: int) -> None:
        """Keep others from writing a table from before its rows are looked for.

        Raises:
            GatewayError: 40001 when its name is another table's, or nobody's, by then.
        """
        table = self._catalog.observations.relations([relid]).get(relid)
        if table is not None:
            name = names.quoted(table.schema, table.name)
            named = RelationName(table.schema, table.name)
            try:
                self._run(f"LOCK TABLE ONLY {name} IN SHARE ROW EXCLUSIVE MODE").status()
            except GatewayError as error:
                if error.sqlstate not in {codes.UNDEFINED_TABLE, codes.INVALID_SCHEMA_NAME}:
                    raise
            else:
                if names.relation_oids(self._catalog, [named]) == [relid]:
                    return
        raise GatewayError(
            "could not serialize access due to a concurrent change of definitions",
            sqlstate=codes.SERIALIZATION_FAILURE,
        )

    def _require_alone(self, table: JournalTable) -> None:
        """Refuse tables of which a MERGE changes more, or less, than the rows it is told."""
        result = self._catalog.execute_parameters(
            _OBSTACLE, [str(table.relid).encode()], parameter_oids=[26], is_own=True
        )
        for row in result.rows:
            reason = (row[0] or b"").decode()
            raise UnsupportedError(
                f'rolling back commits of table "{table.name}", which has {reason},'
                " is not supported"
            )

    def _merged(self, former: _Former, clauses: str) -> int:
        table = former.table
        same = " AND ".join(
            f"pgwire_t.{name} = pgwire_f.{name}" for name in _quoted(table, table.key)
        )
        result = self._run(
            f"MERGE INTO ONLY {names.quoted(table.schema, table.name)} AS pgwire_t"
            f" USING {former.rows} AS pgwire_f ON {same} {clauses}"
        )
        return int(result.status().rpartition(" ")[2])

    def _deletion(self, former: _Former) -> str:
        return f"WHEN MATCHED AND pgwire_f.{former.own(former_rows.GONE)} THEN DELETE"

    def _make_room(self, former: _Former) -> None:
        """Delete rows whose unique values have changed, as one may have what another had.

        They come back with the others. Not so where they may be referenced.
        """
        table = former.table
        result = self._catalog.execute_parameters(
            _UNIQUE, [str(table.relid).encode()], parameter_oids=[26], is_own=True
        )
        indexes = list(result.rows)
        if not indexes or indexes[0][2] == b"t":
            return
        condition = f"NOT pgwire_f.{former.own(former_rows.GONE)}"
        if all(index[1] == b"t" for index in indexes):
            places = {int(place) for index in indexes for place in (index[0] or b"").split()}
            changed = " OR ".join(
                f"pgwire_t.{names.quoted(column.name)} IS DISTINCT FROM {self._value(column)}"
                for column in map(table.column, sorted(places))
            )
            condition = f"{condition} AND ({changed})"
        self._merged(former, f"WHEN MATCHED AND {condition} THEN DELETE")

    def _restored(self, former: _Former) -> int:
        try:
            return self._merged(former, self._restoration(former))
        except GatewayError as error:
            if error.sqlstate == codes.UNIQUE_VIOLATION:
                error.hint = error.hint or _NOT_GIVEN_BACK
            raise

    def _restoration(self, former: _Former) -> str:
        table = former.table
        stored = [column for column in table.columns if not column.generated]
        values = {column: self._value(column) for column in stored}
        assigned = ", ".join(
            f"{names.quoted(column.name)} = {value}"
            for column, value in values.items()
            if column.attnum not in table.key
        )
        update = f"UPDATE SET {assigned}" if assigned else "DO NOTHING"
        listed = ", ".join(names.quoted(column.name) for column in stored)
        given = ", ".join(values.values())
        was_there = f"NOT pgwire_f.{former.own(former_rows.GONE)}"
        changed = f"WHEN MATCHED AND {was_there} THEN {update}"
        added = f"INSERT ({listed}) OVERRIDING SYSTEM VALUE VALUES ({given})"  # noqa: S608
        return f"{changed} WHEN NOT MATCHED AND {was_there} THEN {added}"

    def _value(self, column: Column) -> str:
        """Return the former value of a column; journals have the types of users as text."""
        value = f"pgwire_f.{names.quoted(column.name)}"
        if column.type_oid < _FIRST_OF_USERS:
            return value
        return f"{value}::{names.type_name(self._catalog, column.type_oid, column.typmod)}"


def _no_rows(former: _Former, journal: str) -> str:
    """Return a query with the columns of `_former_rows`, and no rows."""
    columns = ", ".join(_quoted(former.table, [c.attnum for c in former.table.columns]))
    gone, overtaken = map(former.own, (former_rows.GONE, former_rows.OVERTAKEN))
    return f"SELECT {columns}, true AS {gone}, true AS {overtaken} FROM {journal} WITH NO DATA"  # noqa: S608


def _moments(versions: Iterable[int]) -> str:
    return ", ".join(
        f"TIMESTAMPTZ '{_EPOCH + timedelta(microseconds=version)}'" for version in versions
    )


def _former_rows(former: _Former, journal: str, written: CommittedVersions) -> str:
    """Return the query of what rows were before some versions of them, by the journal.

    Its columns are the table's, whether the row was not there (``gone``), and whether it has a
    later version that is none of these, nor settled (``overtaken``).
    """
    table = former.table
    key = _quoted(table, table.key)
    others = _quoted(table, [column.attnum for column in table.columns])
    grouped = ", ".join(f"j.{name}" for name in key)
    version = f"j.{VERSION}"
    own = f"CASE WHEN {version} IN ({_moments(written.versions)}) THEN {version} END"
    effective = version
    if 0 < len(written.settled) <= MOST_VERSIONS:
        settled = _moments(sorted(written.settled))
        effective = f"CASE WHEN {version} NOT IN ({settled}) THEN {version} END"
    first, last, newest = map(former.own, ("first", "last", "newest"))
    has_ended, at = map(former.own, ("ended", "place"))
    touched = (
        f"SELECT {grouped}, min({own}) AS {first}, max({own}) AS {last},"  # noqa: S608
        f" max({effective}) AS {newest} FROM {journal} AS j GROUP BY {grouped}"
        f" HAVING max({own}) IS NOT NULL"
    )
    same = " AND ".join(f"j.{name} = c.{name}" for name in key)
    ended = is_tombstone("j")
    newest_first = order_of_whole(order_of(external=table.external is not None), "j")
    place = f"row_number() OVER (PARTITION BY {grouped} ORDER BY {newest_first})"
    columns = ", ".join(f"j.{name}" for name in others)
    before = (
        f"SELECT {columns}, CASE WHEN {ended} THEN 1 ELSE 0 END AS {has_ended},"  # noqa: S608
        f" {place} AS {at} FROM {journal} AS j JOIN pgwire_changed AS c ON {same}"
        f" WHERE {version} < c.{first}"
    )
    found = ", ".join(f"c.{name}" if name in key else f"p.{name}" for name in others)
    back = " AND ".join(f"p.{name} = c.{name}" for name in key)
    return (
        f"WITH pgwire_changed AS ({touched}), pgwire_before AS ({before})"  # noqa: S608
        f" SELECT {found}, coalesce(p.{has_ended}, 1) = 1 AS {former.own(former_rows.GONE)},"
        f" c.{newest} > c.{last} AS {former.own(former_rows.OVERTAKEN)}"
        f" FROM pgwire_changed AS c LEFT JOIN pgwire_before AS p ON {back} AND p.{at} = 1"
    )


def _quoted(table: JournalTable, attnums: Iterable[int]) -> list[str]:
    return [names.quoted(table.column(attnum).name) for attnum in attnums]
