"""Databases a statement may be about: none it is about is ever left out."""

import pytest

from catalog.server.database_names import may_name


@pytest.mark.parametrize(
    ("statement", "database"),
    [
        ("DROP DATABASE sales", "sales"),
        ("DROP DATABASE Sales", "sales"),
        ('CREATE DATABASE new TEMPLATE "Old ""one"""', 'Old "one"'),
        ("CREATE DATABASE new", "template1"),
        ('ALTER DATABASE u&"s\\0061les" RENAME TO other', "sales"),
        ("/* old */ ALTER DATABASE\nsales RENAME TO other", "sales"),
    ],
)
def test_what_a_statement_is_about_is_found(statement, database):
    assert may_name(statement, database)


def test_others_are_left_alone():
    assert not may_name("CREATE DATABASE new TEMPLATE old", "sales")
