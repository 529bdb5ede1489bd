"""Row groups that stay decoded: which ones, and for how long."""

from pathlib import Path

import pyarrow as pa

from pgwire_gateway.spark import decoded_groups
from pgwire_gateway.spark.decoded_groups import DecodedGroups, Place

GROUP = pa.table({"c1": pa.array(range(100), pa.int64())})
ONE, TWO, THREE = ((Path("file"), number) for number in range(3))


class Decoder:
    """What decodes groups, and knows which."""

    def __init__(self, groups: DecodedGroups) -> None:
        self.decoded: list[Place] = []
        self._groups = groups

    def find(self, place: Place) -> pa.Table | None:
        return self._groups.find(place, lambda: self._decode(place))

    def _decode(self, place: Place) -> pa.Table:
        self.decoded.append(place)
        return GROUP


def test_a_group_is_decoded_the_second_time_it_is_asked_for():
    decoder = Decoder(DecodedGroups())
    assert [decoder.find(ONE) for _ in range(4)] == [None, GROUP, GROUP, GROUP]
    assert decoder.find(TWO) is None
    assert decoder.decoded == [ONE]


def test_groups_that_were_asked_for_last_stay_as_far_as_they_fit():
    decoder = Decoder(DecodedGroups(2 * GROUP.nbytes))
    for place in (ONE, ONE, TWO, TWO, ONE, THREE, THREE):
        decoder.find(place)
    decoder.decoded.clear()
    assert decoder.find(ONE) is GROUP
    assert decoder.find(THREE) is GROUP
    assert decoder.find(TWO) is None
    assert decoder.decoded == []


def test_a_group_that_is_larger_than_all_is_not_kept():
    decoder = Decoder(DecodedGroups(GROUP.nbytes - 1))
    assert [decoder.find(ONE) for _ in range(3)] == [None, GROUP, GROUP]
    assert decoder.decoded == [ONE, ONE]


def test_what_was_asked_for_long_ago_is_forgotten(monkeypatch):
    monkeypatch.setattr(decoded_groups, "MOST_PLACES", 2)
    decoder = Decoder(DecodedGroups())
    for place in (ONE, TWO, THREE, ONE):
        assert decoder.find(place) is None
