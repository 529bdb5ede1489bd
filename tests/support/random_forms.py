"""What random statements are made of, by name, so that some of it can be asked for."""

from enum import Enum


class Form(Enum):
    """A part of a statement."""

    # What the rows are told by, and where.
    JOINED = "an UPDATE or DELETE joined with sources"
    MERGE = "a MERGE"
    INSERT = "an INSERT"
    SELECT = "a SELECT"
    IN = "IN, ANY or ALL of a subquery"
    EXISTS = "EXISTS of a subquery"
    SCALAR = "a comparison with a scalar subquery"

    # Relations.
    TABLE = "a source"
    VIEW = "a view of sources"
    ARRAYS = "elements of several arrays"
    SUBQUERY = "a subquery in FROM"
    TWICE = "a source beside a subquery on it"
    TIERED = "any relation beside sources"
    USING = "columns that a full join merges"

    # Common table expressions.
    QUERIED = "a query as common table expression"
    DELETED = "what DELETE returns"
    UPDATED = "what UPDATE returns"
    INSERTED = "what INSERT returns"
    MERGED = "what MERGE returns"
    RECURSIVE = "a common table expression that reads itself"
    SAME_NAME = "a common table expression in a subquery that has the name of one around it"

    # Queries.
    PLAIN = "a query of rows as they are"
    DISTINCT = "DISTINCT"
    LIMITED = "LIMIT"
    GROUPED = "GROUP BY"
    SET = "a set operation"
    UNKNOWN = "a query of a set operation whose values are computed"
    AGGREGATE = "an aggregate without GROUP BY"
    HAVING = "HAVING without GROUP BY"
    ROLLUP = "grouping sets"
    ORDERED = "ORDER BY"
    MADE = "rows that a function makes of each"

    # Conditions.
    SEVERAL = "several columns, none of which is a key alone"
    COMPUTED = "a value that is computed"
    OUTER = "a column of the query around"
    OWN = "a condition of a subquery on its own columns"
    OR = "OR"
    OPERATOR = "another operator than ="
    NEGATED = "NOT"
    ALL = "ALL"

    OMITTED = "a column that an INSERT does not name"

    # Functions of users.
    CALLED = "a function of a value that is written or shown"
    TESTED = "a function in a condition"
    NOTED = "a function in a condition that does something"

    # Schemas.
    KEPT = "unique keys that are looked at when the statement has run, some of them computed"
    POLICED = "policies for who runs the statement"

    # Rows that are locked in turn.
    BESIDE = "another relation beside the one whose rows are locked"
    TIES = "WITH TIES"
    PRECEDED = "OFFSET"
    UNSTEADY = "a value that is another one before the statement"
    UNLOCKED = "rows that are not locked"

    # Comparisons with what a subquery says of the same table.
    FOUND = "a column that is compared with what a subquery finds"
    OTHER_TABLE = "the subquery is on another table"
    OTHER_KEY = "the column is any"
    OTHER_COLUMN = "the subquery shows another column"
    UNITED = "the subquery is a set operation"
