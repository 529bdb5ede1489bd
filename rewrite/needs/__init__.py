"""Which rows of tiered tables have to be hot for PostgreSQL to run a statement itself."""
