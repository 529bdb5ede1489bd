"""Enumerations of the nodes of PostgreSQL's trees, which are printed as numbers.

Generated from PostgreSQL 18.4 by `make facts`.
"""

from enum import IntEnum, IntFlag


class CmdType(IntEnum):
    """Of nodes/nodes.h."""

    UNKNOWN = 0
    SELECT = 1
    UPDATE = 2
    INSERT = 3
    DELETE = 4
    MERGE = 5
    UTILITY = 6
    NOTHING = 7


class JoinType(IntEnum):
    """Of nodes/nodes.h."""

    INNER = 0
    LEFT = 1
    FULL = 2
    RIGHT = 3
    SEMI = 4
    ANTI = 5
    RIGHT_SEMI = 6
    RIGHT_ANTI = 7
    UNIQUE_OUTER = 8
    UNIQUE_INNER = 9


class LimitOption(IntEnum):
    """Of nodes/nodes.h."""

    COUNT = 0
    WITH_TIES = 1


class OnConflictAction(IntEnum):
    """Of nodes/nodes.h."""

    NONE = 0
    NOTHING = 1
    UPDATE = 2


class LockClauseStrength(IntEnum):
    """Of nodes/lockoptions.h."""

    NONE = 0
    FORKEYSHARE = 1
    FORSHARE = 2
    FORNOKEYUPDATE = 3
    FORUPDATE = 4


class LockWaitPolicy(IntEnum):
    """Of nodes/lockoptions.h."""

    BLOCK = 0
    SKIP = 1
    ERROR = 2


class GroupingSetKind(IntEnum):
    """Of nodes/parsenodes.h."""

    EMPTY = 0
    SIMPLE = 1
    ROLLUP = 2
    CUBE = 3
    SETS = 4


class RTEKind(IntEnum):
    """Of nodes/parsenodes.h."""

    RELATION = 0
    SUBQUERY = 1
    JOIN = 2
    FUNCTION = 3
    TABLEFUNC = 4
    VALUES = 5
    CTE = 6
    NAMEDTUPLESTORE = 7
    RESULT = 8
    GROUP = 9


class SetOperation(IntEnum):
    """Of nodes/parsenodes.h."""

    NONE = 0
    UNION = 1
    INTERSECT = 2
    EXCEPT = 3


class BoolTestType(IntEnum):
    """Of nodes/primnodes.h."""

    TRUE = 0
    NOT_TRUE = 1
    FALSE = 2
    NOT_FALSE = 3
    UNKNOWN = 4
    NOT_UNKNOWN = 5


class MergeMatchKind(IntEnum):
    """Of nodes/primnodes.h."""

    MATCHED = 0
    NOT_MATCHED_BY_SOURCE = 1
    NOT_MATCHED_BY_TARGET = 2


class MinMaxOp(IntEnum):
    """Of nodes/primnodes.h."""

    GREATEST = 0
    LEAST = 1


class NullTestType(IntEnum):
    """Of nodes/primnodes.h."""

    NULL = 0
    NOT_NULL = 1


class ParamKind(IntEnum):
    """Of nodes/primnodes.h."""

    EXTERN = 0
    EXEC = 1
    SUBLINK = 2
    MULTIEXPR = 3


class SQLValueFunctionOp(IntEnum):
    """Of nodes/primnodes.h."""

    CURRENT_DATE = 0
    CURRENT_TIME = 1
    CURRENT_TIME_N = 2
    CURRENT_TIMESTAMP = 3
    CURRENT_TIMESTAMP_N = 4
    LOCALTIME = 5
    LOCALTIME_N = 6
    LOCALTIMESTAMP = 7
    LOCALTIMESTAMP_N = 8
    CURRENT_ROLE = 9
    CURRENT_USER = 10
    USER = 11
    SESSION_USER = 12
    CURRENT_CATALOG = 13
    CURRENT_SCHEMA = 14


class SubLinkType(IntEnum):
    """Of nodes/primnodes.h."""

    EXISTS = 0
    ALL = 1
    ANY = 2
    ROWCOMPARE = 3
    EXPR = 4
    MULTIEXPR = 5
    ARRAY = 6
    CTE = 7


class VarReturningType(IntEnum):
    """Of nodes/primnodes.h."""

    DEFAULT = 0
    OLD = 1
    NEW = 2


class FrameOption(IntFlag):
    """Of nodes/parsenodes.h."""

    NONDEFAULT = 0x1
    RANGE = 0x2
    ROWS = 0x4
    GROUPS = 0x8
    BETWEEN = 0x10
    START_UNBOUNDED_PRECEDING = 0x20
    END_UNBOUNDED_PRECEDING = 0x40
    START_UNBOUNDED_FOLLOWING = 0x80
    END_UNBOUNDED_FOLLOWING = 0x100
    START_CURRENT_ROW = 0x200
    END_CURRENT_ROW = 0x400
    START_OFFSET_PRECEDING = 0x800
    END_OFFSET_PRECEDING = 0x1000
    START_OFFSET_FOLLOWING = 0x2000
    END_OFFSET_FOLLOWING = 0x4000
    EXCLUDE_CURRENT_ROW = 0x8000
    EXCLUDE_GROUP = 0x10000
    EXCLUDE_TIES = 0x20000
