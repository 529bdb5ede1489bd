"""What the documents name exists, and sessions and programs in them do what they show."""

import os
import re
import shutil
import subprocess
import sys
import unicodedata

import pytest

from pgwire_gateway import cli
from pgwire_gateway.config import Config
from tests.support import drivers, programs
from tests.support.fix_clients import scratch_database
from tests.support.repository import PACKAGES, ROOT

ARCHITECTURE = ROOT / "docs" / "architecture.md"
SETTINGS = ROOT / "docs" / "settings.md"

README = ROOT / "README.md"

DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+\s+(.*?)\s*$", re.MULTILINE)
CODE_BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
PROMPT = "postgres=> "
PROMPTS = re.compile(r"^postgres[=(-]> ", re.MULTILINE)
TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?\+00")
COMMIT = re.compile(r"\b\d{20}\b")
SPARK_NUMBER = re.compile(r"#\d+")
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PRINTED = re.compile(r"print\(.*\)  # (.*)$", re.MULTILINE)
JDBC_URL = re.compile(r"`(jdbc:postgresql:[^`]*)`")
PRINTING = {"--help", "--version"}
"""Options that are no settings."""
JAVA_OPTIONS = {"JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS"}
ADDRESS = "127.0.0.1:5433/postgres"
"""Where programs of the README connect to."""
MODULE = re.compile(rf"`((?:{'|'.join(PACKAGES)})/[\w./*]*)`")


def options_of_command_line():
    """Return the long options of every command, but for those that only print something."""
    parsers = [cli._parser()]
    found = set()
    for parser in parsers:
        for action in parser._actions:
            parsers += (
                (getattr(action, "choices", None) or {}).values() if is_command(action) else ()
            )
            found |= {option for option in action.option_strings if option.startswith("--")}
    return found - PRINTING


def is_command(action):
    return isinstance(getattr(action, "choices", None), dict)


def table_rows(text):
    """Return the cells of every table row of a document, separators left out."""
    rows = [
        [cell.strip() for cell in line.strip().strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("|")
    ]
    return [row for row in rows if set(row[0]) - set("-: ")]


def settings():
    """Return the rows of settings that are options."""
    return [row for row in table_rows(SETTINGS.read_text("utf-8")) if row[0].startswith("`--")]


def anchors(text):
    """Return the anchors of a document's headings, as they are made from their text."""
    return {anchor(heading) for heading in HEADING.findall(CODE_BLOCK.sub("", text))}


def anchor(heading):
    kept = "".join(
        character
        for character in heading.lower()
        if character in " -_" or unicodedata.category(character)[0] in "LN"
    )
    return kept.replace(" ", "-")


def broken_links(path, text):
    """Return the internal links of a document that lead nowhere."""
    return [
        target
        for target in LINK.findall(CODE_BLOCK.sub("", text))
        if "://" not in target and not leads_somewhere(path, text, target)
    ]


def leads_somewhere(path, text, target):
    name, _, fragment = target.partition("#")
    if name:
        linked = path.parent / name
        if not linked.exists():
            return False
        if not fragment:
            return True
        text = linked.read_text(encoding="utf-8")
    return fragment in anchors(text)


def missing_modules(text):
    """Return the modules and packages a document names that do not exist."""
    return [name for name in MODULE.findall(text) if not list(ROOT.glob(name.rstrip("/")))]


SESSIONS = [README, ROOT / "docs" / "commits.md", ROOT / "docs" / "merge.md"]
"""Documents whose first session needs nothing but an empty database."""


def shown_session(document):
    """Return what a document shows psql to print, from the first prompt on."""
    block = next(
        block for block in CODE_BLOCK.findall(document.read_text("utf-8")) if PROMPT in block
    )
    return block[block.index(PROMPT) :].removesuffix("```")


def comparable(session):
    """Return the text of a session without what differs from run to run."""
    stable = SPARK_NUMBER.sub("#", TIMESTAMP.sub("<timestamp>", session))
    commits = list(dict.fromkeys(COMMIT.findall(stable)))
    stable = COMMIT.sub(lambda found: f"<commit {commits.index(found[0])}>", stable)
    lines = stable.splitlines()
    # Columns are as wide as their widest value, and timestamps drop trailing zeros.
    squeezed = (re.sub(r"-{2,}", "--", re.sub(r" {2,}", " ", line)) for line in lines)
    return "\n".join(line.strip() for line in squeezed).strip()


def test_every_option_is_a_setting():
    assert {row[0].strip("`") for row in settings()} == options_of_command_line()


def test_every_setting_is_listed_once():
    names = [row[0] for row in settings()]
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize("row", settings(), ids=lambda row: row[0].strip("`"))
def test_variable_key_and_default_are_those_of_the_program(row):
    name = row[0].strip("`").removeprefix("--").replace("-", "_")
    assert row[1] == f"`PGWIRE_GATEWAY_{name.upper()}`"
    if name == "config":
        # A file does not name the file it is.
        assert row[2:4] == ["—", "none"]
        return
    assert row[2] == f"`{name}`"
    value = getattr(Config(), name)
    assert row[3].strip('`"').lower() == ("none" if value in (None, {}, ()) else str(value).lower())


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_internal_links_lead_somewhere(path):
    assert broken_links(path, path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_options_named_in_documents_exist(path):
    named = set(OPTION.findall(path.read_text(encoding="utf-8")))
    ours = {option for option in named if not is_foreign(option)}
    assert ours <= options_of_command_line()


def is_foreign(option):
    """Return whether an option is no setting: other programs have it, or it only prints."""
    return option in PRINTING


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_modules_named_in_documents_exist(path):
    assert missing_modules(path.read_text(encoding="utf-8")) == []


def test_architecture_names_the_modules_a_statement_passes():
    named = MODULE.findall(ARCHITECTURE.read_text(encoding="utf-8"))
    assert len(set(named)) > 30
    for package in PACKAGES:
        assert any(name.startswith(f"{package}/") for name in named), package


def test_documents_are_looked_at():
    assert {ROOT / "README.md", ROOT / "CHANGELOG.md", ARCHITECTURE, SETTINGS} <= set(DOCUMENTS)


@pytest.mark.server
@pytest.mark.parametrize("document", SESSIONS, ids=lambda path: path.stem)
def test_a_session_is_what_psql_shows(resident_gateway, document):
    shown = shown_session(document)
    statements = [line for line in shown.splitlines() if PROMPTS.match(line)]
    typed = "\n".join(PROMPTS.sub("", line) for line in statements)
    with scratch_database(resident_gateway, "documented") as database:
        server = resident_gateway.variables(database)
        done = programs.run("psql", ["--echo-all"], server=server, stdin=typed, merged=True)
    assert comparable(done.stdout) == comparable(PROMPTS.sub("", shown))


@pytest.mark.server
def test_programs_print_what_is_said(resident_gateway):
    pytest.importorskip("sqlalchemy")
    shown = PYTHON.findall(README.read_text("utf-8"))
    assert len(shown) == 2
    with scratch_database(resident_gateway, "programs") as database:
        for text in shown:
            done = output_of(sys.executable, "-c", reaching(text, resident_gateway, database))
            assert done.splitlines() == PRINTED.findall(text) != []


@pytest.mark.server
def test_the_url_for_jdbc_leads_to_the_gateway(resident_gateway):
    driver = drivers.driver()
    if driver is None or shutil.which("javac") is None:
        pytest.skip("there is no pgjdbc, or no compiler for Java")
    (url,) = JDBC_URL.findall(README.read_text("utf-8"))
    program = ROOT / "integration" / "encryption" / "Connect.java"
    url = reaching(url, resident_gateway, "postgres")
    assert output_of("java", "-cp", driver, program, url) == "postgres\n"


def reaching(text, server, database):
    """Return a text of the README with a database that is there in place of the one shown."""
    assert ADDRESS in text
    return text.replace(ADDRESS, f"{server.host}:{server.port}/{database}")


def output_of(*command):
    """Return what a program prints, which complains of nothing."""
    # Java says on standard error which of these it has picked up.
    environment = {name: value for name, value in os.environ.items() if name not in JAVA_OPTIONS}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, env=environment
    )
    assert (done.stderr, done.returncode) == ("", 0)
    return done.stdout


@pytest.mark.parametrize(
    ("line", "other", "same"),
    [
        ("a | 2026-01-02 03:04:05.6+00  |", "a | 2027-11-12 13:14:15.123456+00 |", True),
        ("---+-----", "--+---", True),
        ("INSERT 0 1", "INSERT 0 2", False),
        (f"{1:020} {2:020} {1:020}", f"{7:020} {4:020} {7:020}", True),
        (f"{1:020} {2:020} {1:020}", f"{7:020} {4:020} {4:020}", False),
    ],
)
def test_sessions_are_compared(line, other, same):
    assert (comparable(line) == comparable(other)) is same


@pytest.fixture
def document(tmp_path):
    (tmp_path / "other.md").write_text("# One heading\n\n## Types: `int`, text\n", encoding="utf-8")
    return tmp_path / "document.md"


@pytest.mark.parametrize(
    ("text", "broken"),
    [
        ("[other](other.md)", []),
        ("[other](other.md#one-heading)", []),
        ("[other](other.md#types-int-text)", []),
        ("# Here\n[here](#here)", []),
        ("[web](https://example.org/none)", []),
        ("```\n[not a link](none.md)\n```", []),
        ("[none](none.md)", ["none.md"]),
        ("[none](other.md#none)", ["other.md#none"]),
        ("[none](#none)", ["#none"]),
    ],
)
def test_link_is_judged(document, text, broken):
    assert broken_links(document, text) == broken


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("`catalog/api.py`", []),
        ("`rewrite/dialect/`", []),
        ("`catalog/sql/*.sql`", []),
        ("`catalog/none.py`", ["catalog/none.py"]),
        ("`rewrite/none/`", ["rewrite/none/"]),
    ],
)
def test_module_is_looked_for(text, missing):
    assert missing_modules(text) == missing
