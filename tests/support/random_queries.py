"""Random queries, conditions and joins."""

import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from tests.support.random_forms import Form
from tests.support.random_schemas import COLUMNS, FUNCTIONS, KEYS, SOURCES, VALUES, VIEWS

FAVOURED = 0.7
"""How often a form is drawn that is favoured."""
_BESIDE = 0.25
"""How much less often other forms stand beside it: most of them hide what it does."""
COMPARISONS = ("=", "=", "=", "<", ">", "<=", ">=", "<>")


@dataclass(frozen=True)
class Item:
    """A relation in FROM."""

    alias: str
    columns: str
    is_table: bool = False
    table: str = ""
    """Its name, where it is no view."""


@dataclass
class From:
    """A FROM clause."""

    sql: str
    items: list[Item]
    nullable: set[str] = field(default_factory=set)
    """Aliases."""


class Queries:
    """A source of random queries.

    Args:
        chance: Where they come from.
        kinds: What statements begin with; others are left out.
        favoured: Forms that are drawn far more often than usual, in half of the statements.
    """

    def __init__(
        self,
        chance: random.Random,
        kinds: Collection[str] = (),
        favoured: Collection[Form] = (),
    ) -> None:
        self._chance = chance
        self._kinds = kinds
        self._asked_for = favoured
        self._favoured: Collection[Form] = ()
        self._aliases = 0
        self._common: list[Item] = []

    # -- small things ------------------------------------------------------------------------------

    def _flip(self, share: float) -> bool:
        return self._chance.random() < share

    def _takes(self, share: float, *forms: Form) -> bool:
        """Return whether to draw a form, given its names, as often as usual or as favoured."""
        if any(form in self._favoured for form in forms):
            return self._flip(FAVOURED)
        return self._flip(share * _BESIDE if self._favoured else share)

    def _drawn(self, weights: Mapping[Form, float]) -> Form:
        """Return one of several forms, more often those that are favoured."""
        favoured = {form: weights[form] for form in weights if form in self._favoured}
        if favoured and self._flip(FAVOURED):
            weights = favoured
        return self._chance.choices(list(weights), list(weights.values()))[0]

    def _alias(self) -> str:
        self._aliases += 1
        return f"t{self._aliases}"

    def _table(self) -> str:
        return self._chance.choice("aabbc")

    def _bound(self, column: str) -> int:
        return KEYS if column in "kusr" else VALUES

    def _constant(self, column: str = "x") -> str:
        value = self._chance.randrange(self._bound(column))
        if self._flip(0.04):
            return "null::int"
        return str(value) if self._flip(0.9) else f"({value} - 1 + 1)"

    def _column(self, item: Item) -> str:
        return f"{item.alias}.{self._chance.choice(item.columns)}"

    def _called(self, value: str) -> str:
        """Return a value, or what a function of a user makes of it."""
        if self._takes(0.06, Form.CALLED):
            return f"{self._chance.choice(FUNCTIONS)}({value})"
        return value

    def _condition(self, item: Item) -> str:
        """Return a condition on one relation."""
        chance = self._chance
        if self._takes(0.03, Form.TESTED):
            function = chance.choice(["plus", "lately"])
            compared = f"{chance.choice(COMPARISONS)} {self._constant()}"
            return f"{function}({self._column(item)}) {compared}"
        if self._takes(0.0005, Form.NOTED):
            return f"noted({self._column(item)}) {chance.choice(COMPARISONS)} {self._constant()}"
        column = chance.choice(item.columns)
        if self._flip(0.4):
            column = item.columns[0]
        name = f"{item.alias}.{column}"
        other = self._column(item)
        any_of = chance.choice(["= any", "= any", "= all", "<> any"])
        return chance.choice(
            [
                f"{name} {chance.choice(COMPARISONS)} {self._constant(column)}",
                f"{name} {chance.choice(COMPARISONS)} {self._constant(column)}",
                f"{name} = {self._constant(column)}",
                f"{self._constant(column)} = {name}",
                f"{name} between {self._constant(column)} and {self._constant(column)}",
                f"{name} in ({self._constant(column)}, {self._constant(column)})",
                f"{name} {any_of} (array[{self._constant(column)}, {self._constant(column)}])",
                f"{name} not in ({self._constant()}, {self._constant()})",
                f"{name} {chance.choice(['is null', 'is not null'])}",
                f"({name} = {self._constant(column)} or {other} = {self._constant()})",
                f"({name} = {self._constant(column)} or {name} = {self._constant(column)})",
                f"({name}, {other}) in (({self._constant(column)}, {self._constant()}), (3, 4))",
                f"not ({name} > {self._constant(column)} and {other} is not null)",
                f"coalesce({name}, 3) {chance.choice(COMPARISONS)} {self._constant()}",
                f"{name} % 3 = {chance.randrange(3)}",
                f"{name} is distinct from {self._constant(column)}",
                f"({name} > {self._constant(column)}) is not true",
                f"{name} + (current_date - current_date) <= {self._constant(column)}",
                f"{name} < {other}",
            ]
        )

    def _missing(self, item: Item) -> str:
        """Return a condition that rows filled up with NULLs satisfy."""
        name = self._column(item)
        return self._chance.choice(
            [f"{name} is null", f"coalesce({name}, 3) = 3", f"({name} > 2) is not true"]
        )

    def _unsteady(self, item: Item) -> str:
        """Return a condition whose value before the statement says nothing."""
        name = self._column(item)
        comparison = self._chance.choice(["<", "=", ">", ">="])
        return f"{name} {comparison} currval('clock')"

    def _join_condition(self, left: list[Item], right: list[Item]) -> str:
        one, other = self._chance.choice(left), self._chance.choice(right)
        pair = f"{self._column(one)} = {self._column(other)}"
        if self._flip(0.15):
            pair = f"{self._column(one)} < {self._column(other)}"
        if self._flip(0.1):
            pair = f"({pair} or {self._condition(other)})"
        return pair

    def _sublink(self, items: list[Item], depth: int) -> str:
        """Return a condition with a subquery, correlated more often than not."""
        chance = self._chance
        item = chance.choice(items)
        inner = self._from(depth + 1, chance.choice([1, 1, 2]))
        conditions = self._where(inner, depth + 1)
        if self._flip(0.6):
            conditions.append(self._join_condition(inner.items, [item]))
        where = f" where {' and '.join(conditions)}" if conditions else ""
        column = self._column(inner.items[0])
        name = self._column(item)
        compared = chance.choice(COMPARISONS)
        return chance.choice(
            [
                f"exists (select from {inner.sql}{where})",
                f"not exists (select from {inner.sql}{where})",
                f"{name} in (select {column} from {inner.sql}{where})",
                f"{name} not in (select {column} from {inner.sql}{where})",
                f"{name} {compared} (select max({column}) from {inner.sql}{where})",
                f"{name} {compared} all (select {column} from {inner.sql}{where})",
                f"(select count(*) from {inner.sql}{where}) {compared} {chance.randrange(4)}",
            ]
        )

    def _found(self, item: Item, depth: int) -> str:
        """Return a condition on a key by what a subquery says, of the same table most often."""
        key, listed, first, own = self._finding(item, depth)
        name = f"{item.alias}.{key}"
        return own + self._chance.choice(
            [
                f"{name} = ({first})",
                f"({first}) = {name}",
                f"{name} in ({listed})",
                f"{name} = any ({listed})",
            ]
        )

    def _joined_with_found(self, left: From, depth: int) -> From:
        """Return a join of a table by a key with what a subquery says, which may find others."""
        item = left.items[0]
        key, listed, _, own = self._finding(item, depth)
        other = Item(self._alias(), "k")
        on = f"{own}{item.alias}.{key} = {other.alias}.k"
        kind = self._chance.choice(["join", "join", "left join"])
        nullable = left.nullable | ({other.alias} if kind == "left join" else set())
        sql = f"{left.sql} {kind} lateral ({listed}) {other.alias} (k) on {on}"
        return From(sql, [*left.items, other], nullable)

    def _finding(self, item: Item, depth: int) -> tuple[str, str, str, str]:
        """Return a subquery that finds rows of a table, and what of another one it tells.

        That is a column, a query of its values, one of a single value, and a condition that tells
        rows besides.
        """
        chance = self._chance
        table = self._table() if self._takes(0.15, Form.OTHER_TABLE) else item.table
        inner = Item(self._alias(), COLUMNS[table], is_table=True, table=table)
        source = From(f"{table} {inner.alias}", [inner])
        if self._flip(0.2):
            source = self._joined(source, From(*self._single(depth + 1)))
        conditions = self._where(source, depth + 1, strict=True)
        if self._flip(0.2):
            conditions.append(self._join_condition([inner], [item]))
        key, shown = "k", "k"
        if self._takes(0.25, Form.OTHER_KEY):
            key = chance.choice(item.columns)
            shown = key if key in inner.columns else "k"
        if self._takes(0.15, Form.OTHER_COLUMN):
            shown = chance.choice(inner.columns)
        tail = f"from {source.sql} where {' and '.join(conditions)}"
        lock = f" for update of {inner.alias} skip locked"
        lock = lock if self._flip(0.5) and inner.alias not in source.nullable else ""
        order = f"order by {inner.alias}.{shown}"
        if self._flip(0.3):
            order = f"order by {self._column(inner)}, {inner.alias}.{shown}"
        listed = f"select {inner.alias}.{shown} {tail}"
        if self._takes(0.15, Form.UNITED):
            other = self._values(1) if self._flip(0.6) else self._query(2, 1)
            listed = f"{listed} union {other}"
        elif self._flip(0.5):
            listed = f"{listed} {order} limit {chance.randrange(1, 4)}{lock}"
        plain = table == item.table and key == shown == "k" and " union " not in listed
        # Without a condition of their own the other forms need all rows.
        own = "" if plain or self._flip(0.1) else f"{self._condition(item)} and "
        first = f"select {inner.alias}.{shown} {tail} {order} limit 1{lock}"
        return key, listed, first, own

    def _scalar(self, depth: int, item: Item | None = None) -> str:
        """Return a subquery with one value."""
        inner = self._from(depth + 1, 1)
        conditions = self._where(inner, depth + 1)
        if item is not None and self._flip(0.5):
            conditions.append(self._join_condition(inner.items, [item]))
        where = f" where {' and '.join(conditions)}" if conditions else ""
        what = self._chance.choice(["max", "min", "count", "sum"])
        return f"(select {what}({self._column(inner.items[0])})::int from {inner.sql}{where})"

    # -- FROM and WHERE ----------------------------------------------------------------------------

    def _item(self, depth: int) -> tuple[str, Item]:
        alias = self._alias()
        kind = self._chance.random()
        if self._common and kind < 0.3:
            known = self._chance.choice(self._common)
            return f"{known.alias} {alias}", Item(alias, known.columns)
        if kind < 0.1:
            view = self._chance.choice(list(VIEWS))
            return f"{view} {alias}", Item(alias, VIEWS[view])
        if kind < 0.22 and depth < 3:
            return f"({self._query(depth + 1, 2)}) {alias} (k, x)", Item(alias, "kx")
        if kind < 0.32:
            return f"({self._values(2)}) {alias} (k, x)", Item(alias, "kx")
        table = self._chance.choice(SOURCES) if self._flip(0.12) else self._table()
        return f"{table} {alias}", Item(alias, COLUMNS[table], is_table=True, table=table)

    def _values(self, width: int) -> str:
        listed = ", ".join(
            "(" + ", ".join(self._constant("k") for _ in range(width)) + ")"
            for _ in range(self._chance.randrange(1, 4))
        )
        return f"values {listed}"

    def _from(self, depth: int, number: int) -> From:
        sql, item = self._item(depth)
        found = From(sql, [item])
        if item.table and depth < 2 and self._takes(0.04, Form.FOUND):
            found = self._joined_with_found(found, depth)
        for _ in range(number - 1):
            if self._flip(0.15):
                other = self._from(depth, 2) if self._flip(0.4) else From(*self._single(depth))
                other.sql = f"({other.sql})" if len(other.items) > 1 else other.sql
            else:
                other = From(*self._single(depth))
            found = self._joined(found, other)
        return found

    def _single(self, depth: int) -> tuple[str, list[Item]]:
        sql, item = self._item(depth)
        return sql, [item]

    def _joined(self, left: From, right: From) -> From:
        kind = self._chance.choices(
            ["join", "left join", "right join", "full join", "cross join"], [36, 24, 18, 12, 8]
        )[0]
        items = left.items + right.items
        nullable = left.nullable | right.nullable
        if kind in {"join", "left join"} and self._flip(0.12):
            return self._lateral(left, kind)
        same = len(items) == 2 and all("k" in item.columns for item in items)
        if same and kind != "cross join" and self._flip(0.2):
            return self._using(left, right, kind)
        if kind == "cross join":
            return From(f"{left.sql} cross join {right.sql}", items, nullable)
        conditions = [self._join_condition(left.items, right.items)]
        if kind == "full join":
            # Only joins that can be merged or hashed are supported.
            one, other = self._chance.choice(left.items), self._chance.choice(right.items)
            conditions = [f"{self._column(one)} = {self._column(other)}"]
        limited = {
            "join": items,
            "left join": right.items,
            "right join": left.items,
            "full join": [],
        }[kind]
        if kind != "full join":
            for item in items:
                share = 0.75 if item in limited else 0.2
                if item.is_table and self._flip(share):
                    conditions.append(self._condition(item))
        if kind in {"left join", "full join"}:
            nullable = nullable | {item.alias for item in right.items}
        if kind in {"right join", "full join"}:
            nullable = nullable | {item.alias for item in left.items}
        on = " and ".join(conditions)
        return From(f"{left.sql} {kind} {right.sql} on {on}", items, nullable)

    def _lateral(self, left: From, kind: str) -> From:
        """Return a join with a subquery about each row."""
        alias = self._alias()
        inner = self._from(2, 1)
        conditions = self._where(inner, 2)
        conditions.append(self._join_condition(inner.items, left.items))
        columns = ", ".join(self._column(inner.items[0]) for _ in range(2))
        query = f"select {columns} from {inner.sql} where {' and '.join(conditions)}"
        nullable = left.nullable | ({alias} if kind == "left join" else set())
        item = Item(alias, "kx")
        sql = f"{left.sql} {kind} lateral ({query}) {alias} (k, x) on true"
        return From(sql, [*left.items, item], nullable)

    def _using(self, left: From, right: From, kind: str) -> From:
        """Return a join by columns of the same name."""
        nullable = left.nullable | right.nullable
        if kind in {"left join", "full join"}:
            nullable = nullable | {right.items[0].alias}
        if kind in {"right join", "full join"}:
            nullable = nullable | {left.items[0].alias}
        sql = f"{left.sql} {kind} {right.sql} using (k)"
        return From(sql, left.items + right.items, nullable)

    def _where(self, source: From, depth: int, *, strict: bool = False) -> list[str]:
        """Return conditions, for most tables one of their own."""
        conditions = []
        for item in source.items:
            share = 0.3 if item.alias in source.nullable else 0.92
            if not item.is_table or item.table in SOURCES:
                share = 0.3
            if item.table and depth < 2 and self._takes(0.07, Form.FOUND):
                conditions.append(self._found(item, depth))
            elif strict or self._flip(share):
                filled = item.alias in source.nullable and self._flip(0.6)
                conditions.append(self._missing(item) if filled else self._condition(item))
            if self._flip(0.04):
                conditions.append(self._unsteady(item))
        if depth < 2 and self._flip(0.3 - 0.1 * depth):
            conditions.append(self._sublink(source.items, depth))
        self._chance.shuffle(conditions)
        return conditions

    # -- queries -----------------------------------------------------------------------------------

    def _query(self, depth: int, width: int) -> str:  # noqa: PLR0911 - a form for each
        """Return a SELECT of integers."""
        chance = self._chance
        if depth < 3 and self._flip(0.12):
            operator = chance.choice(["union", "union all", "intersect", "except", "except all"])
            left, right = (self._query(depth + 1, width) for _ in range(2))
            return f"(({left}) {operator} ({right}))"
        source = self._from(depth, chance.choice([1, 1, 1, 2, 2, 3] if depth < 2 else [1, 1, 2]))
        conditions = self._where(source, depth)
        where = f" where {' and '.join(conditions)}" if conditions else ""
        tail = f" from {source.sql}{where}"
        names = [self._column(chance.choice(source.items)) for _ in range(width)]
        kind = chance.random()
        if kind < 0.15:
            what = chance.choice(["max", "min", "sum", "count"])
            having = f" having count(*) > {chance.randrange(3)}" if self._flip(0.3) else ""
            if self._flip(0.2):
                having = f" having {names[0]} > {self._constant()}"
            elif self._flip(0.2):
                having = f" having {what}({names[-1]}) {chance.choice('<>=')} {self._constant()}"
            aggregated = [f"{what}({name})::int" for name in names[1:]]
            return f"select {', '.join([names[0], *aggregated])}{tail} group by {names[0]}{having}"
        if kind < 0.22:
            return f"select {', '.join(f'count({name})::int' for name in names)}{tail}"
        if kind < 0.3:
            return f"select {', '.join([self._window(names), *names[1:]])}{tail}"
        if kind < 0.38:
            order = ", ".join(str(number) for number in range(1, width + 1))
            return (
                f"select {', '.join(names)}{tail} order by {order} limit {chance.randrange(1, 5)}"
            )
        if kind < 0.46:
            return f"select distinct {', '.join(names)}{tail}"
        if kind < 0.52 and depth < 2:
            return f"select {', '.join([self._scalar(depth, source.items[0]), *names[1:]])}{tail}"
        return f"select {', '.join(names)}{tail}"

    def _window(self, names: list[str]) -> str:
        if self._flip(0.5):
            return f"(count(*) over (partition by {names[0]}))::int"
        what = self._chance.choice(["rank()", "dense_rank()", f"sum({names[0]})"])
        return f"({what} over (order by {names[-1]}))::int"
