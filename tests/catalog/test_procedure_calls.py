"""CALL gateway.convert(…) is taken apart; other procedures are PostgreSQL's."""

import pytest

from catalog.errors import GatewayError
from catalog.statements import procedure_calls
from catalog.statements.call_arguments import Parameter
from catalog.statements.splitting import StatementKind, split


def arguments(sql):
    (statement,) = split(sql)
    assert statement.kind is StatementKind.CALL
    return procedure_calls.read(*statement.details["procedure_call"]).arguments


def test_arguments_have_the_names_of_parameters():
    assert arguments("CALL gateway.convert('t', source => $1, key => NULL)") == {
        "target": "t",
        "source": Parameter(1),
        "key": None,
    }
    assert arguments("CALL gateway.convert('t'::name, '/x'::pg_catalog.text, 'csv', 'a, b')") == {
        "target": "t",
        "source": "/x",
        "format": "csv",
        "key": "a, b",
    }
    assert arguments("CALL gateway.convert('t', '/x', in_place => true)")["in_place"] == "true"
    assert arguments("CALL gateway.convert('t', '/x', in_place => false)")["in_place"] == "false"


def test_values_are_those_bound_without_null():
    (statement,) = split("CALL gateway.convert($2, $1, key => $3)")
    call = procedure_calls.read(*statement.details["procedure_call"])
    assert call.values(["/x", "t", None]) == {"target": "t", "source": "/x"}
    assert statement.parameter_count == 3


@pytest.mark.parametrize(
    ("sql", "sqlstate"),
    [
        ("CALL gateway.convert('t')", "42883"),
        ("CALL gateway.convert('a', 'b', 'c', 'd', 'e', 'f')", "42883"),
        ("CALL gateway.convert('a', 'b', target => 'c')", "42883"),
        ("CALL gateway.convert('a', 'b', nothing => 'c')", "42883"),
        ("CALL gateway.convert('a', 'b', key => 'c', key => 'd')", "42883"),
        ("CALL gateway.convert('a', source => 'b', 'c')", "42601"),
        ("CALL gateway.convert('a', '1.50'::numeric)", "0A000"),
        ("CALL gateway.convert('a', 'long'::varchar(2))", "0A000"),
        ("CALL gateway.convert('a', 'b'::mine.text)", "0A000"),
        ("CALL gateway.convert('a' || 'b', 'c')", "0A000"),
        ("CALL gateway.convert(1, 'c')", "0A000"),
    ],
)
def test_other_arguments_are_refused(sql, sqlstate):
    with pytest.raises(GatewayError) as raised:
        arguments(sql)
    assert raised.value.sqlstate == sqlstate


@pytest.mark.parametrize(
    "sql", ["CALL convert('a', 'b')", "CALL other.convert('a')", "CALL gateway.other()"]
)
def test_other_procedures_are_postgresqls(sql):
    (statement,) = split(sql)
    assert "procedure_call" not in statement.details
