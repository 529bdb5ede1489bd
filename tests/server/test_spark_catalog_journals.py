"""Journals that are tables of Spark's catalog, kept by another Spark in a metastore of Hive's."""

import json
import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pyarrow.parquet as pq
import pytest

from tests.support.fix_server import MACHINE_OPTIONS
from tests.support.java import JAVA_OPTIONS
from tests.support.servers import GatewayProcess

pytestmark = pytest.mark.server

OTHER_SPARK = """
import json, sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]").enableHiveSupport()
for name, value in json.loads(sys.argv[1]).items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
for statement in sys.argv[2:]:
    spark.sql(statement)
spark.stop()
"""
TABLES = (
    "CREATE DATABASE hr",
    """CREATE TABLE hr.depts_journal (department_name STRING, version_number TIMESTAMP,
    subsequent_version_number TIMESTAMP, deptno INT) USING parquet""",
    "CREATE VIEW hr.a_view AS SELECT * FROM hr.depts_journal",
    """INSERT INTO hr.depts_journal VALUES ('Sales', TIMESTAMP'2020-01-01', NULL, 1),
    ('Sails', TIMESTAMP'2020-01-01', NULL, 2), ('Rigging', TIMESTAMP'2020-01-02', NULL, 2)""",
)


def settings(directory: Path) -> dict[str, str]:
    derby = f"jdbc:derby:;databaseName={directory / 'metastore'};create=true"
    return {
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": str(directory / "tables"),
        "spark.hadoop.javax.jdo.option.ConnectionURL": derby,
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
    }


@pytest.mark.timeout(300)
def test_a_table_of_sparks_catalog(tmp_path):
    given = json.dumps(settings(tmp_path))
    subprocess.run(
        [sys.executable, "-c", OTHER_SPARK, given, *TABLES],
        check=True,
        cwd=tmp_path,
        capture_output=True,
        env={**os.environ, "JDK_JAVA_OPTIONS": JAVA_OPTIONS},
    )
    options = [f"--spark-conf={name}={value}" for name, value in settings(tmp_path).items()]
    with (
        GatewayProcess(tmp_path / "data", *MACHINE_OPTIONS, *options) as process,
        psycopg.connect(process.address.conninfo(), autocommit=True) as connection,
    ):
        register = "CALL gateway.register_journal('depts', %s, 'deptno', 'table')"
        for name in ("depts_journal", "hr.nothing", "global_temp.relation_1", 'parquet."/etc"'):
            with pytest.raises(psycopg.errors.UndefinedTable):
                connection.execute(register, [name])
        connection.execute(register, ["hr.depts_journal"])
        rows = "SELECT deptno, department_name FROM depts ORDER BY 1"
        assert connection.execute(rows).fetchall() == [(1, "Sales"), (2, "Rigging")]
        connection.execute("INSERT INTO depts (deptno, department_name) VALUES (3, 'New')")
        connection.execute("UPDATE depts SET department_name = upper(department_name)")
        connection.execute("DELETE FROM depts WHERE deptno = 1")
        assert connection.execute(rows).fetchall() == [(2, "RIGGING"), (3, "NEW")]
    (place,) = (tmp_path / "tables").glob("*/depts_journal")
    stored = pq.read_table(place).to_pylist()
    stored.sort(key=lambda row: (row["deptno"], row["version_number"]))
    assert [
        (row["deptno"], row["department_name"], row["subsequent_version_number"] is not None)
        for row in stored
    ] == [
        (1, "Sales", False),
        (1, "SALES", False),
        (1, "SALES", True),
        (2, "Sails", False),
        (2, "Rigging", False),
        (2, "RIGGING", False),
        (3, "New", False),
        (3, "NEW", False),
    ]
