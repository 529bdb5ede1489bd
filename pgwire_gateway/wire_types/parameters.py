"""Values of statement parameters in PostgreSQL's binary format to Python values."""

from datetime import date, datetime, time
from decimal import Decimal
from typing import TypeAlias
from uuid import UUID

ParameterPython: TypeAlias = (
    "bool | int | float | Decimal | str | bytes | date | datetime | time | UUID"
    " | tuple[int, int, int] | list[ParameterPython] | None"
)
"""Python form of a parameter; an interval is (months, days, microseconds)."""


def decode(type_oid: int, data: bytes | None) -> ParameterPython:
    """Return the Python value of a binary parameter; None is NULL.

    Raises:
        GatewayError: 22P03 for malformed data, 0A000 for a type or value without Python form.
    """
    raise NotImplementedError
