"""Steps of our own whose texts are not in the client's encoding, among those that are.

Around them the server is told to take and give texts in UTF-8. That is local to the transaction:
where one of them fails, it is undone with what the transaction, or its last savepoint, has done.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from catalog.connection.steps import Close, Execute, Prepare, Query, Step

_ENTER: Final = "SELECT pg_catalog.set_config('client_encoding', 'UTF8', true)"

_LEAVE: Final = "SELECT pg_catalog.set_config('client_encoding', '{}', true)"

# In a block the first query takes the snapshot, after which some commands are refused.
_ENTER_IN_BLOCK: Final = "SET LOCAL client_encoding TO 'UTF8'"

_LEAVE_IN_BLOCK: Final = "SET LOCAL client_encoding TO '{}'"

_COMMAND: Final = re.compile(
    r"\s*(?:BEGIN|START|COMMIT|END|ROLLBACK|ABORT|SAVEPOINT|RELEASE|SET)\b", re.IGNORECASE
)
"""Beginning of commands about transactions, which neither ask for texts nor tell of any."""

_BEGINNING: Final = re.compile(r"\s*(?:BEGIN|START)\b", re.IGNORECASE)

_ENDING: Final = re.compile(r"\s*(?:COMMIT|END|ROLLBACK(?!\s+TO)|ABORT)\b", re.IGNORECASE)

_UNDOING: Final = re.compile(r"\s*ROLLBACK\b", re.IGNORECASE)


class Placed(NamedTuple):
    """A step, as it is sent."""

    step: Step
    is_own: bool
    """Whether its texts are in UTF-8, whatever the client's encoding is."""
    is_asked: bool = True
    """Whether it is one of those that are asked for."""


def placed(steps: Sequence[Step], status: str, encoding: str) -> Iterator[Placed]:
    """Yield steps with those between them that change the encoding.

    In a transaction that has failed no setting can be changed: what is in it is sent in the
    encoding there is.

    Args:
        steps: What is asked for.
        status: The transaction's status before them, as in ReadyForQuery.
        encoding: PostgreSQL's name of the client's encoding.
    """
    is_inside = False
    for step in steps:
        is_own = status != "E" and is_in_utf8(step)
        if is_own is not is_inside:
            yield _turn(status, encoding, enters=is_own)
            is_inside = is_own
        yield Placed(step, is_own)
        status = _status_after(step, status)
    if is_inside:
        yield _turn(status, encoding, enters=False)


def _turn(status: str, encoding: str, *, enters: bool) -> Placed:
    """Return the step from whose end on texts are in UTF-8, or in the client's encoding again."""
    if status == "T":
        text = _ENTER_IN_BLOCK if enters else _LEAVE_IN_BLOCK
    else:
        text = _ENTER if enters else _LEAVE
    return Placed(Query(text.format(encoding), internal=True), is_own=True, is_asked=False)


def _status_after(step: Step, status: str) -> str:
    """Return the transaction's status after a step that does not fail."""
    if not isinstance(step, Query):
        return status
    if _ENDING.match(step.sql):
        return "I"
    return "T" if _BEGINNING.match(step.sql) or _UNDOING.match(step.sql) else status


def is_in_utf8(step: Step) -> bool:
    """Return whether a step tells, or asks for, texts that need not be in the client's encoding."""
    match step:
        case Query():
            if step.is_clients:
                return False
            # Errors of all others may have texts, too.
            return _COMMAND.match(step.sql) is None or not step.sql.isascii()
        case Execute():
            return not step.is_clients
        case Close():
            return not step.name.isascii()
        case _:
            return True


def texts_of(step: Step) -> Iterator[str]:
    """Yield the texts of a step: names of prepared statements, and SQL."""
    match step:
        case Query():
            yield step.sql
        case Prepare():
            yield from (step.name, step.sql)
        case _:
            yield step.name
