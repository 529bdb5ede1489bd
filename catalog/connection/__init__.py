"""One connection to PostgreSQL: steps, round trips, messages passed on, what it tells."""
