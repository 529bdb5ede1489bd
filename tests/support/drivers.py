"""Drivers of other databases, fetched by Maven from wherever the machine's settings say."""

import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.repository import ROOT

POSTGRESQL = ("org.postgresql", "postgresql", "42.7.4")
"""Group, artefact and version."""

DIRECTORY = ROOT / ".cache" / "jars"


def driver(artefact: tuple[str, str, str] = POSTGRESQL) -> Path | None:
    """Return the archive of a driver; None where there is none, and no Maven to fetch it."""
    group, name, version = artefact
    archive = DIRECTORY / f"{name}-{version}.jar"
    maven = shutil.which("mvn")
    if not archive.exists() and maven is not None:
        DIRECTORY.mkdir(parents=True, exist_ok=True)
        command = [maven, "-q", "-B", "dependency:copy", f"-Dartifact={group}:{name}:{version}"]
        subprocess.run(
            [*command, f"-DoutputDirectory={DIRECTORY}"], check=True, cwd=DIRECTORY, timeout=300
        )
    return archive if archive.exists() else None


if __name__ == "__main__":
    sys.exit(driver() is None)
