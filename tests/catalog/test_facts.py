"""What is generated of PostgreSQL is what the embedded one says."""

from pathlib import Path

import psycopg
import pytest

from catalog.api import Catalog
from catalog.pg import functions, generate, nodes
from tests.support.repository import ROOT

pytestmark = pytest.mark.catalog

DIRECTORY = ROOT / "catalog" / "pg"
NAMES = ("encodings.py", "functions.py", "nodes.py", "sqlstate.py", "types.py")

FUNCTIONS = {
    "rewrite.query.functions._UNNEST": "unnest(anyarray)",
    "rewrite.needs.sources._UNNEST": "unnest(anyarray)",
    "rewrite.query.sublinks._ROW_NUMBER": "row_number()",
    "rewrite.key_constants.PADDING": "bpchar(bpchar,int4,bool)",
}
"""Functions that are named by their OIDs, of which only one signature will do."""


@pytest.fixture(scope="module")
def texts(catalog: Catalog) -> dict[str, str]:
    session = catalog.admin("postgres")
    rows = session.execute(
        "SELECT current_setting('unix_socket_directories'), current_setting('port'), current_user"
    ).rows
    host, port, user = (value.decode() for row in rows for value in row if value is not None)
    session.close()
    return generate.texts(
        psycopg.conninfo.make_conninfo(host=host, port=port, user=user, dbname="postgres")
    )


@pytest.mark.parametrize("name", NAMES)
def test_facts_are_those_of_the_embedded_postgresql(texts: dict[str, str], name: str) -> None:
    assert (DIRECTORY / name).read_text() == texts[name], "see make facts"


def test_all_that_is_generated_is_compared(texts: dict[str, str]) -> None:
    assert sorted(texts) == sorted(NAMES)


@pytest.mark.parametrize("path", FUNCTIONS)
def test_functions_that_are_named_by_their_oids_are_those(path: str) -> None:
    module, _, name = path.rpartition(".")
    oid = getattr(__import__(module, fromlist=[name]), name)
    assert functions.PROCEDURES[oid][1] == FUNCTIONS[path]


def test_members_of_enumerations_count_as_the_header_says(tmp_path: Path) -> None:
    header = "typedef enum Some\n{\n  S_A, /* x, y */ S_B = 5,\n  S_C,\n} Some;"
    bare = generate._COMMENT.sub("", header)
    assert list(generate._members(bare, "Some", "S_")) == [("A", 0), ("B", 5), ("C", 6)]
    with pytest.raises(LookupError):
        list(generate._members(bare, "Other", "S_"))


def test_enumerations_are_numbers() -> None:
    assert {3: "insert"}[nodes.CmdType.INSERT] == "insert"
    assert f"{nodes.CmdType.UTILITY}" == "6"
