"""Writes the facts of PostgreSQL in ``catalog/pg`` anew, from the embedded server."""

import tempfile
from pathlib import Path

from catalog.pg import generate
from catalog.server.embedded import SUPERUSER, EmbeddedServer


def main() -> None:
    """Write all generated modules."""
    with tempfile.TemporaryDirectory(prefix="facts-", ignore_cleanup_errors=True) as directory:
        server = EmbeddedServer(Path(directory))
        server.start()
        try:
            uri = f"postgresql://{SUPERUSER}@/postgres?host={server.host}&port={server.port}"
            generate.write(uri)
        finally:
            server.stop()


if __name__ == "__main__":
    main()
