"""CONVERT TO target FROM source [USING format] [KEY (column, …)] [IN PLACE] [PARTITIONED BY (…)].

Target and source are names of tables or paths, given as string constants. The clauses come in any
order, each at most once.
"""

from dataclasses import dataclass, field
from typing import Final

from catalog.errors import GatewayError
from catalog.extensions import partition_fields
from catalog.extensions.grammar import RelationPair, Tokens, is_string
from catalog.extensions.partition_fields import PartitionField
from catalog.pg.sqlstate import FEATURE_NOT_SUPPORTED, INVALID_PARAMETER_VALUE, SYNTAX_ERROR

FORMATS: Final = ("parquet", "orc", "csv", "json")
"""Formats of files that are read; those that are written are Parquet."""

LAKES: Final = {"delta": "Delta Lake", "iceberg": "Iceberg", "hudi": "Hudi"}
"""Formats of tables with a log of their own, which tells the files that count."""


@dataclass(frozen=True, slots=True)
class Files:
    """Files at a path, as the statement gives it."""

    path: str


@dataclass(frozen=True, slots=True)
class Table:
    """A table, as the statement names it."""

    relation: RelationPair


@dataclass(frozen=True, slots=True)
class Convert:
    """One statement."""

    target: Table | Files
    source: Table | Files
    format: str | None = None
    """One of ``FORMATS``; None to go by the names of the files."""
    key: tuple[str, ...] = ()
    """Columns of the target's primary key; none for a hidden identity."""
    key_position: int | None = field(default=None, compare=False)
    """Where the key stands in the statement, in characters from 1."""
    in_place: bool = False
    """Whether the files become those of the table as they are."""
    partitioned_by: tuple[PartitionField, ...] = ()
    """What the target is divided by."""


def parse(text: str) -> Convert | None:
    """Return a statement that begins as this one does; None for any other.

    Raises:
        GatewayError: 42601 for what is wrong with it, 22023 for an unknown format, 0A000 for one
            of ``LAKES``.
    """
    tokens = Tokens(text)
    if not tokens.accept("convert", "to"):
        return None
    target = _end(tokens)
    tokens.expect("from")
    source = _end(tokens)
    chosen: str | None = None
    key: tuple[str, ...] = ()
    place: int | None = None
    in_place = False
    partitioned_by: tuple[PartitionField, ...] = ()
    while tokens.current is not None:
        if chosen is None and tokens.accept("using"):
            at = tokens.place
            chosen = checked_format(tokens.name(), at)
        elif not key and tokens.accept("key"):
            place = tokens.place
            key = tokens.names()
        elif not in_place and tokens.accept("in", "place"):
            in_place = True
        elif not partitioned_by and tokens.accept("partitioned", "by"):
            partitioned_by = partition_fields.read(tokens)
        else:
            tokens.fail()
    convert = Convert(target, source, chosen, key, place, in_place, partitioned_by)
    require_meaning(convert)
    return convert


def parse_end(text: str) -> Table | Files:
    """Return what a parameter names: a path where a slash is in it, else a table.

    Raises:
        GatewayError: 42601 for no name.
    """
    if "/" in text:
        return Files(text)
    tokens = Tokens(text)
    table = Table(tokens.relation())
    tokens.expect_end()
    return table


def parse_key(text: str) -> tuple[str, ...]:
    """Return the columns that a parameter lists, parted by commas.

    Raises:
        GatewayError: 42601 for anything but names.
    """
    tokens = Tokens(f"({text})")
    key = tokens.names()
    tokens.expect_end()
    return key


def checked_format(name: str, position: int | None = None) -> str:
    """Return the name of a format in lower case.

    Raises:
        GatewayError: 22023 for an unknown one, 0A000 for one of ``LAKES``.
    """
    if name.lower() in LAKES:
        raise lake_refusal(name.lower(), position)
    if name.lower() not in FORMATS:
        raise GatewayError(
            f'format "{name}" not recognized',
            sqlstate=INVALID_PARAMETER_VALUE,
            hint=f"Available formats: {', '.join(FORMATS)}.",
            position=position,
        )
    return name.lower()


def lake_refusal(name: str, position: int | None = None) -> GatewayError:
    """Return the error for files of a table in one of ``LAKES`` (0A000)."""
    return GatewayError(
        f"files in format {name} are not supported",
        sqlstate=FEATURE_NOT_SUPPORTED,
        detail=f"Which files and rows of such a table count is in a log that only {LAKES[name]}"
        " reads, and the gateway has no reader of it; --jars gives it none.",
        hint="Write the table as plain Parquet files, with an engine that knows the format, and"
        " CONVERT these.",
        position=position,
    )


def require_meaning(convert: Convert) -> None:
    """Refuse clauses that would mean nothing.

    Raises:
        GatewayError: 42601 for a format of tables, a key of files and tables in place, 0A000 for
            files in another format than Parquet, partitions of files and in place.
    """
    to_files = isinstance(convert.target, Files)
    if convert.partitioned_by and (to_files or convert.in_place):
        raise GatewayError(
            f"PARTITIONED BY of {'files' if to_files else 'files IN PLACE'} is not supported",
            sqlstate=FEATURE_NOT_SUPPORTED,
            position=convert.partitioned_by[0].position,
        )
    if to_files and convert.key:
        raise GatewayError(
            "KEY is for tables, and the target is a path",
            sqlstate=SYNTAX_ERROR,
            position=convert.key_position,
        )
    from_files = isinstance(convert.source, Files)
    if convert.in_place and (to_files or not from_files):
        raise GatewayError("IN PLACE is for files that become a table", sqlstate=SYNTAX_ERROR)
    if convert.format is None or from_files:
        return
    if not to_files:
        raise GatewayError("USING is for paths, and there is none", sqlstate=SYNTAX_ERROR)
    if convert.format != "parquet":
        raise GatewayError(
            f"CONVERT to files in format {convert.format} is not supported",
            sqlstate=FEATURE_NOT_SUPPORTED,
            hint="Files are written as Parquet; COPY ... TO STDOUT writes CSV.",
        )


def _end(tokens: Tokens) -> Table | Files:
    token = tokens.current
    if token is not None and is_string(token):
        return Files(tokens.string())
    return Table(tokens.relation())
