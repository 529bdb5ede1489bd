"""Settings of the server, read once from the command line, the environment and a TOML file.

Precedence, highest first: command line, environment (``PGWIRE_GATEWAY_…``), file, default.
Knows nothing of what the settings are used for.
"""

import ipaddress
import os
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from catalog.errors import GatewayError
from catalog.pg.sqlstate import INVALID_PARAMETER_VALUE

ENVIRONMENT_PREFIX = "PGWIRE_GATEWAY_"


class ConfigError(GatewayError):
    """A setting is unknown or has a value that does not fit (SQLSTATE 22023)."""

    sqlstate = INVALID_PARAMETER_VALUE


class Method(StrEnum):
    """What a client proves its identity with, by PostgreSQL's names."""

    TRUST = "trust"
    """Nothing."""
    SCRAM = "scram-sha-256"
    """That it knows the role's password."""


class SparkApi(StrEnum):
    """By which of its interfaces Spark is used."""

    INTERNALS = "internals"
    """The driver's own classes: results are streamed, nothing waits for what it need not."""
    PUBLIC = "public"
    """What PySpark promises to keep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Everything an operator can choose; each field is an option, a variable and a TOML key."""

    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = 5433
    """TCP port to listen on; 0 lets the system choose one."""
    data_dir: Path = Path("data")
    """Directory of the embedded catalog and the warehouse; made when missing."""
    catalog: str | None = None
    """URL of an external PostgreSQL; without it the embedded one is used."""
    spark_master: str = "local[*]"
    """Spark master."""
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    """Additional Spark settings."""
    spark_api: SparkApi = SparkApi.INTERNALS
    """By which of its interfaces Spark is used."""
    inline_rows: int = 1000
    """Writes of up to this many row versions go to the tail; 0 turns the tail off."""
    flush_rows: int = 10000
    """A tail that has grown past this many row versions is flushed to a delta."""
    inline_bytes: int = 16 << 20
    """Writes of more bytes than this do not go to the tail."""
    flush_bytes: int = 64 << 20
    """A tail that has grown past this many bytes is flushed to a delta."""
    resident_rows: int = 100_000
    """Tables up to this many rows are PostgreSQL's to answer; 0 leaves all tables to Spark."""
    resident_bytes: int = 64 << 20
    """Tables up to this size are PostgreSQL's to answer."""
    resident_hard_rows: int = 1_000_000
    """Largest table that stays resident while it cannot become tiered."""
    flush_age_s: float = 60.0
    """Row versions of resident tables are written to files when they have rested this long."""
    autovacuum: bool = True
    """Whether tiered tables are compacted, and files nobody reads removed, without VACUUM."""
    autovacuum_threshold: int = 50_000
    """So many changed rows are no reason to compact a tiered table."""
    autovacuum_scale_factor: float = 0.2
    """So many more, as a part of the rows of the table."""
    upkeep_timeout_s: float = 3600.0
    """Upkeep of one table is given up, and begun again later, after this long; 0 for never."""
    thaw_rows: int = 10_000
    """Small writes of tiered tables by other conditions than keys concern up to this many rows."""
    extract_rows: int = 1_000_000
    """For a query that Spark cannot compute as a whole PostgreSQL gets up to this many rows."""
    extract_bytes: int = 1 << 30
    """It gets no more bytes of them than this."""
    hot_rows: int = 100_000
    """A tiered table has about this many rows in PostgreSQL at most, that are being written."""
    hot_age_s: float = 300.0
    """They leave PostgreSQL when none of them has been written for this long."""
    shutdown_timeout_s: float = 10.0
    """How long running statements may go on after SIGTERM."""
    max_connections: int = 100
    """Client connections accepted at the same time."""
    allow_path: tuple[Path, ...] = ()
    """Directories below which files of clients may be read and written."""
    jars: tuple[Path, ...] = ()
    """Java archives for Spark, such as drivers of other databases."""
    model: Path | None = None
    """Model file whose journals are registered when the server has started."""
    tls_certificate: Path | None = None
    """Certificate that proves the server's identity, PEM, followed by those up to a known one."""
    tls_key: Path | None = None
    """Its private key, PEM; in the same file where none is named."""
    tls_ca: Path | None = None
    """Authorities that certificates of clients have to come from, PEM."""
    authentication: Method | None = None
    """What clients prove their identity with; without it the address decides."""
    authentication_timeout_s: float = 60.0
    """A client has this long to begin its session."""
    allow_insecure_network: bool = False
    """Listen beyond loopback although anybody may read along, or need not prove who he is."""

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches the address."""
        with suppress(ValueError):
            return ipaddress.ip_address(self.host).is_loopback
        return self.host == "localhost"

    @property
    def method(self) -> Method:
        """What clients prove their identity with."""
        if self.authentication is not None:
            return self.authentication
        return Method.TRUST if self.is_loopback or self.allow_insecure_network else Method.SCRAM

    @property
    def requires_encryption(self) -> bool:
        """Whether connections have to be encrypted: who listens to a network keeps it out."""
        return not self.is_loopback and not self.allow_insecure_network

    @classmethod
    def load(
        cls,
        arguments: Mapping[str, Any],
        environment: Mapping[str, str] = os.environ,
    ) -> Self:
        """Combine the sources into one configuration.

        Args:
            arguments: Options given on the command line by field name, plus ``config`` (file path).
            environment: Environment variables.

        Raises:
            ConfigError: An unknown key in the file, or a value of the wrong type (22023).
        """
        names = {item.name for item in fields(cls)}
        variables = {name: environment.get(ENVIRONMENT_PREFIX + name.upper()) for name in names}
        path = arguments.get("config") or environment.get(ENVIRONMENT_PREFIX + "CONFIG")
        values: dict[str, Any] = dict(_read_file(Path(path), names)) if path else {}
        values |= {name: value for name, value in variables.items() if value is not None}
        values |= {
            name: value
            for name, value in arguments.items()
            if name in names and value not in (None, [])
        }
        return cls(**{name: _convert(name, value) for name, value in values.items()})


def _read_file(path: Path, names: set[str]) -> Mapping[str, Any]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"could not read configuration file {path}: {error}") from error
    values = {key.replace("-", "_"): value for key, value in content.items()}
    unknown = sorted(set(values) - names)
    if unknown:
        raise ConfigError(
            f"unrecognized setting in {path}: {', '.join(unknown)}",
            hint=f"Settings are: {', '.join(sorted(names))}.",
        )
    return values


def _convert(name: str, value: Any) -> Any:
    converter = _CONVERTERS.get(name, str)
    try:
        return converter(value)
    except (TypeError, ValueError) as error:
        raise ConfigError(f'invalid value for "{name}": {value!r}') from error


def _not_negative(value: Any) -> float:
    number = float(value)
    if not number >= 0:
        raise ValueError(value)
    return number


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    known = {"1": True, "true": True, "on": True, "yes": True}
    known |= {"0": False, "false": False, "off": False, "no": False}
    if str(value).lower() not in known:
        raise ValueError(value)
    return known[str(value).lower()]


def _natural(value: Any) -> int:
    number = int(value)
    if number < 0:
        raise ValueError(value)
    return number


def _paths(value: Any) -> tuple[Path, ...]:
    """Accept a list of paths (in the environment parted as in PATH)."""
    items: Sequence[str] = value.split(os.pathsep) if isinstance(value, str) else value
    return tuple(Path(item).absolute() for item in items if item)


def _assignments(value: Any) -> Mapping[str, str]:
    """Accept a TOML table, or KEY=VALUE items (in the environment separated by commas)."""
    if isinstance(value, Mapping):
        return {str(key): str(item) for key, item in value.items()}
    items: Sequence[str] = value.split(",") if isinstance(value, str) else value
    pairs = [item.partition("=") for item in items]
    if any(not key or not separator for key, separator, _ in pairs):
        raise ValueError(value)
    return {key.strip(): item for key, _, item in pairs}


_CONVERTERS: Mapping[str, Any] = {
    "port": _natural,
    "data_dir": Path,
    "spark_conf": _assignments,
    "spark_api": SparkApi,
    "inline_rows": _natural,
    "flush_rows": _natural,
    "inline_bytes": _natural,
    "flush_bytes": _natural,
    "resident_rows": _natural,
    "resident_bytes": _natural,
    "resident_hard_rows": _natural,
    "flush_age_s": float,
    "autovacuum": _boolean,
    "autovacuum_threshold": _natural,
    "autovacuum_scale_factor": _not_negative,
    "upkeep_timeout_s": _not_negative,
    "thaw_rows": _natural,
    "extract_rows": _natural,
    "extract_bytes": _natural,
    "hot_rows": _natural,
    "hot_age_s": float,
    "max_connections": _natural,
    "shutdown_timeout_s": float,
    "allow_path": _paths,
    "jars": _paths,
    "model": Path,
    "tls_certificate": Path,
    "tls_key": Path,
    "tls_ca": Path,
    "authentication": Method,
    "authentication_timeout_s": float,
    "allow_insecure_network": _boolean,
}
