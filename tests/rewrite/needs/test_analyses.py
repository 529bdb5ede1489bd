"""What the tests of the rule read is what PostgreSQL says, and they need nothing else."""

import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from rewrite.tree import Item, Node, parse_item
from tests.support.analyses import COMMAND, Analyses, files
from tests.support.node_text import completed, usual_fields, written
from tests.support.write_analyses import recorded

NODES = [
    "{CONST :constvalue 4 [ 255 0 0 7 ] :constisnull false}",
    "{CONST :constvalue <> :constisnull true}",
    '{ALIAS :aliasname two\\ words :colnames ("i" "two\\ words" "7" "" "true" "brace\\{d\\}")}',
    "{ALIAS :aliasname \\7 :colnames <>}",
    "{TARGETENTRY :resname true :resno -1 :expr {VAR :varlevelsup 0 :varnullingrels ()}}",
    "{TARGETENTRY :resname \\<> :resno 0 :expr {VAR :varlevelsup 1 :varnullingrels (3)}}",
    '{TARGETENTRY :resname "" :resno 1 :expr <>}',
    "{AGGREF :aggkind n :cost 0.5}",
]


@pytest.mark.catalog
@pytest.mark.parametrize("schema", files(), ids=lambda path: path.stem)
def test_a_record_is_what_postgresql_says(oracle_uri: str, schema: Path) -> None:
    found = recorded(oracle_uri, schema, Analyses(schema).statements)
    assert found == schema.with_suffix(".analysis").read_text(), f"see {COMMAND}"


def test_who_asks_for_more_is_told_how_to_record_it() -> None:
    analyses = Analyses(files()[0])
    with pytest.raises(AssertionError, match=f"select 'not recorded'.*: see {COMMAND}"):
        analyses.queries("select 'not recorded'")
    with pytest.raises(AssertionError, match=f"see {COMMAND}"):
        analyses.definitions.volatility(1)


def test_a_test_without_the_mark_starts_and_reaches_no_process() -> None:
    with pytest.raises(AssertionError, match="not marked"):
        subprocess.run([sys.executable, "--version"], check=True)
    with pytest.raises(AssertionError, match="not marked"):
        psycopg.connect("host=localhost")


def plain(item: Item) -> object:
    """Return a tree in a form that is equal to its like."""
    if isinstance(item, Node):
        return item.tag, {name: plain(value) for name, value in item.fields.items()}
    return [plain(part) for part in item] if isinstance(item, list) else (type(item), item)


@pytest.mark.parametrize("longest", [0, 100])
def test_what_is_left_out_is_there_when_it_is_read(
    monkeypatch: pytest.MonkeyPatch, longest: int
) -> None:
    monkeypatch.setattr("tests.support.node_text.LONGEST", longest)
    trees = [parse_item(text) for text in NODES]
    usual = usual_fields(trees)
    text = written(trees, usual)
    assert plain(completed(parse_item(text), usual)) == plain(trees)
    assert len(text) < len(written(trees, {}))
