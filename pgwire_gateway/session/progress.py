"""Tells others how far a long statement is, once it has taken a while (``gateway.progress``)."""

import logging
import threading
import time
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Final, Self

from catalog.errors import GatewayError
from catalog.session import progress as notes
from catalog.session.progress import Progress
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.spark.job_progress import JobProgress, progress_of

logger = logging.getLogger(__name__)

INTERVAL_S: Final = 1.0
"""How often it is noted; a statement that takes less is never shown."""


@dataclass(frozen=True, slots=True)
class _Counts:
    """What is known of the phase that a statement is in."""

    phase: str
    rows_read: int | None = None
    rows_written: int | None = None
    rows_total: int | None = None


class ProgressReport:
    """How far one statement is; a thread notes it while the context lasts."""

    def __init__(self, call: Invocation, command: str, source: str, target: str) -> None:
        """Name the statement as its client has written it."""
        self._call = call
        self._names = (command, source, target)
        self._counts = _Counts("starting")
        self._began = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        _: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()

    def begin(self, phase: str, *, rows_total: int | None = None) -> None:
        """Say what is done now, and with how many rows, where that is known."""
        self._counts = _Counts(phase, rows_total=rows_total)

    def add_read(self, rows: int) -> None:
        """Count rows that have been read in this phase, other than by Spark."""
        counts = self._counts
        self._counts = replace(counts, rows_read=(counts.rows_read or 0) + rows)

    def add_written(self, rows: int) -> None:
        """Count rows that have been written in this phase, other than by Spark."""
        counts = self._counts
        self._counts = replace(counts, rows_written=(counts.rows_written or 0) + rows)

    def _run(self) -> None:
        if self._ended.wait(INTERVAL_S):
            return
        session, backend = self._call.session, self._call.session.catalog.backend_pid
        try:
            administrator = session.services.catalog.admin(session.database)
        except GatewayError as error:
            logger.warning("the progress of a statement is not shown: %s", error)
            return
        try:
            while True:
                notes.note(administrator, backend, self._progress())
                if self._ended.wait(INTERVAL_S):
                    break
            notes.end(administrator, backend)
        except GatewayError as error:
            logger.warning("the progress of a statement is not shown any more: %s", error)
        finally:
            administrator.close()

    def _progress(self) -> Progress:
        counts, jobs = self._counts, progress_of(self._call.running)
        found = Progress(
            *self._names,
            counts.phase,
            time.monotonic() - self._began,
            rows_read=counts.rows_read,
            rows_written=counts.rows_written,
            rows_total=counts.rows_total,
        )
        return found if jobs is None else _with_jobs(found, jobs)


def _with_jobs(found: Progress, jobs: JobProgress) -> Progress:
    """Return what Spark counts besides what is counted here, which comes before."""
    return replace(
        found,
        rows_read=jobs.rows_read if found.rows_read is None else found.rows_read,
        rows_written=jobs.rows_written if found.rows_written is None else found.rows_written,
        tasks_done=jobs.tasks_done,
        tasks_total=jobs.tasks_total,
    )
