from tests.support.fix_rewrite import oracle, oracle_uri, spark_session, thawing

__all__ = ["oracle", "oracle_uri", "spark_session", "thawing"]
