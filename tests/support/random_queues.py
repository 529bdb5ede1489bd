"""Random statements that take rows in turn until they have enough of them, and lock these."""

from tests.support.random_forms import Form
from tests.support.random_queries import Item
from tests.support.random_schemas import COLUMNS
from tests.support.random_sources import SourceStatements


class QueueStatements(SourceStatements):
    """A source of such statements."""

    def _queued(self) -> str:
        chance = self._chance
        row, changed = self._alias(), chance.choice(sorted(COLUMNS))
        outer = Item(row, COLUMNS[changed], is_table=True)
        known = f"{row}.k = {self._constant('k')}"
        if self._takes(0.15, Form.OUTER):
            query = self._queue(outer)
            return (
                f"select {row}.k, q.k from {changed} {row}"
                f" cross join lateral ({query}) q (k) where {known}"
            )
        query = self._queue()
        kind = chance.random()
        if kind < 0.3:
            return query
        if kind < 0.45 or " fetch " in query:
            return f"select count(*), sum(q.k) from ({query}) q (k)"
        if kind < 0.6:
            return f"delete from {changed} {row} where {row}.k in ({query})"
        if kind < 0.8:
            return f"update {changed} {row} set x = {self._constant()} where {row}.k in ({query})"
        told = f"(select sum(k)::int from ({query}) q (k))"
        return f"update {changed} {row} set x = {told} where {known}"

    def _queue(self, outer: Item | None = None) -> str:
        """Return a query of keys; with another relation, one about each row of it."""
        chance = self._chance
        item = Item(self._alias(), "kxy", is_table=True)
        name, table = item.alias, chance.choice("aab")
        conditions = [self._condition(item)] if self._flip(0.85) else []
        source, locked = f"{table} {name}", name
        if self._takes(0.1, Form.BESIDE):
            other = Item(self._alias(), "kx", is_table=True)
            source += f" join {chance.choice('ab')} {other.alias}"
            source += f" on {self._join_condition([item], [other])}"
            locked = chance.choice([name, other.alias, f"{name}, {other.alias}"])
            conditions += [self._condition(other)] if self._flip(0.7) else []
        if outer and self._flip(0.5):
            conditions.append(f"{self._column(item)} <= {self._column(outer)}")
        if self._takes(0.1, Form.UNSTEADY):
            conditions.append(self._unsteady(item))
        where = f" where {' and '.join(conditions)}" if conditions else ""
        order = f"order by {self._order(item, outer)}, {name}.k"
        most = str(chance.randrange(1, 5))
        limit = f"limit {most}"
        if self._takes(0.1, Form.TIES):
            order = f"order by {self._order(item, outer)}"
            limit = f"fetch first {most} rows with ties"
        elif self._takes(0.1, Form.COMPUTED):
            counted = f"(select count(*) from b where x < {most})"
            limit = f"limit {chance.choice([counted, 'null'])}"
        elif self._takes(0.1, Form.PRECEDED):
            limit += " offset 1"
        strength = chance.choice(["update", "no key update", "share"])
        skipped = chance.choice(["", " skip locked"]) if "ties" not in limit else ""
        lock = "" if self._takes(0.05, Form.UNLOCKED) else f" for {strength} of {locked}{skipped}"
        return f"select {name}.k from {source}{where} {order} {limit}{lock}"

    def _order(self, item: Item, outer: Item | None) -> str:
        """Return what rows come after another by."""
        value = self._column(item)
        if self._takes(0.1, Form.UNSTEADY):
            return f"{value} >= currval('clock')"
        if outer and self._flip(0.5):
            return f"abs({value} - {self._column(outer)})"
        ways = ["", "", " desc", " nulls first", " desc nulls last"]
        return f"{value}{self._chance.choice(['', ' % 3'])}{self._chance.choice(ways)}"
