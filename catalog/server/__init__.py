"""The PostgreSQL behind the gateway: starting it, roles, migrations of the bookkeeping."""
