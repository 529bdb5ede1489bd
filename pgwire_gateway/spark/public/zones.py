"""Spark's clocks of time zones, by what it makes of instants."""

from typing import Final

from pyspark.sql import SparkSession

from pgwire_gateway.spark.api import LAST_YEAR
from pgwire_gateway.wire_types.posix_zones import seconds_of_year

_FIRST_YEAR: Final = 1800
"""No clocks were changed before."""
_STEPS: Final = (86_400, 3600, 60, 1)
"""Changes are looked for within ever shorter times; a day has no two of them."""
_ENDLESS: Final = 2**62


def steps(session: SparkSession, zone: str) -> list[tuple[int, int]]:
    """Return when clocks change; see `pgwire_gateway.spark.api.Driver.zone_steps`."""
    first, end = seconds_of_year(_FIRST_YEAR), seconds_of_year(LAST_YEAR + 1)
    changes = f"SELECT id AS s FROM range({first + _STEPS[0]}, {end}, {_STEPS[0]})"  # noqa: S608
    for longer, step in zip((0, *_STEPS), _STEPS, strict=False):
        if longer:
            within = f"explode(sequence(s - {longer - step}, s, {step}))"
            changes = f"SELECT {within} AS s FROM ({changes})"  # noqa: S608
        moved = f"{_offset('s', zone)} <> {_offset(f'(s - {step})', zone)}"
        changes = f"SELECT s FROM ({changes}) WHERE {moved}"  # noqa: S608
    begun = session.sql(f"SELECT {_offset(f'{first}L', zone)}").collect()
    found = session.sql(f"SELECT s, {_offset('s', zone)} FROM ({changes}) ORDER BY s").collect()  # noqa: S608
    return [(-_ENDLESS, int(begun[0][0])), *((int(at), int(offset)) for at, offset in found)]


def _offset(seconds: str, zone: str) -> str:
    """Return an expression for how many seconds clocks are ahead of UTC at an instant."""
    quoted = zone.replace("\\", "\\\\").replace("'", "\\'")
    there = f"from_utc_timestamp(timestamp_seconds({seconds}), '{quoted}')"
    return f"(unix_seconds({there}) - {seconds})"
