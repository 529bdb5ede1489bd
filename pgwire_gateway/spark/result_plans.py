"""Choose how a query is run and its result is handed out, by what it reads and returns at most."""

import re
from dataclasses import dataclass
from typing import Final

from catalog.journal.layout import VERSION
from pgwire_gateway.spark.api import Delivery
from pgwire_gateway.spark.frames import MAX_PART_ROWS, PART_BYTES
from pgwire_gateway.spark.settings import SessionKind
from rewrite.results import SparkQuery

SMALL_INPUT_ROWS: Final = 50_000
"""Interpreting expressions over more rows than this costs more than generating code for them."""
SMALL_RESULT_ROWS: Final = 1_000
COLLECTED_ROWS: Final = 20_000
COLLECTED_BYTES: Final = 16 << 20
"""Results up to this size are collected in one job; larger ones are streamed."""
BATCH_BYTES: Final = 2 << 20
MAX_BATCH_ROWS: Final = 50_000

# Work over all rows, whatever the number of rows in the result. Finding the latest row versions
# takes an anti join and a window, which leave a key lookup what it is.
_WHOLE_INPUT: Final = re.compile(
    r"\bGROUP BY\b|\bORDER BY\b|\bDISTINCT\b|(?<!ANTI )\bJOIN\b|\b(?:INTERSECT|EXCEPT)\b"
    r"|\b(?:COUNT|SUM|MIN|MAX|AVG|ANY_VALUE|EVERY|SOME|BOOL_AND|BOOL_OR|BIT_AND|BIT_OR|BIT_XOR"
    r"|STDDEV\w*|VAR\w*|CORR|COVAR\w*|REGR_\w+|PERCENTILE\w*|MODE|FIRST|LAST|COLLECT_\w+"
    r"|ARRAY_AGG|LISTAGG|STRING_AGG|MAX_BY|MIN_BY)\s*\(",
    re.IGNORECASE,
)
# Where columns are shielded the anti join is written as a left join.
_UNTOUCHED: Final = re.compile(
    rf"\bLEFT JOIN(?= \S+ AS (j\d+) ON .*? WHERE \1\.{VERSION} IS NULL\b)"
)
_WINDOW: Final = re.compile(r"\bROW_NUMBER\(\) OVER \([^()]*\)", re.IGNORECASE)
_SORT: Final = re.compile(r"\bORDER BY\b", re.IGNORECASE)
_LIMIT: Final = re.compile(r"\s+LIMIT\s+(\d+)(?:\s+OFFSET\s+(\d+))?\s*\Z", re.IGNORECASE)


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
    found = _LIMIT.search(query.sql) if kind is SessionKind.LARGE else None
    # Spark ends a LIMIT in one task, and a sort with LIMIT in its memory.
    if found is not None and (rows * width > PART_BYTES or not _SORT.search(query.sql)):
        sql, limit, offset = query.sql[: found.start()], int(found[1]), int(found[2] or 0)
        collected = False
    else:
        sql, limit, offset = query.sql, None, 0
    may_be_few = query.filters and limit is None and not collected and not _is_whole(query.sql)
    part_rows = max(min(PART_BYTES // width, MAX_PART_ROWS), 1)
    return ResultPlan(
        sql=sql,
        kind=kind,
        delivery=Delivery(
            batch_rows=min(max(BATCH_BYTES // width, 16), MAX_BATCH_ROWS),
            collected=collected,
            part_rows=part_rows,
            may_exceed_part=rows > part_rows,
            may_be_few=may_be_few,
            most_rows=None if limit is None else offset + limit,
        ),
        limit=limit,
        offset=offset,
    )


def session_kind(query: SparkQuery, row_bytes: int) -> SessionKind:
    """Choose how a query is executed, by what it reads and returns."""
    if query.input_rows <= SMALL_INPUT_ROWS and query.input_rows * row_bytes <= COLLECTED_BYTES:
        return SessionKind.SMALL
    bound = query.row_bound
    few = bound is not None and bound <= SMALL_RESULT_ROWS and bound * row_bytes <= COLLECTED_BYTES
    return SessionKind.SMALL if few and not _is_whole(query.sql) else SessionKind.LARGE


def _is_whole(sql: str) -> bool:
    return _WHOLE_INPUT.search(_WINDOW.sub("", _UNTOUCHED.sub("", sql))) is not None
