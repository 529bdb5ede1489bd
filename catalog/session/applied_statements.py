"""The statement by which PostgreSQL makes a change whose rows have been computed elsewhere.

Before: ``UPDATE t AS a SET v = f(v) FROM u WHERE g(v, u.w) RETURNING a.id``.
After: ``UPDATE t AS a SET v = e."computed 2" FROM e WHERE a.id = e."computed 1" RETURNING a.id``.

Works on PostgreSQL's raw trees. How the rows are computed is for others to know.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, Final

from catalog.session.names import quoted
from catalog.session.statement_parts import UnfaithfulTextError, faithful_text, nodes
from catalog.statements.splitting import RelationName, parse_tree

_UPDATE: Final = "UpdateStmt"
_SYSTEM_COLUMNS: Final = frozenset({"tableoid", "ctid", "xmin", "xmax", "cmin", "cmax"})
"""What every table has."""

_KINDS: Final = frozenset({_UPDATE, "DeleteStmt"})


class ChangeStatement:
    """An UPDATE or DELETE as it was sent."""

    def __init__(self, text: str) -> None:
        """Take a statement apart.

        Raises:
            UnfaithfulTextError: It is another statement.
        """
        tree = parse_tree(text)
        if not tree or not _KINDS & tree[0].keys():
            raise UnfaithfulTextError
        ((self._kind, self._fields),) = tree[0].items()
        fields = self._fields["relation"]
        self.relation = RelationName(fields.get("schemaname"), fields["relname"])
        """The relation that is changed."""
        self.alias = str(fields.get("alias", {}).get("aliasname", self.relation.name))
        """What the statement calls it."""
        self.names_others = bool({"fromClause", "usingClause"} & self._fields.keys())
        """Whether it names other relations besides, in FROM or USING."""
        self.names_states = "options" in self._fields.get("returningClause", {})
        """Whether RETURNING calls the old or the new row by a name of its own."""

    def over(
        self,
        rows: str,
        keys: Mapping[str, str],
        values: Mapping[str, str],
        returned: Sequence[str] | None,
    ) -> str:
        """Return the statement that changes rows by key.

        Args:
            rows: The relation of what has been computed, as SQL.
            keys: Expressions over it by the column of the key they are the values of.
            values: The same for the columns that are set; empty for DELETE.
            returned: Expressions of RETURNING; None for those of the statement itself.

        Raises:
            UnfaithfulTextError: There is no text for it.
        """
        target = quoted(self.alias)
        where = " AND ".join(
            f"{target}.{quoted(column)} OPERATOR(pg_catalog.=) {value}"
            for column, value in keys.items()
        )
        listed = ", ".join(f"{quoted(column)} = {value}" for column, value in values.items())
        if self._kind == _UPDATE:
            text = f"UPDATE x SET {listed} FROM {rows} WHERE {where}"  # noqa: S608 - quoted
        else:
            text = f"DELETE FROM x USING {rows} WHERE {where}"  # noqa: S608 - quoted
        if returned:
            text += f" RETURNING {', '.join(returned)}"
        (tree,) = parse_tree(text)
        tree[self._kind]["relation"] = self._fields["relation"]
        if returned is None and "returningClause" in self._fields:
            tree[self._kind]["returningClause"] = self._returning()
        return faithful_text(tree)

    def _returning(self) -> dict[str, Any]:
        """Return RETURNING of a statement on one relation, where there is a second one now."""
        clause: dict[str, Any] = deepcopy(self._fields["returningClause"])
        for node in nodes(clause):
            match node.get("ColumnRef", {}).get("fields"):
                case [{"A_Star": _}] as fields:
                    fields.insert(0, {"String": {"sval": self.alias}})
                case [{"String": {"sval": name}}] as fields if name in _SYSTEM_COLUMNS:
                    fields.insert(0, {"String": {"sval": self.alias}})
        return clause
