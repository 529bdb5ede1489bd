"""Where a process stops for tests, and that it does so for nobody else."""

import subprocess
import sys
import time

import pytest

from catalog.failpoints import REACHED, VARIABLE, Failpoint
from tests.support.programs import environment
from tests.support.repository import ROOT

POINT = Failpoint.STAGED

REACHES = (
    sys.executable,
    "-c",
    f"from catalog.failpoints import Failpoint, reach\nreach({POINT})\nprint('went on')",
)

PATIENCE_S = 30.0


def test_nothing_stops_where_no_directory_is_named(tmp_path):
    armed = tmp_path / POINT.value
    armed.touch()
    ended = subprocess.run(
        REACHES, cwd=tmp_path, env=environment(PYTHONPATH=str(ROOT)), timeout=PATIENCE_S, check=True
    )
    assert ended.returncode == 0
    assert armed.exists()


@pytest.mark.parametrize("others", [(), (Failpoint.RENAMED,)])
def test_nothing_stops_at_a_point_without_a_file(tmp_path, others):
    for point in others:
        (tmp_path / point.value).touch()
    variables = environment(PYTHONPATH=str(ROOT), **{VARIABLE: str(tmp_path)})
    subprocess.run(REACHES, cwd=ROOT, env=variables, timeout=PATIENCE_S, check=True)
    assert [file.name for file in tmp_path.iterdir()] == [point.value for point in others]


def test_the_first_one_stops_until_the_file_is_gone(tmp_path):
    (tmp_path / POINT.value).touch()
    stopped = tmp_path / f"{POINT.value}{REACHED}"
    variables = environment(PYTHONPATH=str(ROOT), **{VARIABLE: str(tmp_path)})
    with subprocess.Popen(REACHES, cwd=ROOT, env=variables, stdout=subprocess.PIPE) as process:
        deadline = time.monotonic() + PATIENCE_S
        while not stopped.exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        # Others do not.
        subprocess.run(REACHES, cwd=ROOT, env=variables, timeout=PATIENCE_S, check=True)
        assert process.poll() is None
        stopped.unlink()
        assert process.communicate(timeout=PATIENCE_S) == (b"went on\n", None)
