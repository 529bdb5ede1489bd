"""Every mapped expression against PostgreSQL, over edge values."""

import pytest

from rewrite.errors import UnsupportedError
from tests.rewrite.dialect.cases import (
    TABLES,
    Case,
    compare,
    expect_error,
    read,
    spark_error,
)
from tests.support.rewrite_oracle import Oracle

pytestmark = [pytest.mark.spark, pytest.mark.catalog]

CASES = [(path.stem, case) for path in TABLES for case in read(path)]


def _parameters(kind: str) -> list[object]:
    return [
        pytest.param(
            case, id=f"{family}: {case.sql.removeprefix('select id, ').removesuffix(' from edge')}"
        )
        for family, case in CASES
        if case.kind == kind
    ]


@pytest.mark.parametrize("case", _parameters("="))
def test_same_answer(edge: Oracle, case: Case):
    compare(edge, case.sql)


@pytest.mark.parametrize("case", _parameters("!"))
def test_same_error(edge: Oracle, case: Case):
    assert expect_error(edge.connection, case.sql) == case.sqlstate
    assert spark_error(edge, edge.compile(case.sql)) == case.sqlstate


@pytest.mark.parametrize("case", _parameters("?"))
def test_refused(edge: Oracle, case: Case):
    edge.analyse(case.sql)
    with pytest.raises(UnsupportedError):
        edge.compile(case.sql)
