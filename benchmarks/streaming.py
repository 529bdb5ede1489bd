"""Stream a whole tiered table to a client that discards it."""

from benchmarks.laboratory import GATEWAY, POSTGRES, Laboratory
from benchmarks.outcomes import Judgement, Outcome, Samples
from benchmarks.process_memory import peaks, reset_peaks

TITLE = "Streaming 5 million rows of 6 columns of a tiered table, against PostgreSQL"

RATE_AIM = 1.0
MEMORY_AIM_MB = 400.0
ROUNDS = 5


def run(laboratory: Laboratory) -> Outcome:
    """Read the table in turn from both servers; the rate counts, and the gateway's memory."""
    events = laboratory.events
    statement = f"SELECT * FROM {events.table}"
    seconds: dict[str, list[float]] = {GATEWAY: [], POSTGRES: []}
    size = 0
    with laboratory.connect_gateway() as gateway, laboratory.connect_postgres() as postgres:
        clients = {GATEWAY: gateway, POSTGRES: postgres}
        for client in clients.values():
            client.discard(statement, events.rows)
        process_id = laboratory.gateway.process_id
        reset_peaks(process_id)
        rounds = laboratory.repetitions(ROUNDS)
        before = laboratory.processor_times(GATEWAY, POSTGRES)
        for _ in range(rounds):
            for name, client in clients.items():
                took, size = client.discard(statement, events.rows)
                seconds[name].append(took)
        memory = peaks(process_id)
        millions = rounds * events.rows / 1e6
        processor = laboratory.processor_fact(
            before, {GATEWAY: millions, POSTGRES: millions}, "million rows"
        )
    rates = {
        name: Samples(name, tuple(events.rows / took / 1e6 for took in taken), "M rows/s")
        for name, taken in seconds.items()
    }
    ratio = rates[GATEWAY].median / rates[POSTGRES].median
    return Outcome(
        (
            Judgement("rows/s, gateway ÷ PostgreSQL", ratio, RATE_AIM, at_least=True),
            Judgement(
                "peak memory of the gateway's process", memory.gateway_mb, MEMORY_AIM_MB, unit="MB"
            ),
        ),
        tuple(rates.values()),
        (
            f"{events.rows:,} rows in text format, {size / 1e6:,.0f} MB on the wire.",
            f"Peak memory: Python process {memory.gateway_mb:.0f} MB, JVM {memory.jvm_mb:.0f} MB.",
            processor,
            laboratory.loading(events),
        ),
    )
