"""Random statements on rows whose keys other tables tell: those that are there as a whole.

A part of them is beside the mark by a little: values are computed, conditions hold for other rows,
sources are changed by the statement itself.
"""

from tests.support.random_changes import Changes
from tests.support.random_forms import Form
from tests.support.random_queries import From, Item
from tests.support.random_schemas import COLUMNS, SOURCE_VIEWS, SOURCES

_KEYS = {"a": ("k", "k", "k", "u", "xy", "kx"), "b": ("k", "k", "k", "rx"), "c": ("ks", "ks", "k")}
"""Columns that are compared together."""
_STATEMENTS = {
    Form.JOINED: 30,
    Form.IN: 13,
    Form.EXISTS: 14,
    Form.SCALAR: 13,
    Form.MERGE: 20,
    Form.INSERT: 20,
    Form.SELECT: 10,
}
"""How often each form of statement is drawn."""
_COMMON = {
    Form.QUERIED: 30,
    Form.DELETED: 20,
    Form.UPDATED: 15,
    Form.INSERTED: 10,
    Form.MERGED: 12,
    Form.RECURSIVE: 13,
}
"""How often each common table expression is."""


class SourceStatements(Changes):
    """A source of random statements on rows that sources tell."""

    def _sourced(self) -> str:
        common = self._common_rows() if self._takes(0.3, Form.SAME_NAME, *_COMMON) else ""
        weights = dict(_STATEMENTS)
        if "recursive" in common:
            del weights[Form.MERGE]  # not supported
        form = self._drawn(weights)
        others = {
            Form.JOINED: self._told_change,
            Form.MERGE: self._told_merge,
            Form.INSERT: self._told_insert,
            Form.SELECT: self._told_select,
        }
        return common + (others[form]() if form in others else self._asked_change(form))

    # -- what tells --------------------------------------------------------------------------------

    def _told(self, depth: int = 0) -> tuple[str, Item]:
        """Return a relation whose rows come from sources."""
        alias, chance = self._alias(), self._chance
        share = 0.2 if Form.SAME_NAME in self._favoured else 0.6
        if self._common and self._flip(share):
            known = chance.choice(self._common)
            return f"{known.alias} {alias}", Item(alias, known.columns)
        weights = {Form.TABLE: 45, Form.VIEW: 12, Form.ARRAYS: 8}
        form = self._drawn(weights if depth > 1 else weights | {Form.SUBQUERY: 35})
        if form is Form.TABLE:
            table = chance.choice(SOURCES)
            return f"{table} {alias}", Item(alias, COLUMNS[table], is_table=True, table=table)
        if form is Form.VIEW:
            view = chance.choice(list(SOURCE_VIEWS))
            return f"{view} {alias}", Item(alias, SOURCE_VIEWS[view])
        if form is Form.ARRAYS:
            arrays = ", ".join(
                f"array[{self._constant('k')}, 3, {n}]" for n in chance.sample("456", 2)
            )
            return f"unnest({arrays}) {alias} (k, x)", Item(alias, "kx")
        return f"({self._told_query(depth + 1)}) {alias} (k, x)", Item(alias, "kx")

    def _told_from(self, depth: int = 0) -> From:
        if self._takes(0.12, Form.TWICE):
            return self._twice()
        sql, item = self._told(depth)
        source = From(sql, [item])
        if self._takes(0.15 if depth else 0.3, Form.USING):
            sql, item = self._told(depth)
            joined = self._full_joined if self._takes(0.05, Form.USING) else self._joined
            source = joined(source, From(sql, [item]))
        if self._takes(0.04, Form.TIERED):
            source = self._joined(source, From(*self._single(2)))
        return source

    def _full_joined(self, left: From, right: From) -> From:
        """Return a join whose merged column has a name, and whichever value is not NULL."""
        joined, merged = self._using(left, right, "full join"), Item(self._alias(), "k")
        sql = f"{joined.sql} as {merged.alias}"
        return From(sql, [*joined.items, merged], joined.nullable)

    def _twice(self) -> From:
        """Return a table beside a subquery on the same, whose rows are its own."""
        chance = self._chance
        table, ahead = chance.choice(SOURCES), chance.choice(SOURCES)
        one, other, inner = self._alias(), self._alias(), self._alias()
        shown = chance.sample(COLUMNS[table], 2)
        listed = ", ".join(f"{inner}.{column}" for column in shown)
        ahead = chance.choice(["", f"{ahead} {self._alias()}, "])
        query = f"(select {listed} from {ahead}{table} {inner}) {other} (k, x)"
        item = Item(one, COLUMNS[table], is_table=True, table=table)
        return From(f"{table} {one} cross join {query}", [item, Item(other, "kx")])

    def _told_name(self, items: list[Item]) -> str:
        item = self._chance.choice(items)
        return f"{item.alias}.k" if "k" in item.columns and self._flip(0.5) else self._column(item)

    def _told_value(self, items: list[Item]) -> str:
        """Return a value to be compared with, most often a column as it is."""
        name, kind = self._told_name(items), self._chance.random()
        if self._takes(0.03, Form.COMPUTED):
            return f"{name} + 1"
        if kind < 0.02:
            return f"coalesce({name}, 3)"
        if kind < 0.07:
            return self._constant("k")
        if kind < 0.13:
            return f"{name}::{self._chance.choice(['int', 'bigint', 'smallint'])}"
        return name

    def _told_values(self, items: list[Item], number: int) -> list[str]:
        """Return several such values, seldom one twice."""
        values: list[str] = []
        for _ in range(number):
            value = self._told_value(items)
            values.append(self._told_value(items) if value in values else value)
        return values

    def _told_where(self, source: From, depth: int) -> list[str]:
        """Return conditions, seldom where a form is favoured: they hide rows it tells."""
        return self._where(source, depth) if self._takes(1) else []

    def _told_query(self, depth: int = 0) -> str:
        """Return a query of two columns."""
        chance, source = self._chance, self._told_from(depth)
        one, other = self._told_values(source.items, 2)
        conditions = self._told_where(source, 2)
        tail = f" from {source.sql}" + (f" where {' and '.join(conditions)}" if conditions else "")
        count = chance.randrange(1, 4)
        plain = f"select {one}, {other}{tail}"
        if self._takes(0.15, Form.SAME_NAME) if self._common else self._flip(0.03):
            shown = chance.choice(["k, x", "x, k"])
            return f"with w1 (k, x) as ({plain}) select {shown} from w1"
        if depth < 3 and self._takes(0.2, Form.SET):
            operator = chance.choice(["union", "union all"])
            if not self._takes(0.5, Form.SET):
                operator = chance.choice(["intersect", "except"])
            computed = chance.choice(["f.k + 1, g.x", "f.k, g.x + 1", "f.x, g.k + 1"])
            one, other = chance.choice(SOURCES), chance.choice(SOURCES)
            branch = f"select {computed} from {one} f, {other} g"
            if not self._takes(0.2, Form.UNKNOWN):
                branch = chance.choice(
                    [
                        self._told_query(depth + 1),
                        self._told_query(depth + 1),
                        self._query(2, 2),
                        self._values(2),
                    ]
                )
            return f"({plain}) {operator} ({branch})"
        return chance.choice(
            [
                *[plain] * 4,
                f"select distinct {one}, {other}{tail}",
                f"select distinct on (1) {one}, {other}{tail} order by 1, 2",
                f"select {one}, max({other})::int{tail} group by 1",
                f"select {one}, {other}{tail} group by rollup (1, 2)",
                f"select {one}, (dense_rank() over (order by {other}))::int{tail}",
                f"{plain} order by 1, 2 limit {count}",
                f"select unnest(array[3, {count}]), {other}{tail}",
            ]
        )

    def _common_rows(self) -> str:
        """Return a common table expression: rows of sources, or what a change of one returns."""
        chance = self._chance
        table, alias = chance.choice(SOURCES), self._alias()
        item = Item(alias, COLUMNS[table], is_table=True, table=table)
        condition = self._condition(item) if self._takes(0.8) else "true"
        first = chance.choice(["", "", "", "old.", "new."]) or f"{alias}."
        returned = f"returning {first}{chance.choice('kr')}, {alias}.x"
        changed = f"set k = {alias}.k + 1, r = {self._constant('r')}, x = {self._constant()}"
        form = self._drawn(_COMMON)
        if form is Form.QUERIED:
            query = self._told_query()
        elif form is Form.DELETED:
            query = f"delete from {table} {alias} where {condition} {returned}"
            if self._flip(0.3):
                source = self._told_from()
                joined = [self._join_condition([item], source.items), *self._told_where(source, 1)]
                returned = f"returning {self._told_name(source.items)}, {alias}.x"
                listed = f"using {source.sql} where {' and '.join(joined)}"
                query = f"delete from {table} {alias} {listed} {returned}"
        elif form is Form.UPDATED:
            query = f"update {table} {alias} {changed} where {condition} {returned}"
        elif form is Form.INSERTED:
            query = f"{self._plain_insert(table)} returning k, x"
        elif form is Form.MERGED:
            query = (
                f"merge into {table} {alias} using (values (1)) s (n) on {condition}"
                f" when matched and {alias}.x > 5 then delete"
                f" when matched then update {changed} {returned}"
            )
        else:
            return self._recursive(table)
        self._common.append(Item("w1", "kx"))
        return f"with w1 (k, x) as ({query}) "

    def _recursive(self, table: str) -> str:
        """Return a common table expression that reads itself."""
        first = f"select {self._chance.choice('kr')}::int, x from {table}"
        more = self._chance.choice(
            [
                "select w1.x, w1.k from w1",
                "select w1.k + 2, w1.x from w1 where w1.k < 9",
                "select d.r, w1.x from w1 join d on d.k = w1.k",
                "select n.r, w1.x from w1 join b n on n.k = w1.k and n.x < 5",
            ]
        )
        self._common.append(Item("w1", "kx"))
        return f"with recursive w1 (k, x) as ({first} union {more}) "

    # -- conditions --------------------------------------------------------------------------------

    def _keyed(self, item: Item) -> str:
        """Return columns of a table that name its rows, most often."""
        keys = _KEYS.get(item.table, ("k",))
        if self._takes(0, Form.SEVERAL):
            keys = tuple(key for key in keys if len(key) > 1) or keys
        return self._chance.choice(keys)

    def _compared(self, item: Item, sources: list[Item]) -> list[str]:
        """Return conditions on columns of a table that sources tell the values of."""
        found, columns = [], self._keyed(item)
        for column, value in zip(columns, self._told_values(sources, len(columns)), strict=True):
            sides = [f"{item.alias}.{column}", value]
            if self._flip(0.3):
                sides.reverse()
            operator = "<" if self._takes(0.04, Form.OPERATOR) else "="
            found.append(f"{operator} ".join(f"{side} " for side in sides))
        if self._takes(0.06, Form.OR):
            found[-1] = f"({found[-1]} or {self._condition(item)})"
        return found

    def _asked(self, item: Item, form: Form | None = None) -> str:
        """Return a condition with a subquery on sources."""
        form = form or self._drawn({Form.IN: 1, Form.EXISTS: 1, Form.SCALAR: 1})
        if form is Form.IN:
            return self._asked_in(item)
        return self._asked_exists(item) if form is Form.EXISTS else self._asked_scalar(item)

    def _asked_in(self, item: Item) -> str:
        columns = self._keyed(item)
        name = ", ".join(f"{item.alias}.{column}" for column in columns)
        name = f"({name})" if len(columns) > 1 else name
        source = self._told_from()
        shown = [*source.items, item] if self._takes(0.08, Form.OUTER) else source.items
        listed = ", ".join(self._told_values(shown, len(columns)))
        one = self._chance.choice(["in", "in", "= any"])
        if len(columns) == 1 and self._takes(0.05, Form.ALL):
            one = "= all"
        elif self._takes(0.125, Form.NEGATED):
            one = "not in"
        elif self._takes(0.125, Form.OPERATOR):
            one = "<> any"
        # ALL of no rows holds for each.
        conditions = (self._where if one == "= all" else self._told_where)(source, 1)
        tail = f" from {source.sql}" + (f" where {' and '.join(conditions)}" if conditions else "")
        order = ", ".join(str(number) for number, _ in enumerate(columns, 1))
        query = self._chance.choice(
            [
                f"select {listed}{tail}",
                f"select distinct {listed}{tail}",
                f"select {listed}{tail} order by {order} limit 2",
                f"select {listed}{tail} union all {self._values(len(columns))}",
                f"select {listed}{tail} group by {order}",
            ]
        )
        return f"{name} {one} ({query})"

    def _asked_exists(self, item: Item) -> str:
        source = self._told_from()
        conditions = [*self._compared(item, source.items), *self._told_where(source, 2)]
        name = self._told_name(source.items)
        if self._takes(0.2, Form.OWN):
            if self._takes(0.3, Form.OWN):
                sql, first = self._told(1)
                inner = f"({source.sql})" if len(source.items) > 1 else source.sql
                source = From(f"{sql} cross join {inner}", [first, *source.items])
                name = self._told_name([first])
            conditions.append(f"{name} = {self._constant('k')}")
        self._chance.shuffle(conditions)
        tail = f" from {source.sql} where {' and '.join(conditions)}"
        having = " having count(*) < 2" if self._flip(0.25) else ""
        forms = {
            Form.PLAIN: (10, f"select{tail}"),
            Form.DISTINCT: (4, f"select distinct {name}{tail}"),
            Form.LIMITED: (4, f"select {name}{tail} order by 1 limit 1"),
            Form.GROUPED: (4, f"select {name}{tail} group by 1{having}"),
            Form.ROLLUP: (1, f"select{tail} group by rollup ({name})"),
            Form.AGGREGATE: (1, f"select count(*){tail}"),
            Form.HAVING: (1, f"select{tail} having true"),
            Form.SET: (1, f"select{tail} union select where false"),
        }
        _, query = forms[self._drawn({form: weight for form, (weight, _) in forms.items()})]
        return f"{'not ' if self._takes(0.04, Form.NEGATED) else ''}exists ({query})"

    def _asked_scalar(self, item: Item) -> str:
        name = f"{item.alias}.{self._keyed(item)[0]}"
        source = self._told_from()
        conditions = self._told_where(source, 1)
        tail = f" from {source.sql}" + (f" where {' and '.join(conditions)}" if conditions else "")
        value = self._told_value(source.items)
        query = f"(select {value}{tail} order by 1 limit 1)"
        if self._flip(0.15):
            query = f"(select max({value}){tail})"
        compared = "<=" if self._takes(0.1, Form.OPERATOR) else "="
        return f"{query} {compared} {name}" if self._flip(0.3) else f"{name} {compared} {query}"

    # -- statements --------------------------------------------------------------------------------

    def _changed(self, target: str, item: Item, source: From | None, conditions: list[str]) -> str:
        """Return an UPDATE or DELETE."""
        if self._takes(0.2):
            conditions.append(self._condition(item))
        self._chance.shuffle(conditions)
        where = f" where {' and '.join(conditions)}{self._returning(item)}"
        if self._flip(0.4):
            return f"delete from {target}" + (f" using {source.sql}" if source else "") + where
        assigned = self._assignments(item, source.items if source else [])
        return f"update {target} set {assigned}" + (f" from {source.sql}" if source else "") + where

    def _written(self) -> tuple[str, Item]:
        """Return a relation, more often than elsewhere one whose key has two columns."""
        return self._target("c" if self._flip(0.25) else None)

    def _told_change(self) -> str:
        target, item = self._written()
        source = self._told_from()
        conditions = [*self._compared(item, source.items), *self._told_where(source, 1)]
        return self._changed(target, item, source, conditions)

    def _asked_change(self, form: Form) -> str:
        target, item = self._written()
        return self._changed(target, item, None, [self._asked(item, form)])

    def _told_merge(self) -> str:
        target, item = self._written()
        sql, source = self._told()
        on = self._compared(item, [source])
        if self._takes(0.2):
            on.append(self._condition(item))
        actions = self._actions(item, source)
        return f"merge into {target} using {sql} on {' and '.join(on)} {actions}"

    def _told_insert(self) -> str:
        table = self._table()
        item, source = Item("n", COLUMNS[table], is_table=True), self._told_from()
        columns = COLUMNS[table][: self._chance.choice([1, 2, 4, 4])]
        listed = [self._told_value(source.items)]
        listed += [
            self._told_value(source.items) if self._flip(0.6) else self._constant(column)
            for column in columns[1:]
        ]
        conditions = self._told_where(source, 1)
        where = f" where {' and '.join(conditions)}" if conditions else ""
        sql = f"insert into {table} as n ({', '.join(columns)})"
        sql += f" select {', '.join(listed)} from {source.sql}{where}"
        return sql + self._on_conflict(table, item) + self._returning(item)

    def _told_select(self) -> str:
        target, item = self._written()
        source = self._told_from()
        if self._flip(0.4):
            return f"select {item.alias}.* from {target} where {self._asked(item)}"
        on = " and ".join(self._compared(item, source.items))
        kind = self._chance.choice(["join", "join", "left join", "right join"])
        lock = f" for update of {item.alias}" if kind == "join" and self._flip(0.5) else ""
        inner = f"({source.sql})" if len(source.items) > 1 else source.sql
        own = f" and {self._condition(item)}" if kind == "right join" else ""
        return f"select {item.alias}.* from {inner} {kind} {target} on {on}{own}{lock}"
