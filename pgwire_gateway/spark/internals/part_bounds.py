"""How much of each part of a result is computed: so many rows, and so many bytes.

A query may make far larger rows than it reads, and far more of them. So a task counts what its rows
have, and leaves out those beyond the bound; who reads the part sees that there was more.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self

import pyarrow as pa

from pgwire_gateway.spark.internals.machine import Machine

_QUOTE: Final = "`"
_MOST_KEPT: Final = 1000
"""How many conditions are kept."""


@dataclass(frozen=True, slots=True)
class PartBound:
    """The most that a part may have; it may be one row more."""

    size_bytes: int
    """Its rows as Arrow has them."""
    rows: int | None = None
    """None where nothing makes more rows than are read."""

    def is_exceeded_by(self, batches: Sequence[pa.RecordBatch]) -> bool:
        """Tell whether a part of which these came may have more."""
        rows = sum(batch.num_rows for batch in batches)
        return self.is_exceeded(rows, sum(batch.nbytes for batch in batches))

    def is_exceeded(self, rows: int, size_bytes: int) -> bool:
        """Tell whether a part of which so much came may have more."""
        return size_bytes > self.size_bytes or (self.rows is not None and rows > self.rows)


@dataclass(frozen=True, slots=True)
class PlannedRows:
    """Rows as a plan of Spark's operators computes them, part by part."""

    machine: Machine
    frame: Any
    """A Dataset of the same columns."""
    plan: Any
    schema: pa.Schema
    """The columns as Arrow has them."""

    @classmethod
    def of(cls, machine: Machine, frame: Any, schema: pa.Schema) -> Self:
        """Return the rows of a Dataset."""
        return cls(machine, frame, frame.queryExecution().executedPlan(), schema)

    def limited(self, rows: int) -> Self:
        """Return the same parts, each with no more rows than that.

        What its parts depend on is computed once for both.
        """
        self._activate()
        return replace(self, plan=self.machine.operators.LocalLimitExec(rows, self.plan))

    def bounded(self, bound: PartBound) -> Self:
        """Return the same parts, each as far as the row that exceeds a bound."""
        some = self if bound.rows is None else self.limited(bound.rows + 1)
        fits = _condition(self, bound.size_bytes)
        self._activate()
        return replace(self, plan=self.machine.operators.FilterExec(fits, some.plan))

    def batches(self) -> Any:
        """Return an RDD of Arrow batches; stages the result depends on are run."""
        return self.frame.toArrowBatchRdd(self.plan)

    def some(self, parts: range) -> Any:
        """Return a Dataset of some of the parts."""
        self._activate()
        spark = self.machine.jvm.org.apache.spark
        listed = self.machine.jvm.java.util.ArrayList()
        for number in parts:
            listed.add(number)
        # A set is a function that tells what is in it.
        asked = spark.api.python.PythonUtils.toSeq(listed).toSet()
        rows = spark.rdd.PartitionPruningRDD.create(self.plan.execute(), asked)
        session = self.frame.sparkSession()
        return session.internalCreateDataFrame(rows, self.frame.schema(), False)

    def count(self) -> int:
        """Return how many parts there are."""
        return int(self.plan.execute().getNumPartitions())

    def _activate(self) -> None:
        """Have plans made in the session, which the active one is taken for."""
        self.machine.activate(self.frame.sparkSession())


def _condition(rows: PlannedRows, size_bytes: int) -> Any:
    """Return an expression: whether the rows of a part before a row have no more than that.

    Making one takes longer than many a query: it is kept.
    """
    machine, structure = rows.machine, rows.frame.schema()
    kept, known = machine.conditions, (str(structure.json()), size_bytes)
    found = kept.get(known)
    if found is None:
        if len(kept) >= _MOST_KEPT:
            kept.clear()
        texts = ["0", row_bytes(rows.schema), f"{size_bytes}L"]
        place, size, most = _resolved(machine, rows.frame.sparkSession(), structure, texts)
        found = kept[known] = _is_within(machine, place, size, most)
    return found


def _resolved(machine: Machine, session: Any, structure: Any, texts: Sequence[str]) -> list[Any]:
    """Return expressions over rows of some columns, which are given by their places."""
    expressions = machine.jvm.org.apache.spark.sql.catalyst.expressions
    nothing = session.createDataFrame(machine.jvm.java.util.ArrayList(), structure)
    project = nothing.selectExpr(machine.strings(texts)).queryExecution().analyzed()
    columns = getattr(expressions, "package$AttributeSeq")(project.child().output())
    bind = expressions.BindReferences.bindReference
    named = project.projectList()
    return [bind(named.apply(number).child(), columns, False) for number in range(len(texts))]


def _is_within(machine: Machine, place: Any, size: Any, most: Any) -> Any:
    """Return whether sizes have come to no more than the most before the one at hand is added.

    Each task has a copy of the counter, and its rows in their order.
    """
    jvm = machine.jvm
    types = jvm.org.apache.spark.sql.types
    expressions = jvm.org.apache.spark.sql.catalyst.expressions
    to_seq = jvm.org.apache.spark.api.python.PythonUtils.toSeq
    # A counter by itself would come back as one of Python's numbers.
    counter = jvm.java.util.concurrent.atomic.AtomicLongArray(1)
    arguments, kinds = jvm.java.util.ArrayList(), jvm.java.util.ArrayList()
    arguments.add(place)
    arguments.add(size)
    before = expressions.objects.Invoke(
        expressions.Literal(counter, types.ObjectType(counter.getClass())),
        "getAndAdd",
        most.dataType(),
        to_seq(arguments),
        to_seq(kinds),
        True,
        False,
        False,  # it depends on the rows before
    )
    return expressions.LessThanOrEqual(before, most)


def row_bytes(schema: pa.Schema) -> str:
    """Return how many bytes a row has in Arrow's columns, at least, in Spark's SQL.

    >>> row_bytes(pa.schema({"o1": pa.int32(), "o2": pa.string()}))
    '4L + coalesce(octet_length(`o2`), 0L)'
    >>> row_bytes(pa.schema({"o1": pa.list_(pa.int64())}))
    '0L + coalesce(8L * cardinality(`o1`), 0L)'
    """
    return _sum([(_quoted(field.name), field.type) for field in schema], 0)


def _sum(values: list[tuple[str, pa.DataType]], depth: int) -> str:
    """Return how many bytes values have together, those of fixed length also where they are NULL.

    Args:
        values: What they are in SQL, and their types.
        depth: In how many arrays.
    """
    fixed = 0
    varying: list[str] = []
    left = values[::-1]
    while left:
        value, kind = left.pop()
        if pa.types.is_struct(kind):
            left += [(f"{value}.{_quoted(field.name)}", field.type) for field in kind.fields]
        elif pa.types.is_list(kind):
            varying.append(f"coalesce({_elements(value, kind.value_type, depth)}, 0L)")
        elif pa.types.is_string(kind) or pa.types.is_binary(kind):
            varying.append(f"coalesce(octet_length({value}), 0L)")
        elif not pa.types.is_null(kind):
            fixed += int(kind.bit_width) // 8
    return " + ".join([f"{fixed}L", *varying])


def _elements(value: str, kind: pa.DataType, depth: int) -> str:
    """Return how many bytes the elements of an array have; NULL where it is NULL."""
    if (
        not pa.types.is_nested(kind)
        and not pa.types.is_string(kind)
        and not pa.types.is_binary(kind)
    ):
        return f"{_sum([(value, kind)], depth)} * cardinality({value})"
    element, total = f"element{depth}", f"total{depth}"
    size = _sum([(element, kind)], depth + 1)
    return f"aggregate({value}, 0L, ({total}, {element}) -> {total} + {size})"


def _quoted(name: str) -> str:
    return _QUOTE + name.replace(_QUOTE, 2 * _QUOTE) + _QUOTE
