"""A self-contained tour: psql shows a gateway on a scratch directory, statement by statement."""

import logging
import subprocess
import sys
import tempfile
from pathlib import Path

from catalog.errors import GatewayError
from catalog.server.embedded import program
from pgwire_gateway.config import Config
from pgwire_gateway.listener.server import Gateway

TOUR = Path(__file__).with_name("demo.sql")
"""The statements of the tour; psql variables name the TPC-H files."""

SCALE_FACTOR = "0.01"
"""Scale factor of the TPC-H data in the tour."""


def run() -> int:
    """Tour a gateway that lives as long as the tour; returns the exit status.

    Raises:
        GatewayError: The gateway could not be started, or the data not be generated.
    """
    logging.getLogger("pgwire_gateway").setLevel(logging.WARNING)
    with tempfile.TemporaryDirectory(prefix="pgwire-gateway-demo-") as scratch:
        data = Path(scratch) / "tpch"
        _generate(data)
        gateway = Gateway(Config(port=0, data_dir=Path(scratch) / "data"))
        gateway.start()
        try:
            return _tour(gateway.port, data)
        finally:
            gateway.stop()


def _generate(data: Path) -> None:
    generator = Path(sys.executable).with_name("tpchgen-cli")
    arguments = ["csv", "--scale-factor", SCALE_FACTOR, "--output-dir", str(data)]
    done = subprocess.run(  # noqa: S603 - our own dependency with constant arguments
        [str(generator), *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise GatewayError(f"could not generate TPC-H data: {done.stderr.strip()}")


def _tour(port: int, data: Path) -> int:
    address = ["--host", "127.0.0.1", "--port", str(port), "--username", "postgres"]
    options = ["--no-psqlrc", "--echo-queries", "--set", "ON_ERROR_STOP=1"]
    command = [str(program("psql")), *address, *options, "--file", str(TOUR), "postgres"]
    return subprocess.run(  # noqa: S603 - the wheel's own psql with constant arguments
        command, cwd=data, check=False
    ).returncode
