"""Random statements that change a table."""

from tests.support.random_forms import Form
from tests.support.random_queries import From, Item, Queries
from tests.support.random_schemas import COLUMNS, SOURCES, VIEWS

ARBITERS = {
    "a": ("(k)", "(k)", "(u)", "(x, y)"),
    "b": ("(k)", "(k)", "(r, x)"),
    "c": ("(k)", "(k, s)", "(x)"),
    "d": ("(k)",),
    "e": (),
}
"""What ON CONFLICT may name; not each of a table's has a unique key in all schemas."""

INSERTABLE = {"va": "a", "vc": "a", "vs": "b"}
"""Views that rows can be inserted into, each with its table."""


class Changes(Queries):
    """A source of random changes."""

    def _target(self, table: str | None = None) -> tuple[str, Item]:
        alias = self._alias()
        if table is None and self._flip(0.1):
            view = self._chance.choice(["va", "va", "vc", "vs"])
            return f"{view} {alias}", Item(alias, VIEWS[view], is_table=True)
        name = table or (self._chance.choice(SOURCES) if self._flip(0.06) else self._table())
        return f"{name} {alias}", Item(alias, COLUMNS[name], is_table=True, table=name)

    def _assignments(self, item: Item, others: list[Item]) -> str:
        if self._flip(0.06):
            query = self._query(2, 2)
            if query.startswith("select"):
                pair = self._chance.sample(item.columns, 2)
                return f"({', '.join(pair)}) = (select * from ({query}) q order by 1, 2 limit 1)"
        columns = self._chance.sample(item.columns, self._chance.choice([1, 1, 1, 2]))
        if self._flip(0.5):
            columns = [column for column in columns if column in "xy"] or ["x"]
        return ", ".join(
            f"{column} = {self._called(self._new(column, item, others))}" for column in columns
        )

    def _new(self, column: str, item: Item, others: list[Item]) -> str:
        kind = self._chance.random()
        if kind < 0.55:
            return self._constant(column)
        if kind < 0.8:
            return f"{self._column(item)} + {self._chance.randrange(1, 4)}"
        if kind < 0.88 or not others:
            return self._scalar(1, item) if self._flip(0.5) else f"-{item.alias}.{column}"
        return self._column(self._chance.choice(others))

    def _returning(self, item: Item) -> str:
        if self._flip(0.55):
            return ""
        if self._flip(0.25):
            return f" returning {self._called(self._column(item))}, {self._scalar(1, item)}"
        if self._flip(0.2):
            column = self._chance.choice(item.columns)
            return f" returning old.{column}, new.{column}"
        return f" returning {item.alias}.*"

    def _others(self, item: Item) -> tuple[From, str]:
        """Return further relations of an UPDATE or DELETE, with the condition that joins them."""
        source = self._from(1, self._chance.choice([1, 1, 2]))
        condition = self._join_condition([item], source.items)
        return source, condition

    def _update(self, table: str | None = None) -> str:
        target, item = self._target(table)
        source = From("", [])
        conditions = self._where(From("", [item]), 0)
        if self._flip(0.35):
            source, joined = self._others(item)
            conditions += [joined, *self._where(source, 1)]
        assigned = self._assignments(item, source.items)
        listed = f" from {source.sql}" if source.items else ""
        where = f" where {' and '.join(conditions)}" if conditions else ""
        return f"update {target} set {assigned}{listed}{where}{self._returning(item)}"

    def _delete(self, table: str | None = None) -> str:
        target, item = self._target(table)
        conditions = self._where(From("", [item]), 0)
        listed = ""
        if self._flip(0.35):
            source, joined = self._others(item)
            conditions += [joined, *self._where(source, 1)]
            listed = f" using {source.sql}"
        where = f" where {' and '.join(conditions)}" if conditions else ""
        return f"delete from {target}{listed}{where}{self._returning(item)}"

    def _plain_insert(self, table: str) -> str:
        columns = COLUMNS[table]
        if self._takes(0.25, Form.OMITTED):
            columns = columns[:-1]
        if self._flip(0.7):
            proposed = ", ".join(
                "(" + ", ".join(self._proposed(column) for column in columns) + ")"
                for _ in range(self._chance.choice([1, 1, 2, 3]))
            )
            source = f"values {proposed}"
        else:
            source = self._query(1, len(columns))
        return f"insert into {table} as n ({', '.join(columns)}) {source}"

    def _proposed(self, column: str) -> str:
        if self._flip(0.06):
            return "default"
        if self._flip(0.06):
            return self._scalar(1)
        return self._called(self._constant(column))

    def _insert(self) -> str:
        if self._flip(0.1):
            return self._insert_into_view()
        table = self._chance.choice(SOURCES) if self._flip(0.06) else self._table()
        item = Item("n", COLUMNS[table], is_table=True)
        return self._plain_insert(table) + self._on_conflict(table, item) + self._returning(item)

    def _insert_into_view(self) -> str:
        view = self._chance.choice(tuple(INSERTABLE))
        columns = VIEWS[view]
        item = Item("n", columns, is_table=True)
        proposed = f"values ({', '.join(self._proposed(column) for column in columns)})"
        source = proposed if self._flip(0.7) else self._query(1, len(columns))
        arbiters = [
            one
            for one in ARBITERS[INSERTABLE[view]]
            if set("kurxy").intersection(one) <= set(columns)
        ]
        arbiter, kind = self._chance.choice(arbiters), self._chance.random()
        conflict = ""
        if kind < 0.2:
            conflict = f" on conflict {arbiter} do nothing"
        elif kind < 0.5:
            conflict = f" on conflict {arbiter} do update set x = {self._new('x', item, [])}"
        listed = f"insert into {view} as n ({', '.join(columns)}) {source}"
        return listed + conflict + self._returning(item)

    def _on_conflict(self, table: str, item: Item) -> str:
        kind = self._chance.random()
        arbiters = ARBITERS[table]
        if kind < 0.2:
            chosen = self._chance.choice(arbiters) if arbiters and self._flip(0.4) else ""
            return f" on conflict {chosen} do nothing"
        if kind < 0.6 and arbiters:
            excluded = Item("excluded", COLUMNS[table])
            where = f" where {self._condition(item)}" if self._flip(0.4) else ""
            if where and self._flip(0.6):
                where += f" and {self._sublink([item], 1)}"
            assigned = self._assignments(item, [excluded])
            arbiter = self._chance.choice(arbiters)
            return f" on conflict {arbiter} do update set {assigned}{where}"
        return ""

    def _merge(self) -> str:
        target, item = self._target()
        source_sql, source = self._source()
        on = [f"{item.alias}.k = {self._column(source)}"]
        if self._flip(0.15):
            on = [self._join_condition([item], [source])]
        if self._flip(0.6):
            on.append(self._condition(item))
        if source.is_table and self._flip(0.5):
            on.append(self._condition(source))
        return f"merge into {target} using {source_sql} on {' and '.join(on)} " + self._actions(
            item, source
        )

    def _actions(self, item: Item, source: Item) -> str:
        """Return what a MERGE does."""
        chance = self._chance
        actions: dict[str, list[str]] = {}
        for _ in range(chance.choice([1, 2, 2, 3])):
            kind = chance.random()
            if kind < 0.5:
                qual = f" and {self._condition(item)}" if self._flip(0.5) else ""
                if self._takes(0.06, Form.CALLED):
                    qual += f" and noted({self._column(item)}) > {self._constant()}"
                done = self._merged(item, [source])
                actions.setdefault("matched", []).append(f"{qual} then {done}")
            elif kind < 0.75:
                columns = item.columns
                values = ", ".join(
                    self._called(self._column(source) if self._flip(0.5) else self._constant(c))
                    for c in columns
                )
                qual = f" and {self._condition(source)}" if self._flip(0.3) else ""
                actions.setdefault("not matched", []).append(
                    f"{qual} then insert ({', '.join(columns)}) values ({values})"
                )
            else:
                qual = f" and {self._condition(item)}" if self._flip(0.85) else ""
                if self._flip(0.1):
                    qual += f" and {self._sublink([item], 1)}" if qual else ""
                done = self._merged(item, [])
                actions.setdefault("not matched by source", []).append(f"{qual} then {done}")
        returning = f" returning {item.alias}.*" if self._flip(0.3) else ""
        return " ".join(f"when {kind}{done}" for kind, done in _reachable(actions)) + returning

    def _source(self) -> tuple[str, Item]:
        """Return what a MERGE takes its rows from, most often a list."""
        alias = self._alias()
        if self._common or self._flip(0.1):
            return self._item(1)
        if self._flip(0.6):
            return f"({self._values(2)}) {alias} (k, x)", Item(alias, "kx")
        return f"({self._query(1, 2)}) {alias} (k, x)", Item(alias, "kx")

    def _merged(self, item: Item, others: list[Item]) -> str:
        if self._flip(0.3):
            return "delete"
        if self._flip(0.12):
            return "do nothing"
        return f"update set {self._assignments(item, others)}"


def _reachable(actions: dict[str, list[str]]) -> list[tuple[str, str]]:
    """Return the actions of a MERGE, the first without a condition of each kind as its last."""
    found = []
    for kind, done in actions.items():
        conditional = [action for action in done if action.startswith(" and")]
        found += [(kind, action) for action in conditional]
        found += [(kind, action) for action in done if action not in conditional][:1]
    return found
