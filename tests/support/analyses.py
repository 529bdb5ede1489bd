"""What PostgreSQL says of tables and of statements on them, as files that tests of the rule read.

For each file ``tests/rewrite/needs/analyses/*.sql``, which makes tables, one ``*.analysis`` beside
it has what `rewrite.needs` wants to know of these, and the analysed statements that tests ask for.
The tables are tiered, but for one named ``resident``. ``make analyses`` writes all files anew, and
``python -m tests.support.write_analyses keys`` that one alone.

A file has records parted by blank lines: a comment, the fields of nodes that are left out below
(see `tests.support.node_text`), the facts, and the statements, each with ``=>`` and its trees. A
comment above a statement holds the types of its parameters or the role that it is analysed for.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from catalog.model import Column, JournalTable
from rewrite.needs.definitions import Action, Definitions, ForeignKey, Relation, UniqueKey
from rewrite.tree import Item, Node, parse_item
from tests.support.node_text import completed, usual_fields, written
from tests.support.repository import ROOT

DIRECTORY = ROOT / "tests" / "rewrite" / "needs" / "analyses"
COMMAND = "make analyses"
HEAD = f"# Written by {COMMAND}; tests/support/analyses.py says how it is read."
ARROW = "=>"

_Found = TypeVar("_Found")


def files() -> list[Path]:
    """Return what makes the tables, a file for each record."""
    return sorted(DIRECTORY.glob("*.sql"))


@dataclass(frozen=True, order=True)
class Statement:
    """What is analysed."""

    sql: str
    types: tuple[int, ...] = ()
    """OIDs of the types of its parameters, where they are not to be found out."""
    role: str = ""
    """For whom, if not for who made the tables."""

    def text(self) -> str:
        """Return how a file names it."""
        types = [f"# types: {' '.join(map(str, self.types))}"] if self.types else []
        role = [f"# role: {self.role}"] if self.role else []
        return "\n".join([*types, *role, self.sql])

    @classmethod
    def read(cls, text: str) -> "Statement":
        """Return the statement that a file names."""
        lines = text.splitlines()
        said = dict(line[2:].split(": ") for line in lines if line.startswith("# "))
        sql = "\n".join(line for line in lines if not line.startswith("# "))
        return cls(sql, tuple(map(int, said.get("types", "").split())), said.get("role", ""))


@dataclass(frozen=True)
class Record:
    """What a file holds."""

    facts: Sequence[Node]
    statements: Mapping[Statement, Item]

    def text(self) -> str:
        """Return the file."""
        usual = usual_fields([*self.facts, *self.statements.values()])
        parts = [HEAD]
        parts.append("\n".join(written(node, {}) for node in usual.values()))
        parts.append("\n".join(written(node, usual) for node in self.facts))
        parts += (
            f"{statement.text()}\n{ARROW}\n{written(self.statements[statement], usual)}"
            for statement in sorted(self.statements)
        )
        return "\n\n".join(parts) + "\n"


class Analyses:
    """The tables of a schema, and the trees of statements on them, without PostgreSQL."""

    def __init__(self, path: Path) -> None:
        """Read what is recorded for a file that makes tables."""
        _, usual, facts, *statements = path.with_suffix(".analysis").read_text().split("\n\n")
        self._usual = {node.tag: node for node in _nodes(parse_item(f"({usual})"))}
        self._facts = _nodes(self._read(f"({facts})"))
        self._texts: dict[Statement, str] = {}
        for text in statements:
            above, _, trees = text.partition(f"\n{ARROW}\n")
            self._texts[Statement.read(above)] = trees
        self.asked: set[Statement] = set()
        """The statements of which the trees have been asked for."""
        self.tables = {node["relname"]: _table(node) for node in self._of("RELATION")}
        """By name."""

    @property
    def statements(self) -> Collection[Statement]:
        """What there are trees of."""
        return self._texts.keys()

    def queries(self, sql: str, types: Iterable[int] = (), role: str = "") -> tuple[Node, ...]:
        """Return the rewritten queries of a statement.

        Args:
            sql: The statement.
            types: OIDs of the types of its parameters, where they are not to be found out.
            role: For whom it is analysed, if not for who made the tables.
        """
        statement = Statement(sql, tuple(types), role)
        self.asked.add(statement)
        return tuple(_nodes(self._read(_recorded(self._texts, statement))))

    def name(self, catalog: str, oid: int) -> str:
        """Return the name of what a table of pg_catalog has an OID of."""
        return str(_recorded(self._objects, (catalog, oid))["name"])

    @cached_property
    def definitions(self) -> Definitions:
        """What the rule wants to know."""
        relations = list(self._of("RELATION"))
        checks = {node.integer("oid"): node.nodes("checks") for node in self._of("DOMAIN")}
        return Definitions(
            frozenset(node.integer("relid") for node in relations if node["tiered"]),
            lambda oid: str(self._function(oid)["volatility"]),
            {node.integer("relid"): _relation(node) for node in relations},
            tuple(_foreign_key(node) for node in self._of("FOREIGNKEY")),
            domain_checks=lambda oid: _recorded(checks, oid),
            signature=lambda oid: str(self._function(oid)["signature"]),
        )

    @cached_property
    def _objects(self) -> dict[tuple[str, int], Node]:
        return {(str(one["catalog"]), one.integer("oid")): one for one in self._of("OBJECT")}

    def _function(self, oid: int) -> Node:
        return _recorded(self._objects, ("pg_proc", oid))

    def _of(self, tag: str) -> Iterable[Node]:
        return (node for node in self._facts if node.tag == tag)

    def _read(self, text: str) -> Item:
        return completed(parse_item(text), self._usual)


def _recorded(record: Mapping[object, _Found], asked: object) -> _Found:
    assert asked in record, f"{asked} is not recorded: see {COMMAND}"
    return record[asked]


def _nodes(item: Item) -> list[Node]:
    assert isinstance(item, list)
    return [node for node in item if isinstance(node, Node)]


# facts --------------------------------------------------------------------------------------------


def facts(known: Definitions, tables: Iterable[JournalTable]) -> Iterable[Node]:
    """Yield what a record says of tables and of the foreign keys between them."""
    for table in tables:
        relation = known.relation(table.relid)
        fields: dict[str, Item] = {
            "relid": table.relid,
            "relname": table.name,
            "tiered": table.relid in known.tiered,
            "columns": [_column(column) for column in table.columns],
            "key": list(table.key),
            "unique": [_unique_key(key) for key in relation.unique],
            "generated": sorted(relation.generated),
            "code": relation.code,
            "unfit": relation.unfit,
        }
        yield Node("RELATION", fields)
    for key in known.foreign_keys:
        fields = {
            "child": key.child,
            "columns": list(key.columns),
            "parent": key.parent,
            "referenced": list(key.referenced),
            "on_update": key.on_update.value,
            "on_delete": key.on_delete.value,
            "nulled": list(key.nulled),
        }
        yield Node("FOREIGNKEY", fields)


def _column(column: Column) -> Node:
    fields: dict[str, Item] = {
        "attnum": column.attnum,
        "name": column.name,
        "atttypid": column.type_oid,
        "atttypmod": column.typmod,
        "attnotnull": column.not_null,
    }
    return Node("COLUMN", fields)


def _unique_key(key: UniqueKey) -> Node:
    return Node("UNIQUEKEY", {"columns": list(key.columns), "irregular": key.irregular})


def _table(node: Node) -> JournalTable:
    columns = tuple(
        Column(
            column.integer("attnum"),
            str(column["name"]),
            column.integer("atttypid"),
            column.integer("atttypmod"),
            bool(column["attnotnull"]),
            str(column["name"]),
        )
        for column in node.nodes("columns")
    )
    relid, name = node.integer("relid"), str(node["relname"])
    return JournalTable(relid, "public", name, columns, tuple(node.integers("key")), "key", 1, "")


def _relation(node: Node) -> Relation:
    keys = (
        UniqueKey(tuple(key.integers("columns")), key.text("irregular"))
        for key in node.nodes("unique")
    )
    generated = frozenset(node.integers("generated"))
    return Relation(tuple(keys), generated, node.text("code"), node.text("unfit"))


def _foreign_key(node: Node) -> ForeignKey:
    return ForeignKey(
        node.integer("child"),
        tuple(node.integers("columns")),
        node.integer("parent"),
        tuple(node.integers("referenced")),
        Action(node["on_update"]),
        Action(node["on_delete"]),
        tuple(node.integers("nulled")),
    )
