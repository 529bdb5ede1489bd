"""Files of text, looked at before Spark reads them: it replaces, or leaves out, what is wrong."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from pathlib import Path
from threading import Lock
from typing import Final

from catalog.errors import GatewayError
from catalog.pg import sqlstate as codes
from pgwire_gateway.spark import csv_files, json_files
from pgwire_gateway.spark.statements import RunningStatement

FORMATS: Final = frozenset({"csv", "json"})
_MOST_KNOWN: Final = 10_000


def require_text(
    form: str, files: Iterable[Path], statement: RunningStatement | None = None
) -> None:
    """Refuse files whose columns are to be found, where Spark would misread them.

    Args:
        form: The format of all files; those of others than CSV and JSON are not looked at.
        files: The files.
        statement: Who waits for it, and may be cancelled.

    Raises:
        GatewayError: 22021, 22P04, and as `csv_files.require_lines` and `json_files.require_lines`.
        OSError: Storage failed.
    """
    columns: Sequence[str] = ()
    numbers = json_files.Numbers()
    for file in files if form in FORMATS else ():
        found = _look(form, file, columns, numbers, statement)
        columns = columns or found
    numbers.require_exact()


class KnownFiles:
    """Files of journals of others that have been looked at, by what tells that they changed."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[object, ...], None] = OrderedDict()
        self._lock = Lock()

    def require_text(
        self,
        form: str,
        file: Path,
        columns: Sequence[str],
        statement: RunningStatement | None = None,
    ) -> None:
        """Refuse a file whose columns are known, where Spark would misread it.

        Raises:
            GatewayError: As :func:`require_text`, and 22P04 for a header with other columns.
            OSError: Storage failed.
        """
        state = file.stat()
        times = (state.st_mtime_ns, state.st_ctime_ns)
        key = (form, file, state.st_size, *times, state.st_ino, *columns)
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return
        _look(form, file, columns, None, statement)
        with self._lock:
            self._known[key] = None
            while len(self._known) > _MOST_KNOWN:
                self._known.popitem(last=False)


def _look(
    form: str,
    file: Path,
    columns: Sequence[str],
    numbers: json_files.Numbers | None,
    statement: RunningStatement | None,
) -> Sequence[str]:
    """Look at all of a file, and return its columns, as far as its format tells them."""
    found: Sequence[str] = ()
    try:
        if form == "json":
            parts = json_files.require_lines(file, numbers)
        else:
            header = csv_files.header_of(file)
            found = header.columns
            if not found:
                return found
            if columns:
                csv_files.require_same_header(file, header, columns)
            parts = csv_files.require_lines(file, header)
        for _ in parts:
            if statement is not None:
                statement.check()
    except UnicodeDecodeError as error:
        raise GatewayError(
            'invalid byte sequence for encoding "UTF8"',
            sqlstate=codes.CHARACTER_NOT_IN_REPERTOIRE,
            detail=f'File "{file.name}".',
        ) from error
    return found
