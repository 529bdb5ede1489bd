"""Calls of the bookkeeping functions on a session's own connection, in its own transaction.

Every call carries a code of its own as its first bind parameter, which is made when it is sent.
Calls have no name: SQL of the client can drop a prepared statement, and prepare another one under
its name, which would be handed the code unused.
"""

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass
from functools import partial
from typing import Final

from psycopg.pq.abc import PGresult

from catalog.bookkeeping.call_codes import CallCodes, array_text
from catalog.connection.backend import Backend
from catalog.connection.held_steps import HeldStep
from catalog.connection.steps import Query, Step
from catalog.pg.types import BOOL, INT8, INT8_ARRAY, JSON, OID, OID_ARRAY, TEXT, TEXT_ARRAY
from catalog.results import Basis


@dataclass(frozen=True, slots=True)
class Function:
    """One bookkeeping function: its call, and the types of its parameters."""

    name: str
    parameter_oids: tuple[int, ...]
    """The first one is the code."""
    is_covered: bool = True
    """Whether the code is for these arguments only."""

    @property
    def sql(self) -> str:
        """The statement that calls it."""
        return f"SELECT {self.called(range(1, len(self.parameter_oids) + 1))}"

    def called(self, numbers: Iterable[int]) -> str:
        """Return the call as SQL, with the parameters of a statement that have these numbers."""
        marks = ", ".join(f"${number}" for number in numbers)
        return f"pg_journal.{self.name}({marks})"


Call = tuple[Function, Sequence[bytes | None]]
"""A function of the bookkeeping and its arguments, without the code."""

OUTDATED: Final = "GW001"
"""SQLSTATE of the bookkeeping for a plan that does not hold any more."""

NOT_HOT: Final = "GW002"
"""SQLSTATE of the bookkeeping for a statement whose rows are not all hot."""

HAS_HOT_ROWS: Final = "GW003"
"""SQLSTATE of the bookkeeping for a write that would rather be one of hot rows."""

SNAPSHOT: Final = Function("snapshot", (TEXT, JSON))
DEFINITIONS: Final = Function("definitions", (TEXT,))
RELATIONS: Final = Function("relations", (TEXT, OID_ARRAY))
BEGIN_WRITE: Final = Function("begin_write", (TEXT, OID_ARRAY, TEXT, OID_ARRAY, TEXT))
ANNOUNCE_TREE: Final = Function("announce_tree", (TEXT, OID, OID_ARRAY, OID_ARRAY))
HOLD_LEAVES: Final = Function("hold_leaves", (TEXT, OID, OID_ARRAY, OID_ARRAY, BOOL))
ADD_ROWS: Final = Function("add_rows", (TEXT, OID, OID, TEXT))
CHANGE_LEAF: Final = Function("change_leaf", (TEXT, OID, TEXT, TEXT))
FOLLOW_OWNERS: Final = Function("follow_owners", (TEXT,))
HOLD: Final = Function("hold", (TEXT, OID_ARRAY, OID_ARRAY, BOOL, BOOL))
CAPTURE: Final = Function("capture", (TEXT, OID, INT8, INT8))
APPEND: Final = Function("append", (TEXT, OID, INT8, TEXT, TEXT, BOOL))
THAW: Final = Function("thaw", (TEXT, OID, TEXT))
ANNOUNCE: Final = Function(
    "announce", (TEXT, OID, TEXT, BOOL, TEXT, TEXT, BOOL, INT8, BOOL, BOOL, OID_ARRAY)
)
HEAT_KEYS: Final = Function("heat_keys", (TEXT, OID, TEXT, TEXT))
HEAT_UNWAITED: Final = Function("heat_unwaited", (TEXT, OID, TEXT, BOOL))
LOCKED_KEYS: Final = Function("locked_keys", (TEXT, OID))
TELL_PROPOSED: Final = Function("tell_proposed", (TEXT, BOOL))
UNSEARCHED: Final = Function("unsearched", (TEXT, OID, INT8))
SOURCE_ROWS: Final = Function("source_rows", (TEXT, OID, OID_ARRAY, INT8))
TEMPORARY_ROWS: Final = Function("temporary_rows", (TEXT, OID, OID_ARRAY, INT8))
HOLD_SOURCE: Final = Function("hold_source", (TEXT, OID))
COME_SINCE: Final = Function("come_since", (TEXT, OID, OID_ARRAY, TEXT, INT8))
WRITTEN_SINCE: Final = Function("written_since", (TEXT, OID, TEXT, INT8))
PASSED: Final = Function("passed", (TEXT, OID, INT8, TEXT))
CAPTURE_THAWED: Final = Function("capture_thawed", (TEXT, OID, INT8, TEXT, TEXT, TEXT))
OPEN_DRAIN: Final = Function("open_drain", (TEXT, OID))
CLEAR_DRAINED: Final = Function("clear_drained", (TEXT, OID, BOOL))
PUBLISH: Final = Function("publish", (TEXT, OID, INT8, JSON))
REPLACE: Final = Function("replace", (TEXT, OID, INT8, JSON, INT8_ARRAY, INT8, TEXT, INT8))
RESERVE_IDENTITIES: Final = Function("reserve_identities", (TEXT, OID, INT8))
EMPTIED: Final = Function("emptied", (TEXT, OID_ARRAY, OID_ARRAY, BOOL, BOOL))
TRUNCATE: Final = Function("truncate", (TEXT, OID, INT8, JSON, INT8))
PENDING_CONSTRAINTS: Final = Function("pending_constraints", (TEXT,))
SET_KEY: Final = Function("set_key", (TEXT, OID))
SOUGHT_VALUES: Final = Function("sought_values", (TEXT,))
CONFIRM_REFERENCES: Final = Function("confirm_references", (TEXT,))
HOLD_PARENT: Final = Function("hold_parent", (TEXT, OID))
RELEASE_SOUGHT: Final = Function("release_sought", (TEXT, OID, JSON))
REFUSE_ABSENT: Final = Function("refuse_absent", (TEXT, OID, JSON))
END_DEFERRING: Final = Function("end_deferring", (TEXT, OID))
TAKEN_REFERENCES: Final = Function("taken_references", (TEXT, OID))
REFUSE_TAKEN: Final = Function("refuse_taken", (TEXT, TEXT, JSON))
BEGIN_ADDING: Final = Function("begin_adding", (TEXT,))
ADDED_REFERENCES: Final = Function("added_references", (TEXT, OID))
SEEK_VALUES: Final = Function("seek_values", (TEXT, OID, JSON))
FIND_SOUGHT: Final = Function("find_sought", (TEXT, OID))
REFUSE_ADDED: Final = Function("refuse_added", (TEXT, OID))
NOTE_SOUGHT: Final = Function("note_sought", (TEXT, OID))
END_ADDING: Final = Function("end_adding", (TEXT, OID))
RELEASE_REFERENCES: Final = Function("release_references", (TEXT, TEXT))
SET_SATISFIED: Final = Function("set_satisfied", (TEXT, OID))
COMPUTED_VALUES: Final = Function("computed_values", (TEXT, OID, TEXT, BOOL))
COMPUTED_HOLDERS: Final = Function("computed_holders", (TEXT, OID, OID, TEXT_ARRAY))
IS_LOADABLE: Final = Function("is_loadable", (TEXT, OID))
BEGIN_LOAD: Final = Function("begin_load", (TEXT, OID))
HOLD_CODE: Final = Function("hold_code", (TEXT,))
# The text of a client may have bytes that are none.
CHECK_BODY: Final = Function("check_body", (TEXT, TEXT), is_covered=False)
ASK_RESIDENCY: Final = Function("ask_residency", (TEXT, OID, TEXT))
ASK_BOUND: Final = Function("ask_bound", (TEXT, OID, TEXT, TEXT))
JOURNALS_NAMED: Final = Function("journals_named", (TEXT, OID_ARRAY))
VERSIONS_TO_ROLL_BACK: Final = Function("versions_to_roll_back", (TEXT, TEXT, OID, BOOL))
NOTE_ROLLBACK: Final = Function("note_rollback", (TEXT, OID, TEXT, BOOL, INT8))
SET_DIVISION: Final = Function("set_division", (TEXT, OID, JSON))
MAKE_EXTERNAL: Final = Function("make_external", (TEXT, OID, TEXT))
SHIPPED: Final = Function("shipped", (TEXT, OID))
KEEP_SAVEPOINT: Final = Function("keep_savepoint", (TEXT, OID, TEXT, BOOL))


PLACE: Final = (
    "pg_catalog.concat_ws(' ', CURRENT_USER, pg_catalog.current_setting('row_security'),"
    " pg_catalog.current_schemas(true))"
)
"""Expression for who asks, and where names are looked for.

What row security leaves of a relation depends on the role, too.
"""
EXECUTOR: Final = (
    "COALESCE(NULLIF(pg_catalog.current_setting('gateway.executor', true), 'auto'), '')"
)
"""Expression for the setting gateway.executor; empty for auto, the default."""
TIME_OUTS: Final = ", ".join(
    f"extract(epoch FROM pg_catalog.current_setting('{name}')::pg_catalog.interval)"
    "::pg_catalog.text"
    for name in (
        "statement_timeout",
        "idle_session_timeout",
        "idle_in_transaction_session_timeout",
    )
)
"""Expressions for what limits the session, in seconds."""
_BASIS: Final = (
    "SELECT pg_journal.definitions($1),"
    " pg_catalog.convert_to(pg_journal.named_resolution($2), 'UTF8'),"
    f" pg_catalog.convert_to({EXECUTOR}, 'UTF8'), {TIME_OUTS}"
)
_EXPECTED: Final = Function("expect", (TEXT, INT8))
"""What its code is for; what names stand for may change meanwhile."""
_TRUE: Final = frozenset({b"t", b"true"})
_EXPECT: Final = "pg_journal.expect($1, {0}, {1}, pg_journal.named_resolution({2}))"
_EXPECT_OIDS: Final = (INT8, TEXT, TEXT_ARRAY)


def array(numbers: Sequence[int]) -> bytes:
    """Return PostgreSQL's text of an array of integers."""
    return ("{" + ",".join(map(str, numbers)) + "}").encode()


class Bookkeeping:
    """Bookkeeping calls of one connection."""

    def __init__(self, backend: Backend, codes: CallCodes) -> None:
        self._backend = backend
        self._codes = codes
        self._prepared: set[str] = set()

    def forget_prepared(self) -> None:
        """Note that the client has dropped all prepared statements."""
        self._prepared.clear()

    @property
    def prepared(self) -> Set[str]:
        """Names of our own statements that are prepared."""
        return self._prepared

    def note_prepared(self, name: str) -> None:
        """Note that a statement of our own has been prepared."""
        self._prepared.add(name)

    def note_dropped(self, name: str) -> None:
        """Note that a statement of our own is not prepared any more."""
        self._prepared.discard(name)

    def steps(self, function: Function, *values: bytes | None) -> list[Step]:
        """Return the steps of a call; its result is that of the last step, one bytea in binary."""
        code = partial(self._code, function, values)
        return [_call(function.sql, function.parameter_oids, values, code)]

    def encoded(self, names: Iterable[str]) -> list[bytes]:
        """Return names of relations, as SQL, as arguments of calls."""
        return [name.encode("utf-8", "surrogateescape") for name in names]

    def basis_steps(self, names: Sequence[bytes]) -> list[Step]:
        """Return the steps that tell the definitions, what names stand for, and time-outs."""
        code = partial(self._code, DEFINITIONS, ())
        return [_call(_BASIS, (TEXT, TEXT_ARRAY), (array_text(names),), code)]

    def expect_steps(
        self, basis: Basis, names: Sequence[bytes], then: Call | None = None
    ) -> list[Step]:
        """Return the steps that fail with ``OUTDATED`` unless these names still have this basis.

        The call `then`, if any, is made in the same statement, after the check; its answer is the
        last column.
        """
        definitions = str(basis.definitions).encode()
        expected = partial(self._code, _EXPECTED, (definitions,))
        values = (definitions, basis.resolution.encode(), array_text(names))
        if then is None:
            sql = f"SELECT {_EXPECT.format('$2', '$3', '$4')}"
            return [_call(sql, (TEXT, *_EXPECT_OIDS), values, expected)]
        function, others = then
        oids = (TEXT, TEXT, *_EXPECT_OIDS, *function.parameter_oids[1:])
        called = function.called((2, *range(6, len(oids) + 1)))
        sql = f"SELECT {_EXPECT.format('$3', '$4', '$5')}, {called}"
        return [_call(sql, oids, (*values, *others), expected, partial(self._code, *then))]

    def run_all(
        self,
        steps: Sequence[Step],
        on_success: Callable[[Step, PGresult], None] | None = None,
        meanwhile: Callable[[], None] | None = None,
        held: HeldStep | None = None,
    ) -> list[PGresult]:
        """Run steps in one round trip, as :meth:`Backend.run_all` does."""
        return self._backend.run_all(steps, on_success, meanwhile, held)

    def call(self, function: Function, *values: bytes | None) -> bytes:
        """Call a function and return its answer."""
        return value_of(self.run_all(self.steps(function, *values))[-1])

    def _code(self, function: Function, values: Sequence[bytes | None]) -> bytes:
        """Return the code of a call that is about to be sent."""
        covered = zip(values, function.parameter_oids[1:], strict=True)
        arguments = [self._seen(*each) for each in covered] if function.is_covered else ()
        return self._codes.code(function.name, arguments)

    def _seen(self, value: bytes | None, oid: int) -> bytes | None:
        """Return an argument as the function sees it, as PostgreSQL's text in UTF-8."""
        if value is None:
            return None
        if oid == BOOL:
            return b"true" if value in _TRUE else b"false"
        return value


def _call(
    sql: str,
    oids: tuple[int, ...],
    values: Sequence[bytes | None],
    *codes: Callable[[], bytes],
) -> Step:
    return Query(sql, values, oids, result_format=1, internal=True, codes=codes)


def basis_of(result: PGresult) -> Basis:
    """Return the answer of the basis steps."""
    resolution = (result.get_value(0, 1) or b"").decode()
    executor = (result.get_value(0, 2) or b"").decode()
    return Basis(int(result.get_value(0, 0) or b"0"), resolution, executor)


def value_of(result: PGresult) -> bytes:
    """Return the one value of a result, the last one of a row."""
    return bytes(result.get_value(0, result.nfields - 1) or b"")


def values_of(result: PGresult) -> list[bytes]:
    """Return the values of a result with one column."""
    return [bytes(result.get_value(row, 0) or b"") for row in range(result.ntuples)]
