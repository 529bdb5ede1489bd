"""Trace lines, which the texts here show as libpq 18 wrote them of a session with PostgreSQL."""

import io
from datetime import UTC, datetime

import pytest

from pgwire_gateway.listener.message_trace import MessageTrace
from pgwire_gateway.messages import (
    AuthenticationMD5Password,
    AuthenticationOk,
    AuthenticationSASL,
    AuthenticationSASLContinue,
    BackendKeyData,
    BackendMessage,
    Bind,
    BindComplete,
    CancelRequest,
    Close,
    CloseComplete,
    CommandComplete,
    CopyData,
    CopyDone,
    CopyInResponse,
    DataRow,
    Describe,
    EmptyQueryResponse,
    ErrorResponse,
    Execute,
    FieldDescription,
    FrontendMessage,
    NoticeResponse,
    NotificationResponse,
    ObjectKind,
    ParameterDescription,
    Parse,
    ParseComplete,
    PasswordMessage,
    ProtocolVersion,
    Query,
    ReadyForQuery,
    RowDescription,
    SASLInitialResponse,
    SASLResponse,
    SSLRequest,
    StartupMessage,
    Sync,
    TransactionStatus,
)

READY = ReadyForQuery(TransactionStatus.IDLE)

SIMPLE = [
    Query(r"select 1 as a, null::text as b, E'x\ty' as c"),
    RowDescription(
        (
            FieldDescription("a", type_oid=23, type_size=4),
            FieldDescription("b", type_oid=25),
            FieldDescription("c", type_oid=25),
        )
    ),
    DataRow((b"1", None, b"x\ty")),
    CommandComplete("SELECT 1"),
    READY,
    Query(""),
    EmptyQueryResponse(),
    READY,
]

DIAGNOSTICS = [
    NoticeResponse.of(
        {
            "S": "NOTICE",
            "V": "NOTICE",
            "C": "00000",
            "M": "hi",
            "W": "PL/pgSQL function inline_code_block line 1 at RAISE",
            "F": "pl_exec.c",
            "L": "3909",
            "R": "exec_stmt_raise",
        }
    ),
    ErrorResponse.of(
        {
            "S": "ERROR",
            "V": "ERROR",
            "C": "22012",
            "M": "division by zero",
            "F": "int.c",
            "L": "870",
            "R": "int4div",
        }
    ),
]

EXTENDED = [
    Parse("", "select $1::int4, $2::text", (23, 0)),
    Bind("", "", (0, 0), (b"7", None), (1,)),
    Describe(ObjectKind.PORTAL),
    Execute(),
    Sync(),
    ParseComplete(),
    BindComplete(),
    RowDescription(
        (
            FieldDescription("int4", type_oid=23, type_size=4, format_code=1),
            FieldDescription("text", type_oid=25, format_code=1),
        )
    ),
    DataRow((b"\0\0\0\7", None)),
    ParameterDescription((23,)),
    Close(ObjectKind.STATEMENT, "s1"),
    CloseComplete(),
]

COPY_IN = [CopyInResponse(0, (0,)), CopyData(b"1\n"), CopyDone(), CommandComplete("COPY 1")]

NOTIFICATION = [NotificationResponse(31542, "ch", "pay")]


def trace_of(messages, **options):
    stream = io.StringIO()
    trace = MessageTrace(stream, timestamps=False, **options)
    for message in messages:
        if isinstance(message, FrontendMessage):
            trace.frontend(message)
        else:
            assert isinstance(message, BackendMessage)
            trace.backend(message)
    return stream.getvalue()


def lines(text):
    """Return the lines of an indented block, ``|`` standing for the tabs between their parts."""
    return "".join(line.strip().replace("|", "\t") + "\n" for line in text.strip().splitlines())


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        (
            SIMPLE,
            r"""
            F|49|Query| "select 1 as a, null::text as b, E'x\ty' as c"
            B|66|RowDescription| 3 "a" 0 0 23 4 -1 0 "b" 0 0 25 65535 -1 0 "c" 0 0 25 65535 -1 0
            B|22|DataRow| 3 1 '1' -1 3 'x\x09y'
            B|13|CommandComplete| "SELECT 1"
            B|5|ReadyForQuery| I
            F|5|Query| ""
            B|4|EmptyQueryResponse
            B|5|ReadyForQuery| I
            """,
        ),
        (
            DIAGNOSTICS[1:],
            r"""
            B|65|ErrorResponse| S "ERROR" V "ERROR" C "22012" M "division by zero" F "int.c" L "870" R "int4div" \x00
            """,  # noqa: E501
        ),
        (
            EXTENDED,
            r"""
            F|41|Parse| "" "select $1::int4, $2::text" 2 23 0
            F|27|Bind| "" "" 2 0 0 2 1 '7' -1 1 1
            F|6|Describe| P ""
            F|9|Execute| "" 0
            F|4|Sync
            B|4|ParseComplete
            B|4|BindComplete
            B|52|RowDescription| 2 "int4" 0 0 23 4 -1 1 "text" 0 0 25 65535 -1 1
            B|18|DataRow| 2 4 '\x00\x00\x00\x07' -1
            B|10|ParameterDescription| 1 23
            F|8|Close| S "s1"
            B|4|CloseComplete
            """,
        ),
        (
            COPY_IN,
            r"""
            B|9|CopyInResponse| \x00 1 0
            F|6|CopyData| '1\x0a'
            F|4|CopyDone
            B|11|CommandComplete| "COPY 1"
            """,
        ),
        (NOTIFICATION, 'B|15|NotificationResponse| 31542 "ch" "pay"'),
    ],
    ids=["simple", "diagnostics", "extended", "copy", "notification"],
)
def test_trace_reads_as_libpq_writes_it(messages, expected):
    assert trace_of(messages) == lines(expected)


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        (
            SIMPLE[:3],
            r"""
            F|49|Query| "select 1 as a, null::text as b, E'x\ty' as c"
            B|66|RowDescription| 3 "a" NNNN 0 NNNN 4 -1 0 "b" NNNN 0 NNNN 65535 -1 0 "c" NNNN 0 NNNN 65535 -1 0
            B|22|DataRow| 3 1 '1' -1 3 'x\x09y'
            """,  # noqa: E501
        ),
        (
            DIAGNOSTICS,
            r"""
            B|NN|NoticeResponse| S "NOTICE" V "NOTICE" C "00000" M "hi" W "PL/pgSQL function inline_code_block line 1 at RAISE" F "SSSS" L "SSSS" R "SSSS" \x00
            B|NN|ErrorResponse| S "ERROR" V "ERROR" C "22012" M "division by zero" F "SSSS" L "SSSS" R "SSSS" \x00
            """,  # noqa: E501
        ),
        (
            EXTENDED[:2] + EXTENDED[9:10],
            r"""
            F|41|Parse| "" "select $1::int4, $2::text" 2 NNNN NNNN
            F|27|Bind| "" "" 2 0 0 2 1 '7' -1 1 1
            B|10|ParameterDescription| 1 NNNN
            """,
        ),
        (
            COPY_IN,
            r"""
            B|9|CopyInResponse| \x00 1 0
            F|6|CopyData| 'BBBB'
            F|4|CopyDone
            B|11|CommandComplete| "COPY 1"
            """,
        ),
        (NOTIFICATION, 'B|15|NotificationResponse| NNNN "ch" "pay"'),
    ],
    ids=["simple", "diagnostics", "extended", "copy", "notification"],
)
def test_regress_mode_hides_what_varies(messages, expected):
    assert trace_of(messages, regress=True) == lines(expected)


def test_start_of_a_session():
    messages = [
        SSLRequest(),
        StartupMessage(ProtocolVersion(3, 0), (("user", "ada"), ("database", "hr"))),
        AuthenticationSASL(("SCRAM-SHA-256",)),
        AuthenticationSASLContinue(b"r=1,s=2"),
        AuthenticationOk(),
    ]
    assert trace_of(messages) == lines(
        """
        F|8|SSLRequest| 1234 5679
        F|30|StartupMessage| 3 0 "user" "ada" "database" "hr"
        B|23|AuthenticationSASL| "SCRAM-SHA-256" ""
        B|15|AuthenticationSASLContinue| 'r=1,s=2'
        B|8|AuthenticationOk
        """
    )


@pytest.mark.parametrize("regress", [False, True])
def test_secrets_never_reach_a_trace(regress):
    messages = [
        PasswordMessage("sesam"),
        SASLInitialResponse("SCRAM-SHA-256", b"n,,n=,r=sesam"),
        SASLResponse(b"c=biws,r=sesam,p=sesam"),
        BackendKeyData(7, b"sesam"),
        CancelRequest(7, b"sesam"),
    ]
    trace = trace_of(messages, regress=regress)
    assert trace.count("\n") == len(messages)
    assert "sesam" not in trace


def test_salt_of_a_password_is_hidden_in_regress_mode():
    assert trace_of([AuthenticationMD5Password(b"\1\2\3\4")], regress=True) == lines(
        "B|12|AuthenticationMD5Password| 'BBBB'"
    )


def test_message_is_one_line_whatever_a_client_sends():
    assert trace_of([Query("select 1;\nB\t5\tReadyForQuery\t I")]) == lines(
        r'F|35|Query| "select 1;\x0aB\x095\x09ReadyForQuery\x09 I"'
    )


def test_bytes_sent_are_traced_message_by_message():
    stream = io.StringIO()
    trace = MessageTrace(stream, timestamps=False)
    trace.backend_bytes(DataRow((b"1",)).encode() + DataRow((None,)).encode())
    trace.encryption_answer("SSLResponse", b"N")
    assert stream.getvalue() == lines(
        """
        B|11|DataRow| 1 1 '1'
        B|10|DataRow| 1 -1
        B|1|SSLResponse| N
        """
    )


def test_lines_begin_with_the_time():
    stream = io.StringIO()
    moment = datetime(2026, 2, 3, 4, 5, 6, 789, tzinfo=UTC)
    MessageTrace(stream, clock=lambda: moment).frontend(Sync())
    assert stream.getvalue() == "2026-02-03 04:05:06.000789\tF\t4\tSync\n"
