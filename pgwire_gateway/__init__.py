"""A server that speaks PostgreSQL's protocol over append-only journals on Apache Spark."""
