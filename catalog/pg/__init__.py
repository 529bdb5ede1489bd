"""Facts of PostgreSQL: types, SQLSTATEs, how it writes values."""
