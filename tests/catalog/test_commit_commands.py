"""Commands about commits, and the statements they stand for: a table, without a process."""

import pytest

from catalog.errors import GatewayError
from catalog.extensions import commits
from catalog.statements.splitting import StatementKind, split


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "commit rollback (commit = '20210114221306')",
            "SELECT gateway.rollback_commit('20210114221306')",
        ),
        (
            "COMMIT ROLLBACK (table = 'hr.depts', commit = '1', cascade = true)",
            "SELECT gateway.rollback_commit('1', 'hr.depts', true)",
        ),
        ("savepoint create (commit = '1')", "SELECT gateway.create_savepoint(NULL, '1')"),
        (
            "savepoint rollback (savepoint = 'it''s', table = 't')",
            "SELECT gateway.rollback_to_savepoint('t', 'it''s')",
        ),
        ("savepoint delete (savepoint='1')", "SELECT gateway.delete_savepoint(NULL, '1')"),
        ("compaction run (table = 'hr.\"My Depts\"')", 'VACUUM "hr"."My Depts"'),
        ("cleans run", "VACUUM"),
        ("SET gateway.table = 's.t'", "SET gateway.\"table\" = 's.t'"),
        ("set gateway.table to default", 'RESET gateway."table"'),
        ("RESET gateway.table", 'RESET gateway."table"'),
        ("SHOW gateway.table", 'SHOW gateway."table"'),
        (
            "CALL create_savepoint(table => 't', commit_time => '1')",
            "SELECT gateway.create_savepoint('t', '1')",
        ),
        (
            "call gateway.rollback_to_instant('t', instant_time => '1')",
            "SELECT gateway.rollback_to_savepoint('t', '1')",
        ),
        ("CALL run_compaction(op => 'run', table => 't')", 'VACUUM "t"'),
        (
            "CALL rollback_commit(instant_time => '1')",
            "SELECT gateway.rollback_commit('1')",
        ),
    ],
)
def test_what_a_command_stands_for(text: str, expected: str) -> None:
    assert commits.parse(text) == expected
    (statement,) = split(text)
    assert (statement.text, statement.is_translated) == (expected, True)


@pytest.mark.parametrize(
    "text",
    [
        "commits show",
        "commits show (limit = 3)",
        "commit showfiles (commit = '20210114221306', limit = 10)",
        "commit showpartitions (commit = '20210114221306')",
        "commits compare (table = 't', path = 'u')",
        "CALL show_commit_partitions(table => 't', commit_time => '1')",
        "CALL commits_compare(table => 't', path => 'u')",
        "show rollbacks",
        "show rollback (instant = '1')",
        "savepoints show",
        "compactions show all",
        "cleans show",
        "stats filesizes",
        "stats wa",
        "CALL stats_wa(table => 't')",
        "CALL show_commits(table => 't', limit => 10)",
        "CALL show_commits(limit => 10)",
        "CALL show_commit_files(table => 't', commit_time => '1', limit => 10)",
    ],
)
def test_lists_are_queries(text: str) -> None:
    (statement,) = split(text)
    assert statement.kind is StatementKind.SELECT
    listed = {relation.schema for relation in statement.relations}
    assert "gateway" in listed or " FROM pg_journal.listed_commits(" in statement.text


@pytest.mark.parametrize(
    ("text", "sqlstate", "position"),
    [
        ("commits show (", "42601", 15),
        ("commits show limit", "42601", 14),
        ("commits show (limit = 'x')", "22023", 23),
        ("commits show (limit = 99999999999)", "22023", 23),
        ("commits show (size = 3)", "42704", 15),
        ("commits show (3)", "42601", 15),
        ("commits show (limit => 3)", "42601", 21),
        ("commit rollback", "22023", None),
        ("commit showpartitions", "22023", None),
        ("commits compare (table = 't')", "22023", None),
        ("table recover-configs", "0A000", None),
        ("compaction run (table = 'hr.My Depts')", "42602", None),
        ("CALL rollback_to_instant(table => 't')", "22023", None),
        ("CALL show_commits(table => 't', limit => 10, 3)", "42601", 46),
    ],
)
def test_what_is_wrong_with_a_command(text: str, sqlstate: str, position: int | None) -> None:
    with pytest.raises(GatewayError) as raised:
        commits.parse(text)
    assert (raised.value.sqlstate, raised.value.position) == (sqlstate, position)


@pytest.mark.parametrize(
    "text",
    [
        "COMMIT",
        "COMMIT AND CHAIN",
        "SAVEPOINT create",
        "CALL show_commits('t', 10)",
        "CALL other.show_commits('t', 10)",
        "SHOW work_mem",
    ],
)
def test_what_postgresql_knows_stays_its_own(text: str) -> None:
    (statement,) = split(text)
    assert (statement.text, statement.is_translated) == (text, False)


def test_commands_among_other_statements() -> None:
    found = split("BEGIN; commits show; SELECT 1; COMMIT")
    assert [statement.kind for statement in found] == [
        StatementKind.TRANSACTION,
        StatementKind.SELECT,
        StatementKind.SELECT,
        StatementKind.TRANSACTION,
    ]
