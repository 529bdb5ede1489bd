"""What PostgreSQL finds out about statements without running them, and what is prepared by that.

Types, names, trees, privileges and plans; of journals it tells nothing.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from catalog.bookkeeping import moments
from catalog.bookkeeping.calls import Bookkeeping, value_of
from catalog.bookkeeping.moments import TimeOuts
from catalog.connection import describe
from catalog.connection.backend import Backend
from catalog.connection.steps import Close, Query, Step
from catalog.errors import CatalogError
from catalog.pg import types
from catalog.results import Analysis, Basis, ResultColumn
from catalog.session.transactions import CatalogTransaction, unlocked

_TEXTLESS: Final = frozenset(
    {
        *(types.INT2, types.INT4, types.INT8, types.OID, types.FLOAT4, types.FLOAT8, types.NUMERIC),
        *(types.DATE, types.TIMESTAMP, types.TIMESTAMPTZ, types.UUID, types.BYTEA),
    }
)
"""Types whose binary form has no text in it."""


class Analyses:
    """Statements of one session that are prepared, described and checked."""

    def __init__(
        self, backend: Backend, calls: Bookkeeping, transaction: CatalogTransaction
    ) -> None:
        """Begin with nothing prepared."""
        self._backend = backend
        self._calls = calls
        self._transaction = transaction
        self._parameter_counts: dict[str, int] = {}

    def analyse(
        self,
        sql: str,
        parameter_oids: Sequence[int] = (),
        *,
        name: str = "",
        tree: bool = True,
        keeps_locks: bool = True,
    ) -> Analysis:
        """Prepare under `name` and describe, in one round trip; with the tree if it is wanted.

        In a transaction block what this locks can be let go of at once.
        """
        if keeps_locks:
            analysis, _ = describe.analyse(self._backend, name, sql, parameter_oids, tree=tree)
        else:
            with self._transaction.keeping_no_locks() as (before, after):
                analysis, _ = describe.analyse(
                    self._backend, name, sql, parameter_oids, tree=tree, before=before, after=after
                )
        self._parameter_counts[name] = len(analysis.parameter_oids)
        return analysis

    def analyse_named(
        self, names: Iterable[str], sql: str, parameter_oids: Sequence[int], *, name: str
    ) -> tuple[Basis, TimeOuts, Analysis]:
        """Prepare as `analyse` does; return what this rests on, too, as it was just before.

        The statement names these relations, as SQL. What limits the session is told besides.
        """
        before = self._calls.basis_steps(self._calls.encoded(names))
        analysis, results = describe.analyse(
            self._backend, name, sql, parameter_oids, tree=True, before=before
        )
        self._parameter_counts[name] = len(analysis.parameter_oids)
        return *moments.grounds_of(results[-1]), analysis

    def describe(self, name: str) -> Analysis:
        """Describe a prepared statement; `tree` is None."""
        analysis = describe.describe(self._backend, name)
        self._parameter_counts[name] = len(analysis.parameter_oids)
        return analysis

    def describe_portal(self, name: str) -> tuple[tuple[ResultColumn, ...], int]:
        """Describe a cursor SQL has declared: its columns, and the format code of its rows.

        Raises:
            CatalogError: 34000 when there is none.
        """
        return describe.describe_portal(self._backend, name)

    def deallocate(self, name: str) -> None:
        """Close a prepared statement, also in a failed transaction; a missing one is no error."""
        self._parameter_counts.pop(name, None)
        self._backend.run(Close(name))

    def deallocate_later(self, name: str) -> None:
        """Close a prepared statement with what is asked next, which may prepare it anew."""
        self._parameter_counts.pop(name, None)
        self._backend.close_later(name)

    def forget(self) -> None:
        """Note that the client has dropped all prepared statements."""
        self._parameter_counts.clear()

    def explain(
        self,
        sql: str,
        values: Sequence[bytes | None] = (),
        *,
        parameter_oids: Sequence[int] = (),
        formats: Sequence[int] = (),
    ) -> bytes:
        """Return PostgreSQL's plan of one statement as JSON; no lock is kept.

        Raises:
            CatalogError: What PostgreSQL finds wrong with the statement.
        """
        command = "EXPLAIN (FORMAT JSON) "
        # PostgreSQL knows the encoding of values only if they are in the client's.
        is_clients = self._backend.is_converted and self._has_texts(values, parameter_oids, formats)
        explained = Query(command + sql, values, parameter_oids, formats, is_clients=is_clients)
        steps: list[Step] = [explained]
        place = 0
        if self._backend.transaction_status == "T":
            steps, place = unlocked(steps), 1
        try:
            plan = value_of(self._calls.run_all(steps)[place])
            return plan.decode(self._backend.codec).encode() if is_clients else plan
        except CatalogError as error:
            if error.position is not None:
                error.position = max(error.position - len(command), 1)
            raise

    @staticmethod
    def _has_texts(
        values: Sequence[bytes | None], oids: Sequence[int], formats: Sequence[int]
    ) -> bool:
        """Return whether values have letters that are not ASCII."""
        codes = formats if len(formats) == len(values) else [*formats, 0][:1] * len(values)
        given = [*oids, *[0] * len(values)]
        return any(
            value is not None and not value.isascii() and not (code and type_oid in _TEXTLESS)
            for value, code, type_oid in zip(values, codes, given, strict=False)
        )

    def check_steps(self, sql: str | None, prepared: str | None) -> list[Step]:
        """Return the steps that check a statement's privileges; none where there is no statement.

        It is told as its text, or as the name it was `prepared` under.
        """
        if prepared is not None:
            count = self._parameter_counts.get(prepared)
            if count is None:
                count = len(self.describe(prepared).parameter_oids)
            arguments = f"({', '.join(['NULL'] * count)})" if count else ""
            return [Query(f"EXPLAIN (COSTS OFF) EXECUTE {_quoted(prepared)}{arguments}")]
        if sql is not None:
            return [Query(f"EXPLAIN (GENERIC_PLAN, COSTS OFF) {sql}")]
        return []


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
