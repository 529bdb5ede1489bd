"""Other databases, reached by Spark through JDBC: how they are read, and appended to."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from catalog.errors import GatewayError
from catalog.model import ExternalJournal
from catalog.pg import sqlstate as codes
from pgwire_gateway.spark.api import Frame, Reading, Session, Writing

_KNOWN: Final = ("jdbcDriver", "jdbcUrl", "jdbcUser", "jdbcPassword")


@dataclass(frozen=True, slots=True)
class Connection:
    """How another database is reached."""

    driver: str
    url: str
    user: str
    password: str

    @classmethod
    def read(cls, path: str) -> Self:
        """Read the JSON file that tells.

        Raises:
            GatewayError: 58P01 for a missing file, 22023 for what is wrong with it.
        """
        try:
            return cls.of(json.loads(Path(path).read_text(encoding="utf-8")), path)
        except OSError as error:
            raise GatewayError(
                f'could not read connection file "{path}": {error.strerror}',
                sqlstate=codes.UNDEFINED_FILE,
            ) from error
        except ValueError as error:
            raise _invalid(path, str(error)) from error

    @classmethod
    def of(cls, given: object, path: str) -> Self:
        """Take the properties from a JSON document."""
        if not isinstance(given, dict):
            raise _invalid(path, "it is no object")
        for name, value in given.items():
            if name not in _KNOWN:
                raise _invalid(path, f'unknown property "{name}"')
            if not isinstance(value, str):
                raise _invalid(path, f'property "{name}" is no string')
        for name in _KNOWN[:2]:
            if name not in given:
                raise _invalid(path, f'property "{name}" is missing')
        return cls(*(given.get(name, "") for name in _KNOWN))

    def options(self) -> dict[str, str]:
        """Return Spark's options."""
        found = {
            "url": self.url,
            "driver": self.driver,
            "user": self.user,
            "password": self.password,
            # TIMESTAMP without time zone is none of an instant.
            "preferTimestampNTZ": "true",
        }
        if self.url.startswith("jdbc:postgresql:"):
            # So that what Spark has as text may be uuid, json or an enumeration there.
            found["stringtype"] = "unspecified"
        return {name: value for name, value in found.items() if value}


def _invalid(path: str, reason: str) -> GatewayError:
    return GatewayError(
        f'connection file "{path}": {reason}',
        sqlstate=codes.INVALID_PARAMETER_VALUE,
        hint=f"Its properties are {', '.join(_KNOWN)}.",
    )


def opened(session: Session, external: ExternalJournal) -> Frame:
    """Return the rows of a relation of another database."""
    return session.read(Reading("jdbc", options=_options(external)))


def append(external: ExternalJournal, frame: Frame) -> None:
    """Append rows to a relation of another database, in one transaction there."""
    frame.coalesce(1).write(Writing("jdbc", options=_options(external), appends=True))


def _options(external: ExternalJournal) -> dict[str, str]:
    options = Connection.read(external.connection or "").options()
    return {**options, "dbtable": external.location}


def archive(session: Session, external: ExternalJournal, key: Sequence[str]) -> int:
    """Tell superseded row versions the number of their successor; return how many there were."""
    options = _options(external)
    version, subsequent, *keys = (
        session.quoted(options["url"], name)
        for name in (external.version, external.subsequent, *key)
    )
    same = " AND ".join(f"n.{name} = j.{name}" for name in keys)
    later = f"FROM {external.location} n WHERE {same} AND n.{version} > j.{version}"
    update = (
        f"UPDATE {external.location} j SET {subsequent} = (SELECT min(n.{version}) {later})"  # noqa: S608
        f" WHERE j.{subsequent} IS NULL AND EXISTS (SELECT 1 {later})"
    )
    return session.update(options, update)
