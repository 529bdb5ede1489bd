"""Tables and rows of TPC-H, made by tpchgen-cli; the queries are beside their test."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.support.repository import ROOT

DIRECTORY: Final = ROOT / "integration" / "tpch"

SCHEMA: Final = DIRECTORY / "schema.sql"

QUERIES: Final = sorted((DIRECTORY / "queries").glob("q*.sql"))

TABLES: Final = (
    *("region", "nation", "supplier", "part"),
    *("partsupp", "customer", "orders", "lineitem"),
)


def generate(directory: Path, scale: str, form: str = "csv") -> None:
    """Write a file ``<table>.<form>`` for each table."""
    beside_python = Path(sys.executable).with_name("tpchgen-cli")
    generator = beside_python if beside_python.exists() else shutil.which("tpchgen-cli")
    assert generator is not None, "the package tpchgen-cli is not installed"
    options = ["--scale-factor", scale, "--output-dir", directory, "--quiet"]
    subprocess.run([generator, form, *options], check=True, capture_output=True)
