"""The gateway's command, which tells on standard error of each round trip to its catalog.

``python -m tests.support.counted serve …``. A round trip is what is sent up to the point where
answers are waited for; the line tells the process of the session's backend, and what was asked.
"""

import re
import sys
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, Final

from catalog.connection.backend import Backend
from catalog.connection.pipelines import Pipelines
from catalog.connection.steps import Close, Describe, DescribePortal, Execute, Prepare, Query, Step
from catalog.connection.streams import Streams
from pgwire_gateway.cli import main
from pgwire_gateway.session import attendance
from tests.support import prepared_catalogs, unsynced

MARK: Final = "round trip of "
"""What lines begin with."""

LINE: Final = re.compile(rf"^{MARK}(\d+): (.*)$")
"""Process of the backend, and what it was asked."""

_CALLED: Final = re.compile(r"^SELECT pg_journal\.")
_CALLS: Final = re.compile(r"\bpg_journal\.(\w+)\(\$1\b|, pg_journal\.(\w+)\(\$2\b")
"""Calls with a code, of which one statement has two at most."""

_PATIENCE_S: Final = 3600.0
"""PostgreSQL stands in for no statement: how often it does is a matter of time."""


def _shown(step: Step) -> str:
    match step:
        case Query():
            if _CALLED.match(step.sql) is None:
                return " ".join(step.sql.split())[:70]
            return ", ".join(f"{one or other}()" for one, other in _CALLS.findall(step.sql))
        case Prepare():
            return f"parse {' '.join(step.sql.split())[:40]}"
        case Describe() | DescribePortal():
            return "describe"
        case Execute():
            return "execute"
        case Close():
            return "close"


def _tell(part: Backend | Pipelines | Streams, steps: Iterable[str]) -> None:
    line = f"{MARK}{part._link.process_id}: {'; '.join(steps)}\n"
    sys.stderr.write(line)
    sys.stderr.flush()


def _told(method: Callable[..., Any], shown: Callable[..., Iterable[str]]) -> Callable[..., Any]:
    @wraps(method)
    def counted(self: Backend | Pipelines | Streams, *arguments: Any, **options: Any) -> Any:
        _tell(self, shown(*arguments))
        return method(self, *arguments, **options)

    return counted


def count() -> None:
    """Tell of all that is asked of PostgreSQL from here on."""
    shown: dict[tuple[type, str], Callable[..., Iterable[str]]] = {
        (Backend, "run"): lambda step: [_shown(step)],
        (Pipelines, "run"): lambda steps, *_: map(_shown, steps),
        (Streams, "open"): lambda step: [_shown(step)],
        (Backend, "exchange"): lambda *_: ["relay"],
        (Backend, "start_copy"): lambda *_: ["COPY"],
    }
    for (part, name), describe in shown.items():
        setattr(part, name, _told(getattr(part, name), describe))


if __name__ == "__main__":
    attendance.PATIENCE_S = _PATIENCE_S  # type: ignore[misc]
    unsynced.apply()
    prepared_catalogs.draw_keys()
    count()
    raise SystemExit(main())
