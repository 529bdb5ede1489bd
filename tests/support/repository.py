"""The files of the repository, for tests that read them as text."""

import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""Directory that holds the packages, the tests and the documents."""

PACKAGES = ("catalog", "pgwire_gateway", "rewrite")
"""The top-level packages of the product."""


@cache
def files() -> tuple[Path, ...]:
    """Return every file that is, or would be, under version control."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        return tuple(_walk(ROOT))
    listed = subprocess.run(
        [git, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return tuple(path for name in listed.split("\0") if name and (path := ROOT / name).is_file())


def text_of(path: Path) -> str | None:
    """Return the text of a file, None when it is not text."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None


def _walk(directory: Path) -> Iterator[Path]:
    # An unpacked source archive: no version control says what is generated.
    for entry in directory.iterdir():
        if entry.name.startswith(".") or entry.name in {"__pycache__", "build", "dist", "data"}:
            continue
        if entry.is_dir():
            yield from _walk(entry)
        else:
            yield entry
