"""``python -m tests.support.soak``: long random histories against a plain PostgreSQL.

Each history has a seed, which is printed. Processes of the gateway are killed in between, when
asked for: what was committed has to be there, and nothing else. The first divergence ends the run.
"""

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import psycopg

from tests.support import processes
from tests.support.processes import descendants, kill_all
from tests.support.servers import GatewayProcess, PlainPostgres
from tests.support.twins import DivergenceError, Twins, run

OPTIONS = (
    "--resident-rows=300",
    "--flush-rows=400",
    "--inline-rows=60",
    "--flush-age-s=3",
    "--autovacuum-threshold=100",
)
"""So small that a history of some hundred rows meets all that large tables do."""

STEPS = 3_000
"""Steps of a history, before the next one begins in a new database directory."""

VICTIMS = ("python", "postgres", "java")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run histories; 1 where one has diverged."""
    options = _parser().parse_args(arguments)
    end_s = time.monotonic() + options.minutes * 60
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**6)
    while time.monotonic() < end_s:
        try:
            sys.stdout.write(f"seed {seed} begins\n")
            sys.stdout.flush()
            _history(seed, end_s, kills=options.kill, module=options.module, steps=options.steps)
        except DivergenceError as error:
            sys.stdout.write(f"{error}\nDIVERGED with --seed {seed}\n")
            return 1
        seed += 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.support.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, help="that of the first history; the next has the next")
    parser.add_argument("--steps", type=int, default=STEPS, help="of a history")
    parser.add_argument("--kill", action="store_true", help="kill processes now and then")
    parser.add_argument(
        "--module", default="tests.support.restless", help="what starts the gateway"
    )
    return parser


def _history(seed: int, end_s: float, *, kills: bool, module: str, steps: int) -> None:
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        directory = Path(name)
        directory.chmod(0o755)
        process = GatewayProcess(directory / "gateway", *OPTIONS, module=module)
        with PlainPostgres(directory / "plain") as plain, process:
            twins = Twins(process.address, plain.address, seed)
            victims = random.Random(seed)  # noqa: S311 - not for secrets

            def disturb() -> None:
                if kills:
                    _kill(process, victims.choice(VICTIMS), twins)

            try:
                run(
                    twins,
                    lambda: time.monotonic() > end_s or twins.steps >= steps,
                    between=disturb,
                )
            except psycopg.OperationalError as error:
                log = process.log_text()
                raise DivergenceError(twins.report(f"{error}\n{log}")) from error
            finally:
                twins.close()
    ended = ", ".join(f"{tag} {number}" for tag, number in twins.counted.most_common(25))
    sys.stdout.write(
        f"seed {seed}: {twins.steps} steps in {time.monotonic() - began_s:.0f} s: {ended}\n"
    )
    sys.stdout.flush()


def _kill(process: GatewayProcess, program: str, twins: Twins) -> None:
    """Kill a process; all sessions begin anew, and what they had not committed is gone."""
    twins.lines.append(f"kill -9 of {program}")
    below = descendants(process.process_id)
    if program == "java":
        kill_all(n for n in below if processes.program(n) == program)
    twins.close()
    if program != "java":
        kill_all(n for n in below if processes.program(n) == program)
        process.kill()
        process.start()
    twins.connect_to(process.address)
    twins.check()


if __name__ == "__main__":
    sys.exit(main())
