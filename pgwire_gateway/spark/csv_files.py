"""CSV files as COPY reads them: their header, what ends their lines, and what Spark would misread.

Spark's reader takes a lenient view: it leaves out blank lines and characters behind quotes, ends
lines in several ways in one file, and changes line ends in values to those of the first line. Files
in which that makes a difference are refused, and of the others it is told what ends their lines.
"""

import codecs
import csv
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from catalog.errors import GatewayError
from catalog.pg import sqlstate as codes
from pgwire_gateway.spark.text_streams import opened, require_no_zero
from rewrite.errors import UnsupportedError

_CHUNK: Final = 1 << 20
_LONGEST_HEADER: Final = 1 << 24
_MARK: Final = b"\xef\xbb\xbf"
"""Byte order mark, which Spark leaves out at the start of a file."""
_FIRST_LINE: Final = re.compile(rb'((?:[^"\r\n]+|"[^"]*+")*+)(\r\n|\r(?!\Z)|\n)')
_QUOTE, _COMMA, _RETURN, _NEWLINE = b'",\r\n'

_BESIDE_QUOTES: Final = np.isin(np.arange(256), (_QUOTE, _COMMA, _RETURN, _NEWLINE))
"""Which bytes there may be before a quote that opens, and behind one that closes."""

_QUOTES: Final = "quotes within values"
_BLANK: Final = "blank lines in files of one column"
_HINTS: Final = {
    _QUOTES: "Quote values as a whole, and double the quotes in them.",
    _BLANK: "They would stand for NULL; add a column, or leave them out.",
}

_Problems = Iterator[tuple[int, Callable[[Path, int, str], GatewayError], str]]
"""Places of what is wrong, each with the error and its message."""


@dataclass(frozen=True, slots=True)
class Header:
    """The first line of a CSV file."""

    columns: tuple[str, ...]
    """Names of the columns; none where the file is empty."""
    line_end: str
    """What ends this line, so all of them: ``\\n``, ``\\r\\n`` or ``\\r``."""


def header_of(file: Path) -> Header:
    """Return the header of a file.

    Raises:
        GatewayError: 22P04 for one that is no line of CSV, or where a column has no name, 42701
            for a name that occurs twice.
        UnicodeDecodeError: It is not UTF-8.
        OSError: Storage failed.
    """
    line, end = _first_line(file)
    text = line.decode("utf-8")
    if not text and not end:
        return Header((), "\n")
    try:
        (columns,) = csv.reader([text], strict=True) if text else ([""],)
    except (csv.Error, ValueError) as error:
        raise _malformed(file, 1, f"the header is no line of CSV: {error}") from error
    for number, name in enumerate(columns, 1):
        if not name:
            raise _malformed(file, 1, f"column {number} has no name in the header")
        if name in columns[: number - 1]:
            raise GatewayError(
                f'column "{name}" specified more than once',
                sqlstate=codes.DUPLICATE_COLUMN,
                detail=_place(file, 1),
            )
    return Header(tuple(columns), end.decode() or "\n")


def require_same_header(file: Path, header: Header, expected: Sequence[str]) -> None:
    """Refuse a file whose columns are not those of others, in their order (22P04)."""
    found = header.columns
    if len(found) != len(expected):
        raise _malformed(
            file,
            1,
            f"wrong number of fields in header line: got {len(found)}, expected {len(expected)}",
        )
    for number, (name, wanted) in enumerate(zip(found, expected, strict=True), 1):
        if name != wanted:
            raise _malformed(
                file,
                1,
                f"column name mismatch in header line field {number}:"
                f' got "{name}", expected "{wanted}"',
            )


def require_lines(file: Path, header: Header) -> Iterator[int]:
    """Look at all lines, and yield how many bytes have been read after each part of the file.

    Raises:
        GatewayError: 22P04 for lines with fewer or more values than the header, that end in another
            way, and for quotes that are not closed; 22021 for what is no text.
        UnsupportedError: 0A000 for quotes within values that are not quoted as a whole, and for
            blank lines where there is one column: they stand for NULL, and Spark leaves them out.
        UnicodeDecodeError: It is not UTF-8.
        OSError: Storage failed.
    """
    lines, decoder = _Lines(file, header), codecs.getincrementaldecoder("utf-8")()
    size, held = 0, b""
    with opened(file) as stream:
        while chunk := stream.read(_CHUNK):
            decoder.decode(chunk)
            require_no_zero(file, chunk)
            data = held + chunk
            if not size and data.startswith(_MARK):
                data = data[len(_MARK) :]
            size += len(chunk)
            # What follows these tells what they mean.
            held = data[len(data.rstrip(b'"\r')) :]
            lines.read(data[: len(data) - len(held)])
            yield size
    decoder.decode(b"", final=True)
    lines.read(held)
    lines.finish()


class _Lines:
    """What is known of a file that is read part by part."""

    def __init__(self, file: Path, header: Header) -> None:
        self._file = file
        self._columns = header.columns
        self._end = header.line_end
        self._last_of_end = ord(header.line_end[-1])
        self._inside = False
        """Whether the next byte is within quotes."""
        self._previous = _NEWLINE
        self._commas = 0
        """Commas in the line so far."""
        self._line = 1
        self._is_open = False
        """Whether the line has begun."""

    def read(self, data: bytes) -> None:
        """Look at the next bytes; what follows them begins with no quote and no line end."""
        if not data:
            return
        found = np.frombuffer(data, np.uint8)
        quotes = np.flatnonzero(found == _QUOTE)

        def outside(byte: int) -> Any:
            places = np.flatnonzero(found == byte)
            return places[(np.searchsorted(quotes, places) + self._inside) % 2 == 0]

        returns, newlines = outside(_RETURN), outside(_NEWLINE)
        ends = newlines if self._last_of_end == _NEWLINE else returns
        problems = [
            *self._misplaced_quotes(found, quotes),
            *self._other_ends(found, returns, newlines),
            *self._other_lengths(found, outside(_COMMA), ends),
        ]
        if problems:
            place, error, message = min(problems, key=lambda problem: problem[0])
            line = self._line + int(np.count_nonzero(found[:place] == self._last_of_end))
            raise error(self._file, line, message)
        self._inside = (quotes.size + self._inside) % 2 == 1
        self._previous = int(found[-1])
        self._is_open = not ends.size or int(ends[-1]) < found.size - 1
        self._line += int(np.count_nonzero(found == self._last_of_end))

    def finish(self) -> None:
        """Look at the end of the file."""
        if self._inside:
            raise _malformed(self._file, self._line, "unterminated CSV quoted field")
        if self._is_open and self._commas != len(self._columns) - 1:
            raise _malformed(self._file, self._line, self._length_message(self._commas))

    def _misplaced_quotes(self, found: Any, quotes: Any) -> _Problems:
        before = np.where(quotes > 0, found[quotes - 1], self._previous)
        is_last = quotes == found.size - 1
        after = np.where(is_last, _NEWLINE, found[np.where(is_last, 0, quotes + 1)])
        opens = (np.arange(quotes.size) + self._inside) % 2 == 0
        wrong = ~_BESIDE_QUOTES[np.where(opens, before, after)]
        if wrong.any():
            yield int(quotes[wrong.argmax()]), _unsupported, _QUOTES

    def _other_ends(self, found: Any, returns: Any, newlines: Any) -> _Problems:
        if self._end == "\r\n":
            is_last = returns == found.size - 1
            returns = returns[is_last | (found[np.where(is_last, 0, returns + 1)] != _NEWLINE)]
            before = np.where(newlines > 0, found[newlines - 1], self._previous)
            newlines = newlines[before != _RETURN]
        if returns.size and self._end != "\r":
            yield int(returns[0]), _malformed, "unquoted carriage return found in data"
        if newlines.size and self._end != "\n":
            yield int(newlines[0]), _malformed, "unquoted newline found in data"

    def _other_lengths(self, found: Any, commas: Any, ends: Any) -> _Problems:
        seen = np.searchsorted(commas, ends)
        counts = np.diff(seen, prepend=0)
        if counts.size:
            counts[0] += self._commas
            self._commas = int(commas.size - seen[-1])
        else:
            self._commas += int(commas.size)
        wrong = np.flatnonzero(counts != len(self._columns) - 1)
        if wrong.size:
            message = self._length_message(int(counts[wrong[0]]))
            yield int(ends[wrong[0]]), _malformed, message
        if len(self._columns) == 1:
            # With two bytes to the end of a line, it follows that of the line before.
            starts = ends - (len(self._end) - 1)
            blank = np.where(starts > 0, found[starts - 1], self._previous) == self._last_of_end
            if blank.any():
                yield int(ends[blank.argmax()]), _unsupported, _BLANK

    def _length_message(self, commas: int) -> str:
        if commas < len(self._columns):
            return f'missing data for column "{self._columns[commas + 1]}"'
        return "extra data after last expected column"


def _first_line(file: Path) -> tuple[bytes, bytes]:
    """Return the first line without its end, and the end; this is empty where the file ends."""
    data = b""
    with opened(file) as stream:
        while chunk := stream.read(_CHUNK):
            data = data + chunk if data else chunk.removeprefix(_MARK)
            found = _FIRST_LINE.match(data)
            if found:
                return found[1], found[2]
            if len(data) > _LONGEST_HEADER:
                raise _malformed(file, 1, "the header is no line of CSV")
    return (data[:-1], b"\r") if data.endswith(b"\r") else (data, b"")


def _malformed(file: Path, line: int, message: str) -> GatewayError:
    return GatewayError(message, sqlstate=codes.BAD_COPY_FILE_FORMAT, detail=_place(file, line))


def _unsupported(file: Path, line: int, message: str) -> GatewayError:
    return UnsupportedError(
        f"{message} are not supported", detail=_place(file, line), hint=_HINTS[message]
    )


def _place(file: Path, line: int) -> str:
    return f'Line {line} of file "{file.name}".'
