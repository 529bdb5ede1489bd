"""Data files below directories that others may be removing meanwhile."""

import os
from pathlib import Path


def data_files(directory: Path) -> set[Path]:
    """Return the Parquet files below a directory."""
    # Path.rglob() fails where a directory goes while it is looked into.
    return {
        Path(place, name)
        for place, _, names in os.walk(directory)
        for name in names
        if name.endswith(".parquet")
    }
