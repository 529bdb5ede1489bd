"""Offsets and abbreviations of time zones for whole columns of instants.

Understands what PostgreSQL's TimeZone setting can hold: names of the IANA database and POSIX
specifications. Python's zoneinfo answers one instant at a time and hides its transitions, so the
database's files are read here.
"""

import re
import struct
import zoneinfo
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path

import numpy as np
import numpy.typing as npt

from catalog.errors import GatewayError
from catalog.pg import sqlstate as codes
from pgwire_gateway.wire_types.posix_zones import DaylightRule, parse, seconds_of_year

Seconds = npt.NDArray[np.int64]

_CYCLE = 146_097 * 86_400
"""Seconds of 400 years, after which the Gregorian calendar and every rule repeat."""
_RULES_FROM, _RULES_UNTIL = 1970, 2500
"""Years for which a rule is spelled out; later instants are mapped back by whole cycles."""
_END = seconds_of_year(_RULES_UNTIL)


@dataclass(frozen=True, slots=True, eq=False)
class TimeZone:
    """Transitions of one zone."""

    transitions: Seconds
    """Instants at which another kind begins, seconds since 1970 UTC, ascending."""
    kinds: npt.NDArray[np.intp]
    """Kind before the first transition, then from each transition on."""
    offsets: Seconds
    """Seconds east of Greenwich, by kind."""
    abbreviations: tuple[str, ...]
    """Abbreviation in force, by kind."""
    periodic: bool
    """True when one rule holds for all years, also those before its first transition."""

    def kinds_at(self, instants: Seconds) -> npt.NDArray[np.intp]:
        """Return the kind of local time in force at each instant."""
        if not len(self.transitions):
            return np.broadcast_to(self.kinds, instants.shape)
        repeated = self.periodic | (instants >= _END)
        if repeated.any():
            instants = np.where(repeated, (instants - _END) % _CYCLE + _END - _CYCLE, instants)
        return self.kinds[np.searchsorted(self.transitions, instants, side="right")]


@lru_cache(maxsize=256)
def load(name: str, directory: str | None = None) -> TimeZone:
    """Return the zone a TimeZone setting names, from a directory of TZif files or the system's.

    Raises:
        GatewayError: 22023 when there is no such zone.
    """
    if name.upper() in {"UTC", "GMT"}:
        return _from_rule(parse(f"<{name.upper()}>0"))
    data = _zone_file(name, directory)
    if data is not None:
        return _from_file(data)
    try:
        return _from_rule(parse(name.upper()))
    except ValueError:
        raise GatewayError(
            f'invalid value for parameter "TimeZone": "{name}"',
            sqlstate=codes.INVALID_PARAMETER_VALUE,
        ) from None


def is_missing(name: str, directory: str) -> bool:
    """Tell whether PostgreSQL with this directory of TZif files surely knows no such zone.

    What might be a POSIX specification or an abbreviation is not sure to be missing.
    """
    if len(name) <= _ABBREVIATION or not _PLAIN_NAME.fullmatch(name):
        return False
    return name.lower() not in _names(directory)


_ABBREVIATION = 6
"""More letters than any abbreviation has."""
_PLAIN_NAME = re.compile(r"[A-Za-z_/ ]+")


@lru_cache(maxsize=4)
def _names(directory: str) -> frozenset[str]:
    """Return the names of all zones, in lower case: PostgreSQL looks for them ignoring it."""
    root = Path(directory)
    return frozenset(
        str(path.relative_to(root)).lower() for path in root.rglob("*") if path.is_file()
    )


def _zone_file(name: str, directory: str | None) -> bytes | None:
    parts = name.split("/")
    if any(part in {"", ".", ".."} or not part.isprintable() for part in parts):
        return None
    for root in [*([directory] if directory else []), *zoneinfo.TZPATH]:
        path = Path(root, *parts)
        if path.is_file():
            return path.read_bytes()
    try:
        packaged = resources.files("tzdata").joinpath("zoneinfo", *parts)
    except ModuleNotFoundError:
        return None
    return packaged.read_bytes() if packaged.is_file() else None


def _from_rule(rule: DaylightRule) -> TimeZone:
    return _assemble([], [0], [(rule.offset, rule.name)], rule)


def _from_file(data: bytes) -> TimeZone:
    """Read a TZif file (RFC 9636), the 64-bit part when there is one."""
    version = data[4:5]
    start, width = 0, 4
    if version >= b"2":
        start, width = _block_end(data, 0, 4), 8
    _, _, _, count, kinds, letters = _counts(data, start)
    place = start + 44
    transitions = np.frombuffer(data, f">i{width}", count, place).astype(np.int64)
    place += count * width
    indexes = list(data[place : place + count])
    place += count
    records = [struct.unpack_from(">iBB", data, place + 6 * i) for i in range(kinds)]
    place += 6 * kinds
    names = data[place : place + letters]
    known = [
        (offset, names[first : names.index(b"\0", first)].decode("ascii"))
        for offset, _, first in records
    ]
    footer = ""
    if version >= b"2":
        footer = data[_block_end(data, start, width) :].strip(b"\n").decode("ascii")
    return _assemble(transitions.tolist(), [0, *indexes], known, parse(footer) if footer else None)


def _counts(data: bytes, start: int) -> tuple[int, ...]:
    if data[start : start + 4] != b"TZif":
        raise GatewayError("malformed time zone file", sqlstate=codes.INTERNAL_ERROR)
    return struct.unpack_from(">6I", data, start + 20)


def _block_end(data: bytes, start: int, width: int) -> int:
    universal, standard, leaps, count, kinds, letters = _counts(data, start)
    size = count * (width + 1) + kinds * 6 + letters + leaps * (width + 4) + standard + universal
    return start + 44 + size


def _assemble(
    transitions: list[int],
    indexes: list[int],
    kinds: list[tuple[int, str]],
    rule: DaylightRule | None,
) -> TimeZone:
    """Continue explicit transitions by a rule."""
    periodic = not transitions
    last = transitions[-1] if transitions else -(2**62)
    if rule is not None and rule.has_daylight:
        for instant, offset, name in rule.transitions(_RULES_FROM, _RULES_UNTIL):
            if instant > last:
                if (offset, name) not in kinds:
                    kinds.append((offset, name))
                transitions.append(instant)
                indexes.append(kinds.index((offset, name)))
    return TimeZone(
        np.array(transitions, np.int64),
        np.array(indexes, np.intp),
        np.array([offset for offset, _ in kinds], np.int64),
        tuple(name for _, name in kinds),
        periodic,
    )
