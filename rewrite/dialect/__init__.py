"""PostgreSQL's types, functions and operators expressed in Spark SQL, one table per family."""
