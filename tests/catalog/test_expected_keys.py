"""What is expected of keys: what was found of them, or of the latest new one of their table."""

from catalog.hot import expected_keys
from catalog.hot.expected_keys import ExpectedKeys

TABLE, OTHER = 1, 2
ONE, TWO, THREE = ("1",), ("2",), ("3",)


def test_keys_that_were_written_are_hot_and_new_ones_are_as_the_latest():
    expected = ExpectedKeys()
    assert not expected.are_hot(TABLE, [ONE])
    expected.note(TABLE, [ONE], were_hot=False)
    assert expected.are_hot(TABLE, [ONE])
    assert not expected.are_hot(TABLE, [ONE, TWO])
    expected.note(TABLE, [TWO], were_hot=True)
    assert expected.are_hot(TABLE, [THREE])
    assert not expected.are_hot(OTHER, [ONE])


def test_a_known_key_tells_nothing_of_new_ones():
    expected = ExpectedKeys()
    expected.note(TABLE, [ONE], were_hot=False)
    expected.note(TABLE, [ONE], were_hot=True)
    assert not expected.are_hot(TABLE, [TWO])


def test_what_was_in_vain_is_not_expected_again():
    expected = ExpectedKeys()
    expected.note(TABLE, [ONE, TWO], were_hot=True)
    expected.forget(TABLE, [ONE])
    assert not expected.are_hot(TABLE, [ONE])
    assert not expected.are_hot(TABLE, [THREE])
    assert expected.are_hot(TABLE, [TWO])


def test_no_more_keys_are_remembered_than_fit(monkeypatch):
    monkeypatch.setattr(expected_keys, "MOST_KEYS", 2)
    expected = ExpectedKeys()
    for key in (ONE, TWO, THREE, ("4",)):
        expected.note(TABLE, [key], were_hot=False)
    assert not expected.are_hot(TABLE, [ONE])
    assert expected.are_hot(TABLE, [("4",)])


def test_no_key_at_all_is_never_in_vain():
    assert ExpectedKeys().are_hot(TABLE, [])
