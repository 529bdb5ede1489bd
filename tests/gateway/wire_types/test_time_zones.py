"""Zones PostgreSQL would refuse are refused, and no name leads out of the database."""

import numpy as np
import pytest

from catalog.errors import GatewayError
from pgwire_gateway.wire_types.time_zones import load


@pytest.mark.parametrize(
    "name",
    [
        *(
            "Mars/Olympus",
            "../../../etc/passwd",
            "/etc/passwd",
            "Europe/../Europe/Berlin",
            "",
            "X1",
        ),
        *("Europe", "CET-1CEST,M3.5.0", "CET-1CEST,nonsense", "a\0b"),
    ],
)
def test_what_is_no_zone_is_refused(name: str):
    with pytest.raises(GatewayError) as caught:
        load(name)
    assert caught.value.sqlstate == "22023"


def test_a_given_directory_goes_before_that_of_the_system(tmp_path):
    (tmp_path / "Europe").mkdir()
    zone = b"TZif2" + bytes(15) + bytes(3 * 4) + bytes(4) + b"\0\0\0\1" + b"\0\0\0\4"
    body = (3600).to_bytes(4, "big") + b"\0\0" + b"ODD\0"
    (tmp_path / "Europe" / "Berlin").write_bytes((zone + body) * 2 + b"\nODD-1\n")
    zone = load("Europe/Berlin", str(tmp_path))
    assert zone.abbreviations[zone.kinds_at(np.array([0]))[0]] == "ODD"
    assert load("Europe/Berlin").abbreviations != zone.abbreviations
