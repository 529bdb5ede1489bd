"""Directories of files that are being written appear when all are there, or not at all."""

from pathlib import Path

import pytest

from catalog.errors import GatewayError
from pgwire_gateway.spark.staging import Staging
from pgwire_gateway.tables.exports import _appearing


def test_what_cannot_be_noted_is_a_failure_of_storage(tmp_path: Path) -> None:
    (tmp_path / "_staging").touch()
    staging = Staging(tmp_path / "_staging")
    with pytest.raises(GatewayError) as caught, _appearing(tmp_path / "made", staging):
        pass
    assert caught.value.sqlstate == "58030"
    assert [path.name for path in tmp_path.iterdir()] == ["_staging"]
