"""Every mapping in the tables has a case, and every key names something PostgreSQL has."""

from collections.abc import Callable

import pytest

from catalog.pg.functions import PROCEDURES
from rewrite.dialect import functions, query_nodes, window_functions
from rewrite.errors import UnsupportedError
from tests.rewrite.dialect.cases import TABLES, read
from tests.rewrite.dialect.test_time_zones import EXPRESSIONS
from tests.support.rewrite_oracle import Oracle

MAPPINGS = {
    "functions": functions.FUNCTIONS,
    "aggregates": query_nodes.AGGREGATES,
    "windows": window_functions.FUNCTIONS,
}


def test_keys_are_postgresql_functions():
    known = {name for names in PROCEDURES.values() for name in names}
    assert {key for table in MAPPINGS.values() for key in table} <= known


@pytest.mark.catalog
@pytest.mark.spark
def test_every_mapping_has_a_case(edge: Oracle, monkeypatch: pytest.MonkeyPatch):
    used: set[tuple[str, str]] = set()

    def recording(name: str, key: str, handler: Callable[..., object]) -> Callable[..., object]:
        def handle(call: object) -> object:
            used.add((name, key))
            return handler(call)

        return handle

    for name, table in MAPPINGS.items():
        for key, handler in list(table.items()):
            monkeypatch.setitem(table, key, recording(name, key, handler))
    statements = [case.sql for path in TABLES for case in read(path) if case.kind != "?"]
    statements += [f"select {expressions} from edge" for expressions in EXPRESSIONS]
    for sql in statements:
        edge.compile(sql)
    missing = {
        f"{name}: {key}"
        for name, table in MAPPINGS.items()
        for key in table
        if (name, key) not in used
    }
    assert not missing, "\n".join(sorted(missing))


@pytest.mark.catalog
@pytest.mark.spark
def test_functions_without_mapping_are_refused_by_name(edge: Oracle):
    with pytest.raises(UnsupportedError, match=r"random\(\)"):
        edge.compile("select random() from edge")
