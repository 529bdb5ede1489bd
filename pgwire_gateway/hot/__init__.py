"""Statements on single rows of tiered tables, which PostgreSQL runs on hot rows."""
