"""The files that begin first are files of tests."""

import pytest

from tests.support.fix_order import LONG_FILES
from tests.support.repository import ROOT


@pytest.mark.parametrize("path", LONG_FILES)
def test_file_exists(path):
    assert (ROOT / path).is_file()
