from tests.support.fix_rewrite import oracle, oracle_uri, spark_session

__all__ = ["oracle", "oracle_uri", "spark_session"]
