"""Messages of the PostgreSQL frontend/backend protocol as frozen values; no I/O, imports nothing of ours."""
