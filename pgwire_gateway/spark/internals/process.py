"""The driver's JVM as a child process, and the Py4J connection to it.

Only this module knows how the process is started. The JVM ends when its standard input closes,
which the kernel does however the gateway ends.
"""

import binascii
import importlib.util
import os
import signal
import struct
import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from py4j.clientserver import ClientServer, JavaParameters, PythonParameters
from py4j.protocol import BYTES_TYPE, register_output_converter

from catalog.pg import sqlstate
from pgwire_gateway.spark.errors import SparkError

_PROC: Final = Path("/proc")
_ENDED: Final = frozenset("ZX")
_EXITING: Final = 0x4
"""Linux's PF_EXITING."""
_KILLED: Final = 1 << (signal.SIGKILL - 1)
START_TIMEOUT_S = 120.0
_POLL_S = 0.02
_LOG_TAIL = 2000


def _bytes(encoded: str, _: object) -> bytes:
    """Return an array of bytes; Py4J's own way takes a number of Python's for each of them."""
    return binascii.a2b_base64(encoded)


register_output_converter(BYTES_TYPE, _bytes)


class DriverProcess:
    """A running JVM with Spark on its class path."""

    def __init__(self, conf: Mapping[str, str], java_home: Path | None, directory: Path) -> None:
        self._log = directory / "driver.log"
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=directory, prefix="start-") as scratch:
            port_file = Path(scratch) / "port"
            self.process = _spawn(conf, java_home, directory, port_file, self._log)
            try:
                self.gateway = self._connect(port_file)
            except BaseException:
                self.kill()
                raise

    @property
    def alive(self) -> bool:
        """Tell whether the process runs, and has not begun to end."""
        return self.process.poll() is None and not is_ending(self.process.pid)

    @property
    def jvm(self) -> Any:
        """The root of the JVM's packages."""
        return self.gateway.jvm

    def close(self, timeout_s: float = 10.0) -> None:
        """Let the JVM end by itself, and end it when it does not."""
        with suppress(Exception):
            self.gateway.shutdown()
        if self.process.stdin is not None:
            with suppress(OSError):
                self.process.stdin.close()
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End the process at once."""
        with suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        gateway = getattr(self, "gateway", None)
        if gateway is not None:
            with suppress(Exception):
                gateway.shutdown()

    def _connect(self, port_file: Path) -> ClientServer:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not port_file.exists():
            if not self.alive or time.monotonic() > deadline:
                raise SparkError(
                    "could not start Spark",
                    sqlstate=sqlstate.SYSTEM_ERROR,
                    detail=_last_lines(self._log),
                )
            time.sleep(_POLL_S)
        data = port_file.read_bytes()
        port, length = struct.unpack_from(">ii", data)
        token = data[8 : 8 + length].decode()
        return ClientServer(
            java_parameters=JavaParameters(port=port, auth_token=token, auto_convert=True),
            python_parameters=PythonParameters(port=0, eager_load=False),
        )


def is_ending(process_id: int) -> bool:
    """Return whether a process is about to be gone, as far as the system tells.

    A killed JVM takes its time: until all of its memory has been given back its sockets are open,
    and take what nobody will answer.
    """
    try:
        # The name of the program, in parentheses before these fields, may hold anything.
        fields = (_PROC / str(process_id) / "stat").read_text().rpartition(")")[2].split()
        state, flags, pending = fields[0], int(fields[6]), int(fields[28])
    except (OSError, IndexError, ValueError):
        return False
    return state in _ENDED or bool(flags & _EXITING) or bool(pending & _KILLED)


def _spawn(
    conf: Mapping[str, str], java_home: Path | None, directory: Path, port_file: Path, log: Path
) -> "subprocess.Popen[bytes]":
    spark_home = _spark_home()
    environment = dict(os.environ)
    environment |= {
        "SPARK_HOME": str(spark_home),
        "SPARK_CONNECT_MODE": "0",
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(port_file),
    }
    if java_home is not None:
        environment["JAVA_HOME"] = str(java_home)
    command = [str(spark_home / "bin" / "spark-submit")]
    for name, value in conf.items():
        command += ["--conf", f"{name}={value}"]
    command.append("pyspark-shell")
    with log.open("ab") as output:
        # A session of its own: Ctrl-C at the terminal is the gateway's to handle.
        return subprocess.Popen(  # noqa: S603 - Spark's own launcher
            command,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env=environment,
            cwd=directory,
            start_new_session=True,
        )


def _spark_home() -> Path:
    """Return where pyspark is installed; importing it would bring in far more than its path."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise SparkError("pyspark is not installed", sqlstate=sqlstate.SYSTEM_ERROR)
    return Path(spec.submodule_search_locations[0])


def _last_lines(log: Path) -> str | None:
    with suppress(OSError):
        return log.read_text(encoding="utf-8", errors="replace")[-_LOG_TAIL:].strip() or None
    return None
