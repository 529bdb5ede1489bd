"""Which files CONVERT may read and write: those below the directories that the operator allows.

Links are followed before a path is judged, so none leads out of them. What lies outside is refused
in the same words whether it exists or not.
"""

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from catalog.errors import GatewayError
from catalog.pg import sqlstate as codes
from catalog.server.roles import IMPORT_ROLE
from catalog.session import names
from catalog.session.connections import CatalogSession
from pgwire_gateway.files.lake_directories import require_plain
from rewrite.errors import UnsupportedError

_GLOB: Final = frozenset("*?[]{}\\")
"""Characters with which Spark would look for other files."""

_OF_QUERIES: Final = frozenset("?# \t\r\n")
"""Characters with which the path of a URI ends, or that are left out of it."""


def require_privilege(session: CatalogSession) -> None:
    """Refuse roles that may not use files (42501)."""
    if not names.may_use_files(session):
        raise GatewayError(
            "permission denied to CONVERT from or to a file",
            sqlstate=codes.INSUFFICIENT_PRIVILEGE,
            detail=f'Only roles with privileges of the "{IMPORT_ROLE}" role may CONVERT from or'
            " to a file.",
        )


@dataclass(frozen=True, slots=True)
class AllowedPaths:
    """The directories below which files may be used."""

    directories: Sequence[Path]
    withheld: Path
    """Directory of the gateway's own files, which is never allowed."""

    def existing(self, text: str) -> tuple[Path, ...]:
        """Return the files at a path: itself, or what a directory holds, in the order of names.

        Names that begin with a dot or an underscore are left out, as Spark does.

        Raises:
            GatewayError: 42501 for what lies outside, 58P01 for what is missing, 42602 for a
                relative path, 58030 for what cannot be read, 0A000 for a directory of a table
                with a log, such as those of Delta Lake.
            UnsupportedError: URIs of other schemes, directories in the directory.
        """
        path = self._resolved(text, _absolute(text))
        try:
            return tuple(self._files(text, path))
        except OSError as error:
            raise _failure("open file", text, error) from error

    def directory(self, text: str) -> Path:
        """Return a directory that is there, without links.

        Raises:
            GatewayError: As :meth:`existing`; 42809 for a file.
        """
        path = self._resolved(text, _absolute(text))
        if not path.exists():
            raise _failure("open directory", text, _error(errno.ENOENT))
        if not path.is_dir():
            raise GatewayError(f'"{text}" is not a directory', sqlstate=codes.WRONG_OBJECT_TYPE)
        return path

    def new(self, text: str) -> Path:
        """Return the place of a directory that is to be made; its parent is there.

        Raises:
            GatewayError: As :meth:`existing`; 58P02 for one that exists.
        """
        given = _absolute(text)
        path = self._resolved(text, given)
        if os.path.lexists(given) or path.exists():
            raise _failure("create directory", text, _error(errno.EEXIST))
        if not path.parent.is_dir():
            raise _failure("create directory", text, _error(errno.ENOENT))
        return path

    def _files(self, text: str, path: Path) -> Iterator[Path]:
        if not path.is_dir():
            _require_readable(text, path)
            yield path
            return
        require_plain(path, self.directories)
        for entry in sorted(path.iterdir()):
            if entry.name.startswith((".", "_")):
                continue
            shown = f"{text.rstrip('/')}/{entry.name}"
            file = self._resolved(shown, entry)
            if file.is_dir():
                raise UnsupportedError(
                    f'"{shown}" is a directory: those with partitions are not supported',
                    hint="Name a directory that holds files alone.",
                )
            _require_readable(shown, file)
            yield file

    def _resolved(self, text: str, path: Path) -> Path:
        """Return a path without links.

        Raises:
            GatewayError: 42501.
        """
        try:
            found = path.resolve()
        except (OSError, RuntimeError):  # links in a circle
            found = Path("/")
        inside = any(found.is_relative_to(directory.resolve()) for directory in self.directories)
        if not inside or found.is_relative_to(self.withheld.resolve()):
            raise GatewayError(
                f'path "{text}" is not below a directory that is allowed',
                sqlstate=codes.INSUFFICIENT_PRIVILEGE,
                hint="The operator of the server allows directories with --allow-path.",
            )
        if _GLOB.intersection(str(found)):
            raise UnsupportedError(f'paths with one of the characters *?[]{{}}\\: "{text}"')
        return found


def _absolute(text: str) -> Path:
    path = text
    scheme, separator, _ = text.partition(":")
    if separator and "/" not in scheme:
        address = urlsplit(text)
        if address.scheme != "file" or address.netloc:
            raise UnsupportedError(
                f'URIs other than those of local files are not supported: "{text}"',
                hint="Give an absolute path, or a URI that begins with file:///.",
            )
        if _OF_QUERIES.intersection(text):
            raise UnsupportedError(
                f'URIs with a query, a fragment or white space are not supported: "{text}"',
                hint="Characters of names are written %3F, %23 and %20 there.",
            )
        path = unquote(address.path)
    if not path.startswith("/") or "\0" in path:
        raise GatewayError(
            "relative path not allowed for CONVERT",
            sqlstate=codes.INVALID_NAME,
            hint="Give an absolute path, or a URI that begins with file:///.",
        )
    return Path(path)


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def _require_readable(text: str, path: Path) -> None:
    """Refuse what is no plain file, such as a pipe, which would be waited for (42809)."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise GatewayError(f'"{text}" is not a regular file', sqlstate=codes.WRONG_OBJECT_TYPE)
    with path.open("rb"):
        pass


def _failure(deed: str, text: str, error: OSError) -> GatewayError:
    code = _CODES.get(error.errno or 0, codes.IO_ERROR)
    return GatewayError(f'could not {deed} "{text}": {error.strerror}', sqlstate=code)


_CODES: Final = {
    errno.ENOENT: codes.UNDEFINED_FILE,
    errno.EEXIST: codes.DUPLICATE_FILE,
    errno.EACCES: codes.INSUFFICIENT_PRIVILEGE,
    errno.EPERM: codes.INSUFFICIENT_PRIVILEGE,
}
