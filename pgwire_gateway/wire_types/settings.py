"""The session settings that decide how values are written."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EncodingSettings:
    """Settings of one session as PostgreSQL reports them in ParameterStatus or SHOW."""

    time_zone: str = "UTC"
    """TimeZone: an IANA name or a POSIX specification such as ``<+05>-05``."""
    date_style: str = "ISO, MDY"
    """DateStyle: output style and field order."""
    interval_style: str = "postgres"
    """IntervalStyle: postgres, postgres_verbose, sql_standard or iso_8601."""
    bytea_output: str = "hex"
    """bytea_output: hex or escape."""
    extra_float_digits: int = 1
    """extra_float_digits: above zero the shortest exact form is written."""
    client_encoding: str = "UTF8"
    """client_encoding: PostgreSQL's name of the encoding that text is sent in."""
    time_zone_directory: str | None = None
    """PostgreSQL's own time zone database (``share/timezone``), which may differ from the system's
    in version and in years before 1970; None is the system's."""
