"""Files of text as streams of bytes, decompressed as Spark does by their names."""

from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from catalog.errors import GatewayError
from catalog.pg import sqlstate as codes
from rewrite.errors import UnsupportedError

_COMPRESSIONS: Final = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
_OTHERS: Final = frozenset({".lz4", ".snappy", ".deflate"})
"""What Hadoop has forms of its own for, which other programs do not write."""


def opened(file: Path) -> Any:
    """Return the bytes of a file.

    Raises:
        UnsupportedError: 0A000 for other compressions than gzip, bzip2 and Zstandard.
        OSError: Storage failed, or what is compressed is damaged.
    """
    if file.suffix in _OTHERS:
        raise UnsupportedError(
            f'files of text compressed as "{file.suffix}" are not supported',
            hint="Compress them as .gz, .bz2 or .zst.",
        )
    return pa.input_stream(str(file), compression=_COMPRESSIONS.get(file.suffix))


def require_no_zero(file: Path, data: bytes) -> None:
    """Refuse zero bytes, which PostgreSQL's text has not (22021)."""
    if 0 in data:
        raise GatewayError(
            'invalid byte sequence for encoding "UTF8": 0x00',
            sqlstate=codes.CHARACTER_NOT_IN_REPERTOIRE,
            detail=f'File "{file.name}".',
        )
