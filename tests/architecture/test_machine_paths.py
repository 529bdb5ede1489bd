"""The repository names no place on the machine of whoever works on it."""

import re
from pathlib import Path

import pytest

from tests.support.repository import ROOT, files, text_of

# Home directories and scratch space. Paths every machine has, such as those below /usr and /etc,
# are no one's own.
MACHINE_PATH = re.compile(
    r"""(?: (?<=://) | (?<![\w.$~\-/}]) )  # not the tail of a longer path or of a web address
    (?: /(?:home|Users|work|workspace|tmp|private|mnt|media|scratch)/\w
      | /(?:root)\b
      | [A-Za-z]:\\(?:Users|home)\\
    )""",
    re.VERBOSE,
)

# A checkout near the top of the file system has a name too short to mean anything.
HERE = str(ROOT) if len(ROOT.parts) > 2 else None


def mentions(text):
    """Return the numbers of the lines that mention a machine path."""
    return [
        number
        for number, line in enumerate(text.splitlines(), start=1)
        if MACHINE_PATH.search(line) or (HERE and HERE in line)
    ]


def test_no_file_mentions_a_machine_path():
    found = {
        str(path.relative_to(ROOT)): lines
        for path in files()
        if (text := text_of(path)) is not None and (lines := mentions(text))
    }
    assert found == {}


def test_files_are_looked_at():
    assert ROOT / "pyproject.toml" in files()
    assert Path(__file__).resolve() in files()


@pytest.mark.parametrize(
    "parts",
    [
        ("", "home", "ada", "project"),
        ("x = '", "Users", "ada'"),
        ("see ", "tmp", "trace.txt"),
        ("cd ", "work", "main"),
        ("HOME=", "root"),
        ("file://", "root", "x"),
    ],
)
def test_machine_path_is_found(parts):
    # Put together here, so that this file does not mention any.
    assert mentions("/".join(parts)) == [1]


@pytest.mark.parametrize(
    "line",
    [
        "https://example.org/home/index.html",
        "/usr/bin/env python3",
        "$DATA_DIR/tmp/x",
        "tests/work/x",
        "select a/root from t",
        "either/or",
    ],
)
def test_other_paths_are_fine(line):
    assert mentions(line) == []
