"""Statement files: one statement after the other, each with its directives in comments above it."""

import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Statement:
    """A statement of a file and what is said about it."""

    sql: str
    directives: tuple[str, ...]

    def directive(self, name: str) -> str | None:
        """Return the text after ``-- name:``, None when there is no such comment."""
        for line in self.directives:
            key, _, value = line.partition(":")
            if key.strip() == name:
                return value.strip()
        return None


def statements(path: Path) -> list[Statement]:
    """Return the statements of a file; a semicolon at the end of a line ends one."""
    found = []
    for text in re.split(r";\s*\n", path.read_text() + "\n"):
        lines = text.strip().splitlines()
        directives = tuple(line[2:].strip() for line in lines if line.startswith("--"))
        sql = "\n".join(line for line in lines if not line.startswith("--"))
        if sql:
            found.append(Statement(sql, directives))
    return found
