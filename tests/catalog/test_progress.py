"""What clients see of how far long statements are (``gateway.progress``)."""

import pytest

from catalog.session import progress
from catalog.session.progress import Progress

pytestmark = pytest.mark.catalog

SEEN = "SELECT command, source, target, phase, rows_read, rows_total FROM pg_journal.progress_list"


@pytest.fixture
def noted(client, inspector):
    found = Progress("CONVERT", "/x", "t", "reading text", 2.5, rows_read=7, rows_total=10)
    progress.note(inspector.session, client.session.backend_pid, found)
    return found


def test_a_statement_is_seen_while_it_lasts(client, inspector, noted):
    assert client.run(SEEN) == [("CONVERT", "/x", "t", "reading text", "7", "10")]
    elapsed = "noted_at - started_at BETWEEN '2.4 s' AND '3 s'"
    found = client.run(f"SELECT pid, usename, {elapsed} FROM pg_journal.progress_list")
    pid = client.session.backend_pid
    assert found == [(str(pid), client.value("SELECT session_user"), "t")]
    progress.note(inspector.session, pid, Progress("CONVERT", "/x", "t", "writing rows", 3))
    assert client.run(SEEN) == [("CONVERT", "/x", "t", "writing rows", None, None)]
    progress.end(inspector.session, pid)
    assert client.run(SEEN) == []


def test_roles_see_their_own_statements(inspector, reader, noted):
    role = reader.value("SELECT current_user")
    assert reader.run(SEEN) == []
    inspector.run(f"GRANT pg_read_all_stats TO {role}")
    assert len(reader.run(SEEN)) == 1
    inspector.run(f"REVOKE pg_read_all_stats FROM {role}")


def test_what_a_dead_session_has_left_is_not_seen(client, inspector, noted):
    inspector.run("UPDATE pg_journal.progress SET backend_start = backend_start - interval '1 s'")
    assert client.run(SEEN) == []


def test_clients_cannot_note_anything(client, noted):
    for sql in (
        "SELECT pg_journal.end_progress(1)",
        "SELECT pg_journal.note_progress(1, '{}')",
        "DELETE FROM pg_journal.progress",
        "SELECT * FROM pg_journal.progress",
    ):
        assert client.sqlstate(sql) == "42501"
