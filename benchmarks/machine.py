"""Describe the machine and the versions a report was made with."""

import os
import platform
import shutil
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from catalog.server.embedded import program
from tests.support.repository import ROOT


def describe() -> Mapping[str, str]:
    """Return what a reader needs to judge the numbers."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "memory": f"{_memory_gb():.0f} GB",
        "system": f"{platform.system()} {platform.machine()}",
        "gateway": _revision(),
        "Python": platform.python_version(),
        "PostgreSQL": _first_line([str(program("postgres")), "--version"]).rpartition(" ")[2],
        "Spark": version("pyspark"),
        "Java": _java(),
        "PyArrow": version("pyarrow"),
        "load average before": "{:.1f} (1 min), {:.1f} (5 min)".format(*os.getloadavg()),
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or "unknown processor"


def _memory_gb() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


def _revision() -> str:
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        return version("pgwire-gateway")
    return _first_line([git, "-C", str(ROOT), "describe", "--always", "--dirty"])


def _java() -> str:
    java = shutil.which("java")
    return _first_line([java, "-version"]) if java else "of the JDK wheel"


def _first_line(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return (done.stdout or done.stderr).partition("\n")[0].strip()
