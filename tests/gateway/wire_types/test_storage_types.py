"""Arrow storage types are those the compiler gives to Spark."""

import pytest

from pgwire_gateway.wire_types.registry import arrow_type
from pgwire_gateway.wire_types.type_oids import ELEMENT_OF_ARRAY, OBJECT_ALIASES
from rewrite.dialect.type_mapping import storage_type

DDL = {
    "bool": "BOOLEAN",
    "int16": "SMALLINT",
    "int32": "INT",
    "int64": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "STRING",
    "binary": "BINARY",
    "date32[day]": "DATE",
    "timestamp[us]": "TIMESTAMP_NTZ",
    "timestamp[us, tz=UTC]": "TIMESTAMP",
    "struct<months: int32, days: int32, microseconds: int64>": (
        "STRUCT<months: INT, days: INT, microseconds: BIGINT>"
    ),
}
SCALARS = (
    16,
    17,
    18,
    19,
    20,
    21,
    23,
    25,
    26,
    114,
    142,
    600,
    650,
    700,
    701,
    705,
    718,
    790,
    829,
    869,
)
OIDS = (
    *(*SCALARS, 1042, 1043, 1082, 1083, 1114, 1184, 1186, 1266, 1560, 1562, 1700, 2249, 2950, 3802),
    *(3614, 3904, 20_000, 199, 3807),
)


def _ddl(kind) -> str:
    name = str(kind)
    if name.startswith("list"):
        return f"ARRAY<{_ddl(kind.value_type)}>"
    if name.startswith("decimal128"):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    return DDL[name]


@pytest.mark.parametrize("type_oid", [*OIDS, *ELEMENT_OF_ARRAY, *OBJECT_ALIASES])
def test_types_agree(type_oid: int):
    assert _ddl(arrow_type(type_oid)) == storage_type(type_oid, -1)


@pytest.mark.parametrize("type_oid", [1700, 1231])
@pytest.mark.parametrize(
    ("precision", "scale"), [(15, 2), (38, 38), (38, 0), (39, 2), (5, -2), (2, 5), (1000, 1000)]
)
def test_numerics_agree(type_oid: int, precision: int, scale: int):
    typmod = ((precision << 16) | (scale & 0x7FF)) + 4
    assert _ddl(arrow_type(type_oid, typmod)) == storage_type(type_oid, typmod)
