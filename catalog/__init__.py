"""The brain: a PostgreSQL server that keeps definitions, privileges, transactions and bookkeeping."""
