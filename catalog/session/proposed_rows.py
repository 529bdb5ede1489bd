"""What PostgreSQL asks of rows that an INSERT proposes, whether they are inserted or not.

Before: a table ``(a int PRIMARY KEY, b int NOT NULL, c int DEFAULT 1, d int GENERATED ALWAYS AS
(b * 2) STORED, CHECK (d > c))``, for rows of ``a`` and ``b``.
After: ``SELECT a, b, (b IS NULL OR NOT (d > c) …) AS refused FROM (SELECT *, (b * 2) AS d FROM
(SELECT *, (1)::integer AS c FROM rows AS x (a, b)) AS x) AS x``.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from catalog.session.connections import CatalogSession
from catalog.session.names import quoted
from catalog.session.statement_parts import nodes
from catalog.statements.splitting import parse_tree

_COLUMNS = """
SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), a.attnotnull,
       a.attgenerated, a.attidentity <> '', pg_catalog.pg_get_expr(d.adbin, d.adrelid)
  FROM pg_catalog.pg_attribute a
  LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
 WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""

_CHECKS = """
SELECT pg_catalog.pg_get_expr(c.conbin, c.conrelid) FROM pg_catalog.pg_constraint c
 WHERE c.contype = 'c' AND c.conrelid = $1
   AND pg_catalog.to_jsonb(c) ->> 'conenforced' IS DISTINCT FROM 'false' ORDER BY c.conname
"""

_OID = 26
_STORED = "s"


@dataclass(frozen=True, slots=True)
class ProposedColumn:
    """A column of a table that rows are proposed for."""

    name: str
    type: str
    """As SQL."""
    not_null: bool
    generated: str
    """``s`` where it is stored, nothing where it is not generated."""
    is_drawn: bool
    """Whether its default is another value each time it is asked for."""
    expression: str | None
    """Its default, or what generates it, as SQL."""

    @property
    def default(self) -> str:
        """What rows have that nothing is proposed for, as SQL."""
        return f"({self.expression or 'NULL'})::{self.type}"


@dataclass(frozen=True, slots=True)
class RowRules:
    """What the rows of a table have to satisfy."""

    columns: tuple[ProposedColumn, ...]
    checks: tuple[str, ...]
    """Conditions of CHECK constraints, as SQL."""

    @staticmethod
    def of(session: CatalogSession, relid: int) -> "RowRules":
        """Return the rules of a table."""
        columns = tuple(
            ProposedColumn(
                name=row[0] or "",
                type=row[1] or "",
                not_null=row[2] == "t",
                generated=row[3] or "",
                is_drawn=row[4] == "t" or "nextval(" in (row[5] or ""),
                expression=row[5],
            )
            for row in _rows(session, _COLUMNS, relid)
        )
        checks = tuple(text or "" for (text,) in _rows(session, _CHECKS, relid))
        return RowRules(columns, checks)

    def refused(
        self, proposed: Sequence[str], key: Sequence[str], others: Sequence[str] = ()
    ) -> "RefusedRows | None":
        """Return how rows are told that may not be inserted; None where any may.

        Their key cannot be NULL where they meet another row.

        Args:
            proposed: The columns that they are proposed for.
            key: Those of the primary key.
            others: Further conditions, as SQL, of rows that may not be inserted.
        """
        known = {column.name: column for column in self.columns}
        generated = [column for column in self.columns if column.generated]
        reasons = [
            f"{quoted(column.name)} IS NULL"
            for column in self.columns
            if column.not_null
            and column.name not in key
            and (column.name in proposed or column.generated)
        ]
        reasons += [f"NOT ({check})" for check in self.checks]
        # What cannot be computed is an error of the row. No text has such a length.
        reasons += [
            f"pg_catalog.length(({quoted(column.name)})::pg_catalog.text) < 0"
            for column in generated
            if column.expression
        ]
        reasons += others
        if not reasons:
            return None
        texts = [*self.checks, *(column.expression or "" for column in generated)]
        named = {name for text in texts for name in _columns_of(text)}
        if not named <= known.keys() or any(c.generated != _STORED for c in generated):
            raise UnknownRuleError
        defaults = {
            name: known[name].default
            for name in sorted(named.difference(proposed))
            if not known[name].generated
        }
        computed = {column.name: f"({column.expression})" for column in generated}
        rest = [
            column.name
            for column in self.columns
            if not (column.generated or column.is_drawn) and column.name not in proposed
        ]
        condition = " OR ".join(f"({one})" for one in reasons)
        return RefusedRows(defaults, computed, condition, tuple(rest))

    def unproposed(self, named: Iterable[str], proposed: Collection[str]) -> dict[str, str]:
        """Return what columns have, as SQL, that are named, and that no rows are proposed for.

        Generated ones are told by `refused`.

        Raises:
            UnknownRuleError: A value is drawn.
        """
        known = {column.name: column for column in self.columns}
        columns = [
            known[name]
            for name in sorted(named)
            if name in known and name not in proposed and not known[name].generated
        ]
        if any(column.is_drawn for column in columns):
            raise UnknownRuleError
        return {column.name: column.default for column in columns}


@dataclass(frozen=True, slots=True)
class RefusedRows:
    """How proposed rows are told that may not be inserted, all as SQL."""

    defaults: Mapping[str, str]
    """What columns have that no rows are proposed for, as far as they matter."""
    generated: Mapping[str, str]
    condition: str
    others: tuple[str, ...]
    """Columns that no rows are proposed for, and that have a default or NULL, by their names."""


class UnknownRuleError(Exception):
    """A rule is about something else than columns."""


def _columns_of(expression: str) -> Iterator[str]:
    """Yield the columns that an expression names.

    Raises:
        UnknownRuleError: It names whole rows.
    """
    if not expression:
        return
    (tree,) = parse_tree(f"SELECT {expression}")
    for node in nodes(tree):
        if "ColumnRef" in node:
            yield _column(node["ColumnRef"]["fields"])


def _column(fields: Sequence[Mapping[str, Any]]) -> str:
    if len(fields) != 1 or "String" not in fields[0]:
        raise UnknownRuleError
    return str(fields[0]["String"]["sval"])


def _rows(session: CatalogSession, sql: str, relid: int) -> Iterator[list[str | None]]:
    found = session.execute_parameters(
        sql, [str(relid).encode()], parameter_oids=[_OID], is_own=True
    )
    for row in found.rows:
        yield [None if one is None else one.decode() for one in row]
