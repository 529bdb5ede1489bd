"""The result of a statement that was run in parts, one for each leaf that it has written."""

from collections.abc import Iterator, Sequence

from pgwire_gateway.session.portals import NoRows, RowStream, StatementResult


def joined(done: Sequence[StatementResult], verb: str) -> StatementResult:
    """Return the result of a statement whose parts these are."""
    if done[0].columns is None:
        count = sum(int(result.status().rpartition(" ")[2]) for result in done)
        return StatementResult(None, NoRows(), lambda _: f"{verb} {count}")
    streams = _Streams([result.stream for result in done])
    return StatementResult(done[0].columns, streams, lambda taken: f"{verb} {taken}")


class _Streams:
    """Rows of several streams, one after the other."""

    def __init__(self, streams: Sequence[RowStream]) -> None:
        self._streams = list(streams)
        self.exhausted = not streams

    def take(self, limit: int) -> Iterator[tuple[bytes | memoryview, int]]:
        """Yield runs of rows, at most `limit` rows; 0 takes all."""
        taken = 0
        while self._streams:
            for data, rows in self._streams[0].take(limit and limit - taken):
                taken += rows
                yield data, rows
            if limit and taken >= limit:
                return
            self._streams.pop(0).close()
        self.exhausted = True

    def encode_in(self, client_encoding: str) -> None:
        """Send what is left to a client that has another encoding now."""
        for stream in self._streams:
            stream.encode_in(client_encoding)

    def close(self) -> None:
        """Release what is left."""
        for stream in self._streams:
            stream.close()
