"""Hot keys of tiered tables, and which tables are resident."""
