"""Choose how a query is run and its result is handed out, by what it reads and returns at most."""

from dataclasses import dataclass
from typing import Final

from pgwire_gateway.spark.api import Delivery
from pgwire_gateway.spark.frames import MAX_PART_ROWS, PART_BYTES
from pgwire_gateway.spark.settings import SessionKind
from rewrite.results import SparkQuery

SMALL_INPUT_ROWS: Final = 50_000
"""Interpreting expressions over more rows than this costs more than generating code for them."""
SMALL_RESULT_ROWS: Final = 1_000
COLLECTED_ROWS: Final = 20_000
COLLECTED_BYTES: Final = 16 << 20
"""Results up to this size are collected at once; larger ones are streamed."""
BATCH_BYTES: Final = 2 << 20
MAX_BATCH_ROWS: Final = 50_000


@dataclass(frozen=True, slots=True)
class ResultPlan:
    """How a query is run."""

    sql: str
    kind: SessionKind
    delivery: Delivery
    limit: int | None = None
    """LIMIT that was taken out of ``sql``, for the reader to stop after it."""
    offset: int = 0


def plan_result(query: SparkQuery, row_bytes: int) -> ResultPlan:
    """Choose sessions and way of delivery for a query over rows of a size."""
    kind = session_kind(query, row_bytes)
    width = max(row_bytes, 1)
    rows = query.input_rows if query.row_bound is None else query.row_bound
    collected = rows <= COLLECTED_ROWS and rows * width <= COLLECTED_BYTES
    cut = query.cut if kind is SessionKind.LARGE else None
    # Spark ends a LIMIT in one task, and a sort with LIMIT in its memory.
    if cut is not None and (rows * width > PART_BYTES or not query.sorts):
        sql, limit, offset = cut.sql, cut.rows, cut.offset
        collected = False
    else:
        sql, limit, offset = query.sql, None, 0
    may_be_few = query.filters and limit is None and not collected and not query.works_on_all
    part_rows = max(min(PART_BYTES // width, MAX_PART_ROWS), 1)
    return ResultPlan(
        sql=sql,
        kind=kind,
        delivery=Delivery(
            batch_rows=min(max(BATCH_BYTES // width, 16), MAX_BATCH_ROWS),
            collected=collected,
            is_small=_reads_little(query, row_bytes),
            part_rows=part_rows,
            may_exceed_part=rows > part_rows,
            may_multiply=query.row_bound is None or query.row_bound > query.input_rows,
            may_be_few=may_be_few,
            most_rows=None if limit is None else offset + limit,
            matches_patterns=query.matches_patterns,
        ),
        limit=limit,
        offset=offset,
    )


def session_kind(query: SparkQuery, row_bytes: int) -> SessionKind:
    """Choose how a query is executed, by what it reads and returns."""
    if _reads_little(query, row_bytes):
        return SessionKind.SMALL
    bound = query.row_bound
    few = bound is not None and bound <= SMALL_RESULT_ROWS and bound * row_bytes <= COLLECTED_BYTES
    return SessionKind.SMALL if few and not query.works_on_all else SessionKind.LARGE


def _reads_little(query: SparkQuery, row_bytes: int) -> bool:
    rows = query.input_rows
    return rows <= SMALL_INPUT_ROWS and rows * row_bytes <= COLLECTED_BYTES
