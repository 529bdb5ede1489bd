"""What PARTITIONED BY lists: columns, and transforms of them, as Spark and Iceberg have them.

PARTITIONED BY (country, months(created_at), bucket(16, id), truncate(4, zip))
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from catalog.divisions import COUNTED, MOST_BUCKETS, Transform
from catalog.errors import GatewayError
from catalog.extensions.grammar import Tokens, is_string
from catalog.pg.sqlstate import DUPLICATE_COLUMN, FEATURE_NOT_SUPPORTED, INVALID_PARAMETER_VALUE

_TRANSFORMS: Final = {
    **{transform.value: transform for transform in Transform},
    **{f"{word}s": Transform(word) for word in ("year", "month", "day", "hour")},
}
MOST_FIELDS: Final = 8


@dataclass(frozen=True, slots=True)
class PartitionField:
    """One of the values that partitions are told apart by."""

    transform: Transform
    column: str
    argument: int = 0
    position: int | None = field(default=None, compare=False)
    """Where it stands in the statement, in characters from 1."""
    clause: str = field(default="PARTITIONED BY", compare=False)
    """What lists it."""


def read(tokens: Tokens) -> tuple[PartitionField, ...]:
    """Take a list in parentheses.

    Raises:
        GatewayError: 42601 for what is wrong with it, 0A000 for other transforms, columns that are
            defined there and long lists, 22023 for numbers out of range, 42701 for what is named
            twice.
    """
    tokens.expect("(")
    found: tuple[PartitionField, ...] = ()
    while True:
        found = extended(found, _field(tokens))
        if not tokens.accept(","):
            break
    tokens.expect(")")
    return found


def extended(fields: Sequence[PartitionField], added: PartitionField) -> tuple[PartitionField, ...]:
    """Return a list with one field more.

    Raises:
        GatewayError: 42701 for one that it has, 0A000 for a list that is too long.
    """
    if added in fields:
        clauses = dict.fromkeys((fields[fields.index(added)].clause, added.clause))
        raise GatewayError(
            f'column "{added.column}" appears twice in {" and ".join(clauses)}',
            sqlstate=DUPLICATE_COLUMN,
            position=added.position,
        )
    if len(fields) == MOST_FIELDS:
        raise _refused(f"more than {MOST_FIELDS} columns", added.position)
    return (*fields, added)


def _field(tokens: Tokens) -> PartitionField:
    place = tokens.place
    if len(tokens.rest) > 1 and tokens.rest[1].text == "(":
        return _transformed(tokens, place)
    column = tokens.name()
    if not (tokens.sees(",") or tokens.sees(")")):
        if tokens.current is not None and tokens.current.text[:1].isalpha():
            raise _refused("a column that is defined in PARTITIONED BY", place)
        tokens.fail()
    return PartitionField(Transform.IDENTITY, column, position=place)


def _transformed(tokens: Tokens, place: int) -> PartitionField:
    word = tokens.advance().text
    transform = _TRANSFORMS.get(word.lower())
    if transform is None:
        raise _refused(f"{word}() in PARTITIONED BY", place)
    tokens.expect("(")
    number = 0
    if transform in COUNTED:
        number = argument(tokens, transform)
        tokens.expect(",")
    column = tokens.name()
    tokens.expect(")")
    return PartitionField(transform, column, number, place)


def argument(tokens: Tokens, transform: Transform) -> int:
    """Take the number of buckets, or the width.

    Raises:
        GatewayError: 42601 for anything else, 22023 for a number that is out of range.
    """
    token, place = tokens.current, tokens.place
    if token is None or is_string(token) or not token.text.isdecimal():
        tokens.fail()
    tokens.advance()
    most = MOST_BUCKETS if transform is Transform.BUCKET else 2**31 - 1
    number = int(token.text) if len(token.text) < 11 else 0
    if not 0 < number <= most:
        raise GatewayError(
            f"{token.text} is out of range for {transform.value}",
            sqlstate=INVALID_PARAMETER_VALUE,
            hint=f"Available values: 1 to {most}.",
            position=place,
        )
    return number


def _refused(what: str, position: int | None) -> GatewayError:
    return GatewayError(
        f"{what} is not supported",
        sqlstate=FEATURE_NOT_SUPPORTED,
        hint="There are columns of the table, bucket(n, column), truncate(width, column), and year,"
        " month, day and hour of a column.",
        position=position,
    )
