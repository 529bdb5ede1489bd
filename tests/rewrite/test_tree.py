"""The notation of PostgreSQL's printed node trees."""

import pytest

from rewrite.tree import Node, parse_item, same, transform, walk


def test_node_has_its_fields_by_name() -> None:
    node = parse_item(
        "{OPEXPR :opno 96 :opretset false :args ({VAR :varno 1} {CONST :consttype 23})}"
    )
    assert isinstance(node, Node)
    assert (node.tag, node["opno"], node["opretset"]) == ("OPEXPR", 96, False)
    assert [argument.tag for argument in node.nodes("args")] == ["VAR", "CONST"]


def test_empty_is_none_and_an_empty_list() -> None:
    node = parse_item("{QUERY :cteList <> :rtable () :limitCount <>}")
    assert isinstance(node, Node)
    assert node["cteList"] is None
    assert node.items("cteList") == node.items("rtable") == []
    assert node.optional("limitCount") is None
    assert node.get("unknown") is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(i 1 2 -3)", [1, 2, -3]),
        ("(o 16384 0)", [16384, 0]),
        ("(b)", []),
        ("(b 8 9)", [8, 9]),
        ('("a" "b\\ c" "")', ["a", "b c", ""]),
        ("((1 2) <> (3))", [[1, 2], None, [3]]),
        ('("i" "o")', ["i", "o"]),
    ],
)
def test_lists(text: str, expected: list[object]) -> None:
    assert parse_item(text) == expected


@pytest.mark.parametrize(
    ("printed", "name"),
    [
        ("true", "true"),
        ("\\7", "7"),
        ('""', ""),
        ("<>", None),
        ("\\<>", "<>"),
        ("two\\ words", "two words"),
        ("two\\\nlines", "two\nlines"),
        ("brace\\{d\\}", "brace{d}"),
        ("back\\\\slash", "back\\slash"),
        (":colon", ":colon"),
        ("[brackets]", "[brackets]"),
        ("[", "["),
    ],
)
def test_names_are_taken_literally(printed: str, name: str | None) -> None:
    node = parse_item("{TARGETENTRY :resno 1 :resname " + printed + " :resjunk false}")
    assert isinstance(node, Node)
    assert (node["resno"], node["resname"], node["resjunk"]) == (1, name, False)


def test_datum_is_bytes_whatever_its_length_says() -> None:
    node = parse_item("{CONST :constlen 4 :constvalue 4 [ -1 -1 -1 127 0 0 0 0 ] :location 7}")
    assert isinstance(node, Node)
    assert node["constvalue"] == b"\xff\xff\xff\x7f\x00\x00\x00\x00"
    assert node["location"] == 7


def test_null_datum_is_none() -> None:
    node = parse_item("{CONST :constisnull true :constvalue <>}")
    assert isinstance(node, Node)
    assert node["constvalue"] is None


def test_line_breaks_stand_for_blanks() -> None:
    assert parse_item("(1\n2\n{VAR\n:varno\n1})")[:2] == [1, 2]  # type: ignore[index]


@pytest.mark.parametrize("text", ["", "{VAR :varno 1", "(1))", "{VAR} {VAR}", "(1"])
def test_malformed_text_is_refused(text: str) -> None:
    with pytest.raises((ValueError, IndexError, StopIteration)):
        parse_item(text)


def test_walk_counts_the_queries_on_the_way() -> None:
    tree = parse_item(
        "{SUBLINK :testexpr {VAR :varno 1} :subselect {QUERY :rtable ({RANGETBLENTRY "
        ":subquery {QUERY :targetList ({VAR :varno 2})}})}}"
    )
    assert [(node.tag, depth) for node, depth in walk(tree)] == [
        ("SUBLINK", 0),
        ("VAR", 0),
        ("QUERY", 0),
        ("RANGETBLENTRY", 1),
        ("QUERY", 1),
        ("VAR", 2),
    ]


def test_transform_leaves_what_does_not_change_as_it_is() -> None:
    tree = parse_item("{BOOLEXPR :boolop and :args ({VAR :varno 1} {CONST :consttype 16})}")
    assert isinstance(tree, Node)
    assert transform(tree, lambda _node, _depth: None) is tree
    changed = transform(tree, lambda node, _: Node("X") if node.tag == "VAR" else None)
    assert isinstance(changed, Node)
    assert [node.tag for node in changed.nodes("args")] == ["X", "CONST"]
    assert changed.nodes("args")[1] is tree.nodes("args")[1]


def test_same_ignores_where_something_was_written() -> None:
    one = parse_item("{VAR :varno 1 :varattno 2 :location 5}")
    other = parse_item("{VAR :varno 1 :varattno 2 :location 99}")
    assert same(one, other)
    assert not same(one, parse_item("{VAR :varno 1 :varattno 3 :location 5}"))
    assert not same(parse_item("{CONST :x true}"), parse_item("{CONST :x 1}"))
