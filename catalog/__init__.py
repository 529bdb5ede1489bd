"""The brain: a PostgreSQL server with definitions, privileges, transactions and bookkeeping."""
