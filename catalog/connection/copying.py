"""COPY between the client and PostgreSQL itself: data pass through as they are."""

from collections.abc import Iterator

from psycopg.pq.abc import PGresult

from catalog.connection.backend import Backend


def _formats(result: PGresult) -> tuple[int, ...]:
    return tuple(result.fformat(i) for i in range(result.nfields))


class CopyIn:
    """A COPY FROM STDIN in progress on the catalog."""

    def __init__(self, backend: Backend, result: PGresult) -> None:
        self._backend = backend
        self.formats = _formats(result)
        """Format code of each column."""
        self.overall_format = result.binary_tuples
        """1 for COPY … BINARY, else 0."""
        self._is_over = False

    def write(self, data: bytes) -> None:
        """Pass on the data of one CopyData message; raise what PostgreSQL has found wrong by now.

        The COPY is over then.
        """
        if self._backend.refuses_copy():
            self.fail("what came before is refused")
        self._backend.put_copy_data(data)

    def finish(self) -> str:
        """End the data; return the command tag or raise what PostgreSQL found wrong."""
        self._is_over = True
        return self._backend.end_copy()

    def fail(self, message: str) -> None:
        """Make the COPY fail with 57014 and raise that error, as after CopyFail.

        One that is over already stays as it is.
        """
        if not self._is_over:
            self._is_over = True
            self._backend.end_copy(message)


class CopyOut:
    """A COPY TO STDOUT in progress on the catalog."""

    def __init__(self, backend: Backend, result: PGresult) -> None:
        self._backend = backend
        self.formats = _formats(result)
        """Format code of each column."""
        self.overall_format = result.binary_tuples
        """1 for COPY … BINARY, else 0."""
        self.command_tag: str | None = None
        """Set after the last chunk."""
        self.chunks = self._chunks()
        """Data of the CopyData messages."""

    def _chunks(self) -> Iterator[bytes]:
        yield from self._backend.copied_data()
        self.command_tag = self._backend.finish_copy_out()
