"""How much extracts of a statement may hold together: rows, and bytes, as rows may be large."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

from pgwire_gateway.config import Config
from rewrite.errors import UnsupportedError


class ExtractTooLargeError(UnsupportedError):
    """Extracts would hold more than they may (SQLSTATE 0A000)."""

    def __init__(self, most: int, unit: str) -> None:
        super().__init__(f"it needs more than {most} {unit} of them")


class Batch(Protocol):
    """Rows, as Arrow has them."""

    @property
    def num_rows(self) -> int:
        """How many there are."""

    @property
    def nbytes(self) -> int:
        """How much their values take up in memory."""


Some = TypeVar("Some", bound=Batch)


@dataclass(frozen=True, slots=True)
class ExtractSize:
    """What extracts hold, or may hold."""

    rows: int = 0
    bytes: int = 0

    def with_batch(self, batch: Batch) -> "ExtractSize":
        """Return the size with the rows of a batch besides."""
        return ExtractSize(self.rows + batch.num_rows, self.bytes + batch.nbytes)

    @staticmethod
    def most(config: Config) -> "ExtractSize":
        """Return how much the extracts of a query may hold."""
        return ExtractSize(config.extract_rows, config.extract_bytes)


class ExtractCount:
    """Counts what the extracts of one statement hold."""

    def __init__(self, most: ExtractSize | None = None) -> None:
        """Begin without any.

        Args:
            most: How much they may hold; None for any size.
        """
        self._most = most
        self.size = ExtractSize()
        """What they hold so far; set it back where one is given up."""

    def counted(self, batches: Iterable[Some]) -> Iterator[Some]:
        """Yield batches as long as there is room for them.

        Raises:
            ExtractTooLargeError: There is none; the batch is not yielded, and no more are taken.
        """
        for batch in batches:
            self.size = self.size.with_batch(batch)
            self._require()
            yield batch

    def _require(self) -> None:
        if self._most is None:
            return
        if self.size.rows > self._most.rows:
            raise ExtractTooLargeError(self._most.rows, "rows")
        if self.size.bytes > self._most.bytes:
            raise ExtractTooLargeError(self._most.bytes, "bytes")
