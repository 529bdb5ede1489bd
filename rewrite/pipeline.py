"""From PostgreSQL's rewritten tree to Spark SQL: the functions the gateway calls."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sqlglot.errors import SqlglotError

from catalog.pg.nodes import CmdType
from rewrite.context import RewriteContext
from rewrite.errors import RewriteError, UnsupportedError
from rewrite.query.changes import compile_change
from rewrite.query.compilation import Compilation
from rewrite.query.inserts import insert_source
from rewrite.query.merges import merge_source, merged_rows
from rewrite.query.select import compile_block
from rewrite.query.spark_text import output, spark_query
from rewrite.results import MergeSource, RowChange, SparkQuery
from rewrite.tree import Node, parse_item, walk

_SELECT, _UPDATE, _INSERT = CmdType.SELECT, CmdType.UPDATE, CmdType.INSERT
_DELETE, _MERGE = CmdType.DELETE, CmdType.MERGE
_STATEMENT_TOO_COMPLEX = "54001"


def parse_tree(text: str) -> tuple[Node, ...]:
    """Return the queries of a "rewritten parse tree" message; independent of any data."""
    item = parse_item(text)
    if item is None:
        return ()  # a rule says: do nothing instead
    if not isinstance(item, list):
        raise ValueError("a rewritten parse tree is a list of queries")  # noqa: TRY004
    return tuple(query for query in item if isinstance(query, Node))


def relations(queries: Sequence[Node]) -> frozenset[int]:
    """Return the OIDs of all tables and views anywhere in the queries."""
    found = set()
    for query in queries:
        for node, _ in walk(query):
            if node.tag == "RANGETBLENTRY":
                relid = node.get("relid")
                if isinstance(relid, int) and relid:
                    found.add(relid)
    return frozenset(found)


def compile_query(query: Node, context: RewriteContext, *, with_text: bool = True) -> SparkQuery:
    """Compile a SELECT; UnsupportedError (0A000) names what has no exact counterpart in Spark.

    Who only wants to know what its rows consist of needs no text.
    """
    _expect(query, _SELECT)
    compilation = _compilation(query, context)
    with _bounded_depth():
        block = compile_block(compilation, query, None, "o", False)
        names = [
            entry.text("resname") or "?column?"
            for entry in query.nodes("targetList")
            if not entry["resjunk"]
        ]
        columns = [output(name, value) for name, value in zip(names, block.columns, strict=True)]
        return spark_query(compilation, block.query, columns, block.bound, with_text=with_text)


def compile_update(query: Node, context: RewriteContext, *, with_old: bool = False) -> RowChange:
    """Compile an UPDATE into the new versions of the rows it changes, and maybe the old ones."""
    _expect(query, _UPDATE)
    with _bounded_depth():
        return compile_change(_compilation(query, context), query, with_old=with_old)


def compile_delete(query: Node, context: RewriteContext, *, with_old: bool = False) -> RowChange:
    """Compile a DELETE into the rows it removes."""
    _expect(query, _DELETE)
    with _bounded_depth():
        return compile_change(_compilation(query, context), query, with_old=with_old)


def compile_merge(query: Node, context: RewriteContext) -> RowChange:
    """Compile a MERGE into the rows it writes, with what is done to each of them."""
    _expect(query, _MERGE)
    with _bounded_depth():
        return merged_rows(_compilation(query, context), query)


def compile_merge_source(query: Node, context: RewriteContext) -> MergeSource | None:
    """Compile the source of a MERGE alone; None where it is better read with the rest."""
    _expect(query, _MERGE)
    with _bounded_depth():
        return merge_source(_compilation(query, context), query)


def compile_insert_source(query: Node, context: RewriteContext) -> SparkQuery:
    """Compile the rows an INSERT would insert; their columns have the names of the table's."""
    _expect(query, _INSERT)
    with _bounded_depth():
        return insert_source(_compilation(query, context), query)


def _compilation(query: Node, context: RewriteContext) -> Compilation:
    return Compilation(context, compile_block, statement=query)


def _expect(query: Node, command: int) -> None:
    if query.tag != "QUERY" or query["commandType"] != command:
        raise UnsupportedError("this kind of statement over journaled tables is not supported")
    if query.items("rowMarks") and command == _SELECT:
        raise UnsupportedError("FOR UPDATE and FOR SHARE are not supported")
    if any(cte.node("ctequery")["commandType"] != _SELECT for cte in query.nodes("cteList")):
        raise UnsupportedError("data-modifying statements in WITH are not supported")


@contextmanager
def _bounded_depth() -> Iterator[None]:
    """Report a statement nested too deeply for the compiler as PostgreSQL would."""
    try:
        yield
    except (RecursionError, SqlglotError) as error:
        # The tokenizer wraps whatever ends it.
        if not isinstance(error, RecursionError) and not isinstance(
            error.__cause__, RecursionError
        ):
            raise
        raise RewriteError("stack depth limit exceeded", sqlstate=_STATEMENT_TOO_COMPLEX) from error
