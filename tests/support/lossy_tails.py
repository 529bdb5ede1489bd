"""Tails that lose row versions in silence, as no role can make them."""

from tests.support.fix_catalog import Client


def lose(administrator: Client, relid: int, condition: str) -> None:
    """Have the tail of a table lose the row versions that a condition on ``new`` holds for."""
    administrator.run(
        f"CREATE FUNCTION pg_journal.lose_{relid}() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN RETURN NULL; END'"
    )
    administrator.run(
        f"CREATE TRIGGER lose BEFORE INSERT ON pg_journal.tail_{relid} FOR EACH ROW"
        f" WHEN ({condition}) EXECUTE FUNCTION pg_journal.lose_{relid}()"
    )
