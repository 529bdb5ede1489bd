"""A client's session with PostgreSQL: analysis, transactions, lookups, settings."""
