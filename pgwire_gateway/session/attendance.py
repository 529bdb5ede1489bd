"""PostgreSQL stands in for a statement that Spark works on: there it is seen, and can be ended.

Without it the session would be idle in PostgreSQL's eyes: idle_session_timeout and its like would
end it, ``pg_cancel_backend`` would find nothing to cancel. Statements that are soon over pay
nothing for it.
"""

import threading
from collections.abc import Callable
from typing import Final

from catalog.errors import CatalogUnavailableError, GatewayError
from catalog.session.connections import CatalogSession
from pgwire_gateway.session import deadlines

PATIENCE_S: Final = 0.25
"""For how long others work before PostgreSQL stands in, if no time-out is shorter."""

SHARE: Final = 3
"""How often that fits into the shortest time-out of idle sessions."""

LOOK_S: Final = 0.5
"""How often who waits for an interruption looks whether the statement is over."""


class Attendance:
    """Has the session's backend stand in for one statement, whenever nothing is asked of it."""

    def __init__(
        self,
        catalog: CatalogSession,
        text: str,
        idle_timeout_s: float,
        on_interruption: Callable[[str], None],
    ) -> None:
        """Begin, in a while.

        Args:
            catalog: The session.
            text: The client's statement.
            idle_timeout_s: The shortest time-out of idle sessions; 0 for none.
            on_interruption: Ends the statement, with this message; called from another thread.
        """
        self._catalog = catalog
        self._text = text
        self._on_interruption = on_interruption
        self._pause_s = min(PATIENCE_S, idle_timeout_s / SHARE) if idle_timeout_s else PATIENCE_S
        self._over = threading.Event()
        self._uses = catalog.uses
        self._deadline = deadlines.PROCESS.after(self._pause_s, self._attend)

    def end(self) -> None:
        """Have nobody stand in any more.

        Raises:
            CatalogUnavailableError: PostgreSQL has ended the session meanwhile.
        """
        self._over.set()
        self._deadline.cancel()
        self._catalog.stand_down()

    def _attend(self) -> None:
        while not self._over.is_set():
            try:
                self._look()
            except CatalogUnavailableError as error:
                # Whoever asks next is told by PostgreSQL, too.
                self._on_interruption(error.message)
                return
            except GatewayError as error:
                # Until the statement has ended, which may take a while, the session is not idle.
                self._on_interruption(error.message)
                self._over.wait(self._pause_s)

    def _look(self) -> None:
        """Stand in if nothing was asked for a while, and wait for an interruption if so.

        Raises:
            CatalogError: Somebody has interrupted it.
        """
        before, self._uses = self._uses, self._catalog.uses
        if before != self._uses:
            self._over.wait(self._pause_s)
            return
        if not self._catalog.stand_in(self._text, lambda: not self._over.is_set()):
            # PostgreSQL is at work itself, and whatever it says is for who has asked.
            self._over.wait(LOOK_S)
            return
        error = self._catalog.interruption(LOOK_S)
        if error is not None:
            raise error
