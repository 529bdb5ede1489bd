"""Which catalog the data files of a directory belong to, and which files those of a catalog are.

Upkeep removes files that no list of the catalog names: beside another catalog it would remove all.
Two directories beside one catalog would each be given a part of its rows.
"""

import uuid
from pathlib import Path
from typing import Final

from pgwire_gateway.config import ConfigError
from pgwire_gateway.spark.warehouse import synchronise

MARK: Final = "_catalog"
"""Name of the file with the catalog's identifier; readers ignore names with an underscore."""

IDENTITY: Final = "_warehouse"
"""Name of the file with what tells the directory from all others."""


def warehouse_identity(warehouse: Path) -> str:
    """Return what no other directory of data files has, and this one wherever it is moved.

    Raises:
        OSError: Storage failed.
    """
    mark = warehouse / IDENTITY
    try:
        return mark.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        identity = str(uuid.uuid4())
        _write(mark, identity)
        return identity


def require_paired(warehouse: Path, system_identifier: str) -> None:
    """Refuse data files that another catalog knows; note whose those are that have no mark.

    Args:
        warehouse: The directory of data files; it may not be there yet.
        system_identifier: PostgreSQL's (`pg_control_system`), other for each cluster that is made.

    Raises:
        ConfigError: 22023 when the mark names another one.
        OSError: Storage failed.
    """
    mark = warehouse / MARK
    try:
        known = mark.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        _write(mark, system_identifier)
        return
    if known != system_identifier:
        raise ConfigError(
            f"the data files in {warehouse} belong to another catalog",
            hint="Start the gateway with the catalog that it had, or with another data directory. "
            f"If pg_upgrade has made another cluster of the same databases, remove {mark}.",
        )


def _write(mark: Path, text: str) -> None:
    mark.parent.mkdir(parents=True, exist_ok=True)
    written = mark.with_suffix(".new")
    written.write_text(f"{text}\n", encoding="utf-8")
    synchronise(written)
    written.replace(mark)
    synchronise(mark.parent)
