"""Messages of the extended query sub-protocol, from one to the next Sync, as one passage.

Knows which series can be passed to PostgreSQL as they are and what the session has to note when
they have been answered. Looks at names, never at values: series that differ in values alone have
the same form.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from struct import Struct
from typing import Final, NamedTuple

from catalog.bookkeeping.proofs import READ_COMMITTED, Checks, Proof, together
from catalog.connection.relay import message
from pgwire_gateway.planning.plans import Plan, Route
from pgwire_gateway.session.portals import PreparedStatement
from pgwire_gateway.session.shortcuts import PASSED, Shortcut
from pgwire_gateway.session.state import ClientSession

SERIES_BYTES: Final = 1 << 20
"""Series that are longer take the long way."""

SMALL_BYTES: Final = 10_000
"""PQ_SMALL_MESSAGE_LIMIT of PostgreSQL's libpq/libpq.h."""

KEPT_BYTES: Final = 5_000
"""Forms that are longer are not kept."""

_LENGTH: Final = Struct("!i")

BEGINNING: Final = frozenset({"begin", "start"})
"""Actions that begin a transaction."""

QUERY_ANSWERS: Final = 4
"""Parse, Bind, Describe and Execute: what a Query does."""

_BIND, _SYNC, _PORTAL = b"BSP"

_ALL_ROWS: Final = b"\0\0\0\0\0"
"""Body of an Execute that takes all rows of the unnamed portal."""

Form = tuple[bytes, ...]
"""The messages of a series; of a Bind its type and the names of portal and statement alone."""

Effect = Callable[[ClientSession], None]


@dataclass(frozen=True, slots=True)
class Passage:
    """How series of one form pass."""

    shortcuts: tuple[Shortcut, ...]
    """The statements in it."""
    answers: int
    """Messages in it."""
    executes: bool
    """Whether statements are executed, not only prepared."""
    outside: Checks
    """What goes with them outside a transaction block."""
    inside: Checks
    """What goes with them inside one."""
    before: bytes = b""
    """A message of our own that has to come first."""
    renamed: Form = ()
    """The form by the names the catalog has for the statements, where these are others."""
    named: tuple[tuple[str, PreparedStatement | None], ...] = ()
    """What the session must hold under the names in it."""
    effects: tuple[tuple[int, Effect], ...] = ()
    """What to note once so many messages were answered."""
    prepares: tuple[str, ...] = ()
    """Names the catalog keeps statements under from now on, whatever becomes of the transaction.

    Another series of the form would not pass the same way.
    """
    closes: bool = False
    """Whether statements are closed; another series would not pass the same way either."""

    @property
    def action(self) -> str:
        """What the transaction command in it does, which comes first; empty without one."""
        return self.shortcuts[0].action

    @property
    def proofs(self) -> tuple[Proof, ...]:
        """What shows that the plans of the statements hold."""
        return tuple(dict.fromkeys(found.proof for found in self.shortcuts if found.proof))

    @property
    def repeatable(self) -> bool:
        """Whether passing it twice does what passing it once does."""
        return not self.executes or all(shortcut.repeatable for shortcut in self.shortcuts)

    def messages(self, series: "Series") -> bytes:
        """Return what PostgreSQL is sent for a series."""
        if not self.renamed:
            return series.data
        values = iter(series.values)
        return b"".join(
            message(b"B", part[1:] + next(values)) if part[0] == _BIND else part
            for part in self.renamed
        )


@dataclass(frozen=True, slots=True)
class Detour:
    """Why series of one form cannot pass: a statement in it is not PostgreSQL's alone to run."""

    name: str
    plan: Plan
    """Of the prepared statement of that name."""

    def holds(self, session: ClientSession) -> bool:
        """Return whether it is still so."""
        statement = session.statements.get(self.name)
        return statement is not None and statement.plan is self.plan


class Series(NamedTuple):
    """Messages up to Sync."""

    form: Form
    values: Sequence[bytes]
    """What follows the names of each Bind."""
    data: bytes
    """The messages without Sync."""
    end: int
    """Where Sync ends."""


def series_of(data: bytes) -> Series | None:
    """Return the messages up to Sync; None where others come, or the end is missing."""
    form: list[bytes] = []
    values: list[bytes] = []
    at, size = 0, len(data)
    while at + 5 <= size:
        kind = data[at]
        length: int = _LENGTH.unpack_from(data, at + 1)[0]
        after = at + 1 + length
        if kind == _SYNC and length == 4:
            return Series(tuple(form), values, data[:at], after)
        if length < 4 or after > size or kind not in b"PBDEC":
            return None
        if kind == _BIND:
            names = data.find(b"\0", data.find(b"\0", at + 5) + 1) + 1
            form.append(b"B" + data[at + 5 : names])
            values.append(data[names:after])
        elif length > SMALL_BYTES and kind in b"DEC":
            return None
        else:
            form.append(data[at:after])
        at = after
    return None


def checks_of(shortcuts: Sequence[Shortcut], *, outside: bool) -> Checks:
    """Return what has to follow statements: proofs, and how the transaction they begin is."""
    proofs = dict.fromkeys(shortcut.proof for shortcut in shortcuts if shortcut.proof)
    each = [proof.raising if outside else proof.telling for proof in proofs]
    begins = shortcuts[0].action in BEGINNING
    if begins and (outside or len(shortcuts) > 1):
        each.insert(0, READ_COMMITTED)
    return each[0] if len(each) == 1 else together(each)


def is_cut(data: bytes) -> bool:
    """Return whether the last message of the data is incomplete."""
    at, size = 0, len(data)
    while at + 5 <= size:
        at += 1 + max(_LENGTH.unpack_from(data, at + 1)[0], 4)
    return at != size and size < SERIES_BYTES


def passage_of_query(session: ClientSession, shortcut: Shortcut) -> Passage:
    """Return how a query string passes: as a series of what a Query does."""
    known = session.passages.get(shortcut)
    if isinstance(known, Passage):
        return known
    outside = checks_of([shortcut], outside=True)
    inside = checks_of([shortcut], outside=False)
    found = Passage((shortcut,), QUERY_ANSWERS, executes=True, outside=outside, inside=inside)
    session.passages.keep(shortcut, found)
    return found


def passage_of(session: ClientSession, form: Form) -> Passage | None:
    """Return how series of this form pass; None when they cannot.

    What was found for a form is kept while the session holds the same under the names in it.
    """
    known = session.passages.get(form)
    if isinstance(known, Detour) and known.holds(session):
        return None
    if isinstance(known, Passage):
        for name, statement in known.named:
            if session.statements.get(name) is not statement:
                break
        else:
            return known
    builder = _Builder(session)
    found = builder.passage(form)
    lasting = found is not None and not found.prepares and not found.closes
    kept = found if lasting else builder.detour
    if kept is not None and sum(map(len, form)) <= KEPT_BYTES:
        session.passages.keep(form, kept)
    return found


@dataclass(slots=True)
class _Builder:
    """Finds out how a series passes, message by message."""

    session: ClientSession
    shortcuts: list[Shortcut] = field(default_factory=list)
    declared: dict[bytes, Shortcut] = field(default_factory=dict)
    named: dict[str, PreparedStatement | None] = field(default_factory=dict)
    effects: list[tuple[int, Effect]] = field(default_factory=list)
    renamed: list[bytes] = field(default_factory=list)
    before: bytes = b""
    again: Shortcut | None = None
    bound: Shortcut | None = None
    executed: int = 0
    first: Shortcut | None = None
    begun: int = 0
    closes: bool = False
    detour: Detour | None = None

    def passage(self, form: Form) -> Passage | None:
        """Return the way of a series; None when it is the long one."""
        for part in form:
            if not ADDING[part[0]](self, part):
                return None
        # A transaction command parts what is proved from what is not, unless it comes first.
        commands = [shortcut for shortcut in self.shortcuts if shortcut.action]
        alone = self.executed == 1 and len(self.shortcuts) == 1
        if commands and not alone and not self._begins(commands):
            return None
        renamed = tuple(self.renamed)
        return Passage(
            tuple(self.shortcuts),
            len(form),
            self.executed > 0,
            checks_of(self.shortcuts, outside=True),
            checks_of(self.shortcuts, outside=False),
            self.before,
            () if renamed == form else renamed,
            tuple(self.named.items()),
            tuple(self.effects),
            tuple(self._text(name) for name in self.declared if name),
            self.closes,
        )

    def _begins(self, commands: Sequence[Shortcut]) -> bool:
        """Return whether the one command begins the transaction of the others, and runs once."""
        return (
            len(commands) == 1
            and commands[0] is self.shortcuts[0]
            and commands[0] is self.first
            and self.begun == 1
            and commands[0].action in BEGINNING
        )

    def parse(self, part: bytes) -> bool:
        """Add a Parse."""
        name, _, rest = part[5:].partition(b"\0")
        session, text = self.session, self._text(name)
        shortcut = session.shortcuts.of_parse(rest)
        if shortcut is None or (name and name in self.declared):
            return False
        if name and (text in session.statements or shortcut.action):
            return False
        self._include(shortcut)
        self.declared[name] = shortcut
        self.renamed.append(part)
        plan = shortcut.plan if shortcut.action else replace(shortcut.plan, prepared=text)
        kept = b"" if name or shortcut.action else rest
        statement = PreparedStatement(text, plan, kept, session.frontend.encoding)
        known = replace(shortcut, plan=plan)

        def declare(session: ClientSession) -> None:
            session.statements[text] = statement
            session.shortcuts.note_prepared(text, plan, known)

        self.effects.append((len(self.renamed), declare))
        return True

    def bind(self, part: bytes) -> bool:
        """Add a Bind."""
        portal, _, rest = part[1:].partition(b"\0")
        found = self._found(rest[:-1])
        if portal or found is None:
            return False
        self.bound, place = found
        self.renamed.append(b"B\0" + place + b"\0")
        return True

    def describe(self, part: bytes) -> bool:
        """Add a Describe."""
        name = part[6:-1]
        if part[5] == _PORTAL:
            self.renamed.append(part)
            return not name and self.bound is not None
        found = self._found(name)
        if found is None or found[0].action:
            return False
        self.renamed.append(message(b"D", b"S" + found[1] + b"\0"))
        return True

    def execute(self, part: bytes) -> bool:
        """Add an Execute."""
        bound, self.bound = self.bound, None
        self.executed += 1
        if self.executed == 1:
            self.first = bound
        if bound is not None and bound.action:
            self.begun += 1
        self.renamed.append(part)
        return part[5:] == _ALL_ROWS and bound is not None

    def close(self, part: bytes) -> bool:
        """Add a Close."""
        text = self._text(part[6:-1])
        statement = self.session.statements.get(text)
        plan = statement.plan if statement else None
        if part[5] == _PORTAL or not text or plan is None or plan.prepared != text:
            return False
        self.closes = True
        self.renamed.append(part)
        self.effects.append((len(self.renamed), lambda session: _forget(session, text)))
        return True

    def _found(self, name: bytes) -> tuple[Shortcut, bytes] | None:
        """Return a prepared statement and its name in the catalog."""
        declared = self.declared.get(name)
        if declared is not None:
            return declared, name
        session = self.session
        text = self._text(name)
        statement = session.statements.get(text)
        if statement is None or statement.plan is None:
            return None
        if session.transaction.failed and statement.plan.route is not Route.COMMAND:
            return None
        shortcut = session.shortcuts.of_prepared(session.catalog, text, statement.plan)
        if shortcut is None:
            if statement.plan.route not in PASSED:
                self.detour = Detour(text, statement.plan)
            return None
        self.named[text] = statement
        if statement.plan.prepared:
            self._include(shortcut)
            prepared = self._sent(statement.plan.prepared)
            return None if prepared is None else (shortcut, prepared)
        return self._prepared_again(shortcut, statement)

    def _prepared_again(
        self, shortcut: Shortcut, statement: PreparedStatement
    ) -> tuple[Shortcut, bytes] | None:
        """Prepare what the catalog does not hold once more, for this time alone."""
        if self.again is shortcut and b"" not in self.declared:
            return shortcut, b""
        if self.renamed:
            return None
        text = self._sent(shortcut.plan.statement.text)
        if text is None or (statement.parse and statement.codec != self.session.frontend.encoding):
            return None
        self.before = message(b"P", b"\0" + (statement.parse or text + b"\0\0\0"))
        self.again = shortcut
        self._include(shortcut)
        return shortcut, b""

    def _include(self, shortcut: Shortcut) -> None:
        if shortcut not in self.shortcuts:
            self.shortcuts.append(shortcut)

    def _sent(self, text: str) -> bytes | None:
        """Return a text in the client's encoding; None where it has no characters for it."""
        try:
            return text.encode(self.session.frontend.encoding)
        except UnicodeEncodeError:
            return None

    def _text(self, name: bytes) -> str:
        return name.decode(self.session.frontend.encoding, "surrogateescape")


ADDING: Final[dict[int, Callable[[_Builder, bytes], bool]]] = dict(
    zip(
        b"PBDEC",
        (_Builder.parse, _Builder.bind, _Builder.describe, _Builder.execute, _Builder.close),
        strict=True,
    )
)
"""How messages of each type join a passage."""


def _forget(session: ClientSession, name: str) -> None:
    session.statements.pop(name, None)
