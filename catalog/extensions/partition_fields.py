"""What PARTITIONED BY lists: columns, and transforms of them, as Spark and Iceberg have them.

PARTITIONED BY (country, months(created_at), bucket(16, id), truncate(4, zip))
"""

from dataclasses import dataclass, field
from typing import Final

from catalog.divisions import COUNTED, MOST_BUCKETS, Transform
from catalog.errors import GatewayError
from catalog.extensions.grammar import Tokens, is_string
from catalog.sqlstate import DUPLICATE_COLUMN, FEATURE_NOT_SUPPORTED, INVALID_PARAMETER_VALUE

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


def read(tokens: Tokens) -> tuple[PartitionField, ...]:
    """Take a list in parentheses.

    Raises:
        GatewayError: 42601 for what is wrong with it, 0A000 for other transforms, columns that are
            defined there and long lists, 22023 for numbers out of range, 42701 for what is named
            twice.
    """
    tokens.expect("(")
    found: list[PartitionField] = []
    while True:
        listed = _field(tokens)
        if listed in found:
            raise GatewayError(
                f'column "{listed.column}" appears twice in PARTITIONED BY',
                sqlstate=DUPLICATE_COLUMN,
                position=listed.position,
            )
        found.append(listed)
        if len(found) > MOST_FIELDS:
            raise _refused(f"more than {MOST_FIELDS} columns", listed.position)
        if not tokens.accept(","):
            break
    tokens.expect(")")
    return tuple(found)


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
    argument = _argument(tokens, transform) if transform in COUNTED else 0
    column = tokens.name()
    tokens.expect(")")
    return PartitionField(transform, column, argument, place)


def _argument(tokens: Tokens, transform: Transform) -> int:
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
    tokens.expect(",")
    return number


def _refused(what: str, position: int | None) -> GatewayError:
    return GatewayError(
        f"{what} is not supported",
        sqlstate=FEATURE_NOT_SUPPORTED,
        hint="There are columns of the table, bucket(n, column), truncate(width, column), and year,"
        " month, day and hour of a column.",
        position=position,
    )
