"""The role clients find in a new catalog, and what authentication asks about roles."""

from dataclasses import dataclass
from typing import Final

import psycopg

from catalog.server.embedded import SUPERUSER

INITIAL_ROLE: Final = "postgres"
"""Owns the first database; may create databases, schemas and roles, but is no superuser."""

IMPORT_ROLE: Final = "gateway_import"
"""Its members may read and write files below the directories that the operator allows."""


@dataclass(frozen=True, slots=True)
class Role:
    """A role as authentication sees it."""

    name: str
    can_login: bool
    superuser: bool
    verifier: str | None
    """SCRAM verifier (or MD5 hash) as ``pg_authid`` keeps it; None when no password is set."""
    is_expired: bool
    """Whether the password is not valid any more."""
    connection_limit: int
    """-1 for none."""


def bootstrap(administrator: "psycopg.Connection[tuple[object, ...]]") -> None:
    """Give a new embedded server the role and the database clients expect."""
    with administrator.transaction():
        row = administrator.execute(
            "SELECT 1 FROM pg_roles WHERE rolname = %s", [INITIAL_ROLE]
        ).fetchone()
        if row is not None:
            return
        administrator.execute(f"CREATE ROLE {INITIAL_ROLE} LOGIN CREATEDB CREATEROLE")
        # As of one who is no superuser, DROP DATABASE … WITH (FORCE) would fail by autovacuum.
        administrator.execute(f"GRANT pg_signal_backend TO {INITIAL_ROLE} WITH ADMIN OPTION")
        # As functions/conversions.sql does for servers that have their roles already.
        administrator.execute(f"CREATE ROLE {IMPORT_ROLE}")
        administrator.execute(f"GRANT {IMPORT_ROLE} TO {INITIAL_ROLE} WITH ADMIN OPTION")
        administrator.execute(f"ALTER DATABASE postgres OWNER TO {INITIAL_ROLE}")


def find_role(administrator: "psycopg.Connection[tuple[object, ...]]", name: str) -> Role | None:
    """Return a role; None when there is none or it is the bookkeeping's own."""
    row = administrator.execute(
        "SELECT rolname::text, rolcanlogin, rolsuper, rolpassword,"
        " coalesce(rolvaliduntil < clock_timestamp(), false),"
        " rolconnlimit FROM pg_authid WHERE rolname = %s AND rolname <> %s",
        [name, SUPERUSER],
    ).fetchone()
    if row is None:
        return None
    rolname, can_login, superuser, verifier, is_expired, limit = row
    return Role(
        name=str(rolname),
        can_login=bool(can_login),
        superuser=bool(superuser),
        verifier=str(verifier) if verifier is not None else None,
        is_expired=bool(is_expired),
        connection_limit=int(str(limit)),
    )


def has_passwords(administrator: "psycopg.Connection[tuple[object, ...]]") -> bool:
    """Return whether anybody could log in who has to prove a password by SCRAM."""
    return bool(
        administrator.execute(
            "SELECT 1 FROM pg_authid WHERE rolcanlogin AND NOT rolsuper"
            " AND starts_with(rolpassword, 'SCRAM-SHA-256$') LIMIT 1"
        ).fetchone()
    )


def system_identifier(administrator: "psycopg.Connection[tuple[object, ...]]") -> str:
    """Return what no other cluster of databases has: the same after each start."""
    row = administrator.execute("SELECT system_identifier FROM pg_control_system()").fetchone()
    return str(row[0] if row else "")
