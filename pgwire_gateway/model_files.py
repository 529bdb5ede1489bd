"""Model files of the convention: JSON that names schemas of another database, with journals."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from catalog.errors import GatewayError
from catalog.journal.layout import SUBSEQUENT, SUFFIX, VERSION
from catalog.pg import sqlstate as codes

_MODEL: Final = {"version": str, "defaultSchema": str, "schemas": list}
_SCHEMA: Final = {"name": str, "type": str, "factory": str, "operand": dict}
_OPERAND: Final = {
    "connection": str,
    "jdbcSchema": str,
    "journalSuffix": str,
    "journalVersionField": str,
    "journalSubsequentVersionField": str,
    "journalVersionType": str,
    "journalDefaultKey": (str, list),
    "journalTables": (list, dict),
}
_VERSION_TYPES: Final = ("TIMESTAMP", "BIGINT")


@dataclass(frozen=True, slots=True)
class ModelTable:
    """A table that stands for a journal."""

    schema: str
    name: str
    journal: tuple[str, str]
    """Schema and name of the journal in the other database."""
    key: tuple[str, ...]
    connection: Path
    version: str
    subsequent: str
    version_type: str


@dataclass(frozen=True, slots=True)
class ModelSchema:
    """A schema of another database."""

    name: str
    location: str
    """Its name there."""
    connection: Path
    tables: tuple[ModelTable, ...]
    """Those that stand for journals; others are what they are there."""


def read(path: Path) -> tuple[ModelSchema, ...]:
    """Return the schemas of a model file.

    Raises:
        GatewayError: 58P01 for a missing file, 22023 for what is wrong in it, by its name.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise GatewayError(
            f'could not read model file "{path}": {error.strerror}', sqlstate=codes.UNDEFINED_FILE
        ) from error
    except ValueError as error:
        raise _invalid(path, f"it is no JSON: {error}") from error
    model = _Object(path, "the model", document, _MODEL)
    listed = enumerate(model.required("schemas"), 1)
    return tuple(_schema(path, f"schema {number}", given) for number, given in listed)


def connection_files(path: Path) -> tuple[Path, ...]:
    """Return the files that tell how the databases of a model file are reached.

    Raises:
        GatewayError: As :func:`read`.
    """
    return tuple(dict.fromkeys(schema.connection for schema in read(path)))


def _schema(path: Path, place: str, given: object) -> ModelSchema:
    schema = _Object(path, place, given, _SCHEMA)
    name = str(schema.required("name"))
    operand = _Object(path, f'the operand of schema "{name}"', schema.required("operand"), _OPERAND)
    version_type = str(operand.get("journalVersionType", _VERSION_TYPES[0]))
    if version_type not in _VERSION_TYPES:
        raise _invalid(path, f'"journalVersionType" of schema "{name}" is "{version_type}"')
    default = _key(path, "journalDefaultKey", operand.get("journalDefaultKey", "id"))
    listed = operand.required("journalTables")
    keys: Mapping[str, object] = listed if isinstance(listed, dict) else dict.fromkeys(listed)
    location = str(operand.get("jdbcSchema", name))
    connection = path.parent.absolute() / str(operand.required("connection"))
    tables = [
        ModelTable(
            name,
            table,
            (location, table + str(operand.get("journalSuffix", SUFFIX))),
            default if key is None else _key(path, table, key),
            connection,
            str(operand.get("journalVersionField", VERSION)),
            str(operand.get("journalSubsequentVersionField", SUBSEQUENT)),
            version_type,
        )
        for table, key in keys.items()
    ]
    return ModelSchema(name, location, connection, tuple(tables))


def _key(path: Path, name: str, given: object) -> tuple[str, ...]:
    columns = [given] if isinstance(given, str) else given
    if not isinstance(columns, list) or not columns:
        raise _invalid(path, f'the key of "{name}" names no columns')
    if not all(isinstance(column, str) for column in columns):
        raise _invalid(path, f'the key of "{name}" is no list of names')
    return tuple(columns)


class _Object:
    """An object of the document, whose properties are all known."""

    def __init__(self, path: Path, place: str, given: object, known: Mapping[str, Any]) -> None:
        self._path = path
        self._place = place
        if not isinstance(given, dict):
            raise _invalid(path, f"{place} is no object")
        for name, value in given.items():
            if name not in known:
                raise _invalid(path, f'unknown property "{name}" of {place}', sorted(known))
            if not isinstance(value, known[name]):
                raise _invalid(path, f'property "{name}" of {place} is of the wrong type')
        self._given: Mapping[str, Any] = given

    def get(self, name: str, default: object) -> object:
        """Return a property, or what counts without it."""
        return self._given.get(name, default)

    def required(self, name: str) -> Any:
        """Return a property that there has to be."""
        if name not in self._given:
            raise _invalid(self._path, f'property "{name}" of {self._place} is missing')
        return self._given[name]


def _invalid(path: Path, reason: str, known: Sequence[str] = ()) -> GatewayError:
    return GatewayError(
        f'model file "{path}": {reason}',
        sqlstate=codes.INVALID_PARAMETER_VALUE,
        hint=f"Its properties are {', '.join(known)}." if known else None,
    )
