"""Files that are in no list any more go when all who were reading then have been at rest."""

from pgwire_gateway.upkeep.file_readers import FileReaders


def test_files_that_nobody_reads_go_at_once():
    readers = FileReaders()
    assert readers.unread("d", ["a", "b"]) == {"a", "b"}


def test_whoever_was_reading_when_they_were_replaced_keeps_them():
    readers = FileReaders()
    readers.begin("one", "d")
    assert readers.unread("d", ["a"]) == frozenset()
    readers.end("one")
    assert readers.unread("d", ["a"]) == {"a"}


def test_whoever_begins_later_does_not_keep_them():
    readers = FileReaders()
    readers.begin("one", "d")
    assert readers.unread("d", ["a"]) == frozenset()
    readers.begin("two", "d")
    readers.end("one")
    assert readers.unread("d", ["a", "b"]) == {"a"}
    readers.end("two")
    assert readers.unread("d", ["b"]) == {"b"}


def test_a_reader_that_begins_again_without_a_rest_is_the_same():
    readers = FileReaders()
    readers.begin("one", "d")
    assert readers.unread("d", ["a"]) == frozenset()
    readers.begin("one", "d")
    assert readers.unread("d", ["a"]) == frozenset()
    readers.end("one")
    readers.begin("one", "d")
    assert readers.unread("d", ["a"]) == {"a"}


def test_readers_of_other_databases_and_whoever_asks_keep_nothing():
    readers = FileReaders()
    readers.begin("other", "e")
    readers.begin("self", "d")
    assert readers.unread("d", ["a"], besides="self") == {"a"}
    assert readers.unread("d", ["b"]) == frozenset()


def test_what_was_forgotten_counts_from_when_it_is_asked_about_again():
    readers = FileReaders()
    assert readers.unread("d", ["a"]) == {"a"}
    readers.begin("one", "d")
    assert readers.unread("d", ["a"]) == {"a"}
    readers.forget("d", ["a"])
    assert readers.unread("d", ["a"]) == frozenset()
