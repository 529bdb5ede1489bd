"""Random schemas and rows over small domains, so that rows meet often. All columns are integers."""

import random

COLUMNS = {"a": "kuxy", "b": "krxy", "c": "ksrx", "d": "krxy", "e": "krxy"}
"""The tables and their columns, each named by a letter."""
SOURCES = ("d", "e")
"""Those that PostgreSQL holds wholly: ``d`` as a resident table, ``e`` without keys and references
as a temporary one."""
NOTES = "notes"
"""A resident table that functions write, and nothing reads."""
READABLE = (*SOURCES, NOTES)
KEYS = 12
VALUES = 8
VIEWS = {"va": "kux", "vs": "krx", "vc": "kux", "vb": "kxz", "vg": "rn"}
SOURCE_VIEWS = {"vd": "krx", "ve": "kxr", "vu": "kx"}
"""Views of nothing but sources."""
_ACTIONS = ("no action", "restrict", "cascade", "cascade", "set null", "set default")

_SHIFT = """
create function shift() returns trigger language plpgsql as $$
begin
  update e set k = k + 1;
  delete from e where k > 9;
  return coalesce(new, old);
end $$
"""

_PLUS = """
create function plus(i anyelement) returns anyelement immutable language plpgsql as
$$ begin return i + 1; end $$
"""
_LATELY = """
create function lately(i anyelement) returns anyelement stable language plpgsql as
$$ begin return i + currval('clock') - 5; end $$
"""
_NOTED = """
create function noted(i anyelement) returns anyelement language plpgsql cost 0.0001 as
$$ begin insert into notes values (i); return i; end $$
"""
FUNCTIONS = ("plus", "lately", "noted")
"""Functions of users: an immutable one; one whose value before the statement says nothing; one that
does something, and that PostgreSQL calls ahead of other conditions."""

OTHERS = (
    _PLUS,
    _LATELY,
    _NOTED,
    "create view va as select k, u, x from a where x > 1",
    "create view vb as select a.k, a.x, b.x as z from a join b on b.r = a.k where b.x < 6",
    "create view vs with (security_barrier) as select k, r, x from b where x is not null",
    "create view vc as select * from va where u < 9 with check option",
    "create view vg as select r, count(*)::int as n from b where x >= 2 group by r",
    "create view vd as select k, r, x from d where x > 1",
    "create view ve as select e.k, e.x, d.r from e left join d on d.k = e.r",
    "create view vu as select r as k, x from d union select k, x from e",
    _SHIFT,
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
    b += maybe(0.15, f"foreign key (y) references d (k){action()}")
    d = "k int primary key, r int, x int, y int"
    d += maybe(0.5, f"foreign key (r) references a (k){action()}")
    return {
        "a": a,
        "d": d,
        "b": b,
        "c": c,
        "e": "k bigint, r smallint, x int, y int",
        NOTES: "n int",
    }


INDEXES = (
    "create unique index on a (u) where x > 3",
    "create unique index on a (coalesce(y, 1), x)",
    "create unique index on b (coalesce(r, 0), x)",
    "create unique index on b (x, (k + y))",
    "create unique index on c (k) where s > 6",
)
"""Unique indexes of which some rows have no value, or one that is computed."""


def indexes(chance: random.Random) -> list[str]:
    """Return some of these."""
    return [index for index in INDEXES if chance.random() < 0.3]


POLICIES = (
    "create policy shown on a using (x > 3)",
    "create policy shown on a using (k < 9 or exists (select from b where b.r = a.k))",
    "create policy shown on b using (y in (select y from c where c.x > 2)) with check (true)",
    "create policy shown on b using (y is null or y < 3)",
)


def policies(chance: random.Random, role: str) -> list[str]:
    """Return what lets a role see and write some rows of two tables."""
    chosen = [chance.choice(POLICIES[:2]), chance.choice(POLICIES[2:])]
    return [
        "alter table a enable row level security",
        "alter table b enable row level security",
        *chosen,
        f"grant all on all tables in schema %s to {role}",
        f"grant all on all sequences in schema %s to {role}",
        f"grant usage on schema %s to {role}",
    ]


def triggers(chance: random.Random) -> list[str]:
    """Return triggers that change one source when the other is written, or none."""
    if chance.random() < 0.7:
        return []
    when = chance.choice(["before", "after"])
    events = "insert or update or delete"
    return [f"create trigger shift {when} {events} on d for each row execute function shift()"]


def _key(chance: random.Random, table: str, number: int) -> int | None:
    if table not in {"c", "e"}:
        return number * (5 if table == "d" else 1) % KEYS
    return chance.randrange(KEYS) if table == "c" or chance.random() < 0.85 else None


def rows(chance: random.Random) -> dict[str, list[tuple[int | None, ...]]]:
    """Return rows for each table; not all of them may satisfy its constraints."""

    def value(bound: int) -> int | None:
        return chance.randrange(bound) if chance.random() < 0.85 else None

    found: dict[str, list[tuple[int | None, ...]]] = {}
    for table in COLUMNS:
        number = chance.randrange(2, 7) if table in SOURCES else chance.randrange(8, 17)
        found[table] = [
            (
                _key(chance, table, key),
                value(KEYS),
                value(KEYS if table == "c" else VALUES),
                value(VALUES),
            )
            for key in range(number)
        ]
    return found
