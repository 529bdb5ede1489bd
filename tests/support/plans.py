"""What statements are compiled to, as texts that are read and reviewed.

A file of ``tests/rewrite/plans`` has records parted by blank lines: comments (``#``), a statement
of PostgreSQL, a line ``=>``, and what is made of it. ``make plans`` writes the last part anew, and
``python -m tests.support.plans joins writes`` that of these files alone.

Comments may hold directives: ``# rows: base`` (or ``recent``, or ``both``, which is what tables
have unless it is said), ``# recent: 7`` for the number of row versions that are newer than the
base, ``# latest`` where these are one of each row, ``# compaction: t`` instead of a statement.
Those of a first record that is nothing but comments are for all of the file.

Views are named by table and part of the journal. Line breaks stand where the compiled text has
blanks, or nothing behind a parenthesis; nothing else is changed.
"""

import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg

from catalog.journal.key_bitmap import KeyRange
from catalog.model import Segment, SegmentKind, TableSnapshot
from catalog.server.embedded import SUPERUSER, EmbeddedServer
from catalog.session import upserts
from rewrite.context import RewriteContext
from rewrite.errors import UnsupportedError
from rewrite.journal.compaction import Merge
from rewrite.pipeline import (
    compile_delete,
    compile_insert_source,
    compile_merge,
    compile_query,
    compile_update,
    parse_tree,
)
from rewrite.results import SparkQuery
from rewrite.tree import Node
from tests.support.repository import ROOT
from tests.support.rewrite_oracle import Oracle, database

DIRECTORY = ROOT / "tests" / "rewrite" / "plans"
SCHEMA = DIRECTORY / "schema.sql"
ARROW = "=>"

BASE_ROWS, RECENT_ROWS = 1_000_000, 500

_SELECT, _UPDATE, _INSERT, _DELETE, _MERGE = range(1, 6)


@dataclass(frozen=True)
class Case:
    """One record of a file."""

    comments: tuple[str, ...]
    sql: str
    expected: str
    common: tuple[str, ...] = ()
    """Comments at the head of the file."""

    @property
    def name(self) -> str:
        """What the record is about: its first comment that is no directive."""
        return next((text for text in self.comments if not _DIRECTIVE.match(text)), self.sql)

    def directive(self, name: str) -> str | None:
        """Return what is said after a directive; empty for one without more."""
        for text in (*self.comments, *self.common):
            key, _, value = text.partition(":")
            if key == name:
                return value.strip()
        return None

    def with_plan(self, plan: str) -> str:
        """Return the record with what is made of the statement."""
        lines = [f"# {text}" for text in self.comments]
        return "\n".join([*lines, *([self.sql] if self.sql else []), ARROW, plan])


_DIRECTIVE = re.compile(r"(rows|recent|compaction): |latest\Z")


def files() -> list[Path]:
    """Return all files of records."""
    return sorted(DIRECTORY.glob("*.plan"))


def cases(path: Path) -> list[Case]:
    """Return the records of a file."""
    common, found = _read(path)
    return [replace(case, common=common) for case in found]


def _read(path: Path) -> tuple[tuple[str, ...], list[Case]]:
    """Return the comments at the head of a file, and its records."""
    records = re.split(r"\n(?:[ \t]*\n)+", path.read_text().strip("\n"))
    first, *others = found = [_case(text) for text in records]
    if not first.sql and first.directive("compaction") is None:
        return first.comments, others
    return (), found


def _case(text: str) -> Case:
    above, _, expected = text.partition(f"\n{ARROW}")
    lines = above.splitlines()
    comments = tuple(line[1:].strip() for line in lines if line.startswith("#"))
    sql = "\n".join(line for line in lines if not line.startswith("#"))
    return Case(comments, sql, expected.strip("\n"))


class Compiler(Oracle):
    """Compiles statements against tables of which it is only known how many rows they have."""

    def __init__(self, connection: psycopg.Connection) -> None:
        """Make the tables of the schema in an empty database."""
        super().__init__(connection, None)  # type: ignore[arg-type] - nothing is run
        self.case = Case((), "", "")
        self.execute(SCHEMA.read_text())

    def plan(self, case: Case) -> str:
        """Return what is made of a statement, or why nothing is."""
        self.case = case
        self.snapshots.clear()
        journals = {"orders_journal": "orders"}
        self.journals = {self.relid(one): self.relid(other) for one, other in journals.items()}
        table = case.directive("compaction")
        if table is not None:
            return self._compaction(table)
        try:
            return "\n".join(self._plan(case.sql))
        except UnsupportedError as error:
            return f"refused: {error}"

    def _compaction(self, name: str) -> str:
        snapshot = self.snapshot(self.relid(name))
        assert snapshot is not None
        texts = Merge(snapshot).queries(f"{name}.base", f"{name}.recent")
        return "\n".join(f"{kind.value}:\n{broken(text)}" for kind, text in texts.items())

    def _plan(self, sql: str) -> Iterator[str]:
        upsert = upserts.parse(sql)
        if upsert is not None:
            sql = self._merge(upsert)
            yield f"as: {sql}"
        text, _ = self.analyse(sql)
        queries = parse_tree(text)
        query = queries[0]
        context = self.context(queries)
        if self.case.directive("latest") is not None:
            context = replace(context, latest_only=frozenset(context.snapshots))
        origin = self.case.directive("bitmap")
        if origin is not None:
            ranges = dict.fromkeys(context.snapshots, KeyRange(int(origin)))
            context = replace(context, key_ranges=ranges)
        yield from self._shown(_compiled(query, context))

    def _merge(self, upsert: upserts.Upsert) -> str:
        """Return an INSERT … ON CONFLICT as the MERGE that is made of it."""
        snapshot = self.snapshot(self.relid(upsert.target.name))
        assert snapshot is not None
        table = snapshot.table
        listed = upsert.columns or (column.name for column in table.columns)
        columns = dict.fromkeys(listed, upserts.Cast())
        key = tuple(table.column(number).name for number in table.key)
        arbiter = upserts.ArbiterKeys((key,), is_primary=True, table=upsert.target)
        merged = upsert.merge(columns, arbiter, None, {})
        assert merged is not None
        return merged

    def _snapshot(self, relid: int) -> TableSnapshot | None:
        found = super()._snapshot(relid)
        if found is None:
            return None
        rows = self.case.directive("rows") or "both"
        recent = int(self.case.directive("recent") or RECENT_ROWS)
        attnums = tuple(column.attnum for column in found.table.columns)
        base = Segment(1, SegmentKind.BASE, "base", BASE_ROWS, 1 << 24, attnums, 1, 2)
        return replace(
            found,
            segments=() if rows == "recent" else (base,),
            tail_rows=0 if rows == "base" else recent,
        )

    def _shown(self, query: SparkQuery) -> Iterator[str]:
        if query.row_bound is not None and query.row_bound < RECENT_ROWS:
            yield f"at most {query.row_bound} rows"
        for way in ("scan", "selection"):
            if getattr(query, way) is not None:
                yield f"{way}, without Spark where files allow it"
                break
        text = query.sql
        for source in query.sources:
            snapshot = self.snapshot(source.relid)
            assert snapshot is not None
            text = text.replace(source.view, f"{snapshot.table.name}.{source.part.value}")
        shown = broken(text)
        assert joined(shown) == text
        yield shown


def _compiled(query: Node, context: RewriteContext) -> SparkQuery:
    command = query.integer("commandType")
    if command == _SELECT:
        return compile_query(query, context)
    if command == _INSERT:
        return compile_insert_source(query, context)
    change = {_UPDATE: compile_update, _DELETE: compile_delete, _MERGE: compile_merge}[command]
    return change(query, context).query


# line breaks --------------------------------------------------------------------------------------

_CLAUSES = (
    r"SELECT|FROM|WHERE|GROUP BY|HAVING|ORDER BY|LIMIT|OFFSET|UNION ALL|UNION|INTERSECT|EXCEPT"
    r"|(?:LEFT |RIGHT |FULL )?(?:ANTI |SEMI |OUTER )?JOIN|CROSS JOIN|LATERAL VIEW|WITH"
)
_TOKEN = re.compile(rf"'(?:[^'\\]|\\.)*'|`[^`]*`|[()]|(?<![\w.])(?:{_CLAUSES})(?!\w)")

_LIST_TOKEN = re.compile(r"'(?:[^'\\]|\\.)*'|`[^`]*`|[()]|, ")

LONGEST = 100
"""Of more characters a list of what is selected is broken."""


def broken(text: str) -> str:
    """Return a query with a line for each clause, subqueries moved to the right.

    >>> print(broken("SELECT a FROM (SELECT MIN(b) AS a FROM t) AS u WHERE a > ' FROM '"))
    SELECT a
    FROM (
      SELECT MIN(b) AS a
      FROM t) AS u
    WHERE a > ' FROM '
    """
    parts: list[str] = []
    end = 0
    # Of each open parenthesis, whether a query is in it.
    queries: list[bool] = []
    for found in _TOKEN.finditer(text):
        token = found[0]
        parts.append(text[end : found.start()])
        end = found.end()
        if token == "(":  # noqa: S105 - no password
            queries.append(text.startswith(("SELECT ", "(SELECT ", "WITH "), end))
        elif token == ")":  # noqa: S105
            queries.pop()
        elif token[0] not in "'`" and all(queries[-1:]) and found.start():
            parts[-1] = parts[-1].rstrip(" ")
            parts.append("\n" + "  " * len(queries))
        parts.append(token)
    whole = "".join([*parts, text[end:]])
    return "\n".join(line for one in whole.splitlines() for line in _listed(one))


def _listed(line: str) -> list[str]:
    """Return a line; a long list of what is selected with each item on a line of its own."""
    start = line.find("SELECT ")
    if len(line) <= LONGEST or line[:start].strip():
        return [line]
    items, depth, begun = [], 0, 0
    for found in _LIST_TOKEN.finditer(line):
        depth += {"(": 1, ")": -1}.get(found[0], 0)
        if found[0] == ", " and not depth:
            items.append(line[begun : found.start() + 1])
            begun = found.end()
    first, *others = [*items, line[begun:]]
    return [first, *(f"{' ' * start}  {item}" for item in others)]


def joined(text: str) -> str:
    """Return a query without the line breaks it has been given."""
    return re.sub(r"\n *", " ", re.sub(r"\(\n *", "(", text))


# the command --------------------------------------------------------------------------------------


@contextmanager
def compiler(uri: str) -> Iterator[Compiler]:
    """Open a compiler in a database of its own."""
    with database(uri, "plans") as connection:
        yield Compiler(connection)


def written(opened: Compiler, path: Path) -> str:
    """Return what a file is to hold."""
    head = "\n".join(f"# {text}" for text in _read(path)[0])
    records = [case.with_plan(opened.plan(case)) for case in cases(path)]
    return "\n\n".join([*([head] if head else []), *records]) + "\n"


def main(names: Sequence[str]) -> None:
    """Write files anew."""
    with tempfile.TemporaryDirectory(prefix="plans-", ignore_cleanup_errors=True) as directory:
        server = EmbeddedServer(Path(directory))
        server.start()
        try:
            uri = f"postgresql://{SUPERUSER}@/postgres?host={server.host}&port={server.port}"
            with compiler(uri) as opened:
                for path in files():
                    if not names or path.stem in names:
                        path.write_text(written(opened, path))
        finally:
            server.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
