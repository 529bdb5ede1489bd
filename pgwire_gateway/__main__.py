"""Run the command line with ``python -m pgwire_gateway``."""

from pgwire_gateway.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
