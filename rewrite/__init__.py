"""Compile PostgreSQL's analysed statements into Spark SQL over journals; pure, without I/O."""
