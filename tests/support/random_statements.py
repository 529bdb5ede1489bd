"""Random statements over small domains, so that rows meet often.

Results are meant not to depend on the order in which PostgreSQL comes across rows; where one does,
whoever compares has to notice.
"""

from tests.support.random_forms import Form
from tests.support.random_queries import From, Item
from tests.support.random_queues import QueueStatements
from tests.support.random_schemas import COLUMNS


class Statements(QueueStatements):
    """A source of random statements."""

    def statement(self) -> str:
        """Return one statement."""
        self._aliases = 0
        self._common = []
        self._favoured = self._asked_for if self._flip(0.5) else ()
        kinds = {
            self._update: 24,
            self._delete: 18,
            self._insert: 20,
            self._merge: 16,
            self._select: 12,
            self._with: 10,
            self._derived: 3,
            self._limited: 6,
            self._queued: 5,
            self._sourced: 70,
        }
        wanted = {
            k: w for k, w in kinds.items() if not self._kinds or k.__name__[1:] in self._kinds
        }
        return self._chance.choices(list(wanted), list(wanted.values()))[0]()

    def _select(self) -> str:
        if self._flip(0.4):
            source = self._from(0, self._chance.choice([1, 1, 2]))
            locked = [
                item.alias
                for item in source.items
                if item.is_table and item.alias not in source.nullable
            ]
            if locked:
                conditions = self._where(source, 0)
                where = f" where {' and '.join(conditions)}" if conditions else ""
                strength = self._chance.choice(["update", "share", "no key update"])
                columns = ", ".join(self._called(self._column(item)) for item in source.items)
                return f"select {columns} from {source.sql}{where} for {strength} of {locked[0]}"
        return self._query(0, self._chance.choice([1, 2, 3]))

    def _derived(self) -> str:
        """Return a SELECT from a subquery whose rows depend on each other."""
        inner = self._alias()
        table = self._table()
        item = Item(inner, COLUMNS[table], is_table=True)
        conditions = " and ".join(self._where(From("", [item]), 2, strict=True))
        tail = f" from {table} {inner} where {conditions}"
        columns = f"{inner}.k, {self._column(item)}"
        query = self._chance.choice(
            [
                f"select {columns}{tail} order by 1, 2 limit 3",
                f"select distinct on (2) {columns}{tail} order by 2, 1",
                f"select {inner}.x, (count(*) over ())::int{tail}",
            ]
        )
        outer = Item(self._alias(), "kx")
        return f"select * from ({query}) {outer.alias} (k, x) where {self._condition(outer)}"

    def _limited(self) -> str:
        """Return an UPDATE that tells how many rows, or which of them, a LIMIT leaves."""
        chance = self._chance
        row, alias, table = self._alias(), self._alias(), self._table()
        changed, item = chance.choice(sorted(COLUMNS)), Item(alias, COLUMNS[table], is_table=True)
        outer = Item(row, COLUMNS[changed], is_table=True)
        conditions = [self._condition(item)] if self._flip(0.85) else []
        if self._flip(0.3):
            conditions.append(f"{self._column(item)} = {self._column(outer)}")
        tail = f" from {table} {alias}"
        tail += f" where {' and '.join(conditions)}" if conditions else ""
        number = str(chance.randrange(4))
        if self._takes(0.08, Form.UNSTEADY):
            number = chance.choice(["null", "currval('clock') - 2"])
        most = f" limit {number}"
        kept = self._alias()
        on = f"on {self._condition(item)} where {self._column(item)} > 3"
        queries = {
            Form.PLAIN: (2, f"select {item.alias}.k{tail}{most}"),
            Form.PRECEDED: (1, f"select {item.alias}.k{tail}{most} offset 1"),
            Form.DISTINCT: (1, f"select distinct {self._column(item)}{tail}{most}"),
            Form.ORDERED: (1, f"select {self._column(item)}{tail} order by 1{most}"),
            Form.GROUPED: (0.5, f"select {self._column(item)}{tail} group by 1{most}"),
            Form.AGGREGATE: (0.5, f"select count({self._column(item)}){tail}{most}"),
            Form.MADE: (0.5, f"select generate_series(5, {self._column(item)}){tail}{most}"),
            Form.BESIDE: (0.5, f"select from b {kept} left join {table} {alias} {on}{most}"),
        }
        form = self._drawn({form: weight for form, (weight, _) in queries.items()})
        _, query = queries[form]
        known = f"{row}.k = {self._constant('k')}"
        if form in {Form.ORDERED, Form.AGGREGATE}:
            told = f"(select sum(n)::int from ({query}) s (n))"
        else:
            told = f"(select count(*)::int from ({query}) s)"
        if self._flip(0.2):
            return f"delete from {changed} {row} where {known} and exists ({query})"
        return f"update {changed} {row} set x = {told} where {known}"

    def _with(self) -> str:
        """Return a statement with common table expressions, some of which write."""
        chance = self._chance
        name = "w1"
        if self._flip(0.15):
            table = self._table()
            one, other = (Item(alias, COLUMNS[table], is_table=True) for alias in ("f", "n"))
            common = (
                f"recursive {name} (k, x) as (select f.k, f.x from {table} f"
                f" where {self._condition(one)} union select n.k, n.x from {table} n"
                f" join {name} on n.k = {name}.x where {self._condition(other)})"
            )
            self._common.append(Item(name, "kx"))
            main = chance.choice([self._update, self._delete, self._insert])()
        elif self._flip(0.5):
            common = f"{name} (k, x) as ({self._query(1, 2)})"
            self._common.append(Item(name, "kx"))
            main = chance.choice([self._update, self._delete, self._merge, self._insert])()
        else:
            one, other = chance.sample(sorted(COLUMNS), 2)
            kind = chance.choice(["update", "delete", "insert"])
            if kind == "insert":
                written = self._plain_insert(one)
            else:
                alias = self._alias()
                item = Item(alias, COLUMNS[one], is_table=True)
                conditions = " and ".join(self._where(From("", [item]), 1, strict=True))
                if kind == "update":
                    written = f"update {one} {alias} set x = {self._constant()} where {conditions}"
                else:
                    written = f"delete from {one} {alias} where {conditions}"
            common = f"{name} (k, x) as ({written} returning k, x)"
            self._common.append(Item(name, "kx"))
            main = chance.choice(
                [
                    lambda: self._query(1, 2),
                    lambda: self._update(other),
                    lambda: self._delete(other),
                ]
            )()
        return f"with {common} {main}"
