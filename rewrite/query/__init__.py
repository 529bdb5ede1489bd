"""Compile the relational part of an analysed query: range table, joins, grouping, changes of rows."""
