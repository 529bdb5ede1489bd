"""Current rows of a journaled table, and its whole journal, as Spark relations.

Which columns are read is known only when the statement has been compiled, so a relation adds a
column to its SELECTs when it is first asked for.
"""

import hashlib
import re
from dataclasses import dataclass, field

from sqlglot import exp

from catalog.journal.key_bitmap import WORDS, KeyRange
from catalog.journal.layout import (
    COUNTED_TYPE,
    IDENTITY,
    IDENTITY_COLUMN,
    SUBSEQUENT,
    VERSION,
    VERSION_COLUMNS,
    column_name,
    column_names,
)
from catalog.model import LEAF, Column, Segment, SegmentKind, TableSnapshot
from rewrite.dialect.type_mapping import storage_type
from rewrite.errors import UnsupportedError
from rewrite.expressions import grouping_key, read_stored
from rewrite.journal.versions import (
    has_no_bit,
    identity,
    identity_columns,
    is_living,
    newest_first,
    same_row,
    version_order,
)
from rewrite.query.compilation import Compilation, PlainRows
from rewrite.query.sql import (
    LEAVES_CURRENT,
    aliased,
    broadcast,
    column,
    conjunction,
    is_null,
    named,
    row_number,
    select,
)
from rewrite.results import Source, SourcePart
from rewrite.row_expressions import Stored
from rewrite.values import Value

# Above this many keys a broadcast costs more than the shuffle it saves.
_BROADCAST_ROWS = 2_000_000
_PLAIN = re.compile(r"[0-9A-Za-z_]{1,40}")


def _rows(segments: tuple[Segment, ...]) -> int:
    return sum(segment.rows for segment in segments)


def _token(text: str) -> str:
    """Return the text where it may stand in a name, else a digest of it."""
    if _PLAIN.fullmatch(text):
        return text
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _numbers(segments: tuple[Segment, ...]) -> str:
    return _token("_".join(str(segment.segment_id) for segment in segments))


def source(snapshot: TableSnapshot, part: SourcePart) -> Source:
    """Return the view of one part of a journal; its name changes with the contents."""
    if part is SourcePart.BASE:
        # A write to the tail leaves the base as it is, and so its view.
        state = _numbers(snapshot.of_kind(SegmentKind.BASE))
    elif snapshot.outside is not None:
        state = _token(f"{snapshot.state} {snapshot.outside.state}")
    elif part is SourcePart.RECENT and not snapshot.tail_rows:
        state = f"d_{_numbers(snapshot.of_kind(SegmentKind.DELTA))}"
    else:
        state = _token(snapshot.state)
    table = snapshot.table
    name = f"{part.value}_{_token(str(table.relid))}_{table.definition_version}_{state}"
    return Source(table.relid, part, f"global_temp.{name}")


@dataclass(slots=True)
class _Level:
    """A SELECT on the way to the current rows, to which columns are added."""

    query: exp.Select
    alias: str
    """Of what it selects from."""
    current: exp.Expression | None
    """True for current rows; columns are NULL in others. None: columns are as they are."""
    names: set[str] = field(default_factory=set)

    def add(self, name: str) -> None:
        """Select a column under its name, shielded."""
        found: exp.Expression = column(name, self.alias)
        if self.current is not None:
            found = exp.Case(ifs=[exp.If(this=self.current.copy(), true=found)])
        self._select(found, name)

    def add_bare(self, name: str, bare: str) -> None:
        """Select a column under another name where it is shielded."""
        self._select(column(name, self.alias), name if self.current is None else bare)

    def _select(self, expression: exp.Expression, name: str) -> None:
        if name in self.names:
            return
        self.names.add(name)
        # To Spark a column under an alias is another one: conditions on it, as those on the key, do
        # not pass a window that is partitioned by the column.
        is_named = isinstance(expression, exp.Column) and expression.name == name
        self.query.append("expressions", expression if is_named else named(expression, name))


class CurrentRows:
    """The current rows of a journaled table in one snapshot."""

    def __init__(self, compilation: Compilation, snapshot: TableSnapshot) -> None:
        self._compilation = compilation
        self._table = snapshot.table
        self._columns = {column.attnum: column for column in snapshot.table.columns}
        external = self._table.external
        self._is_plain = external is not None and external.is_plain
        self.relid = self._table.relid
        self.key = self._table.key
        self.alias = compilation.name("t")
        self.base_rows = _rows(snapshot.of_kind(SegmentKind.BASE))
        self.recent_rows = _rows(snapshot.of_kind(SegmentKind.DELTA)) + snapshot.tail_rows
        self.bound: int | None = self.base_rows + self.recent_rows
        if snapshot.outside is not None:
            self.recent_rows, self.bound = snapshot.outside.rows, None
        is_whole = external is None and snapshot.outside is None and not self.has_leaves
        self.exact = self.base_rows if is_whole and not self.recent_rows else None
        """How many rows there are, where that is known."""
        self._levels: list[_Level] = []
        self._added: set[str] = set()
        self._item = self._build(snapshot)
        if any(level.current is not None for level in self._levels):
            compilation.shielded[self.alias] = self._bare

    @property
    def has_leaves(self) -> bool:
        """Whether these are the rows of leaves of a partitioned table, read as one."""
        return LEAF in self._columns

    def column(self, attno: int) -> Value:
        """Return a live column by attribute number."""
        definition = self.definition(attno)
        name = column_name(attno)
        self._need(name)
        return read_stored(column(name, self.alias), definition.type_oid, definition.typmod)

    def stored(self, attno: int) -> exp.Expression:
        """Return a live column as it is stored."""
        name = column_name(self.definition(attno).attnum)
        self._need(name)
        return column(name, self.alias)

    def definition(self, attno: int) -> Column:
        """Return the definition of a live column."""
        if attno not in self._columns:
            raise UnsupportedError("system column or whole-row reference is not supported")
        return self._columns[attno]

    def identity(self) -> list[exp.Expression]:
        """Return what tells rows apart: the key columns, or the hidden row identity."""
        if self.key:
            return [grouping_key(self.column(attno)) for attno in self.key]
        leaf = [self.column(LEAF).sql] if self.has_leaves else []
        return [self.row_identity().sql, *leaf]

    def row_identity(self) -> Value:
        """Return the hidden row identity of a table without key."""
        if self._is_plain:
            raise UnsupportedError(
                f'changing rows of "{self._table.name}", which is no journal but a table of others,'
                " is not supported",
                hint="Only rows of journals are superseded: see gateway.register_journal.",
            )
        self._need(IDENTITY)
        return Value(column(IDENTITY, self.alias), IDENTITY_COLUMN.type_oid)

    def item(self) -> exp.Expression:
        """Return the FROM item."""
        return self._item

    def bare(self, attno: int) -> exp.Expression:
        """Return a live column as it is stored, for conditions that cannot fail.

        Of rows that are there no more it has their values, so that files can be left out by it.
        """
        name = column_name(self.definition(attno).attnum)
        if self.alias in self._compilation.shielded:
            return column(self._bare(name), self.alias)
        return self.stored(attno)

    def _bare(self, name: str) -> str:
        """Return the name of a column that is not shielded."""
        bare = _bare_name(name)
        if bare not in self._added:
            self._added.add(bare)
            for level in self._levels:
                level.add_bare(name, bare)
        return bare

    def _need(self, name: str) -> None:
        if name not in self._added:
            self._added.add(name)
            for level in self._levels:
                level.add(name)

    def _build(self, snapshot: TableSnapshot) -> exp.Expression:
        base = source(snapshot, SourcePart.BASE)
        recent = source(snapshot, SourcePart.RECENT)
        if self._is_plain:
            return self._compilation.read(recent, self.recent_rows, self.alias)
        if snapshot.outside is not None:
            return aliased(self._latest(recent), self.alias)
        if not self.recent_rows:
            if self.base_rows:
                self._note_plain(base, None)
                return self._compilation.read(base, self.base_rows, self.alias)
            return aliased(self._nothing(), self.alias)
        latest = self._latest(recent)
        self._note_plain(base if self.base_rows else None, recent)
        if not self.base_rows:
            return aliased(latest, self.alias)
        key_range = self._compilation.context.key_ranges.get(self.relid)
        if key_range is None or self._compilation.shields:
            untouched = self._untouched(base, recent)
        else:
            keys = source(snapshot, SourcePart.RECENT_KEYS)
            untouched = self._without_bit(base, keys, key_range)
        return aliased(exp.Union(this=untouched, expression=latest, distinct=False), self.alias)

    def _note_plain(self, base: Source | None, recent: Source | None) -> None:
        """Note that the rows can be read without Spark, where nothing is left to be resolved."""
        is_resolved = recent is None or self.relid in self._compilation.context.latest_only
        if self._table.external is None and not self.has_leaves and is_resolved:
            names = column_names(self._columns)
            names += [] if self.key else [IDENTITY]
            # Shielded or not, which is the same where there are no rows but current ones.
            read = {one: Stored(name) for name in names for one in (name, _bare_name(name))}
            plain = PlainRows(base, recent, tuple(self._key_columns()), read)
            self._compilation.plain_rows[self.alias] = plain

    def _nothing(self) -> exp.Select:
        """Return an empty relation of the table's shape: typed NULLs that no row has."""
        nulls = [
            named(typed_null(definition), column_name(definition.attnum))
            for definition in self._table.columns
        ]
        hidden = IDENTITY_COLUMN
        nulls.append(named(null_of(hidden.type_oid, hidden.typmod), hidden.name))
        return select(nulls, where=exp.false())

    def _key_columns(self) -> list[str]:
        return identity_columns(self._table)

    def _level(
        self, query: exp.Select, alias: str, current: exp.Expression | None = None
    ) -> exp.Select:
        """Return a SELECT with the key columns, to which others are added as they are needed."""
        shields = current is not None and self._compilation.shields
        level = _Level(query, alias, current if shields else None)
        for name in self._key_columns():
            level.add(name)
        self._added.update(self._key_columns())
        self._levels.append(level)
        return query

    def _latest(self, recent: Source) -> exp.Select:
        """Return the latest version of each row of the recent part, tombstones left out."""
        versions = self._compilation.name("j")
        if self.relid in self._compilation.context.latest_only:
            only = self._compilation.read(recent, self.recent_rows, versions)
            alive = is_living(versions)
            return self._level(select([], only, alive), versions, alive)
        numbered = self._compilation.name("j")
        order = newest_first(version_order(self._table), versions)
        rows = select(
            [
                named(column(SUBSEQUENT, versions), SUBSEQUENT),
                named(
                    row_number(identity(self._table, versions), order),
                    "age",
                ),
            ],
            self._compilation.read(recent, self.recent_rows, versions),
        )
        self._level(rows, versions)
        newest = exp.EQ(this=column("age", numbered), expression=exp.Literal.number(1))
        alive = is_living(numbered)
        current = exp.And(this=newest, expression=alive)
        return self._level(select([], aliased(rows, numbered), current), numbered, current)

    def _untouched(self, base: Source, recent: Source) -> exp.Select:
        """Return the rows of the base whose keys do not occur in the recent part."""
        rows, changed = self._compilation.name("j"), self._compilation.name("j")
        query = select([], self._compilation.read(base, self.base_rows, rows))
        keys = identity(self._table, rows), identity(self._table, changed)
        equal = conjunction(same_row(*keys))
        join = exp.Join(
            this=self._compilation.read(recent, self.recent_rows, changed), side="LEFT", on=equal
        )
        join.meta[LEAVES_CURRENT] = True
        untouched = is_null(column(VERSION, changed))
        if self._compilation.shields:
            # Spark moves any condition below an anti join.
            query.set("where", exp.Where(this=untouched))
        else:
            join.set("kind", "ANTI")
        query.append("joins", join)
        if self.recent_rows <= _BROADCAST_ROWS:
            broadcast(query, changed)
        return self._level(query, rows, untouched)

    def _without_bit(self, base: Source, keys: Source, key_range: KeyRange) -> exp.Select:
        """Return the rows of the base whose keys do not occur in a bitmap."""
        rows, bitmap = self._compilation.name("j"), self._compilation.name("j")
        (key,) = identity(self._table, rows)
        words = select([column(WORDS, bitmap)], self._compilation.read(keys, 1, bitmap))
        where = has_no_bit(key, words, key_range)
        query = select([], self._compilation.read(base, self.base_rows, rows), where)
        return self._level(query, rows)


def _bare_name(name: str) -> str:
    """Return the name under which a column is read that is not shielded."""
    return f"b{name}"


def typed_null(definition: Column) -> exp.Expression:
    """Return NULL in the storage representation of a column."""
    return null_of(definition.type_oid, definition.typmod)


def null_of(type_oid: int, typmod: int) -> exp.Expression:
    """Return NULL in the storage representation of a type."""
    kind = storage_type(type_oid, typmod)
    return exp.Cast(this=exp.Null(), to=exp.DataType.build(kind, dialect="spark"))


class JournalRows:
    """All row versions of a journaled table: its columns by name, then the version columns."""

    key: tuple[int, ...] = ()

    def __init__(
        self, compilation: Compilation, snapshot: TableSnapshot, names: tuple[str, ...]
    ) -> None:
        self._alias = compilation.name("t")
        self._names = names
        self._columns = {column.name: column for column in snapshot.table.columns}
        rows = _rows(snapshot.segments) + snapshot.tail_rows
        self.bound: int | None = rows
        if snapshot.outside is not None:
            rows, self.bound = snapshot.outside.rows, None
        external = snapshot.table.external
        if external is not None and external.is_plain:
            raise UnsupportedError(
                f'"{snapshot.table.name}" is a table of others, and no journal: reading its journal'
                " is not supported"
            )
        counts = external is not None and external.counts
        self._version_type = COUNTED_TYPE if counts else VERSION_COLUMNS[0].type_oid
        part = source(snapshot, SourcePart.JOURNAL)
        self._item = compilation.read(part, rows, self._alias)

    def column(self, attno: int) -> Value:
        """Return a column of the journal relation by its own attribute number."""
        if not 0 < attno <= len(self._names):
            raise UnsupportedError("system column or whole-row reference is not supported")
        name = self._names[attno - 1]
        definition = self._columns.get(name)
        if definition is not None:
            stored = column(column_name(definition.attnum), self._alias)
            return read_stored(stored, definition.type_oid, definition.typmod)
        if name in {VERSION, SUBSEQUENT}:
            return Value(column(name, self._alias), self._version_type)
        if name == IDENTITY:
            return Value(column(name, self._alias), IDENTITY_COLUMN.type_oid)
        raise UnsupportedError(f'column "{name}" of the journal is not supported')

    def item(self) -> exp.Expression:
        """Return the FROM item."""
        return self._item
