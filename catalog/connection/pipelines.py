"""Several steps in one round trip."""

from collections.abc import Callable, Iterator, Sequence

from psycopg import pq
from psycopg.pq.abc import PGresult

from catalog.connection.held_steps import HeldStep
from catalog.connection.libpq_results import CHUNK_ROWS, OK, rows_of
from catalog.connection.link import Link
from catalog.connection.own_texts import Placed, placed, texts_of
from catalog.connection.steps import COMMIT, Step
from catalog.connection.tuple_stores import TupleStore
from catalog.errors import CatalogError
from catalog.failpoints import Failpoint, reach
from catalog.results import Row


class Pipelines:
    """libpq's pipeline mode on one connection, entered and left for each round trip."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def run(
        self,
        steps: Sequence[Step],
        on_success: Callable[[Step, PGresult], None] | None = None,
        meanwhile: Callable[[], None] | None = None,
        held: HeldStep | None = None,
    ) -> list[PGresult]:
        """Run steps as one pipeline; the first error is raised after the server has recovered.

        For whoever holds the lock, when libpq has nothing else to do. What is passed is told by
        `Backend.run_all`.
        """
        link, connection, encoding = self._link, self._link.connection, self._link.encoding
        sent = self._placed(steps)
        link.guard(connection.enter_pipeline_mode)
        try:
            for one in sent:
                encoding.is_own = one.is_own
                link.send(one.step)
            encoding.is_own = False
            connection.pipeline_sync()
            if steps and steps[-1] is COMMIT:
                link.flush()
                reach(Failpoint.COMMIT_SENT)
            if meanwhile is not None:
                link.flush()
                meanwhile()
            results, failed = self._answers(sent, on_success, held)
            link.fetch()  # the end of the pipeline
        finally:
            encoding.is_own = False
            if connection.status == pq.ConnStatus.OK:
                connection.exit_pipeline_mode()
        link.messages.deliver_notifications()
        if held is not None:
            held.settle(results[-1], is_done=failed is None)
        if failed is not None:
            self._raise(*failed)
        return results

    def _placed(self, steps: Sequence[Step]) -> list[Placed]:
        """Return steps as they are sent, each with the encoding of its texts.

        Raises:
            CatalogError: 22P05 for a text that cannot be encoded.
        """
        link, encoding = self._link, self._link.encoding
        if not encoding.is_converted:
            return [Placed(step, is_own=False) for step in steps]
        found = list(placed(steps, link.transaction_status, encoding.name))
        # A text that cannot be sent is found out before others are.
        try:
            for one in found:
                encoding.is_own = one.is_own
                encoding.require_encodable(texts_of(one.step))
        finally:
            encoding.is_own = False
        return found

    def _answers(
        self,
        sent: Sequence[Placed],
        on_success: Callable[[Step, PGresult], None] | None,
        held: HeldStep | None,
    ) -> tuple[list[PGresult], tuple[PGresult, Placed] | None]:
        """Return the results of the steps that were asked for, and the first one that failed."""
        results: list[PGresult] = []
        failed: tuple[PGresult, Placed] | None = None
        for one in sent:
            self._link.encoding.is_own = one.is_own
            result = self._result_of(one.step, held)
            if failed is None and result.status not in OK:
                failed = (result, one)
            if one.is_asked:
                if failed is None and on_success is not None:
                    on_success(one.step, result)
                results.append(result)
        return results, failed

    def _raise(self, result: PGresult, failed: Placed) -> None:
        """Raise what a step has failed with, which is told in the encoding of its texts."""
        encoding = self._link.encoding
        encoding.is_own = failed.is_own
        try:
            self._link.messages.check(result, internal=failed.step.internal)
        finally:
            encoding.is_own = False

    def _result_of(self, step: Step, held: HeldStep | None) -> PGresult:
        """Return the result of the next step; of one that is `held` what tells its end."""
        link = self._link
        if held is None or step is not held.step:
            return link.fetch_only()
        # After an error the step is not run.
        if link.connection.pipeline_status != pq.PipelineStatus.ABORTED:
            link.connection.set_chunked_rows_mode(CHUNK_ROWS)
        last: list[PGresult] = []
        rows = self._chunked(last)
        try:
            held.rows = TupleStore(rows)
        except CatalogError as error:
            held.unheld = error
            link.cancel()
            for _ in rows:
                pass
        return last[0]

    def _chunked(self, last: list[PGresult]) -> Iterator[Row]:
        """Yield the rows of one step of a pipeline; the result that tells its end is noted."""
        while (result := self._link.fetch()) is not None:
            if result.status == pq.ExecStatus.PIPELINE_SYNC:
                break
            # As where rows are streamed, the last result need not be the one with the tag.
            if not last or result.command_status or result.status not in OK:
                last[:] = [result]
            if result.status in OK:
                yield from rows_of(result)
            # Its rows may be long, and go before others come, but those that `last` has.
            del result
        if not last:
            raise self._link.messages.lost()
