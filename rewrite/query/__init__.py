"""Compile the relational part of analysed queries: relations, joins, grouping, row changes."""
