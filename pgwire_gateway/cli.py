"""Command line: arguments → configuration → server or demonstration → exit status."""

import argparse
import logging
import sys
import threading
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Final

from typing_extensions import override

from catalog.errors import GatewayError
from pgwire_gateway import demo, model_import
from pgwire_gateway.config import Config
from pgwire_gateway.listener import server

logger = logging.getLogger("pgwire_gateway")


MOST_CALLS: Final = 3_000
"""Depth of calls at which a statement is told to be too complex (54001).

Each level of an expression takes about ten of them.
"""

STACK_BYTES: Final = 16 << 20
"""Stack of each thread, which so many calls cannot exhaust, whatever is between them."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status: 0 done, 1 failed, 2 wrong usage."""
    options = _parser().parse_args(arguments)
    sys.setrecursionlimit(MOST_CALLS)
    threading.stack_size(STACK_BYTES)
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr
    )
    # Libraries that narrate each of their steps would drown the gateway's own lines.
    for name in ("buenavista", "psycopg", "sqlglot"):
        logging.getLogger(name).setLevel(logging.ERROR)
    # Py4J logs with a traceback what it raises as well, such as that the JVM has been stopped,
    # some of it as nobody's.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_is_not_of_py4j)
    try:
        if options.command == "demo":
            return demo.run()
        if options.command == "import-model":
            return model_import.run(Path(options.model), options.dsn)
        return server.serve(Config.load(vars(options)))
    except GatewayError as error:
        sys.stderr.write(f"pgwire-gateway: {error.message}\n")
        if error.detail:
            sys.stderr.write(f"DETAIL:  {error.detail}\n")
        if error.hint:
            sys.stderr.write(f"HINT:  {error.hint}\n")
        return 1


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return "py4j" not in Path(record.pathname).parts


class _Version(argparse.Action):
    """Prints the version that is installed, which is looked up only when asked for."""

    @override
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        sys.stdout.write(f"{parser.prog} {metadata.version(parser.prog)}\n")
        parser.exit()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pgwire-gateway",
        description="A PostgreSQL server for every client, with its tables on Apache Spark.",
    )
    parser.add_argument(
        "--version", action=_Version, nargs=0, help="print the version that is installed, and end"
    )
    commands = parser.add_subparsers(dest="command", required=True)
    serve = commands.add_parser(
        "serve",
        help="start the gateway",
        epilog="Each option can also be given as PGWIRE_GATEWAY_<NAME> in the environment or as a "
        "key of the TOML file; the command line wins over the environment, and that over the file.",
    )
    serve.add_argument("--host", help="address to listen on (127.0.0.1)")
    serve.add_argument("--port", type=int, help="port to listen on (5433)")
    serve.add_argument("--data-dir", metavar="DIR", help="catalog and warehouse (./data)")
    serve.add_argument(
        "--catalog", metavar="URL", help="external PostgreSQL 17 or newer (embedded one)"
    )
    serve.add_argument("--spark-master", metavar="MASTER", help="Spark master (local[*])")
    serve.add_argument(
        "--spark-conf", metavar="KEY=VALUE", action="append", help="Spark setting; repeatable"
    )
    serve.add_argument(
        "--spark-api",
        metavar="API",
        help="Spark by the driver's internals, or by public interfaces alone (internals)",
    )
    serve.add_argument("--inline-rows", type=int, help="largest write kept in the tail (1000)")
    serve.add_argument("--inline-bytes", type=int, help="largest write in bytes, likewise (16 MB)")
    serve.add_argument("--flush-rows", type=int, help="size of the tail that is flushed (10000)")
    serve.add_argument("--flush-bytes", type=int, help="likewise in bytes (64 MB)")
    serve.add_argument(
        "--resident-rows", type=int, help="largest table PostgreSQL answers for (100000); 0: none"
    )
    serve.add_argument("--resident-bytes", type=int, help="the same in bytes of rows (67108864)")
    serve.add_argument(
        "--resident-hard-rows",
        type=int,
        help="the same where a table cannot become tiered (1000000)",
    )
    serve.add_argument(
        "--flush-age-s", type=float, help="rest after which changes go to files (60)"
    )
    serve.add_argument(
        "--autovacuum",
        choices=("on", "off"),
        help="compact large tables, and remove files nobody reads, without VACUUM (on)",
    )
    serve.add_argument(
        "--autovacuum-threshold", type=int, help="changed rows before it does (50000)"
    )
    serve.add_argument(
        "--autovacuum-scale-factor", type=float, help="and this part of a table's rows (0.2)"
    )
    serve.add_argument(
        "--upkeep-timeout-s", type=float, help="longest time for upkeep of a table (3600); 0: any"
    )
    serve.add_argument(
        "--thaw-rows", type=int, help="most rows of a small write by a condition (10000)"
    )
    serve.add_argument(
        "--extract-rows",
        type=int,
        help="most rows that PostgreSQL gets for a query that Spark cannot compute (1000000)",
    )
    serve.add_argument("--extract-bytes", type=int, help="likewise in bytes (1 GB)")
    serve.add_argument("--hot-rows", type=int, help="most hot rows of a tiered table (100000)")
    serve.add_argument("--hot-age-s", type=float, help="rest after which rows go cold (300)")
    serve.add_argument(
        "--shutdown-timeout-s", type=float, help="time for running statements at the end (10)"
    )
    serve.add_argument("--max-connections", type=int, help="largest number of clients (100)")
    serve.add_argument(
        "--allow-path",
        metavar="DIR",
        action="append",
        help="directory of files that clients may use; repeatable (none)",
    )
    serve.add_argument(
        "--jars",
        metavar="FILE.jar",
        action="append",
        help="Java archive for Spark, such as a database's driver; repeatable (none)",
    )
    serve.add_argument(
        "--model", metavar="FILE.json", help="register the journals of a model file (none)"
    )
    serve.add_argument(
        "--tls-certificate", metavar="FILE.pem", help="certificate for encryption (none)"
    )
    serve.add_argument(
        "--tls-key", metavar="FILE.pem", help="its private key (in the certificate's file)"
    )
    serve.add_argument(
        "--tls-ca", metavar="FILE.pem", help="authorities of clients' certificates (none)"
    )
    serve.add_argument(
        "--authentication",
        metavar="METHOD",
        help="trust or scram-sha-256 (trust on loopback, else scram-sha-256)",
    )
    serve.add_argument(
        "--authentication-timeout-s", type=float, help="time for a client to begin (60)"
    )
    serve.add_argument(
        "--allow-insecure-network",
        action="store_true",
        default=None,
        help="listen beyond loopback without encryption or authentication",
    )
    serve.add_argument("--config", metavar="FILE.toml", help="file with the same options")
    importing = commands.add_parser(
        "import-model",
        help="register the journals of a model file at a running gateway",
        epilog="The gateway, database and user are those of libpq's environment variables.",
    )
    importing.add_argument("model", metavar="FILE.json", help="the model file")
    importing.add_argument(
        "dsn", nargs="?", default="", help="connection string of the gateway (libpq's variables)"
    )
    commands.add_parser("demo", help="a tour on a scratch directory")
    return parser
