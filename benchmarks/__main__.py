"""``python -m benchmarks``: measure, print the report, keep that of a full run."""

import argparse
import os
import shutil
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path

from benchmarks import (
    aggregation,
    catalog_query,
    commit_lists,
    endurance,
    files_of_others,
    hot_rows,
    machine,
    merging,
    partition_trees,
    pgbench_rates,
    point_select,
    report,
    residency_changes,
    resident_statements,
    small_writes,
    streaming,
    tpch,
)
from benchmarks.laboratory import Laboratory
from benchmarks.outcomes import Outcome, Section

BENCHMARKS = {
    1: streaming,
    2: point_select,
    3: aggregation,
    4: small_writes,
    5: catalog_query,
    6: resident_statements,
    7: pgbench_rates,
    8: residency_changes,
    9: hot_rows,
    10: endurance,
    11: merging,
    12: files_of_others,
    13: commit_lists,
    14: partition_trees,
    15: tpch,
}
"""In an order in which none disturbs a later one: what changes a table comes after what reads it,
and resident tables, which have a gateway of their own, after tiered ones. Those of hot rows start
another gateway for tiered tables, without bare Spark beside it."""

LONG = frozenset({10, 14, 15})
"""What takes long, and is left out unless it is asked for."""

RESULTS = Path(__file__).with_name("results")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmarks asked for; 1 when one could not be measured, whatever the aims."""
    options = _parser().parse_args(arguments)
    numbers = sorted(set(options.only or BENCHMARKS.keys() - LONG))
    description = machine.describe()
    directory = Path(options.directory or tempfile.mkdtemp(prefix="benchmarks-"))
    try:
        with Laboratory(directory, options.scale) as laboratory:
            sections = [_measure(number, laboratory) for number in numbers]
    finally:
        if options.directory is None:
            shutil.rmtree(directory, ignore_errors=True)
    sys.stdout.write(report.to_markdown(description, sections))
    full = options.scale == 1 and not options.only
    results = options.output or (RESULTS if full else None)
    if results is not None:
        report.write(results, description, sections)
    return 1 if any(section.error for section in sections) else 0


def _measure(number: int, laboratory: Laboratory) -> Section:
    benchmark = BENCHMARKS[number]
    before = os.getloadavg()[0]
    outcome, error = Outcome(), None
    try:
        outcome = benchmark.run(laboratory)
    except Exception:  # noqa: BLE001 - the others are worth measuring all the same
        error = f"{traceback.format_exc()}\n{laboratory.gateway_log()}"
        sys.stderr.write(error)
    return Section(number, benchmark.TITLE, outcome, (before, os.getloadavg()[0]), error)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure the gateway against PostgreSQL and against bare Spark.",
        epilog="; ".join(f"{number}: {module.TITLE}" for number, module in BENCHMARKS.items()),
    )
    parser.add_argument(
        "--scale",
        type=float,
        default=1.0,
        help="shrink tables and repetitions (0.01: a smoke test)",
    )
    parser.add_argument(
        "--only",
        type=int,
        action="append",
        choices=sorted(BENCHMARKS),
        metavar="N",
        help="run this benchmark; can be given several times",
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="DIR",
        help="where to write the report (of a full run: results)",
    )
    parser.add_argument(
        "--directory", type=Path, metavar="DIR", help="keep the servers' files here (a scratch one)"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
