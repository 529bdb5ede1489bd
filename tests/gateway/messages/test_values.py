"""Rules of single messages that are more than layout."""

import pytest

from pgwire_gateway.messages import Bind, ErrorResponse, NoticeResponse


@pytest.mark.parametrize(
    ("codes", "expected"),
    [((), [0, 0]), ((1,), [1, 1]), ((0, 1), [0, 1])],
)
def test_format_codes_apply_to_none_all_or_each(codes, expected):
    bind = Bind("", "", codes, (b"1", b"2"), codes)
    assert [bind.parameter_format_code(index) for index in range(2)] == expected
    assert [bind.result_format_code(index) for index in range(2)] == expected


def test_error_fields_come_in_the_order_of_postgresql():
    error = ErrorResponse.of(
        {
            "P": "8",
            "M": "relation does not exist",
            "R": "parserOpenTable",
            "D": None,
            "C": "42P01",
            "n": "key",
            "V": "ERROR",
            "H": "hint",
            "S": "FEHLER",
        }
    )
    assert "".join(code for code, _ in error.fields) == "SVCMHnPR"


def test_error_tells_its_severity_code_and_message():
    error = ErrorResponse.of({"S": "FEHLER", "V": "ERROR", "C": "22012", "M": "division by zero"})
    assert (error.severity, error.sqlstate, error.message) == (
        "ERROR",
        "22012",
        "division by zero",
    )
    assert error.get("H") is None


def test_error_and_notice_of_the_same_fields_differ():
    assert ErrorResponse.of({"M": "x"}) != NoticeResponse.of({"M": "x"})
