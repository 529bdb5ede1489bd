"""Columns of files get PostgreSQL's types, or are refused by name."""

import pytest

from catalog.errors import GatewayError
from pgwire_gateway.spark.source_types import SourceColumn, columns_of


def array(element):
    return {"type": "array", "elementType": element, "containsNull": True}


STRUCTURE = {"type": "struct", "fields": []}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("string", "text"),
        ("void", "text"),
        ("byte", "smallint"),
        ("short", "smallint"),
        ("integer", "integer"),
        ("long", "bigint"),
        ("float", "real"),
        ("double", "double precision"),
        ("boolean", "boolean"),
        ("binary", "bytea"),
        ("date", "date"),
        ("timestamp", "timestamp with time zone"),
        ("timestamp_ntz", "timestamp without time zone"),
        ("decimal(38,18)", "numeric(38,18)"),
        (array("short"), "smallint[]"),
        (array("decimal(4,1)"), "numeric(4,1)[]"),
    ],
)
def test_types_have_counterparts(kind, expected):
    assert SourceColumn("c", kind).postgres_type == expected


@pytest.mark.parametrize(
    "kind",
    [STRUCTURE, {"type": "map"}, array(array("long")), array(STRUCTURE), "interval day to second"],
)
def test_others_are_refused_by_name(kind):
    with pytest.raises(GatewayError, match='column "c" of type') as raised:
        _ = SourceColumn("c", kind).postgres_type
    assert raised.value.sqlstate == "0A000"


def test_names_that_postgresql_would_cut_off_are_refused():
    with pytest.raises(GatewayError) as raised:
        columns_of({"fields": [{"name": "é" * 32, "type": "long"}]})
    assert raised.value.sqlstate == "42622"


def test_files_without_columns_are_no_table():
    with pytest.raises(GatewayError) as raised:
        columns_of({"fields": []})
    assert raised.value.sqlstate == "22P04"
