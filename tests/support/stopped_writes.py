"""Writes that stop at a failpoint, processes that are killed while they do, and what is there then.

Of each table it is known which rows it has. A statement that was acknowledged has done all it was
to do, one that has failed nothing, unless it was committing.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq

from catalog.failpoints import REACHED, VARIABLE, Failpoint
from catalog.server.embedded import SUPERUSER
from tests.support.data_files import data_files
from tests.support.fix_server import DRIVER_OPTIONS
from tests.support.processes import descendants, program, still_running, title
from tests.support.servers import GatewayProcess

Rows = dict[int, int]
Tables = dict[str, Rows]

FLUSH_ROWS: Final = 50

OPTIONS: Final = (
    *DRIVER_OPTIONS,
    "--resident-rows=300",
    "--inline-rows=20",
    "--thaw-rows=10",
    f"--flush-rows={FLUSH_ROWS}",
    "--flush-age-s=3600",
    "--hot-age-s=3600",
)

ROWS: Final = 400
"""Rows of the tiered table ``t`` at first."""

HIGH: Final = 1_000_000
"""From here on keys are those of another partition."""

PATIENCE_S: Final = 60.0

UNHEARD_S: Final = 1.0
"""After this time what a client sends has reached PostgreSQL."""

ENDED: Final = frozenset({"57P01", "57P02", "08006", "58000"})
"""What is told of what was under way when a process died."""

UNKNOWN: Final = "40003"
"""What is told of a COMMIT that nobody knows the outcome of."""

COMMITTING: Final = frozenset({Failpoint.COMMIT_SENT, Failpoint.PASSED_ON})
"""Where a write may be done although nobody was told."""

SEEN_OUTSIDE: Final = frozenset({Failpoint.APPENDED, Failpoint.COMMIT_SENT})
"""Where others see what a write appends to a journal of theirs, whatever becomes of it."""

SOURCE: Final = "source"
"""Directory of files with rows, which tables are made of."""

SOURCE_ROWS: Final = 30

AGED: Final = (
    "UPDATE pg_journal.segments SET retired_at = retired_at - interval '25 hours'"
    " WHERE retired_at IS NOT NULL"
)

TABLES: Final = {
    "t": (("never", f"INSERT INTO t SELECT g, 0 FROM generate_series(1, {ROWS}) g")),
    "cold": ("never", "INSERT INTO cold SELECT g, 0 FROM generate_series(1, 100) g"),
    "r": ("always", "INSERT INTO r SELECT g, 0 FROM generate_series(1, 10) g"),
    "f": ("always", "INSERT INTO f SELECT g, 0 FROM generate_series(1, 10) g"),
    "b": ("always", "INSERT INTO b VALUES (0, 0)"),
    "low": ("never", "INSERT INTO parted SELECT g, 0 FROM generate_series(1, 30) g"),
    "high": ("never", f"INSERT INTO parted SELECT {HIGH} + g, 0 FROM generate_series(31, 60) g"),
    "left_few": ("never", "INSERT INTO few SELECT g, 0 FROM generate_series(1, 4) g"),
    "right_few": ("never", f"INSERT INTO few SELECT {HIGH} + g, 0 FROM generate_series(5, 8) g"),
    "emptied": ("never", "INSERT INTO emptied SELECT g, 0 FROM generate_series(1, 30) g"),
    "divided": ("never", "INSERT INTO divided SELECT g, 0 FROM generate_series(1, 60) g"),
    "warm": ("never", "INSERT INTO warm SELECT g, 0 FROM generate_series(1, 30) g"),
    "outside": ("", "INSERT INTO outside SELECT g, 0 FROM generate_series(1, 10) g"),
}
"""Tables, their residency, and their first rows: tiered ones, small ones, one that changes from one
to the other, that of a bystander, partitions between which rows move, of many rows and few, one
that is emptied, one that is divided, one whose rows do not stay hot, and a journal of others."""

MADE: Final = "made"
"""The table that is made and dropped again."""

CONSTRAINTS: Final = "constraints"
"""Stands for a table whose only key is the number of the constraints of that one."""

DEFINITIONS: Final = {
    "low": (
        "CREATE TABLE parted (id integer PRIMARY KEY, v integer) PARTITION BY RANGE (id)",
        f"CREATE TABLE low PARTITION OF parted FOR VALUES FROM (0) TO ({HIGH})",
    ),
    "high": (f"CREATE TABLE high PARTITION OF parted FOR VALUES FROM ({HIGH}) TO (MAXVALUE)",),
    "left_few": (
        "CREATE TABLE few (id integer PRIMARY KEY, v integer) PARTITION BY RANGE (id)",
        f"CREATE TABLE left_few PARTITION OF few FOR VALUES FROM (0) TO ({HIGH})",
    ),
    "divided": (
        "CREATE TABLE divided (id integer PRIMARY KEY, v integer)",
        "CALL gateway.partition_by('divided', 'truncate(1000, id)')",
    ),
    "warm": (
        "CREATE TABLE warm (id integer PRIMARY KEY, v integer)",
        "ALTER TABLE warm SET (gateway.hot_rows = 1)",
    ),
    "outside": (
        (
            "CALL gateway.register_journal('outside', location => '{files}/outside', key => 'id',"
            " format => 'parquet', columns => 'id integer, v integer')"
        ),
    ),
    "right_few": (
        f"CREATE TABLE right_few PARTITION OF few FOR VALUES FROM ({HIGH}) TO (MAXVALUE)",
    ),
}
"""How tables are made that are not like the others; ``{files}`` is a directory of clients."""


@dataclass(frozen=True)
class Write:
    """Something that writes, with the failpoints on its way."""

    name: str
    points: tuple[Failpoint, ...]
    statement: str
    """``{n}`` is a number that is another one each time, ``{files}`` a directory of clients, and
    ``{latest}`` the commit before it."""
    change: Callable[[Tables, int], None]
    """Does to what is known what the statement does to tables."""
    before: tuple[str, ...] = ()
    """Statements that come before, and have nothing to do with what is tried."""
    ages: bool = False
    """Whether files that were replaced before are old enough to be removed."""
    copied: int = 0
    """How many rows the client sends for it, as of COPY."""
    is_outside: bool = False
    """Whether others see what it writes before it is committed."""
    state: str = ""
    """What the table ``f`` is in the end, as upkeep goes on with what it was doing."""

    def __str__(self) -> str:
        return self.name


def _nothing(tables: Tables, number: int) -> None:
    """Change no row."""


def _count(table: str, key: Callable[[int], int]) -> Callable[[Tables, int], None]:
    def change(tables: Tables, number: int) -> None:
        tables[table][key(number)] += 1

    return change


def _count_all(tables: Tables, number: int) -> None:
    tables["t"] = {key: value + 1 for key, value in tables["t"].items()}


def _add(table: str, rows: int) -> Callable[[Tables, int], None]:
    def change(tables: Tables, number: int) -> None:
        tables[table] |= dict.fromkeys(range(1000 * number + 1, 1000 * number + rows + 1), 0)

    return change


def _negate(tables: Tables, number: int) -> None:
    tables["cold"] = {-key: value + 1 for key, value in tables["cold"].items()}


def _swap(first: str, second: str) -> Callable[[Tables, int], None]:
    """Move all rows of two partitions to the other one."""

    def change(tables: Tables, number: int) -> None:
        low, high = tables[first], tables[second]
        tables[first] = {key - HIGH: value + 1 for key, value in high.items()}
        tables[second] = {key + HIGH: value + 1 for key, value in low.items()}

    return change


def _discount(table: str, most: int) -> Callable[[Tables, int], None]:
    """Take a count back that rows up to a number have got before."""

    def change(tables: Tables, number: int) -> None:
        tables[table] = {k: v - 1 if k <= most else v for k, v in tables[table].items()}

    return change


def _make(rows: int) -> Callable[[Tables, int], None]:
    def change(tables: Tables, number: int) -> None:
        tables[MADE] = dict.fromkeys(range(1, rows + 1), 0)
        tables[CONSTRAINTS] = {1: 0}

    return change


def _copy(tables: Tables, number: int) -> None:
    tables[MADE] = tables["t"]
    tables[CONSTRAINTS] = {1: 0}


def _constrain(tables: Tables, number: int) -> None:
    tables[CONSTRAINTS] = {count + 1: 0 for count in tables[CONSTRAINTS]}


def _count_few(tables: Tables, number: int) -> None:
    tables["warm"] |= {key: tables["warm"][key] + 1 for key in (1, 2, 3)}


def _count_divided(tables: Tables, number: int) -> None:
    tables["divided"] = {key: value + 1 for key, value in tables["divided"].items()}


def _empty(tables: Tables, number: int) -> None:
    tables["emptied"] = {}


def _count_both(tables: Tables, number: int) -> None:
    tables["t"][number] += 1
    tables["r"][2] += 1


_POINTS: Final = Failpoint

_OF_CONDITIONS = "UPDATE t SET v = v + 1"
_BY_KEY = "UPDATE t SET v = v + 1 WHERE id = {n}"
_OF_THE_FIRST = "UPDATE t SET v = v + 1 WHERE id = 1"
_RESIDENT = "UPDATE r SET v = v + 1 WHERE id = 1"
_OTHER_PARTITION = f"id = CASE WHEN parted.id < {HIGH} THEN {HIGH} ELSE -{HIGH} END + parted.id"
_OTHER_FEW = _OTHER_PARTITION.replace("parted", "few")
_WRITTEN: Final = (_POINTS.STAGED, _POINTS.RENAMED, _POINTS.PUBLISHED, _POINTS.COMMIT_SENT)
_UNMADE = f"DROP TABLE IF EXISTS {MADE}"
_MADE_TIERED = (
    _UNMADE,
    f"CREATE TABLE {MADE} (id integer NOT NULL, v integer)",
    f"ALTER TABLE {MADE} SET (gateway.residency = never)",
    f"INSERT INTO {MADE} SELECT g, 0 FROM generate_series(1, 60) g",
)
_ROLLED_BACK = "SELECT gateway.rollback_commit('{latest}')"
_ADD_20 = "INSERT INTO cold SELECT 1000 * {n} + id, 0 FROM t WHERE id <= 20"

WRITES: Final = (
    Write(
        "a cold row",
        (_POINTS.ANNOUNCED, _POINTS.THAWED, _POINTS.COMMIT_SENT),
        _BY_KEY,
        _count("t", lambda n: n),
    ),
    Write(
        "a hot row",
        (_POINTS.COMMIT_SENT,),
        _OF_THE_FIRST,
        _count("t", lambda _: 1),
        before=(_OF_THE_FIRST, _OF_THE_FIRST),
    ),
    Write(
        "the short way",
        (_POINTS.PASSED_ON,),
        _RESIDENT,
        _count("r", lambda _: 1),
        before=(_RESIDENT, _RESIDENT),
    ),
    Write(
        "several tables",
        (_POINTS.RUN,),
        "BEGIN; UPDATE r SET v = v + 1 WHERE id = 2; UPDATE t SET v = v + 1 WHERE id = {n}; COMMIT",
        _count_both,
    ),
    Write("rows of a query", (_POINTS.CAPTURED,), _ADD_20, _add("cold", 20)),
    Write(
        "all rows",
        (
            _POINTS.COMPUTED,
            _POINTS.STAGED,
            _POINTS.RENAMED,
            _POINTS.PUBLISHED,
            _POINTS.COMMIT_SENT,
        ),
        _OF_CONDITIONS,
        _count_all,
    ),
    Write("keys of many rows", _WRITTEN, "UPDATE cold SET id = -id, v = v + 1", _negate),
    Write(
        "keys of many rows by MERGE",
        (_POINTS.COMPUTED, *_WRITTEN),
        "MERGE INTO cold USING (SELECT 1 AS one FROM t WHERE id = 1) x ON one = 1"
        " WHEN MATCHED THEN UPDATE SET id = -id, v = v + 1",
        _negate,
    ),
    Write(
        "rows that move between partitions",
        (_POINTS.CAPTURED, *_WRITTEN),
        f"UPDATE parted SET {_OTHER_PARTITION}, v = v + 1",
        _swap("low", "high"),
    ),
    Write(
        "rows that move between partitions by MERGE",
        (_POINTS.CAPTURED, *_WRITTEN),
        "MERGE INTO parted USING (SELECT id + 0 AS id FROM t WHERE id <= 60) x"
        f" ON parted.id = x.id OR parted.id = x.id + {HIGH}"
        f" WHEN MATCHED THEN UPDATE SET {_OTHER_PARTITION}, v = v + 1",
        _swap("low", "high"),
    ),
    Write(
        "hot rows that move between partitions",
        (_POINTS.ANNOUNCED, _POINTS.THAWED, _POINTS.RUN),
        f"WITH moved AS (UPDATE few SET {_OTHER_FEW}, v = v + 1 RETURNING id)"
        " SELECT count(*) FROM moved",
        _swap("left_few", "right_few"),
    ),
    Write(
        "a load",
        (_POINTS.CAPTURED, _POINTS.RENAMED, _POINTS.PUBLISHED),
        "INSERT INTO cold SELECT 1000 * {n} + g, 0 FROM generate_series(1, 60) g",
        _add("cold", 60),
    ),
    Write(
        "files that become rows in place",
        _WRITTEN,
        f"CONVERT TO {MADE} FROM '{{files}}/{SOURCE}' KEY (id) IN PLACE",
        _make(SOURCE_ROWS),
        before=(_UNMADE,),
    ),
    Write(
        "files that are copied",
        _WRITTEN,
        f"CONVERT TO {MADE} FROM '{{files}}/{SOURCE}' KEY (id)",
        _make(SOURCE_ROWS),
        before=(_UNMADE,),
    ),
    Write(
        "a table that is copied",
        _WRITTEN,
        f"CONVERT TO {MADE} FROM t KEY (id)",
        _copy,
        before=(_UNMADE,),
    ),
    Write(
        "many rows that are rolled back",
        _WRITTEN,  # the table is locked before they are computed
        _ROLLED_BACK,
        _discount("t", ROWS),
        before=(_OF_CONDITIONS,),
    ),
    Write(
        "few rows that are rolled back",
        (_POINTS.COMMIT_SENT,),
        _ROLLED_BACK,
        _discount("t", 3),
        before=("UPDATE t SET v = v + 1 WHERE id IN (1, 2, 3)",),
    ),
    Write(
        "rows of a small table that are rolled back",
        (_POINTS.COMMIT_SENT,),
        _ROLLED_BACK,
        _discount("r", 3),
        before=("UPDATE r SET v = v + 1 WHERE id IN (1, 2, 3)",),
    ),
    Write(
        "few rows for others",
        (_POINTS.APPEND_WRITTEN, _POINTS.APPENDED, _POINTS.COMMIT_SENT),
        "UPDATE outside SET v = v + 1 WHERE id = 1",
        _count("outside", lambda _: 1),
        is_outside=True,
    ),
    Write(
        "many rows for others",
        (_POINTS.PUBLISHED, _POINTS.APPEND_WRITTEN, _POINTS.APPENDED, _POINTS.COMMIT_SENT),
        "INSERT INTO outside SELECT 1000 * {n} + g, 0 FROM generate_series(1, 60) g",
        _add("outside", 60),
        is_outside=True,
    ),
    Write(
        "copied rows for others",
        (_POINTS.PUBLISHED, _POINTS.APPEND_WRITTEN, _POINTS.APPENDED, _POINTS.COMMIT_SENT),
        "COPY outside FROM STDIN",
        _add("outside", 60),
        copied=60,
        is_outside=True,
    ),
    Write(
        "TRUNCATE",
        _WRITTEN,
        "TRUNCATE emptied",
        _empty,
        before=("INSERT INTO emptied SELECT 1000 * {n} + g, 0 FROM generate_series(1, 60) g",),
    ),
    Write(
        "copied rows",
        (_POINTS.CAPTURED, *_WRITTEN),
        "COPY cold FROM STDIN",
        _add("cold", 60),
        copied=60,
    ),
    Write(
        "copied rows that make a table tiered",
        (_POINTS.CAPTURED, *_WRITTEN),
        f"COPY {MADE} FROM STDIN",
        lambda tables, n: tables.update(
            {MADE: dict.fromkeys(range(1000 * n + 1, 1000 * n + ROWS + 1), 0)}
        ),
        before=(_UNMADE, f"CREATE TABLE {MADE} (id integer PRIMARY KEY, v integer)"),
        copied=ROWS,
    ),
    Write(
        "rows of many partitions",
        _WRITTEN,
        "INSERT INTO divided SELECT 500 * {n} + g * 37, 0 FROM generate_series(1, 60) g",
        lambda tables, n: tables["divided"].update({500 * n + g * 37: 0 for g in range(1, 61)}),
    ),
    Write(
        "all rows of many partitions",
        (_POINTS.COMPUTED, *_WRITTEN),
        "UPDATE divided SET v = v + 1",
        _count_divided,
    ),
    Write(
        "VACUUM of a divided table",
        (_POINTS.STAGED, _POINTS.RENAMED, _POINTS.COMPACTION_PUBLISHED),
        "VACUUM divided",
        _nothing,
        before=("UPDATE divided SET v = v + 1",),
    ),
    Write(
        "a table that is divided",
        (_POINTS.STAGED, _POINTS.RENAMED, _POINTS.COMPACTION_PUBLISHED, _POINTS.COMMIT_SENT),
        f"CALL gateway.partition_by('{MADE}', 'truncate(10, id)')",
        _nothing,
        before=_MADE_TIERED,
    ),
    Write(
        "a key of a tiered table",
        (_POINTS.CHECKED, _POINTS.STAGED, _POINTS.RENAMED, _POINTS.COMMIT_SENT),
        f"ALTER TABLE {MADE} ADD PRIMARY KEY (id)",
        _constrain,
        before=_MADE_TIERED,
    ),
    Write(
        "a constraint of a tiered table",
        (_POINTS.CHECKED, _POINTS.COMMIT_SENT),
        f"ALTER TABLE {MADE} ADD UNIQUE (id), ADD CHECK (v < 10)",
        lambda tables, _: tables.update({CONSTRAINTS: {2: 0}}),
        before=_MADE_TIERED,
    ),
    Write(
        "hot rows that go cold",
        (_POINTS.COOLED,),
        "UPDATE warm SET v = v + 1 WHERE id IN (1, 2, 3)",
        _count_few,
    ),
    Write(
        "the flush of a resident table",
        (_POINTS.FLUSH_WRITTEN, _POINTS.FLUSH_PUBLISHED),
        "INSERT INTO f SELECT 1000 * {n} + g, 0 FROM generate_series(1, 60) g",
        _add("f", 60),
        before=(
            "ALTER TABLE f SET (gateway.residency = always)",
            "DELETE FROM f WHERE id > 10",
        ),
        state="resident",
    ),
    Write(
        "the flush of a cold table",
        (_POINTS.FLUSH_WRITTEN, _POINTS.FLUSH_PUBLISHED),
        _ADD_20,
        _add("cold", 20),
        before=(
            "VACUUM cold",
            "INSERT INTO cold SELECT 1000 * {n} + 100 + id, 0 FROM t WHERE id <= 20",
            "INSERT INTO cold SELECT 1000 * {n} + 200 + id, 0 FROM t WHERE id <= 20",
        ),
    ),
    Write(
        "VACUUM of a tiered table",
        (_POINTS.STAGED, _POINTS.COMPACTION_PUBLISHED),
        "VACUUM t",
        _nothing,
        before=(_OF_CONDITIONS,),
    ),
    Write(
        "VACUUM of a cold table",
        (_POINTS.COMPACTION_PUBLISHED,),
        "VACUUM cold",
        _nothing,
        before=("UPDATE cold SET v = v + 1",),
    ),
    Write(
        "VACUUM of a resident table",
        (_POINTS.COMPACTION_PUBLISHED,),
        "VACUUM r",
        _nothing,
        before=(_RESIDENT,),
    ),
    Write(
        "VACUUM that removes files",
        (_POINTS.FILES_REMOVED,),
        "VACUUM cold",
        _nothing,
        before=("UPDATE cold SET v = v + 1", "VACUUM cold"),
        ages=True,
    ),
    Write(
        "becoming tiered",
        (_POINTS.MADE_TIERED,),
        "ALTER TABLE f SET (gateway.residency = never)",
        _nothing,
        before=("ALTER TABLE f SET (gateway.residency = always)",),
        state="tiered",
    ),
    Write(
        "becoming resident",
        (_POINTS.MADE_RESIDENT,),
        "ALTER TABLE f SET (gateway.residency = always)",
        _nothing,
        before=("ALTER TABLE f SET (gateway.residency = never)",),
        state="resident",
    ),
)

VICTIMS: Final = ("java", "postmaster", "backend", "own backend", "gateway")
"""``backend`` is that of the client's session, ``own backend`` one of the gateway's own."""


class Stage:
    """A gateway with its tables, and what these hold."""

    def __init__(self, directory: Path) -> None:
        """Nothing runs yet."""
        self._points = directory / "failpoints"
        self._points.mkdir()
        self._files = directory / "files"
        (self._files / "outside").mkdir(parents=True)
        (self._files / SOURCE).mkdir()
        keys = pa.array(range(1, SOURCE_ROWS + 1), pa.int32())
        zeros = pa.array([0] * SOURCE_ROWS, pa.int32())
        pq.write_table(pa.table({"id": keys, "v": zeros}), self._files / SOURCE / "part.parquet")
        self.process = GatewayProcess(
            directory / "data",
            *OPTIONS,
            f"--allow-path={self._files}",
            module="tests.support.restless",
            environment={VARIABLE: str(self._points)},
        )
        self.tables: Tables = {}
        self._number = 1

    @contextmanager
    def running(self) -> Iterator["Stage"]:
        """Start it, and make the tables."""
        try:
            self.process.start()
            with self.connected() as client:
                for table, (residency, rows) in TABLES.items():
                    plain = (f"CREATE TABLE {table} (id integer PRIMARY KEY, v integer)",)
                    for definition in DEFINITIONS.get(table, plain):
                        run(client, definition.format(files=self._files))
                    if residency:
                        run(client, f"ALTER TABLE {table} SET (gateway.residency = {residency})")
                        wanted = "tiered" if residency == "never" else "resident"
                        self._await(lambda c=client, t=table, w=wanted: _state(c, t) == w)
                    run(client, rows)
                    self.tables[table] = _rows(client, table)
            yield self
        finally:
            self.process.kill_if_running()

    def connected(self) -> psycopg.Connection:
        """Return a new connection, which waits for a PostgreSQL that is being started."""
        return psycopg.connect(
            self.process.address.conninfo(), autocommit=True, prepare_threshold=None
        )

    def kill_at(
        self, write: Write, point: Failpoint, victim: str, *, unheard: Failpoint | None = None
    ) -> str:
        """Kill a process while a write is stopped; return how the write ended for its client.

        Args:
            write: What is written.
            point: Where it stops.
            victim: What is killed.
            unheard: Where it has stopped before, from where on the session's backend takes in
                nothing any more.

        Raises:
            AssertionError: The gateway does not hold what it has to, or does not go on.
        """
        self._number += 1
        logged = len(self.process.log)
        with self.connected() as client, self.connected() as bystander:
            self._prepare(client, write)
            before = {table: dict(rows) for table, rows in self.tables.items()}
            run(bystander, f"BEGIN; INSERT INTO b VALUES ({self._number}, 0)")
            points = [point] if unheard is None else [unheard, point]
            with self._begun(client, write, points) as ended:
                if unheard is not None:
                    with self._stopped(unheard, ended):
                        os.kill(client.info.backend_pid, signal.SIGSTOP)
                with self._stopped(point, ended):
                    self._kill(victim, client, bystander)
            self._see(bystander, is_alive=victim == "java")
        log = "\n".join(self.process.log[logged:])
        assert "Traceback" not in log, log
        if victim == "gateway":
            self.process.start()
        assert self.process.exit_status is None
        after = {table: dict(rows) for table, rows in self.tables.items()}
        write.change(after, self._number)
        is_seen = write.is_outside and point in SEEN_OUTSIDE
        told = ENDED | {UNKNOWN} if point in COMMITTING else ENDED
        told = {UNKNOWN} if is_seen else told
        silent = {""} if victim == "gateway" else set()
        assert _is_tag(ended[0]) or ended[0] in told | silent, ended
        is_open = unheard is None and point in COMMITTING
        allowed = [before, after] if is_open else [before]
        self._settle(write, ended[0], after, [after] if is_seen else allowed)
        self._go_on(write)
        return ended[0]

    def commit_unheard(self, client: psycopg.Connection) -> str:
        """Kill a session's backend that has not heard of its COMMIT; return how that ended."""
        ended: list[str] = []
        worker = threading.Thread(target=lambda: ended.append(_outcome(client, "COMMIT")))
        os.kill(client.info.backend_pid, signal.SIGSTOP)
        worker.start()
        # There is nothing to be seen of it: nobody reads it.
        worker.join(UNHEARD_S)
        assert not ended
        self._kill("backend", client)
        worker.join(PATIENCE_S)
        return ended[0]

    # one write ------------------------------------------------------------------------------------

    def _prepare(self, client: psycopg.Connection, write: Write) -> None:
        """Do what comes before, and wait until upkeep has nothing to do."""
        for statement in write.before:
            run(client, statement.format(n=self._number))
            if "residency" in statement:
                wanted = "resident" if "always" in statement else "tiered"
                table = statement.split()[2]
                self._await(lambda t=table, w=wanted: _state(client, t) == w)
        if write.ages:
            with self._administrator() as administrator:
                run(administrator, AGED)
        self._await(lambda: _is_quiet(client))
        self.tables = _found(client)

    @contextmanager
    def _begun(
        self, client: psycopg.Connection, write: Write, points: Iterable[Failpoint]
    ) -> Iterator[list[str]]:
        """Run a write, which is to stop at points; how it ended is there when the context ends."""
        ended: list[str] = []
        latest = _latest(client) if write.statement == _ROLLED_BACK else ""
        statement = write.statement.format(n=self._number, files=self._files, latest=latest)
        lines = "".join(f"{1000 * self._number + i + 1}\t0\n" for i in range(write.copied))
        worker = threading.Thread(target=lambda: ended.append(_outcome(client, statement, lines)))
        for point in points:
            (self._points / point.value).touch()
        worker.start()
        try:
            yield ended
        finally:
            # Else the next write would stop where this one did not come.
            while left := list(self._points.iterdir()):
                for one in left:
                    one.unlink(missing_ok=True)
            worker.join(PATIENCE_S)
        assert ended, f"{write} does not end"

    @contextmanager
    def _stopped(self, point: Failpoint, ended: Sequence[str]) -> Iterator[None]:
        """Wait until the write has stopped, and let it go on when the context ends."""
        stopped = self._points / f"{point.value}{REACHED}"
        missed = f"{point} was not reached"

        def is_over() -> bool:
            # Upkeep may stop after a write; one that has failed stops nowhere.
            return stopped.exists() or bool(ended and not _is_tag(ended[0]))

        self._await(is_over, lambda: missed)
        assert stopped.exists(), f"{missed}: {ended}"
        yield
        stopped.unlink()

    def _kill(self, victim: str, *clients: psycopg.Connection) -> None:
        """Kill a process; sessions of a PostgreSQL that crashes by that have ended afterwards."""
        killed = self._victim(clients[0], victim)
        if victim == "gateway":
            self.process.kill()
            return
        os.kill(killed, signal.SIGKILL)
        if victim != "java":
            # They end by themselves, sooner or later.
            backends = {killed, *(client.info.backend_pid for client in clients)}
            self._await(lambda: not still_running(backends))

    def _victim(self, client: psycopg.Connection, victim: str) -> int:
        pid_file = self.process.data_dir / "catalog" / "postmaster.pid"
        postmaster = int(pid_file.read_text().splitlines()[0])
        if victim == "backend":
            return client.info.backend_pid
        if victim == "own backend":
            titles = {number: title(number) for number in descendants(postmaster)}
            own = [number for number, title in titles.items() if f": {SUPERUSER} " in title]
            return max(own, key=lambda number: "in transaction" in titles[number])
        if victim == "java":
            below = descendants(self.process.process_id)
            return max(n for n in below if program(n) == "java")
        return postmaster

    def _see(self, bystander: psycopg.Connection, *, is_alive: bool) -> None:
        """Look at a transaction that was open meanwhile: it goes on, or is gone."""
        ended = _outcome(bystander, "COMMIT")
        if is_alive:
            assert ended == "COMMIT"
            self.tables["b"][self._number] = 0
        else:
            assert ended in ENDED | {""}, ended

    # afterwards -----------------------------------------------------------------------------------

    def _settle(self, write: Write, ended: str, after: Tables, otherwise: Sequence[Tables]) -> None:
        """Compare all tables with what is known, and note what has become of the write.

        Args:
            write: What was written.
            ended: How it ended for its client.
            after: The tables if it was acknowledged.
            otherwise: What they may be if it was not.
        """
        with self.connected() as client:
            found = _found(client)
            allowed = [after] if _is_tag(ended) else otherwise
            for tables in allowed:
                tables["b"] = self.tables["b"]
            assert found in allowed, (write.name, ended, _differences(found, allowed[-1]))
            self.tables = found
            for table in found.keys() - {CONSTRAINTS}:
                checked = client.execute("SELECT gateway.check(%s)", [table]).fetchall()
                assert checked == [(0,)], table
                assert _replayed(client, table) == found[table], table

    def _go_on(self, write: Write) -> None:
        """See that upkeep goes on with what it was doing, and that tables can be written."""
        with self.connected() as client:
            if write.state:
                if "ALTER" in write.statement:
                    run(client, write.statement)
                self._await(lambda: _state(client, "f") == write.state)
            self._await(lambda: _is_quiet(client))
            for statement in (_BY_KEY, _RESIDENT):
                run(client, statement.format(n=self._number))
            self.tables["t"][self._number] += 1
            self.tables["r"][1] += 1
            assert _found(client) == self.tables
            self._await(lambda: not self._left(client), lambda: str(self._left(client)))

    def _left(self, client: psycopg.Connection) -> set[Path]:
        """Remove files that nobody can be reading; return directories of others in no list."""
        run(client, "VACUUM b")
        warehouse = self.process.data_dir / "warehouse"
        with self._administrator() as administrator:
            paths = administrator.execute("SELECT path FROM pg_journal.segments").fetchall()
        written = {file.parent for file in data_files(warehouse)}
        return {
            *written.difference(warehouse / path for (path,) in paths),
            *(self._files / "outside").glob(".*/"),
        }

    def _administrator(self) -> psycopg.Connection:
        """Return a connection to the catalog itself."""
        host = str((self.process.data_dir / "socket").resolve())
        conninfo = psycopg.conninfo.make_conninfo(
            host=host, port=5432, user=SUPERUSER, dbname="postgres"
        )
        return psycopg.connect(conninfo, autocommit=True)

    def _await(
        self, condition: Callable[[], bool], otherwise: Callable[[], str] = lambda: ""
    ) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, f"{otherwise()}\n{self.process.log_text()}"
            time.sleep(0.01)


def run(client: psycopg.Connection, statement: str) -> None:
    client.execute(statement)  # type: ignore[call-overload]


def _outcome(client: psycopg.Connection, statement: str, lines: str = "") -> str:
    """Return command tag or SQLSTATE; nothing where a connection breaks without a word."""
    try:
        if lines:
            cursor = client.cursor()
            with cursor.copy(statement) as copy:  # type: ignore[call-overload]
                copy.write(lines)
        else:
            cursor = client.execute(statement)  # type: ignore[call-overload]
    except psycopg.Error as error:
        return error.sqlstate or ""
    return cursor.statusmessage or ""


def _is_tag(ended: str) -> bool:
    """Return whether this is a command tag, and no SQLSTATE."""
    return " " in ended or ended.isalpha()


def _rows(client: psycopg.Connection, table: str) -> Rows:
    return dict(client.execute(f"SELECT id, v FROM {table}").fetchall())  # type: ignore[call-overload]


def _found(client: psycopg.Connection) -> Tables:
    """Return the rows of all tables that are there, and how many constraints ``MADE`` has."""
    found = {table: _rows(client, table) for table in TABLES}
    query = (
        "SELECT c.oid, count(x.oid) FROM pg_class c LEFT JOIN pg_constraint x"
        " ON x.conrelid = c.oid AND x.contype <> 'n' WHERE c.oid = to_regclass(%s) GROUP BY c.oid"
    )
    for _, constraints in client.execute(query, [MADE]).fetchall():
        found |= {MADE: _rows(client, MADE), CONSTRAINTS: {constraints: 0}}
    return found


def _latest(client: psycopg.Connection) -> str:
    """Return the name of the latest commit that has changed rows."""
    query = "SELECT commit FROM gateway.commits ORDER BY committed_at DESC LIMIT 1"
    return str(client.execute(query).fetchall()[0][0])


def _replayed(client: psycopg.Connection, table: str) -> Rows:
    """Return the rows as the journal's own query shows them."""
    query = (
        "SELECT id, v FROM (SELECT id, v, subsequent_version_number AS gone, row_number()"
        " OVER (PARTITION BY id ORDER BY version_number DESC, subsequent_version_number NULLS"
        f" FIRST) AS age FROM {table}_journal) versions WHERE age = 1 AND gone IS NULL"
    )
    return dict(client.execute(query).fetchall())  # type: ignore[call-overload]


def _state(client: psycopg.Connection, table: str) -> str:
    query = "SELECT residency FROM gateway.tables WHERE table_name = %s"
    return str(client.execute(query, [table]).fetchall()[0][0])


def _is_quiet(client: psycopg.Connection) -> bool:
    """Return whether upkeep has nothing to do."""
    query = "SELECT work, tail_rows FROM gateway.maintenance"
    found = client.execute(query).fetchall()  # type: ignore[call-overload]
    return all(work is None and (rows or 0) < FLUSH_ROWS for work, rows in found)


def _differences(found: Tables, expected: Tables) -> dict[str, list[tuple[int, int]]]:
    """Return rows that are in one of them only."""
    return {
        table: sorted(found[table].items() ^ expected[table].items())[:10]
        for table in expected
        if found[table] != expected[table]
    }
