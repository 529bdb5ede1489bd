"""Running planned statements: to PostgreSQL, to Spark, or to commands of the gateway's own."""
