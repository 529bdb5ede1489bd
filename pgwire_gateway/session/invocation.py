"""One execution of a planned statement: who runs it, with which values, and how it is stopped."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from catalog.bookkeeping.moments import TimeOuts
from catalog.results import ResultColumn
from catalog.statements.splitting import Statement
from pgwire_gateway.planning.plans import Plan
from pgwire_gateway.session.services import Services
from pgwire_gateway.session.state import ClientSession
from pgwire_gateway.spark.batch_stores import BatchFile
from pgwire_gateway.spark.statements import RunningStatement
from rewrite.tree import Node


@dataclass(frozen=True, slots=True)
class Invocation:
    """A statement about to run."""

    session: ClientSession
    plan: Plan
    running: RunningStatement
    values: Sequence[bytes | None] = ()
    """Parameter values as bound."""
    formats: Sequence[int] = ()
    """Format code of each value."""
    result_formats: Sequence[int] = ()
    """Format codes asked for the result."""
    alone: bool = True
    """True when no other statement belongs to its implicit transaction."""
    limits: TimeOuts | None = None
    """What limits the session, where that has been asked for since the plan was made."""
    finds_out: bool = False
    """Whether the first thing it does tells what limits the session, and whether the plan holds."""
    returned: BatchFile = field(default_factory=BatchFile, compare=False)
    """Where rows of RETURNING go that are too many for memory, whatever tables they come from."""

    @property
    def services(self) -> Services:
        """What all sessions share."""
        return self.session.services

    @property
    def statement(self) -> Statement:
        """The statement as split from its query string."""
        return self.plan.statement

    @property
    def query(self) -> Node:
        """PostgreSQL's tree; TypeError for a plan without one."""
        if self.plan.query is None:
            raise TypeError(self.plan.route)
        return self.plan.query

    @property
    def target(self) -> int:
        """OID of the table written; TypeError for a plan that writes none."""
        if self.plan.target is None:
            raise TypeError(self.plan.route)
        return self.plan.target

    @property
    def inline(self) -> tuple[int, int]:
        """How many row versions, and bytes of them, of one write go to the tail."""
        return self.services.config.inline_rows, self.services.config.inline_bytes

    @property
    def columns(self) -> tuple[ResultColumn, ...] | None:
        """Result columns PostgreSQL announced; None for a statement without rows."""
        return self.plan.analysis.columns if self.plan.analysis else None

    @property
    def parameter_oids(self) -> tuple[int, ...]:
        """Types of the parameters."""
        return self.plan.analysis.parameter_oids if self.plan.analysis else ()

    @property
    def catalog_format(self) -> int:
        """The one format code PostgreSQL is asked for; text when several are wanted."""
        codes = set(self.result_formats)
        return codes.pop() if len(codes) == 1 else 0
