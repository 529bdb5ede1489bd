"""Statements that take the short way: PostgreSQL alone answers them, and they are known by text.

A shortcut is a plan together with what proves that it still holds. This module decides which plans
become shortcuts and finds them again by what the client sent; it sends nothing itself.
"""

import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from catalog.bookkeeping.proofs import Proof
from catalog.session.connections import CatalogSession
from catalog.statements.splitting import StatementKind
from pgwire_gateway.planning import router
from pgwire_gateway.planning.plans import Plan, Route
from pgwire_gateway.session.volatility import Volatilities
from rewrite.dialect.oids import FIRST_USER_OID

KEPT = 500
"""Shortcuts of one session that are kept."""

KEPT_BYTES = 5_000
"""Texts longer than this are not kept."""

PROVED_S = 0.05
"""How long what was proved is taken for granted by statements that cannot be taken back."""

TRANSACTION_ACTIONS = frozenset(
    {"begin", "start", "commit", "rollback", "savepoint", "release", "rollback_to"}
)
"""Transaction commands that are passed through."""

PASSED = frozenset({Route.CATALOG, Route.COMMAND})
"""Routes of which statements may have a shortcut; those of no other ever have one."""

FUNCTIONS = re.compile(r":(?:funcid|opfuncid|aggfnoid|winfnoid) (\d+)")
"""Functions in PostgreSQL's tree."""

LITERALS = re.compile(
    rb"""(')[^']*'|("[^"]*")|(?<![\w.\x80-\xff])\d{1,9}(?![\w.\x80-\xff])""",
)
"""Strings, quoted names, and numbers that are integers of four bytes."""

MARKED = b"\\1\\2\0"
"""What stands in their place: of strings the first quote, of names all, and a mark."""

UNREADABLE = re.compile(rb"[\\$]|--|/\*")
"""What may hide quotes from ``LITERALS``."""


_K = TypeVar("_K")
_V = TypeVar("_V")


class Kept(dict[_K, _V]):
    """A dictionary that forgets what was kept first when it holds too much."""

    def keep(self, key: _K, value: _V) -> None:
        """Keep a value, as the latest."""
        self.pop(key, None)
        if len(self) >= KEPT:
            del self[next(iter(self))]
        self[key] = value


@dataclass(frozen=True, slots=True, eq=False)
class Shortcut:
    """A statement that can be passed to PostgreSQL as it is."""

    plan: Plan
    proof: Proof | None = None
    """What must hold beside it; None when nothing can change its plan."""
    repeatable: bool = False
    """Whether executing it twice does what executing it once does."""
    literal: bool = True
    """Whether other literals could mean another plan."""
    action: str = ""
    """What a transaction command does; empty for other statements."""


class Shortcuts:
    """The shortcuts of one session."""

    def __init__(self, volatilities: Volatilities) -> None:
        """Begin without any; volatilities are those of the session's functions."""
        self._queries = Kept[bytes, Shortcut]()
        self._parses = Kept[bytes, Shortcut]()
        self._prepared = Kept[str, tuple[Plan, Shortcut | None]]()
        self._volatilities = volatilities
        self.read_committed = False
        """Whether the client's transaction is known to be of this isolation level."""
        self._proved: tuple[Proof, ...] = ()
        self._proved_s = 0.0
        """When they were proved last, by the monotonic clock."""
        self.declined = False
        """Whether the messages up to the next Sync take the long way."""

    def of_query(self, query: bytes) -> Shortcut | None:
        """Return the shortcut for a query string."""
        if len(query) > KEPT_BYTES:
            return None
        return self._queries.get(query) or self._queries.get(shape(query))

    def of_parse(self, text_and_types: bytes) -> Shortcut | None:
        """Return the shortcut for a Parse message, by what follows the statement's name."""
        return self._parses.get(text_and_types)

    def of_prepared(self, catalog: CatalogSession, name: str, plan: Plan) -> Shortcut | None:
        """Return the shortcut for a prepared statement with this plan."""
        known = self._prepared.get(name)
        if known is not None and known[0] is plan:
            return known[1]
        found = self._of(catalog, plan)
        self._prepared.keep(name, (plan, found))
        return found

    def note_prepared(self, name: str, plan: Plan, shortcut: Shortcut) -> None:
        """Note the shortcut for a prepared statement."""
        self._prepared.keep(name, (plan, shortcut))

    def add_query(self, catalog: CatalogSession, query: bytes, plan: Plan) -> None:
        """Remember the plan of a query string of one statement."""
        if plan.statement.parameter_count or len(query) > KEPT_BYTES:
            return
        # PostgreSQL hides the portal of a query string there, but not the one it would have.
        if any(relation.name == "pg_cursors" for relation in plan.statement.relations):
            return
        shortcut = self._of(catalog, plan)
        if shortcut is not None:
            self._queries.keep(query if shortcut.literal else shape(query), shortcut)

    def add_parse(self, catalog: CatalogSession, text_and_types: bytes, plan: Plan) -> None:
        """Remember the plan of a prepared statement."""
        shortcut = self._of(catalog, plan) if len(text_and_types) <= KEPT_BYTES else None
        if shortcut is not None:
            self._parses.keep(text_and_types, shortcut)

    def forget(self, outdated: Iterable[Shortcut]) -> None:
        """Forget what rests on the same as these; their plans do not hold any more."""
        proofs = {shortcut.proof for shortcut in outdated if shortcut.proof is not None}
        for texts in (self._queries, self._parses):
            for text in [text for text, shortcut in texts.items() if shortcut.proof in proofs]:
                del texts[text]
        for name, (plan, shortcut) in list(self._prepared.items()):
            if shortcut is not None and shortcut.proof in proofs:
                self._prepared[name] = (plan, None)

    def note_proved(self, proofs: tuple[Proof, ...]) -> None:
        """Note what has been proved."""
        if proofs:
            self._proved, self._proved_s = proofs, time.monotonic()

    def is_proved(self, proofs: tuple[Proof, ...]) -> bool:
        """Return whether all of this has been proved just now."""
        if not all(proof in self._proved for proof in proofs):
            return False
        return not proofs or time.monotonic() - self._proved_s < PROVED_S

    def clear(self) -> None:
        """Forget all, as the same bytes are another text now."""
        for known in (self._queries, self._parses, self._prepared):
            known.clear()

    def _of(self, catalog: CatalogSession, plan: Plan) -> Shortcut | None:
        """Return the shortcut a plan allows, if any."""
        statement = plan.statement
        # The client's bytes have to be what PostgreSQL is to run.
        is_same = plan.named is None and not statement.is_translated
        if not catalog.relay.is_usable or "\\" in statement.text or not is_same:
            return None
        if plan.route is Route.COMMAND:
            ends = statement.kind is StatementKind.TRANSACTION
            action = str(statement.details["action"]) if ends else ""
            return Shortcut(plan, action=action) if action in TRANSACTION_ACTIONS else None
        if plan.route is not Route.CATALOG or statement.kind not in router.QUERIES:
            return None
        tree = plan.analysis.tree if plan.analysis else None
        if plan.basis is None:
            return Shortcut(plan)
        proof = catalog.relay.proof(
            plan.basis, router.named(statement), lasting=not plan.replaceable
        )
        if proof is None or tree is None:
            return None
        functions = {int(number) for number in FUNCTIONS.findall(tree)}
        own = any(oid >= FIRST_USER_OID for oid in functions)
        repeatable = statement.kind is StatementKind.SELECT and not (
            ":hasModifyingCTE true" in tree or own or self._volatilities.is_any_volatile(functions)
        )
        # The tree is large, and has been looked at.
        plan = replace(plan, analysis=replace(plan.analysis, tree=None) if plan.analysis else None)
        return Shortcut(plan, proof, repeatable=repeatable, literal=own)


def shape(query: bytes) -> bytes:
    """Return a query string with marks for its literals; none has the mark in itself."""
    if UNREADABLE.search(query) is not None:
        return query
    return LITERALS.sub(MARKED, query)
