"""How much the values of functions can change, asked once in a session, of users' each time."""

from collections.abc import Set

from catalog.session import names
from catalog.session.connections import CatalogSession
from rewrite.dialect.oids import FIRST_USER_OID

VOLATILE = "v"
"""What ``pg_proc.provolatile`` says of functions that may do something beside returning a value."""


class Volatilities:
    """What pg_proc says of functions; of built-in ones, which nobody alters, it is asked once."""

    def __init__(self, catalog: CatalogSession) -> None:
        """Know nothing yet."""
        self._catalog = catalog
        self._known: dict[int, str] = {}

    def of(self, function: int) -> str:
        """Return that of one function."""
        self._ask({function})
        return self._known[function]

    def is_any_volatile(self, functions: Set[int]) -> bool:
        """Return whether one of some functions may do something beside returning a value."""
        self._ask(functions)
        return any(self._known[function] == VOLATILE for function in functions)

    def _ask(self, functions: Set[int]) -> None:
        unknown = {
            function
            for function in functions
            if function >= FIRST_USER_OID or function not in self._known
        }
        if unknown:
            self._known |= dict.fromkeys(unknown, VOLATILE)
            self._known |= names.volatilities(self._catalog, unknown)
