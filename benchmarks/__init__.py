"""Measurements of the gateway against PostgreSQL and against bare Spark."""
