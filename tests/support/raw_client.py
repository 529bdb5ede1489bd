"""A client of libpq's that shows all texts as the bytes they came in, in whatever encoding."""

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from psycopg import pq
from psycopg.pq.abc import PGconn, PGresult

from catalog.pg.text_codecs import codec_of
from tests.support.servers import Address

Shown = tuple[object, ...]

_FIELDS = (
    pq.DiagnosticField.SEVERITY_NONLOCALIZED,
    pq.DiagnosticField.SQLSTATE,
    pq.DiagnosticField.MESSAGE_PRIMARY,
    pq.DiagnosticField.MESSAGE_DETAIL,
    pq.DiagnosticField.MESSAGE_HINT,
    pq.DiagnosticField.STATEMENT_POSITION,
    pq.DiagnosticField.COLUMN_NAME,
    pq.DiagnosticField.CONSTRAINT_NAME,
)


class RawClient:
    """One connection, and what it has answered."""

    def __init__(self, server: Address, database: str, **options: str) -> None:
        """Connect; options are those of libpq."""
        parts = [server.conninfo(database), *(f"{name}='{text}'" for name, text in options.items())]
        self.connection: PGconn = pq.PGconn.connect(" ".join(parts).encode())
        assert self.connection.status == pq.ConnStatus.OK, self.connection.get_error_message()
        self.connection.notice_handler = lambda result: self.seen.append(_error(result))
        self.seen: list[Shown] = []
        """What has come since it was last asked for."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.connection.finish()

    @property
    def encoding(self) -> str:
        """PostgreSQL's name of the client encoding."""
        return (self.connection.parameter_status(b"client_encoding") or b"").decode()

    def sent(self, text: str | bytes) -> bytes:
        """Return a text in the client's encoding; bytes are sent as they are."""
        return text if isinstance(text, bytes) else text.encode(codec_of(self.encoding) or "utf-8")

    def query(self, text: str | bytes) -> list[Shown]:
        """Return what a query string is answered with."""
        self.connection.send_query(self.sent(text))
        return self._answers()

    def execute(
        self,
        text: str | bytes,
        values: Sequence[str | bytes | None] = (),
        *,
        codes: Sequence[int] | None = None,
        types: Sequence[int] | None = None,
        result_code: int = 0,
    ) -> list[Shown]:
        """Return what a statement with parameters is answered with."""
        given = [None if value is None else self.sent(value) for value in values]
        self.connection.send_query_params(self.sent(text), given, types, codes, result_code)
        return self._answers()

    def copy_in(self, text: str, *data: str | bytes) -> list[Shown]:
        """Return what a COPY FROM STDIN is answered with."""
        self.connection.send_query(self.sent(text))
        result = self.connection.get_result()
        assert result is not None
        if result.status != pq.ExecStatus.COPY_IN:
            return [_shown(result), *self._answers()]
        for piece in data:
            self.connection.put_copy_data(self.sent(piece))
        self.connection.put_copy_end()
        return self._answers()

    def _answers(self) -> list[Shown]:
        shown: list[Shown] = []
        while (result := self.connection.get_result()) is not None:
            if result.status == pq.ExecStatus.COPY_OUT:
                shown.append(("COPY", result.binary_tuples, tuple(sorted(self._copied()))))
                continue
            shown.append(_shown(result))
        shown += self.seen
        self.seen.clear()
        status = self.connection.transaction_status
        return [*shown, (pq.TransactionStatus(status).name, self.encoding)]

    def _copied(self) -> list[bytes]:
        data = []
        while True:
            count, piece = self.connection.get_copy_data(0)
            if count < 0:
                return data
            data.append(bytes(piece))


def _shown(result: PGresult) -> Shown:
    if result.status == pq.ExecStatus.FATAL_ERROR:
        return _error(result)
    names = tuple(result.fname(i) for i in range(result.nfields))
    rows = [
        tuple(result.get_value(row, i) for i in range(result.nfields))
        for row in range(result.ntuples)
    ]
    return (result.command_status, names, tuple(sorted(rows, key=repr)))


def _error(result: PGresult) -> Shown:
    return tuple(result.error_field(field) for field in _FIELDS)
