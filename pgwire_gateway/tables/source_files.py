"""The files that a statement names: which they are, whether they may be used, their format."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from catalog.errors import GatewayError
from catalog.extensions.convert import FORMATS, Files
from catalog.pg import sqlstate as codes
from pgwire_gateway.files import text_files
from pgwire_gateway.files.allowed_paths import AllowedPaths, require_privilege
from pgwire_gateway.session.state import ClientSession
from pgwire_gateway.spark.errors import SparkError, SparkLostError, storage_failures
from pgwire_gateway.spark.file_inspection import require_readable
from pgwire_gateway.spark.file_sources import FileSource
from rewrite.errors import UnsupportedError

_SUFFIXES: Final = {
    ".parquet": "parquet",
    ".orc": "orc",
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
}
_COMPRESSIONS: Final = frozenset({".gz", ".bz2", ".zst", ".lz4", ".snappy", ".deflate"})


def file_source(session: ClientSession, source: Files, chosen: str | None) -> FileSource:
    """Return the files at a path that the role may read.

    Raises:
        GatewayError: 42501, 58P01, and 22023 where the format cannot be told by the names.
        UnsupportedError: Names that Hadoop takes for URIs (0A000).
    """
    require_privilege(session.catalog)
    files = allowed(session).existing(source.path)
    if not files:
        raise GatewayError(f'no files in "{source.path}"', sqlstate=codes.UNDEFINED_FILE)
    for file in files:
        if ":" in file.name:
            raise UnsupportedError(f'a colon in the name of file "{file.name}" is not supported')
    form = chosen or _format(source.path, files)
    with storage_failures():
        text_files.require_text(form, files, session.running)
    return FileSource(form, files)


def allowed(session: ClientSession) -> AllowedPaths:
    """Return the paths that clients may use."""
    config = session.services.config
    return AllowedPaths(config.allow_path, config.data_dir)


@contextmanager
def reading(source: Files, form: str, files: Sequence[Path] = ()) -> Iterator[None]:
    """Tell of what Spark finds wrong with files in words that do not name others (22P04).

    Where these are given, and one has a column of a type that Spark does not read, of that (0A000).
    """
    try:
        yield
    except SparkLostError:
        raise
    except SparkError as error:
        if error.sqlstate not in _OF_FILES:
            raise
        if form == "parquet":
            require_readable(files)
        raise GatewayError(
            f'could not read "{source.path}" as {form}',
            sqlstate=codes.BAD_COPY_FILE_FORMAT,
            hint="All files must be of this format, and have the same columns.",
        ) from error


_OF_FILES: Final = frozenset({codes.IO_ERROR, codes.UNDEFINED_FILE, codes.INTERNAL_ERROR})
"""What Spark's failures to read files are translated to."""


def _format(path: str, files: Sequence[Path]) -> str:
    found = {_SUFFIXES.get(_suffix(file)) for file in files}
    known = found.pop()
    if found or known is None:
        raise GatewayError(
            f'the format of "{path}" cannot be told by the names of its files',
            sqlstate=codes.INVALID_PARAMETER_VALUE,
            hint=f"Say USING and one of {', '.join(FORMATS)}.",
        )
    return known


def _suffix(file: Path) -> str:
    suffixes = [suffix.lower() for suffix in file.suffixes]
    while suffixes and suffixes[-1] in _COMPRESSIONS:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""
