"""JSON files, an object in each line: what Spark would leave out of them, or change, is refused."""

import io
import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NoReturn

from catalog.errors import GatewayError
from catalog.pg import sqlstate as codes
from pgwire_gateway.spark.text_streams import opened, require_no_zero
from rewrite.errors import UnsupportedError

_CHUNK: Final = 1 << 20
_ESCAPED_ZERO: Final = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_ESCAPED_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_NOT_ZERO: Final = re.compile("[^eE]*[1-9]")
_DIGITS: Final = 38
"""Digits of the longest whole number that Spark takes for one."""
_EXACT: Final = 2**53
"""Up to this double precision has all whole numbers."""
_JSON_SPACE: Final = b" \t\r\n"


class Numbers:
    """Numbers of files whose columns get their types from them; None where they have types."""

    def __init__(self) -> None:
        self._fractions: set[str] = set()
        self._long: dict[str, int] = {}

    def add(self, record: Mapping[str, Any]) -> None:
        """Look at the numbers of a line, and of arrays in it.

        Raises:
            GatewayError: 22003 for a whole number of too many digits.
        """
        for name, value in record.items():
            for item in value if type(value) is list else (value,):
                if type(item) is float:
                    self._fractions.add(name)
                elif type(item) is int and abs(item) > _EXACT:
                    self._add_long(name, item)

    def require_exact(self) -> None:
        """Refuse columns of double precision that would change whole numbers (0A000)."""
        for name in sorted(self._fractions & self._long.keys()):
            raise UnsupportedError(
                f'column "{name}" with fractions and the whole number {self._long[name]}'
                " is not supported",
                hint="Double precision would change it. Write the numbers as strings.",
            )

    def _add_long(self, name: str, number: int) -> None:
        if len(str(abs(number))) > _DIGITS:
            raise GatewayError(
                f'value "{number}" is out of range for type numeric({_DIGITS},0)',
                sqlstate=codes.NUMERIC_VALUE_OUT_OF_RANGE,
                detail=f'Column "{name}".',
                hint="Write it as a string.",
            )
        if int(float(number)) != number:
            self._long.setdefault(name, number)


def require_lines(file: Path, numbers: Numbers | None) -> Iterator[int]:
    """Look at all lines, and yield how many bytes have been read after each.

    Args:
        file: The file.
        numbers: What the numbers in it are told; None where columns have types.

    Raises:
        GatewayError: 22P04 for lines that are no object of JSON, 22030 for keys that occur twice in
            one, 22P05 for escaped zero bytes, 22P02 for halves of surrogate pairs, 22003 for
            numbers that double precision or numeric(38,0) has not, 22021 for what is no text.
        UnicodeDecodeError: It is not UTF-8.
        OSError: Storage failed, or what is compressed is damaged.
    """
    size = 0
    with opened(file) as stream:
        for number, line in enumerate(io.BufferedReader(stream, _CHUNK), 1):
            size += len(line)
            if text := line.strip(_JSON_SPACE):
                try:
                    _require_object(file, text, numbers)
                except GatewayError as error:
                    error.detail = " ".join(
                        [*filter(None, [error.detail]), f'Line {number} of file "{file.name}".']
                    )
                    raise
            yield size


def _require_object(file: Path, line: bytes, numbers: Numbers | None) -> None:
    require_no_zero(file, line)
    text = line.decode("utf-8")
    try:
        found = json.loads(
            text,
            object_pairs_hook=_object,
            parse_constant=_no_constant,
            parse_float=_float if numbers is not None else str,
        )
    except (ValueError, RecursionError) as error:
        raise _malformed("the line is not one object of JSON") from error
    if not isinstance(found, dict):
        raise _malformed("the line is not one object of JSON")
    if "" in found:
        raise GatewayError(
            "a key of the object has no name, as a column would have",
            sqlstate=codes.BAD_COPY_FILE_FORMAT,
        )
    if b"\\u" in line:
        _require_characters(found, line)
    if numbers is not None:
        numbers.add(found)


def _require_characters(found: object, line: bytes) -> None:
    """Refuse escapes that stand for no character of PostgreSQL's text (22P05, 22P02)."""
    if _ESCAPED_ZERO.search(line):
        raise GatewayError(
            "unsupported Unicode escape sequence",
            sqlstate=codes.UNTRANSLATABLE_CHARACTER,
            detail="\\u0000 cannot be converted to text.",
        )
    if _ESCAPED_SURROGATE.search(line):
        try:
            json.dumps(found, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise GatewayError(
                "invalid input syntax for type json",
                sqlstate=codes.INVALID_TEXT_REPRESENTATION,
                detail="Unicode surrogates must come in pairs.",
            ) from error


def _malformed(message: str) -> GatewayError:
    return GatewayError(
        message,
        sqlstate=codes.BAD_COPY_FILE_FORMAT,
        hint="Each line must be one object of JSON.",
    )


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise GatewayError(
            f'duplicate JSON object key value: "{twice}"',
            sqlstate=codes.DUPLICATE_JSON_OBJECT_KEY_VALUE,
        )
    return found


def _float(text: str) -> float:
    number = float(text)
    if math.isinf(number) or (not number and _NOT_ZERO.match(text)):
        raise GatewayError(
            f'"{text}" is out of range for type double precision',
            sqlstate=codes.NUMERIC_VALUE_OUT_OF_RANGE,
        )
    return number


def _no_constant(text: str) -> NoReturn:
    raise ValueError(text)
