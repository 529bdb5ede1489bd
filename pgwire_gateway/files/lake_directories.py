"""Directories whose files are rows only for who reads the log beside them.

Delta Lake, Hudi and Iceberg leave files of rows that are gone, or that others have superseded,
where they were. The names of their logs are such as readers of plain files pass over.
"""

from collections.abc import Iterable
from pathlib import Path

from catalog.extensions.convert import lake_refusal


def require_plain(directory: Path, within: Iterable[Path]) -> None:
    """Refuse a directory of a table of one of these, or one below it (0A000).

    Args:
        directory: What is to be read, without links.
        within: Directories that may be looked at, with what is below them.
    """
    roots = [root.resolve() for root in within]
    for place in (directory, *directory.parents):
        if not any(place.is_relative_to(root) for root in roots):
            return
        kept = _kept_by(place)
        if kept is not None:
            raise lake_refusal(kept)


def _kept_by(directory: Path) -> str | None:
    """Return the format of a table that is in a directory; None for plain files."""
    if (directory / "_delta_log").is_dir():
        return "delta"
    if (directory / ".hoodie").is_dir():
        return "hudi"
    if any((directory / "metadata").glob("*.metadata.json")):
        return "iceberg"
    return None
