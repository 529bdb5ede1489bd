"""Random schemas, rows and statements over small domains, so that rows meet often.

All columns are integers. Results are meant not to depend on the order in which PostgreSQL comes
across rows; where one does, whoever compares has to notice.
"""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import dataclass, field

COLUMNS = {"a": "kuxy", "b": "krxy", "c": "ksrx"}
"""The tables and their columns, each named by a letter."""
KEYS = 12
VALUES = 8
_VIEWS = {"va": "kux", "vs": "krx", "vc": "kux", "vb": "kxz", "vg": "rn"}
_COMPARISONS = ("=", "=", "=", "<", ">", "<=", ">=", "<>")
_ACTIONS = ("no action", "restrict", "cascade", "cascade", "set null", "set default")

OTHERS = (
    "create view va as select k, u, x from a where x > 1",
    "create view vb as select a.k, a.x, b.x as z from a join b on b.r = a.k where b.x < 6",
    "create view vs with (security_barrier) as select k, r, x from b where x is not null",
    "create view vc as select * from va where u < 9 with check option",
    "create view vg as select r, count(*)::int as n from b where x >= 2 group by r",
)


def schema(chance: random.Random) -> dict[str, str]:
    """Return the definition of each table: keys, unique constraints and foreign keys at random."""

    def maybe(share: float, text: str) -> str:
        return f", {text}" if chance.random() < share else ""

    def action() -> str:
        deferrable = chance.choice(["", "", " deferrable initially deferred"])
        return (
            f" on delete {chance.choice(_ACTIONS)} on update {chance.choice(_ACTIONS)}{deferrable}"
        )

    unique_u = chance.random() < 0.6
    a = "k int primary key, u int, x int, y int" + (", unique (u)" if unique_u else "")
    a += maybe(0.2, "unique (x, y)") + maybe(0.3, "check (x < 7)")
    a += maybe(0.15, f"foreign key (y) references a (k){action()}")
    b = "k int primary key, r int, x int, y int default 3"
    b += maybe(0.65, f"foreign key (r) references a (k){action()}")
    b += maybe(0.25, "unique (r, x)")
    b += maybe(0.3, f"foreign key (y) references a (u){action()}") if unique_u else ""
    c = "k int, s int default 1, r int, x int"
    c += chance.choice([", primary key (k)", ", primary key (k, s)", ""])
    c += maybe(0.6, f"foreign key (r) references b (k){action()}") + maybe(0.2, "unique (x)")
    c += maybe(0.2, f"foreign key (k) references a (k){action()}")
    if "unique (x, y)" in a:
        c += maybe(0.5, f"foreign key (s, x) references a (x, y){action()}")
    return {"a": a, "b": b, "c": c}


def rows(chance: random.Random) -> dict[str, list[tuple[int | None, ...]]]:
    """Return rows for each table; not all of them may satisfy its constraints."""

    def value(bound: int) -> int | None:
        return chance.randrange(bound) if chance.random() < 0.85 else None

    found: dict[str, list[tuple[int | None, ...]]] = {}
    for table in COLUMNS:
        number = chance.randrange(8, 17)
        found[table] = [
            (
                chance.randrange(KEYS) if table == "c" else key % KEYS,
                value(KEYS),
                value(KEYS if table == "c" else VALUES),
                value(VALUES),
            )
            for key in range(number)
        ]
    return found


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


class Statements:
    """A source of random statements.

    Args:
        chance: Where they come from.
        kinds: What they begin with; others are left out.
    """

    def __init__(self, chance: random.Random, kinds: Collection[str] = ()) -> None:
        self._chance = chance
        self._kinds = kinds
        self._aliases = 0
        self._common: list[Item] = []

    def statement(self) -> str:
        """Return one statement."""
        self._aliases = 0
        self._common = []
        kinds = {
            self._update: 24,
            self._delete: 18,
            self._insert: 20,
            self._merge: 16,
            self._select: 12,
            self._with: 10,
            self._derived: 3,
        }
        wanted = {
            k: w for k, w in kinds.items() if not self._kinds or k.__name__[1:] in self._kinds
        }
        return self._chance.choices(list(wanted), list(wanted.values()))[0]()

    # -- small things ------------------------------------------------------------------------------

    def _flip(self, share: float) -> bool:
        return self._chance.random() < share

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

    def _condition(self, item: Item) -> str:
        """Return a condition on one relation."""
        chance = self._chance
        column = chance.choice(item.columns)
        if self._flip(0.4):
            column = item.columns[0]
        name = f"{item.alias}.{column}"
        other = self._column(item)
        return chance.choice(
            [
                f"{name} {chance.choice(_COMPARISONS)} {self._constant(column)}",
                f"{name} {chance.choice(_COMPARISONS)} {self._constant(column)}",
                f"{name} = {self._constant(column)}",
                f"{self._constant(column)} = {name}",
                f"{name} between {self._constant(column)} and {self._constant(column)}",
                f"{name} in ({self._constant(column)}, {self._constant(column)})",
                f"{name} = any (array[{self._constant(column)}, {self._constant(column)}])",
                f"{name} not in ({self._constant()}, {self._constant()})",
                f"{name} {chance.choice(['is null', 'is not null'])}",
                f"({name} = {self._constant(column)} or {other} = {self._constant()})",
                f"not ({name} > {self._constant(column)} and {other} is not null)",
                f"coalesce({name}, 3) {chance.choice(_COMPARISONS)} {self._constant()}",
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
        compared = chance.choice(_COMPARISONS)
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
        chance = self._chance
        table = item.table if self._flip(0.85) else self._table()
        inner = Item(self._alias(), COLUMNS[table], is_table=True, table=table)
        source = From(f"{table} {inner.alias}", [inner])
        if self._flip(0.2):
            source = self._joined(source, From(*self._single(depth + 1)))
        conditions = self._where(source, depth + 1, strict=True)
        if self._flip(0.2):
            conditions.append(self._join_condition([inner], [item]))
        key, shown = "k", "k"
        if self._flip(0.25):
            key = chance.choice(item.columns)
            shown = key if key in inner.columns else "k"
        if self._flip(0.15):
            shown = chance.choice(inner.columns)
        tail = f"from {source.sql} where {' and '.join(conditions)}"
        lock = f" for update of {inner.alias} skip locked"
        lock = lock if self._flip(0.5) and inner.alias not in source.nullable else ""
        order = f"order by {inner.alias}.{shown}"
        if self._flip(0.3):
            order = f"order by {self._column(inner)}, {inner.alias}.{shown}"
        listed = f"select {inner.alias}.{shown} {tail}"
        if self._flip(0.15):
            other = self._values(1) if self._flip(0.6) else self._query(2, 1)
            listed = f"{listed} union {other}"
        elif self._flip(0.5):
            listed = f"{listed} {order} limit {chance.randrange(1, 4)}{lock}"
        name = f"{item.alias}.{key}"
        plain = table == item.table and key == shown == "k" and " union " not in listed
        # Without a condition of their own the other forms need all rows.
        own = "" if plain or self._flip(0.1) else f"{self._condition(item)} and "
        return own + chance.choice(
            [
                f"{name} = (select {inner.alias}.{shown} {tail} {order} limit 1{lock})",
                f"(select {inner.alias}.{shown} {tail} {order} limit 1{lock}) = {name}",
                f"{name} in ({listed})",
                f"{name} = any ({listed})",
            ]
        )

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
            view = self._chance.choice(list(_VIEWS))
            return f"{view} {alias}", Item(alias, _VIEWS[view])
        if kind < 0.22 and depth < 3:
            return f"({self._query(depth + 1, 2)}) {alias} (k, x)", Item(alias, "kx")
        if kind < 0.32:
            return f"({self._values(2)}) {alias} (k, x)", Item(alias, "kx")
        table = self._table()
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
            if not item.is_table:
                share = 0.3
            if item.table and depth < 2 and self._flip(0.07):
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
                columns = ", ".join(self._column(item) for item in source.items)
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

    # -- changes -----------------------------------------------------------------------------------

    def _target(self, table: str | None = None) -> tuple[str, Item]:
        alias = self._alias()
        if table is None and self._flip(0.1):
            view = self._chance.choice(["va", "va", "vc", "vs"])
            return f"{view} {alias}", Item(alias, _VIEWS[view], is_table=True)
        name = table or self._table()
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
        return ", ".join(f"{column} = {self._new(column, item, others)}" for column in columns)

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
            return f" returning {self._column(item)}, {self._scalar(1, item)}"
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
        if self._flip(0.25):
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
        return self._constant(column)

    def _insert(self) -> str:
        table = self._table()
        item = Item("n", COLUMNS[table], is_table=True)
        sql = self._plain_insert(table)
        kind = self._chance.random()
        if kind < 0.2:
            sql += " on conflict do nothing"
        elif kind < 0.6 and table != "c":
            excluded = Item("excluded", COLUMNS[table])
            where = f" where {self._condition(item)}" if self._flip(0.4) else ""
            if where and self._flip(0.6):
                where += f" and {self._sublink([item], 1)}"
            assigned = self._assignments(item, [excluded])
            sql += f" on conflict (k) do update set {assigned}{where}"
        return sql + self._returning(item)

    def _merge(self) -> str:
        chance = self._chance
        target, item = self._target()
        source_sql, source = self._source()
        on = [f"{item.alias}.k = {self._column(source)}"]
        if self._flip(0.15):
            on = [self._join_condition([item], [source])]
        if self._flip(0.6):
            on.append(self._condition(item))
        if source.is_table and self._flip(0.5):
            on.append(self._condition(source))
        actions: dict[str, list[str]] = {}
        for _ in range(chance.choice([1, 2, 2, 3])):
            kind = chance.random()
            if kind < 0.5:
                qual = f" and {self._condition(item)}" if self._flip(0.5) else ""
                done = self._merged(item, [source])
                actions.setdefault("matched", []).append(f"{qual} then {done}")
            elif kind < 0.75:
                columns = item.columns
                values = ", ".join(
                    self._column(source) if self._flip(0.5) else self._constant(c) for c in columns
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
        return (
            f"merge into {target} using {source_sql} on {' and '.join(on)} "
            + " ".join(f"when {kind}{done}" for kind, done in _reachable(actions))
            + returning
        )

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
