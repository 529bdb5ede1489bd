"""A client that sends query strings and keeps everything that comes back, to be compared."""

import re
import select
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from psycopg import pq

from catalog.pg.text_codecs import codec_of

ANSWER_TIMEOUT_S = 120.0

_TEMPORARY_SCHEMA = re.compile(r"pg_temp_\d+")

ERROR_FIELDS = {
    "severity": pq.DiagnosticField.SEVERITY_NONLOCALIZED,
    "sqlstate": pq.DiagnosticField.SQLSTATE,
    "message": pq.DiagnosticField.MESSAGE_PRIMARY,
    "detail": pq.DiagnosticField.MESSAGE_DETAIL,
    "hint": pq.DiagnosticField.MESSAGE_HINT,
    "position": pq.DiagnosticField.STATEMENT_POSITION,
    "schema": pq.DiagnosticField.SCHEMA_NAME,
    "table": pq.DiagnosticField.TABLE_NAME,
    "column": pq.DiagnosticField.COLUMN_NAME,
    "data type": pq.DiagnosticField.DATATYPE_NAME,
    "constraint": pq.DiagnosticField.CONSTRAINT_NAME,
}
"""Fields of errors and notices that must be the same everywhere."""


@dataclass
class Result:
    """The answer to one statement."""

    status: str
    tag: str = ""
    columns: list[tuple[str, int, int, int, bool, int]] = field(default_factory=list)
    """Name, type OID, type modifier, format, whether from a table, number in the table."""
    rows: list[tuple[str, ...]] = field(default_factory=list)
    error: dict[str, str] = field(default_factory=dict)


@dataclass
class Answer:
    """All a query string brought."""

    results: list[Result] = field(default_factory=list)
    notices: list[dict[str, str]] = field(default_factory=list)
    transaction: str = ""

    @property
    def sqlstate(self) -> str | None:
        """SQLSTATE of the error, None when there was none."""
        return next((r.error.get("sqlstate", "") for r in self.results if r.error), None)

    def normalised(self, *, ordered: bool) -> "Answer":
        """Return the answer with the rows sorted unless their order counts."""
        if ordered:
            return self
        results = [replace(result, rows=sorted(result.rows)) for result in self.results]
        return replace(self, results=results)


class Client:
    """Named connections to one database of one server."""

    def __init__(self, conninfo: str, setup: Sequence[str] = ()) -> None:
        """Connect when needed, and run ``setup`` on each new connection."""
        self._conninfo = conninfo
        self._setup = tuple(setup)
        self._connections: dict[str, pq.PGconn] = {}
        self._notices: list[dict[str, str]] = []

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            connection.finish()
        self._connections.clear()

    def run(
        self,
        query_string: str,
        name: str = "main",
        copy_data: str | None = None,
        *,
        binary: bool = False,
    ) -> Answer:
        """Send a query string on the connection of a name and return the answer.

        Args:
            query_string: What to send.
            name: Name of the connection.
            copy_data: Data for COPY FROM STDIN.
            binary: Use the extended protocol, with results in binary format.
        """
        connection = self._connection(name)
        self._notices.clear()
        if binary:
            connection.send_query_params(
                _sent(connection, query_string), None, result_format=pq.Format.BINARY
            )
        else:
            connection.send_query(_sent(connection, query_string))
        return self._answer(connection, copy_data)

    def _answer(self, connection: pq.PGconn, copy_data: str | None) -> Answer:
        answer = Answer()
        deadline = time.monotonic() + ANSWER_TIMEOUT_S
        while (result := _next_result(connection, deadline)) is not None:
            answer.results.append(_result(connection, result, copy_data, deadline))
            if connection.status != pq.ConnStatus.OK:
                raise AssertionError(f"connection lost: {answer.results[-1].error}")
        answer.notices = list(self._notices)
        answer.transaction = pq.TransactionStatus(connection.transaction_status).name
        return answer

    def _connection(self, name: str) -> pq.PGconn:
        if name not in self._connections:
            connection = pq.PGconn.connect(self._conninfo.encode())
            if connection.status != pq.ConnStatus.OK:
                raise AssertionError(connection.get_error_message())
            self._connections[name] = connection
            connection.notice_handler = lambda result: self._notices.append(_fields(result))
            for statement in self._setup:
                result = connection.exec_(statement.encode())
                assert not _fields(result), _fields(result)
        return self._connections[name]


def _next_result(connection: pq.PGconn, deadline: float) -> pq.PGresult | None:
    while connection.is_busy():
        remaining = deadline - time.monotonic()
        if remaining <= 0 or not select.select([connection.socket], [], [], remaining)[0]:
            raise AssertionError(f"no answer within {ANSWER_TIMEOUT_S} s")
        connection.consume_input()
    return connection.get_result()


def _result(
    connection: pq.PGconn, result: pq.PGresult, copy_data: str | None, deadline: float
) -> Result:
    answer = Result(pq.ExecStatus(result.status).name)
    match result.status:
        case pq.ExecStatus.COPY_IN:
            connection.put_copy_data(_sent(connection, copy_data or ""))
            connection.put_copy_end()
        case pq.ExecStatus.COPY_OUT:
            answer.rows = list(_copied_rows(connection, deadline))
        case _:
            answer.tag = (result.command_status or b"").decode()
            answer.error = _fields(result)
    columns = range(result.nfields)
    answer.columns = [
        (
            (result.fname(number) or b"").decode(errors="backslashreplace"),
            result.ftype(number),
            result.fmod(number),
            result.fformat(number),
            result.ftable(number) != 0,
            result.ftablecol(number),
        )
        for number in columns
    ]
    for row in range(result.ntuples):
        values = (result.get_value(row, number) for number in columns)
        answer.rows.append(tuple(map(_shown, values)))
    return answer


def _copied_rows(connection: pq.PGconn, deadline: float) -> Iterator[tuple[str, ...]]:
    while True:
        size, data = connection.get_copy_data(1)
        if size > 0:
            yield (_shown(bytes(data)),)
        elif size == 0:
            remaining = max(deadline - time.monotonic(), 0)
            assert select.select([connection.socket], [], [], remaining)[0], "no COPY data"
            connection.consume_input()
        else:
            return


def _sent(connection: pq.PGconn, text: str) -> bytes:
    """Return a text in the client's encoding."""
    encoding = connection.parameter_status(b"client_encoding") or b""
    return text.encode(codec_of(encoding.decode()) or "utf-8")


def _shown(value: bytes | None) -> str:
    if value is None:
        return "NULL"
    try:
        return value.decode()
    except UnicodeDecodeError:
        return f"\\x{value.hex()}"


def _fields(result: pq.PGresult) -> dict[str, str]:
    found = {name: result.error_field(code) for name, code in ERROR_FIELDS.items()}
    fields = {
        name: _TEMPORARY_SCHEMA.sub("pg_temp", value.decode(errors="backslashreplace"))
        for name, value in found.items()
        if value is not None
    }
    if not fields and result.status == pq.ExecStatus.FATAL_ERROR:
        return {"sqlstate": "", "message": result.get_error_message()}
    return fields
