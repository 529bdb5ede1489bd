"""The same history on the gateway and on a plain PostgreSQL, one statement at a time.

Several sessions on each server have transactions open beside each other; what one does its twin
does, too. The gateway answers first. Where it refuses what PostgreSQL would do (0A000), or gives
way to others (40001, 40P01, 55P03), the twin is spared the statement. All else has to be the same:
rows, command tags and SQLSTATEs. So PostgreSQL is the model of what the gateway holds.
"""

import random
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

import psycopg
from psycopg.pq import ExecStatus, TransactionStatus

from tests.support.history_statements import (
    PARTITIONED,
    SCHEMA,
    TABLES,
    Statement,
    Statements,
)
from tests.support.servers import Address

Connection = psycopg.Connection

REFUSED: Final = frozenset({"0A000", "40001", "40P01", "55P03", "53400"})
"""What the gateway may answer where PostgreSQL goes on."""

LOCK_TIMEOUT: Final = "400ms"

LEVELS: Final = ("READ COMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")

TWIN_LEVELS: Final = {"SERIALIZABLE": "REPEATABLE READ"}
"""Levels of the twin where they are others.

Servers may fail transactions that could be serialized, each its own. What one that succeeds reads
and writes is the same at both levels.
"""

DEFINED_IN_TRANSACTIONS: Final = 0.15
"""Share of the statements of a transaction that may be definitions: these lock tables."""

CURSORS: Final = 0.1
"""Share of the statements that are on cursors."""

SESSIONS: Final = 3
"""Sessions that write; another one looks at what they have committed."""

REMEMBERED: Final = 40
"""Lines of the history that a report shows."""

REPLAYED: Final = {
    "h": "id",
    "pairs": "a, b",
    "child": "k",
    "kinds": "k",
}
"""Keys of the tables whose journal the convention's own query can read."""

Rows = list[tuple[bytes | None, ...]]


class Answer(NamedTuple):
    """What a server says to a statement."""

    ended: str
    """Command tag or SQLSTATE."""
    rows: Rows
    """Rows in the order of their bytes."""
    message: str = ""
    """The error's."""

    def is_like(self, other: "Answer") -> bool:
        """Return whether both are right, if one is.

        Which one of several rows is met first, and found to violate a constraint, to have changed
        or to be locked for too long, is nobody's business.
        """
        if _tells_of_rows(self.ended) and _tells_of_rows(other.ended):
            return True
        return (self.ended, self.rows) == (other.ended, other.rows)


def _tells_of_rows(ended: str) -> bool:
    return ended[:2] in {"23", "40"} or ended == "55P03"


class DivergenceError(Exception):
    """The gateway has answered what PostgreSQL has not."""


class Twins:
    """A history that is being made."""

    def __init__(
        self, gateway: Address, plain: Address, seed: int, *, database: str = "postgres"
    ) -> None:
        """Make the tables; the same seed makes the same statements."""
        self._chance = random.Random(seed)  # noqa: S311 - not for secrets
        self._statements = Statements(self._chance)
        self._addresses = (gateway, plain)
        self._database = database
        self._pairs: list[tuple[Connection, Connection]] = []
        self._savepoints: list[int] = []
        self.lines: deque[str] = deque([f"seed {seed}"], maxlen=REMEMBERED)
        """What was done last."""
        self.counted: Counter[str] = Counter()
        """How statements ended, by tag or SQLSTATE."""
        self.steps = 0
        self.connect()
        for statement in SCHEMA:
            for connection in self._pairs[-1]:
                connection.execute(statement)  # type: ignore[call-overload]

    def connect(self) -> None:
        """Begin the sessions; the last one looks at what is committed."""
        self._pairs = [self._pair() for _ in range(SESSIONS + 1)]
        self._savepoints = [0] * len(self._pairs)

    def connect_to(self, gateway: Address) -> None:
        """Begin the sessions anew, as the gateway has been started again."""
        self._addresses = (gateway, self._addresses[1])
        self.connect()

    def close(self) -> None:
        """End the sessions, and what they have not committed."""
        for pair in self._pairs:
            for connection in pair:
                with suppress(psycopg.Error):
                    connection.close()

    def step(self) -> None:
        """Let one session do something.

        Raises:
            DivergenceError: The servers differ.
        """
        self.steps += 1
        place = self._chance.randrange(SESSIONS)
        gateway, _ = self._pairs[place]
        status = gateway.info.transaction_status
        if status is TransactionStatus.INERROR:
            self._recover(place)
        elif status is TransactionStatus.INTRANS and self._chance.random() < 0.25:
            self._end(place)
        elif status is TransactionStatus.IDLE and self._chance.random() < 0.3:
            self._begin(place)
        elif status is TransactionStatus.INTRANS and self._chance.random() < 0.2:
            self._save(place)
        elif self._chance.random() < 0.05:
            self._both(place, self._statements.setting())
        elif self._chance.random() < CURSORS:
            self._use_cursor(place)
        else:
            alone = status is TransactionStatus.IDLE
            definitions = alone or self._chance.random() < DEFINED_IN_TRANSACTIONS
            self._run(place, self._statements.next(definitions=definitions))

    def check(self) -> None:
        """Compare what is committed, and each table with its journal.

        Raises:
            DivergenceError: They differ.
        """
        place = SESSIONS
        for table in (*TABLES, *PARTITIONED):
            if self._run(place, Statement(f"SELECT * FROM {table}")) in REFUSED:
                return
        gateway, _ = self._pairs[place]
        for table in TABLES:
            self._expect(gateway, f"SELECT gateway.check('{table}')", [(b"0",)])
        for table, key in REPLAYED.items():
            replayed = (
                f"SELECT {key} FROM (SELECT {key}, subsequent_version_number AS gone, row_number()"
                f" OVER (PARTITION BY {key} ORDER BY version_number DESC,"
                " subsequent_version_number NULLS FIRST) AS age"
                f" FROM {table}_journal) versions WHERE age = 1 AND gone IS NULL"
            )
            found = answer(gateway, Statement(f"SELECT {key} FROM {table}"))
            if found.ended not in REFUSED:
                self._expect(gateway, replayed, found.rows)

    def upkeep(self) -> None:
        """Have the gateway do what rearranges its files and tiers and changes no row."""
        gateway, _ = self._pairs[SESSIONS]
        table = self._chance.choice((*TABLES, *PARTITIONED))
        sql = self._chance.choice(
            (
                f"VACUUM {table}",
                f"VACUUM {table}",
                f"ALTER TABLE {table} SET (gateway.residency = 'never')",
                f"ALTER TABLE {table} SET (gateway.residency = 'always')",
                f"ALTER TABLE {table} RESET (gateway.residency)",
            )
        )
        found = answer(gateway, Statement(sql))
        self._note("gateway alone", sql, f"{found.ended} {found.message}")
        if found.ended not in REFUSED and not found.ended.startswith(("VACUUM", "ALTER")):
            raise DivergenceError(self.report(f"{sql}: {found}"))

    def report(self, what: str) -> str:
        """Return what has happened last, for people."""
        return "\n".join([*self.lines, f"step {self.steps}: {what}"])

    # sessions -----------------------------------------------------------------------------------

    def _pair(self) -> tuple[Connection, Connection]:
        one, other = (
            psycopg.connect(
                address.conninfo(self._database),
                autocommit=True,
                prepare_threshold=None,  # a prepared statement outlives no change of its columns
                options=f"-c lock_timeout={LOCK_TIMEOUT}",
            )
            for address in self._addresses
        )
        return one, other

    def _begin(self, place: int) -> None:
        level = self._chance.choice(LEVELS)
        twins = TWIN_LEVELS.get(level, level)
        self._both(place, f"BEGIN ISOLATION LEVEL {level}", f"BEGIN ISOLATION LEVEL {twins}")
        self._savepoints[place] = 0
        # The snapshot is taken now, whatever the gateway may refuse and its twin not run.
        self._both(place, "SELECT 1")

    def _end(self, place: int) -> None:
        command = "COMMIT" if self._chance.random() < 0.8 else "ROLLBACK"
        self._savepoints[place] = 0
        self._both(place, command)

    def _save(self, place: int) -> None:
        depth = self._savepoints[place]
        if depth and self._chance.random() < 0.5:
            verb = self._chance.choice(("ROLLBACK TO", "RELEASE"))
            self._both(place, f"{verb} SAVEPOINT s{depth}")
            self._savepoints[place] -= verb == "RELEASE"
        else:
            self._savepoints[place] += 1
            self._both(place, f"SAVEPOINT s{depth + 1}")

    def _recover(self, place: int) -> None:
        depth = self._savepoints[place]
        if depth:
            self._both(place, f"ROLLBACK TO SAVEPOINT s{depth}")
        else:
            self._both(place, "ROLLBACK")

    def _both(self, place: int, command: str, twins: str | None = None) -> None:
        """Have both do what neither refuses; a transaction may turn out not to be serializable.

        Args:
            place: The session's.
            command: What the gateway is to do.
            twins: What its twin is to do, where that is another command.
        """
        gateway, plain = self._pairs[place]
        first = answer(gateway, Statement(command)).ended
        second = first
        if first not in REFUSED:
            second = answer(plain, Statement(twins or command)).ended
        self._note(place, command, first)
        if first != second:
            raise DivergenceError(self.report(f"{command}: {first}, but {second}"))
        if first in REFUSED and command == "COMMIT":
            answer(plain, Statement("ROLLBACK"))

    def _use_cursor(self, place: int) -> None:
        gateway, plain = self._pairs[place]
        listed = Statement("SELECT name FROM pg_cursors WHERE name <> ''")
        opened = answer(plain, listed).rows
        self._expect(gateway, listed.sql, opened)
        in_transaction = gateway.info.transaction_status is TransactionStatus.INTRANS
        names = [(name or b"").decode() for (name,) in opened]
        self._run(place, self._statements.cursor(names, in_transaction=in_transaction))

    def _run(self, place: int, statement: Statement) -> str:
        gateway, plain = self._pairs[place]
        found = answer(gateway, statement)
        sql = f"{statement.sql} {statement.parameters or ''}"
        self._note(place, sql, f"{found.ended} {found.message}")
        self.counted[found.ended.partition(" ")[0]] += 1
        if found.ended in REFUSED:
            if plain.info.transaction_status is TransactionStatus.INTRANS:
                # It fails as well, so that both transactions are where they were.
                answer(plain, Statement("SELECT 1 / 0"))
            return found.ended
        expected = answer(plain, statement)
        if not found.is_like(expected):
            raise DivergenceError(self.report(_difference(statement, found, expected)))
        return found.ended

    def _expect(self, gateway: Connection, sql: str, rows: Rows) -> None:
        found, expected = answer(gateway, Statement(sql)), Answer(f"SELECT {len(rows)}", rows)
        if found.ended not in REFUSED and not found.is_like(expected):
            raise DivergenceError(self.report(_difference(Statement(sql), found, expected)))

    def _note(self, place: int | str, sql: str, ended: str) -> None:
        self.lines.append(f"{place}: {sql[:400]} -> {ended}")


def answer(connection: Connection, statement: Statement) -> Answer:
    """Return what a server says to a statement, in the texts it sends.

    Raises:
        OperationalError: The connection is lost.
    """
    cursor = connection.cursor()
    try:
        if statement.copied is not None:
            with cursor.copy(statement.sql) as copy:  # type: ignore[call-overload]
                copy.write(statement.copied)
        else:
            cursor.execute(statement.sql, statement.parameters or None)  # type: ignore[call-overload]
    except psycopg.Error as error:
        if error.sqlstate is None or connection.closed:
            raise
        return Answer(error.sqlstate, [], str(error))
    result = cursor.pgresult
    if result is None or result.status != ExecStatus.TUPLES_OK:
        return Answer(cursor.statusmessage or "", [])
    rows = [
        tuple(result.get_value(row, column) for column in range(result.nfields))
        for row in range(result.ntuples)
    ]
    return Answer(cursor.statusmessage or "", sorted(rows, key=_order))


def _order(row: tuple[bytes | None, ...]) -> list[tuple[bool, bytes]]:
    return [(value is None, value or b"") for value in row]


def _difference(statement: Statement, found: Answer, expected: Answer) -> str:
    """Return what is different, without what is the same."""
    more, less = Counter(found.rows), Counter(expected.rows)
    lines = [
        statement.sql,
        f"gateway: {found.ended} {found.message}",
        f"PostgreSQL: {expected.ended} {expected.message}",
    ]
    lines += [f"only here: {row}" for row in list(more - less)[:5]]
    lines += [f"missing: {row}" for row in list(less - more)[:5]]
    return "\n".join(line[:600] for line in lines)


def run(twins: Twins, enough: Callable[[], bool], *, between: Callable[[], None]) -> None:
    """Make a history until it is long enough, looking at it now and then.

    Args:
        twins: The history.
        enough: Asked before each step.
        between: Called after some steps, as they may do what no session notices.

    Raises:
        DivergenceError: The servers differ.
    """
    while not enough():
        twins.step()
        if twins.steps % 25 == 0:
            twins.check()
        if twins.steps % 17 == 0:
            twins.upkeep()
        if twins.steps % 200 == 0:
            between()
    twins.check()
