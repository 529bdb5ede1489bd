"""CONVERT is read with PostgreSQL's tokens; its errors are in PostgreSQL's words."""

import pytest

from catalog.divisions import Transform
from catalog.errors import GatewayError
from catalog.extensions.convert import (
    Convert,
    Files,
    Table,
    parse,
    parse_end,
    parse_key,
)
from catalog.extensions.partition_fields import PartitionField
from catalog.statements.splitting import StatementKind, split


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CONVERT TO t FROM u", Convert(Table((None, "t")), Table((None, "u")))),
        (
            "convert /* all */ to H.T from '/a/b''c.parquet' -- end",
            Convert(Table(("h", "t")), Files("/a/b'c.parquet")),
        ),
        ('CONVERT TO \'/out\' FROM "My"."T"', Convert(Files("/out"), Table(("My", "T")))),
        ("CONVERT TO '/out' FROM '/in' USING Csv", Convert(Files("/out"), Files("/in"), "csv")),
        (
            "CONVERT TO t FROM '/in' KEY (id, \"N\") USING json",
            Convert(Table((None, "t")), Files("/in"), "json", ("id", "N")),
        ),
        (
            "CONVERT TO t FROM '/in' USING orc KEY (É)",
            Convert(Table((None, "t")), Files("/in"), "orc", ("É",)),
        ),
        (
            "CONVERT TO t FROM '/in' in place KEY (id)",
            Convert(Table((None, "t")), Files("/in"), None, ("id",), in_place=True),
        ),
        (
            "CONVERT TO t FROM '/in' PARTITIONED BY (a, days(b)) KEY (id)",
            Convert(
                Table((None, "t")),
                Files("/in"),
                key=("id",),
                partitioned_by=(
                    PartitionField(Transform.IDENTITY, "a"),
                    PartitionField(Transform.DAY, "b"),
                ),
            ),
        ),
        ("CONVERT TO values FROM key", Convert(Table((None, "values")), Table((None, "key")))),
        ("SELECT 1", None),
        ("CONVERT x TO y", None),
        ("", None),
    ],
)
def test_statement_is_its_parts(text, expected):
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("text", "message", "position"),
    [
        ("CONVERT TO select FROM x", 'syntax error at or near "select"', 12),
        ("CONVERT TO t", "syntax error at end of input", 13),
        ("CONVERT TO t FROM 'é' KEY ()", 'syntax error at or near ")"', 28),
        ("CONVERT TO t FROM 'é' KEY (a) KEY (b)", 'syntax error at or near "KEY"', 31),
        ("CONVERT TO t.a.b FROM c", 'syntax error at or near "."', 15),
        ("CONVERT TO t FROM E'x'", "syntax error at or near \"E'x'\"", 19),
        ("CONVERT TO t FROM 'x' nothing", 'syntax error at or near "nothing"', 23),
        ("CONVERT TO '/x' FROM t KEY (a)", "KEY is for tables, and the target is a path", 28),
        ("CONVERT TO t FROM u USING orc", "USING is for paths, and there is none", None),
        ("CONVERT TO t FROM '/x' IN", 'syntax error at or near "IN"', 24),
        ("CONVERT TO t FROM '/x' IN PLACE IN PLACE", 'syntax error at or near "IN"', 33),
        ("CONVERT TO t FROM u IN PLACE", "IN PLACE is for files that become a table", None),
        ("CONVERT TO '/y' FROM '/x' IN PLACE", "IN PLACE is for files that become a table", None),
    ],
)
def test_syntax_errors_are_postgresqls(text, message, position):
    with pytest.raises(GatewayError) as raised:
        parse(text)
    error = raised.value
    assert (error.message, error.sqlstate, error.position) == (message, "42601", position)


@pytest.mark.parametrize(
    ("text", "sqlstate"),
    [
        ("CONVERT TO t FROM '/x' USING avro", "22023"),
        ("CONVERT TO '/x' FROM t USING orc", "0A000"),
    ],
)
def test_formats_that_are_not_known_or_not_written(text, sqlstate):
    with pytest.raises(GatewayError) as raised:
        parse(text)
    assert raised.value.sqlstate == sqlstate


@pytest.mark.parametrize("form", ["delta", "Iceberg", "hudi"])
def test_formats_with_a_log_of_their_own_are_refused_by_name(form):
    text = f"CONVERT TO t FROM '/x' USING {form}"
    with pytest.raises(GatewayError) as raised:
        parse(text)
    error = raised.value
    assert (error.sqlstate, error.position) == ("0A000", text.index(form) + 1)
    assert error.message == f"files in format {form.lower()} are not supported"
    assert "--jars gives it none" in str(error.detail)
    assert "plain Parquet files" in str(error.hint)


def test_parameters_name_paths_and_tables():
    assert parse_end("/data/x") == Files("/data/x")
    assert parse_end("file:///data/x") == Files("file:///data/x")
    assert parse_end('hr."T"') == Table(("hr", "T"))
    assert parse_key('id, "N"') == ("id", "N")


@pytest.mark.parametrize("text", ["", "a b", "a, ", "1"])
def test_parameters_that_are_no_names_are_refused(text):
    for read in (parse_end, parse_key):
        with pytest.raises(GatewayError) as raised:
            read(text)
        assert raised.value.sqlstate == "42601"


def test_a_query_string_may_hold_statements_of_both_grammars():
    text = "BEGIN; CONVERT TO t FROM '/x;y' KEY (id);\n SELECT 1 INTO é; COMMIT"
    statements = split(text)
    assert [s.kind for s in statements] == [
        StatementKind.TRANSACTION,
        StatementKind.CONVERT,
        StatementKind.SELECT_INTO,
        StatementKind.TRANSACTION,
    ]
    for statement in statements:
        assert text[statement.offset :].startswith(statement.text)
    assert statements[2].details["create_sql"] == "CREATE TABLE é AS SELECT 1  WITH NO DATA"


def test_an_error_in_one_statement_is_that_of_the_whole_string():
    (statement,) = split("SELECT 1; CONVERT TO t FROM")
    assert statement.kind is StatementKind.REFUSED
    assert statement.details["message"] == "syntax error at end of input"
    assert statement.offset + statement.details["position"] == 28


@pytest.mark.parametrize(
    "text",
    [
        "SELECT convert('x', 'a', 'b')",
        "CREATE TABLE convert (key integer)",
        "SELECT 1 AS convert",
        "UPDATE convert SET key = 1 FROM t",
    ],
)
def test_nothing_is_taken_from_postgresqls_grammar(text):
    (statement,) = split(text)
    assert statement.kind not in {
        StatementKind.CONVERT,
        StatementKind.REFUSED,
        StatementKind.UNKNOWN,
    }


@pytest.mark.parametrize(
    "text", ["CONVERT", "CONVERT t TO u", "SELEC 1; CONVERT TO t FROM u", "CONVERT TO 'open"]
)
def test_what_neither_grammar_knows_is_postgresqls_to_report(text):
    (statement,) = split(text)
    assert statement.kind is StatementKind.UNKNOWN
