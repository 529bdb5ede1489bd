"""Which files a journal of others consists of at a moment; nothing is kept from one to the next."""

import hashlib
from itertools import count

from catalog.model import ExternalJournal, Outside
from pgwire_gateway.config import Config
from pgwire_gateway.files.allowed_paths import AllowedPaths
from pgwire_gateway.files.text_files import FORMATS, KnownFiles
from pgwire_gateway.spark.errors import storage_failures
from pgwire_gateway.spark.external_frames import JDBC, TABLE, column_names
from pgwire_gateway.spark.statements import RunningStatement

_BYTES_PER_ROW = 16
"""What a row version takes in files at least, by a guess."""
_UNKNOWN_ROWS = 1_000_000
_LOOKS = count(1)
"""Numbers for states of tables of which only Spark knows whether they have changed."""
_KNOWN = KnownFiles()


def contents(
    config: Config, external: ExternalJournal, statement: RunningStatement | None = None
) -> Outside:
    """Return what there is of a journal now.

    Raises:
        GatewayError: 42501 where it is not below a directory that is allowed, or a link leads out,
            58P01 where it has gone; 22021, 22P04 and others for text that Spark would misread.
    """
    if external.format == JDBC:
        return Outside((), "database", _UNKNOWN_ROWS)
    if external.format == TABLE:
        return Outside((), f"looked at {next(_LOOKS)}", _UNKNOWN_ROWS)
    paths = AllowedPaths(config.allow_path, config.data_dir).existing(external.location)
    digest, size = hashlib.sha256(), 0
    columns = column_names(external) if external.format in FORMATS else []
    with storage_failures():
        for path in paths:
            if external.format in FORMATS:
                _KNOWN.require_text(external.format, path, columns, statement)
            found = path.stat()
            size += found.st_size
            digest.update(f"{path}\0{found.st_size} {found.st_mtime_ns} {found.st_ino}\0".encode())
    rows = max(size // _BYTES_PER_ROW, 1)
    return Outside(tuple(map(str, paths)), digest.hexdigest()[:24], rows)
