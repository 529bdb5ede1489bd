"""Statements that write several leaves of a partitioned table."""
