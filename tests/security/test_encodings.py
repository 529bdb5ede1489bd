"""Text in encodings where a byte of a character looks like a backslash or a quote.

What is one string to whoever takes bytes one by one ends earlier for PostgreSQL, or the other way
round: nothing may run that the gateway has not seen.
"""

import pytest

from pgwire_gateway.messages import Query
from tests.support.dialogues import trace, wire
from tests.support.fix_server import Pair

pytestmark = pytest.mark.server

ENCODINGS = ["GB18030", "GBK", "BIG5", "SJIS", "SHIFT_JIS_2004", "JOHAB", "UHC"]

CHARACTERS = [b"\xe4\xbd\xa0\\", b"\xa0\\", b"\x81\\"]

HIDDEN = b"'; INSERT INTO encodings_t VALUES (1); SET debug_print_plan = on; --'"

BEGINNINGS = [b"SELECT E'", b"PREPARE p AS SELECT E'", b"COMMENT ON TABLE encodings_t IS E'"]

SEEN = (
    "SELECT count(*) AS rows, (SELECT count(*) FROM encodings_t_journal) AS versions,"
    " current_setting('debug_print_plan') AS setting FROM encodings_t"
)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_no_statement_hides_in_a_string(shared_pair: Pair, encoding: str) -> None:
    with wire(shared_pair.gateway, shared_pair.database) as client:
        client.query("CREATE TABLE encodings_t (id integer PRIMARY KEY)")
        before = trace(client.query(SEEN))
        for character in CHARACTERS:
            for beginning in BEGINNINGS:
                client.query(f"SET client_encoding = '{encoding}'")
                text = beginning + character + HIDDEN
                length = (len(text) + 5).to_bytes(4, "big")
                # Twice: what has been planned before may take another way.
                for _ in range(2):
                    client.send(Query.type_byte + length + text + b"\0")
                    client.receive_until_ready()
                client.query("SET client_encoding = 'UTF8'")
                assert trace(client.query(SEEN)) == before
        client.query("DROP TABLE encodings_t")
    assert "0" in before
