"""Texts of booleans mean what they mean to PostgreSQL."""

import re

import pytest

from catalog import boolean_text
from catalog.errors import GatewayError

WORDS = "true TRUE t tr tRu y ye yes on 1 false f fals n no of off 0 o 2 maybe yess 01"


@pytest.mark.parametrize(
    "text", [*WORDS.split(), "", " ", " on ", "\ttrue\n", "\u00a0true", "t rue"]
)
def test_texts_are_read_as_postgresql_reads_them(client, text):
    try:
        expected = client.value(f"SELECT CAST('{text}'::text AS boolean)") == "t"
    except GatewayError as error:
        with pytest.raises(GatewayError, match=re.escape(error.message)) as raised:
            boolean_text.parse(text)
        sqlstates = {raised.value.sqlstate, error.sqlstate}
        assert sqlstates == {"22P02"}
    else:
        assert boolean_text.parse(text) is expected
