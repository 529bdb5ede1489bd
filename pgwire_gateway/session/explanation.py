"""What EXPLAIN answers, in PostgreSQL's formats: written for Spark, tidied of PostgreSQL.

Pure text; what is in an explanation is decided elsewhere.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape

from catalog.results import Row

_TRUE = frozenset({"true", "on", "1"})


@dataclass(frozen=True, slots=True)
class ExplainOptions:
    """Options of EXPLAIN that change what is told; PostgreSQL has found them valid."""

    analyze: bool
    """Run the statement."""
    verbose: bool
    timing: bool
    summary: bool
    generic_plan: bool
    format: str
    """``text``, ``json``, ``yaml`` or ``xml``."""

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> "ExplainOptions":
        """Read the options of a statement, in lower case."""

        def is_on(name: str, default: bool) -> bool:
            return str(options.get(name, default)).lower() in _TRUE

        analyze = is_on("analyze", False)
        return cls(
            analyze,
            is_on("verbose", False),
            is_on("timing", analyze),
            is_on("summary", analyze),
            is_on("generic_plan", False),
            str(options.get("format", "text")),
        )


@dataclass(frozen=True, slots=True)
class Measured:
    """What ANALYZE found; times in milliseconds."""

    first_ms: float
    """Until the first row was there."""
    total_ms: float
    rows: int
    """Rows returned, or written where none are returned."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """How a statement is run."""

    node: str
    """PostgreSQL's "Node Type"."""
    executor: str
    reason: str
    texts: Mapping[str, str]
    """Texts of several lines by what they are: SQL, plans."""
    planning_ms: float
    measured: Measured | None = None


def lines(explanation: Explanation, options: ExplainOptions) -> list[str]:
    """Return the rows of the answer: a line each as text, one row in the other formats."""
    if options.format == "text":
        return list(_text(explanation, options))
    document = {"Plan": _plan(explanation, options)} | _summary(explanation, options)
    match options.format:
        case "json":
            return [json.dumps([document], indent=2, ensure_ascii=False)]
        case "yaml":
            return ["\n".join(_yaml(document))]
        case _:
            return ["\n".join(_xml(document))]


def _text(explanation: Explanation, options: ExplainOptions) -> Iterator[str]:
    yield f"{explanation.executor}: {explanation.reason}{_actual(explanation, options)}"
    for name, text in explanation.texts.items():
        yield f"  {name}:"
        for line in text.split("\n"):
            yield from (f"    {part}".rstrip() for part in _wrapped(line))
    for name, value in _summary(explanation, options).items():
        yield f"{name}: {value:.3f} ms"


def _wrapped(line: str) -> Iterator[str]:
    """Break a long line between its words; constants are not broken."""
    if len(line) <= WIDTH or line.startswith(" "):
        yield line
        return
    part = ""
    for word in _WORDS.findall(line):
        if part and len(part) + len(word) >= WIDTH:
            yield part
            part = word
        else:
            part = f"{part} {word}" if part else word
    yield part


WIDTH = 100
"""Characters of a line, where it can be broken."""

_WORDS = re.compile(r"(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\S)+")


def _actual(explanation: Explanation, options: ExplainOptions) -> str:
    found = explanation.measured
    if found is None:
        return ""
    times = f"time={found.first_ms:.3f}..{found.total_ms:.3f} " if options.timing else ""
    return f" (actual {times}rows={found.rows:.2f} loops=1)"


def _plan(explanation: Explanation, options: ExplainOptions) -> dict[str, Any]:
    plan: dict[str, Any] = {
        "Node Type": explanation.node,
        "Executor": explanation.executor,
        "Reason": explanation.reason,
        **explanation.texts,
    }
    found = explanation.measured
    if found is not None:
        if options.timing:
            plan["Actual Startup Time"] = round(found.first_ms, 3)
            plan["Actual Total Time"] = round(found.total_ms, 3)
        plan |= {"Actual Rows": float(found.rows), "Actual Loops": 1}
    return plan


def _summary(explanation: Explanation, options: ExplainOptions) -> dict[str, float]:
    times = {}
    if options.summary:
        times["Planning Time"] = round(explanation.planning_ms, 3)
        if explanation.measured is not None:
            times["Execution Time"] = round(explanation.measured.total_ms, 3)
    return times


def _yaml(document: Mapping[str, Any]) -> Iterator[str]:
    indent = "- "
    for name, value in document.items():
        if isinstance(value, Mapping):
            yield f"{indent}{name}: "
            for inner, item in value.items():
                yield f"    {inner}: {json.dumps(item, ensure_ascii=False)}"
        else:
            yield f"{indent}{name}: {value}"
        indent = "  "


def _xml(document: Mapping[str, Any]) -> Iterator[str]:
    yield '<explain xmlns="http://www.postgresql.org/2009/explain">'
    yield "  <Query>"
    for name, value in document.items():
        tag = name.replace(" ", "-")
        if isinstance(value, Mapping):
            yield f"    <{tag}>"
            for inner, item in value.items():
                field = inner.replace(" ", "-")
                yield f"      <{field}>{escape(str(item))}</{field}>"
            yield f"    </{tag}>"
        else:
            yield f"    <{tag}>{value}</{tag}>"
    yield "  </Query>"
    yield "</explain>"


def without_capture(rows: Iterable[Row]) -> Iterator[Row]:
    """Leave the triggers of the journal out of what PostgreSQL's EXPLAIN ANALYZE tells."""
    for row in rows:
        text = row[0] or b""
        if b"pgwire_" not in text:
            yield row
        elif not text.startswith(b"Trigger pgwire_"):
            yield [_JSON.sub(_other_triggers, _ENTRY.sub(b"", text)), *row[1:]]


_ENTRY = re.compile(
    rb'\n *- Trigger Name: "pgwire_[^\n]*(?:\n {6}[^\n]*)*'
    rb"|\n *<Trigger>\n *<Trigger-Name>pgwire_[^\n]*(?:\n *<[A-Z][^\n]*)*\n *</Trigger>"
)
"""What YAML and XML tell of one trigger of the journal."""

_JSON = re.compile(rb'("Triggers": \[)(.*?)(\n *\])', re.DOTALL)

_JSON_ENTRY = re.compile(rb"\n *\{\n.*?\n *\}", re.DOTALL)


def _other_triggers(found: re.Match[bytes]) -> bytes:
    entries = _JSON_ENTRY.findall(found[2])
    kept = [entry for entry in entries if b'"Trigger Name": "pgwire_' not in entry]
    return found[1] + b",".join(kept) + found[3]
