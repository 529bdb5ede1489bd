"""CREATE TABLE … USING format, as Spark has it, for tables of ours.

CREATE [TEMPORARY | UNLOGGED] TABLE [IF NOT EXISTS] name [(element, …)] with these clauses in any
order, each at most once: USING hudi | parquet | orc, LOCATION 'path', COMMENT 'text',
OPTIONS (key = value, …), TBLPROPERTIES (…), WITH (…), PARTITIONED BY (column, transform(column),
…), CLUSTERED BY (column) [SORTED BY (…)] INTO n BUCKETS; then AS query. Where the format is none
of these the statement is PostgreSQL's.
"""

import itertools
from dataclasses import dataclass, field
from typing import Final

from catalog.errors import GatewayError
from catalog.extensions import bucket_clause, partition_fields, spark_columns
from catalog.extensions.bucket_clause import BucketClause, SortedColumns
from catalog.extensions.convert import parse_key
from catalog.extensions.grammar import RelationPair, Tokens
from catalog.extensions.partition_fields import PartitionField
from catalog.extensions.translation import Passage, Translation, translation
from catalog.pg.sqlstate import (
    FEATURE_NOT_SUPPORTED,
    INVALID_PARAMETER_VALUE,
    INVALID_TABLE_DEFINITION,
)

FORMATS: Final = frozenset({"hudi", "parquet", "orc"})
"""What USING may name: all of them are journals here."""

ADOPTED: Final = "parquet"
"""The format of files that LOCATION may name."""
_TYPES: Final = frozenset({"cow", "mor"})
_TEMPORARY: Final = frozenset({"temp", "temporary"})
_SCOPES: Final = (
    ("unlogged",),
    *((*before, word) for word in sorted(_TEMPORARY) for before in ((), ("local",), ("global",))),
)


@dataclass(frozen=True, slots=True)
class SparkTable:
    """One statement, translated for PostgreSQL."""

    relation: RelationPair
    access_method: str
    create: Translation
    """CREATE TABLE, or CREATE TABLE AS."""
    comments: tuple[str, ...]
    """COMMENT statements for the table and its columns."""
    later_key: tuple[str, ...] = ()
    """Columns of the primary key that the table gets when it has its rows."""
    location: str | None = None
    """Path of the files that are its rows."""
    has_columns: bool = True
    """Whether columns are told; else they are those of the query, or of the files."""
    if_not_exists: bool = False
    is_temporary: bool = False
    partitioned_by: tuple[PartitionField, ...] = ()
    """Columns and transforms of them, the buckets of CLUSTERED BY last."""
    sorted_by: SortedColumns | None = None
    """What the files are said to be sorted by."""


def parse(text: str) -> SparkTable | None:
    """Return a statement that creates a table in one of the formats; None for any other.

    Raises:
        GatewayError: 42601 for what is wrong with it, 0A000 for clauses and options without
            counterpart, 22023 for values of options, 42P16 for two primary keys.
    """
    tokens = Tokens(text)
    if not tokens.accept("create"):
        return None
    scope = next((words for words in _SCOPES if tokens.accept(*words)), ())
    if not tokens.accept("table") or not _has_format(tokens):
        return None
    return _Reading(tokens, scope).table()


def _has_format(tokens: Tokens) -> bool:
    """Tell whether one of the formats is named before the query, if there is one."""
    outer = [token for token in tokens.rest if token.depth == 0]
    for token, following in itertools.pairwise(outer):
        if token.is_word("as"):
            return False
        if token.is_word("using") and following.text.lower() in FORMATS:
            return True
    return False


@dataclass
class _Reading:
    """What has been read of a statement."""

    tokens: Tokens
    scope: tuple[str, ...] = ()
    """Words between CREATE and TABLE."""
    elements: list[Passage] = field(default_factory=list)
    column_comments: list[tuple[str, str]] = field(default_factory=list)
    """Columns and comments, both as they are written."""
    keys: list[tuple[str, ...]] = field(default_factory=list)
    clauses: set[str] = field(default_factory=set)
    access_method: str = ""
    comment: str = ""
    storage: Passage | None = None
    location: str | None = None
    location_place: int | None = None
    option_key: tuple[str, ...] = ()
    partitioned_by: tuple[PartitionField, ...] = ()
    buckets: BucketClause | None = None

    def table(self) -> SparkTable:
        """Read the whole statement."""
        tokens = self.tokens
        exists = tokens.accept("if", "not", "exists")
        before = tokens.rest[0].start if tokens.rest else 0
        relation = tokens.relation()
        name = tokens.passage(before, tokens.taken_to)
        if tokens.sees("("):
            self._read_elements()
        query: list[Passage] = []
        while tokens.current is not None and not query:
            if tokens.accept("as"):
                start = tokens.place - 1
                query = [Passage(" AS ", start, is_copied=False), tokens.remainder()]
            else:
                self._read_clause()
        if not query and not self.elements and self.location is None:
            tokens.fail()
        if self.location is not None:
            self._require_adoptable(is_filled=bool(query))
        fields = self._fields()
        if fields and self.scope:
            raise GatewayError(
                f"{fields[0].clause} of a table that is {self.scope[-1]} is not supported",
                sqlstate=FEATURE_NOT_SUPPORTED,
                position=fields[0].position,
            )
        later = self._place_key(is_filled=bool(query))
        words = ["CREATE", *map(str.upper, self.scope), "TABLE"]
        head = f"{' '.join(words)} {'IF NOT EXISTS ' if exists else ''}"
        space = Passage(" ", 0, is_copied=False)
        create = translation(
            [
                Passage(head, 0, is_copied=False),
                name,
                *self.elements,
                *([space, self.storage] if self.storage else []),
                *query,
            ]
        )
        return SparkTable(
            relation,
            self.access_method,
            create,
            self._comments(name.text),
            later,
            self.location,
            bool(self.elements),
            exists,
            self._is_temporary,
            fields,
            self.buckets.sorted_by if self.buckets else None,
        )

    def _fields(self) -> tuple[PartitionField, ...]:
        """Return what tells the partition of a row."""
        if self.buckets is None:
            return self.partitioned_by
        return partition_fields.extended(self.partitioned_by, self.buckets.bucket)

    @property
    def _is_temporary(self) -> bool:
        return bool(_TEMPORARY.intersection(self.scope))

    def _require_adoptable(self, *, is_filled: bool) -> None:
        """Refuse what files that exist cannot have (0A000)."""
        refused = None
        if self.scope:
            refused = f"LOCATION of a table that is {self.scope[-1]}"
        elif self.access_method != ADOPTED:
            refused = f"LOCATION of files in format {self.access_method}"
        elif is_filled:
            refused = "LOCATION of a table that is filled by a query"
        elif self.partitioned_by:
            refused = "LOCATION of a table with PARTITIONED BY"
        elif self.buckets is not None:
            refused = "LOCATION of a table with CLUSTERED BY"
        elif self.storage is not None and not self.elements:
            refused = "WITH in CREATE TABLE ... LOCATION without columns"
        if refused is not None:
            raise GatewayError(
                f"{refused} is not supported",
                sqlstate=FEATURE_NOT_SUPPORTED,
                hint="The rows of the table are the Parquet files that are there; CONVERT TO table"
                " FROM 'path' reads others.",
                position=self.location_place,
            )

    def _read_elements(self) -> None:
        opening = self.tokens.current
        for number, element in enumerate(self.tokens.elements()):
            lead = self.tokens.characters(element[0].start)
            self.elements.append(Passage(", " if number else " (", lead, is_copied=False))
            read = spark_columns.read(self.tokens, element)
            self.elements += read.passages
            self.keys += [read.key] if read.key else []
            if read.comment:
                self.column_comments.append((read.column, read.comment))
        if opening is None or not self.elements:
            self.tokens.fail()
        self.elements.append(Passage(")", self.tokens.place - 1, is_copied=False))

    def _read_clause(self) -> None:
        tokens = self.tokens
        if tokens.sees("sorted", "by"):
            raise GatewayError(
                "SORTED BY without CLUSTERED BY is not supported",
                sqlstate=FEATURE_NOT_SUPPORTED,
                hint="Rows are sorted by the primary key; leave the clause out.",
                position=tokens.place,
            )
        clause = tokens.current.text.lower() if tokens.current else ""
        if clause in self.clauses:
            tokens.fail()
        self.clauses.add(clause)
        if tokens.accept("using"):
            self.access_method = tokens.name()
        elif tokens.sees("with"):
            start = tokens.advance().start
            tokens.elements()
            self.storage = tokens.passage(start, tokens.taken_to)
        elif tokens.sees("location"):
            self.location_place = tokens.place
            tokens.advance()
            self.location = tokens.string()
        elif tokens.accept("comment"):
            self.comment = tokens.string_text()
        elif tokens.accept("partitioned", "by"):
            self.partitioned_by = partition_fields.read(tokens)
        elif tokens.sees("clustered", "by"):
            self.buckets = bucket_clause.read(tokens)
        elif tokens.accept("options") or tokens.accept("tblproperties"):
            self._read_options()
        else:
            tokens.fail()

    def _read_options(self) -> None:
        tokens = self.tokens
        tokens.expect("(")
        while True:
            place = tokens.place
            name = tokens.option_name()
            tokens.accept("=")
            self._honour(name, tokens.option_value(), place)
            if not tokens.accept(","):
                break
        tokens.expect(")")

    def _honour(self, name: str, value: str, place: int) -> None:
        is_hudi = self.access_method in {"", "hudi"}
        if name.lower() == "primarykey" and is_hudi:
            self.option_key = parse_key(value)
        elif name.lower() == "type" and is_hudi:
            if value.lower() not in _TYPES:
                raise GatewayError(
                    f'invalid value for option "{name}": "{value}"',
                    sqlstate=INVALID_PARAMETER_VALUE,
                    hint="Available values: cow, mor.",
                    position=place,
                )
        else:
            raise GatewayError(
                f'option "{name}" of CREATE TABLE ... USING is not supported',
                sqlstate=FEATURE_NOT_SUPPORTED,
                hint=_HINTS.get(name.lower()),
                position=place,
            )

    def _place_key(self, *, is_filled: bool) -> tuple[str, ...]:
        """Add the key that an option tells; return it where it can only be added later."""
        if not self.option_key or self.option_key in self.keys:
            return ()
        if self.keys:
            raise GatewayError(
                "the option primaryKey and PRIMARY KEY name different columns",
                sqlstate=INVALID_TABLE_DEFINITION,
            )
        if is_filled:
            return self.option_key
        end = self.elements.pop()
        listed = ", ".join('"' + name.replace('"', '""') + '"' for name in self.option_key)
        self.elements.append(Passage(f", PRIMARY KEY ({listed}))", end.source, is_copied=False))
        return ()

    def _comments(self, name: str) -> tuple[str, ...]:
        """Return COMMENT statements, of names and constants as the statement writes them."""
        table = [f"COMMENT ON TABLE {name} IS {self.comment}"] if self.comment else []
        columns = [
            f"COMMENT ON COLUMN {name}.{column} IS {comment}"
            for column, comment in self.column_comments
        ]
        return (*table, *columns)


_HINTS: Final = {
    "precombinefield": "Of two versions of a row the one that was written later counts.",
}
