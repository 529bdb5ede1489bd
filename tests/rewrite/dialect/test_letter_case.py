"""What Spark maps unlike PostgreSQL is listed: the list is what the generator finds."""

import pytest

from tests.support import generate_letter_case
from tests.support.repository import ROOT
from tests.support.rewrite_oracle import database

pytestmark = [pytest.mark.catalog, pytest.mark.spark, pytest.mark.exhaustive]

LISTED = ROOT / "rewrite" / "dialect" / "letter_case_exceptions.py"


@pytest.mark.timeout(900)
def test_characters_with_another_case_are_those_that_are_listed(oracle_uri: str) -> None:
    with database(oracle_uri, "letter_case") as connection:
        assert generate_letter_case.generate(connection.info.dsn) == LISTED.read_text()
