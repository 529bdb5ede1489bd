"""What the command writes."""

import logging
import runpy
import tomllib
from pathlib import Path

import pytest

from pgwire_gateway import cli
from tests.support.repository import ROOT


def test_nothing_of_py4j_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Not what it logs as nobody's either."""
    library = tmp_path / "py4j" / "java_gateway.py"
    library.parent.mkdir()
    library.write_text("import logging\nlogging.error('of the library')\n")
    root = logging.getLogger()
    monkeypatch.setattr(root, "filters", [])
    monkeypatch.setattr(cli.demo, "run", lambda: runpy.run_path(str(library)) and 0)
    assert cli.main(["demo"]) == 0
    logging.getLogger("pgwire_gateway").warning("of the gateway")
    logging.warning("of nobody")  # noqa: LOG015 - as the library does
    assert caplog.messages == ["of the gateway", "of nobody"]


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    with pytest.raises(SystemExit) as ended:
        cli.main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"{project['name']} {project['version']}\n"
