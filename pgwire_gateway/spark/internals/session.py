"""Sessions of the JVM."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import pyarrow as pa

from pgwire_gateway.spark.api import Driver, Explanation, Reading
from pgwire_gateway.spark.arrow_schemas import arrow_schema
from pgwire_gateway.spark.internals import databases
from pgwire_gateway.spark.internals.frame import JvmFrame
from pgwire_gateway.spark.internals.machine import Entered, Machine

_JOB_GROUP: Final = "spark.jobGroup.id"
_POOL: Final = "spark.scheduler.pool"
# Naming the call site spares Spark a walk over the stack for every RDD it makes.
_CALL_SITE: Final = {"callSite.short": "statement", "callSite.long": "statement"}
_PASSED_ROWS: Final = 20_000
_PASSED_BYTES: Final = 16 << 20
"""What is passed to the JVM at once must be short: it comes as text."""


class JvmSession:
    """A session of the JVM with the settings tasks run under; see `api.Session`."""

    def __init__(
        self, driver: Driver, machine: Machine, java: Any, conf: dict[str, str], pool: str
    ) -> None:
        self.driver = driver
        self._machine = machine
        self._java = java
        self._properties = machine.properties({**conf, **_CALL_SITE, _POOL: pool})

    def enter(self, group: str) -> None:
        """Make this thread's jobs run under the session's settings and in a group to cancel."""
        local = self._machine.local
        context = self._machine.context
        if getattr(local, "session", None) is not self:
            context.setLocalProperties(self._properties.clone())
            self.activate()
            local.session = self
        context.setLocalProperty(_JOB_GROUP, group)
        local.entered = Entered(self._properties, group, partial(self.enter, group))

    def activate(self) -> None:
        """Make this the session whose settings the JVM uses for work of this thread."""
        self._machine.activate(self._java)

    def query(self, text: str) -> JvmFrame:
        """Return the rows of a query, which is analysed now."""
        return self._frame(self._java.sql(text))

    def explain(self, text: str) -> Explanation:
        """Return how a query would be run."""
        execution = self._java.sql(text).queryExecution()
        self._machine.planned(execution.executedPlan)
        modes = self._machine.jvm.org.apache.spark.sql.execution.ExplainMode
        physical, logical = (
            str(execution.explainString(modes.fromString(mode)))
            for mode in ("formatted", "extended")
        )
        return Explanation(physical, logical.partition("== Physical Plan ==")[0])

    def read(self, reading: Reading) -> JvmFrame:
        """Return the rows of files, or of a relation of another database."""
        reader = self._java.read().format(reading.form)
        if reading.ddl is not None:
            reader.schema(reading.ddl)
        elif reading.schema is not None:
            reader.schema(self._machine.structure(reading.schema))
        for name, value in reading.options.items():
            reader.option(name, value)
        paths = (self._machine.strings(reading.paths),) if reading.paths else ()
        return self._frame(reader.load(*paths))

    def local(self, rows: pa.Table, ddl: str) -> JvmFrame:
        """Return rows held in memory: a local relation, made without a job."""
        self.activate()
        jvm = self._machine.jvm
        schema = self._machine.schema(ddl)
        table = rows.cast(arrow_schema(schema)).combine_chunks()
        batches = jvm.java.util.ArrayList()
        at_once = rows.num_rows * _PASSED_BYTES // max(rows.nbytes, 1)
        for batch in table.to_batches(min(max(at_once, 1), _PASSED_ROWS)):
            batches.add(batch.serialize().to_pybytes())
        iterator = jvm.scala.jdk.javaapi.CollectionConverters.asScala(batches.iterator())
        utils = jvm.org.apache.spark.sql.api.python.PythonSQLUtils
        return self._frame(utils.toDataFrame(iterator, schema, self._java))

    def empty(self, schema: str) -> JvmFrame:
        """Return no rows."""
        nothing = self._machine.jvm.java.util.ArrayList()
        return self._frame(self._java.createDataFrame(nothing, self._machine.structure(schema)))

    def table(self, name: str) -> JvmFrame:
        """Return the rows of a table of Spark's catalogs as they are now."""
        # Others may have written to it since Spark listed its files.
        self._java.catalog().refreshTable(name)
        return self._frame(self._java.table(name))

    def has_table(self, name: str) -> bool:
        """Tell whether Spark's catalogs have such a table, which is no view of a session."""
        known = self._java.catalog()
        return bool(known.tableExists(name)) and not known.getTable(name).isTemporary()

    def types(self, schema: str) -> tuple[tuple[str, str], ...]:
        """Return the names and the types in SQL of columns in Spark's JSON."""
        fields = self._machine.structure(schema).fields()
        return tuple([(str(field.name()), str(field.dataType().sql())) for field in fields])

    def drop(self, name: str) -> None:
        """Forget what `Frame.register` has made known."""
        self._java.catalog().dropGlobalTempView(name)

    def quoted(self, url: str, name: str) -> str:
        """Return a name in the SQL of another database."""
        return databases.quoted(self._machine, url, name)

    def relations(self, options: Mapping[str, str], schema: str) -> tuple[str, ...]:
        """Return the names of the tables and views in a schema of another database, in order."""
        return databases.relations(self._machine, options, schema)

    def update(self, options: Mapping[str, str], statement: str) -> int:
        """Have another database run a statement; return how many rows it has changed."""
        return databases.update(self._machine, options, statement)

    def _frame(self, java: Any) -> JvmFrame:
        return JvmFrame(self._machine, java)
