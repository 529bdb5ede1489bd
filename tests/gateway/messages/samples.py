"""Every message class with values and the bytes the chapter "Message Formats" prescribes."""

from pgwire_gateway.messages import (
    AuthenticationCleartextPassword,
    AuthenticationMD5Password,
    AuthenticationOk,
    AuthenticationSASL,
    AuthenticationSASLContinue,
    AuthenticationSASLFinal,
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
    CopyFail,
    CopyInResponse,
    CopyOutResponse,
    DataRow,
    Describe,
    EmptyQueryResponse,
    ErrorResponse,
    Execute,
    FieldDescription,
    Flush,
    FrontendMessage,
    FunctionCall,
    FunctionCallResponse,
    GSSENCRequest,
    NegotiateProtocolVersion,
    NoData,
    NoticeResponse,
    NotificationResponse,
    ObjectKind,
    ParameterDescription,
    ParameterStatus,
    Parse,
    ParseComplete,
    PasswordMessage,
    PortalSuspended,
    ProtocolVersion,
    Query,
    ReadyForQuery,
    RowDescription,
    SASLInitialResponse,
    SASLResponse,
    SSLRequest,
    StartupMessage,
    Sync,
    Terminate,
    TransactionStatus,
)

STARTUP_PACKETS: list[tuple[FrontendMessage, bytes]] = [
    (
        StartupMessage(ProtocolVersion(3, 0), (("user", "ada"), ("database", "hr"))),
        (
            b"\x00\x00\x00\x1e"  # length 30
            b"\x00\x03\x00\x00"  # version 3.0
            b"user\x00ada\x00"
            b"database\x00hr\x00"
            b"\x00"
        ),
    ),
    (
        StartupMessage(ProtocolVersion(3, 2)),
        b"\x00\x00\x00\x09\x00\x03\x00\x02\x00",
    ),
    (SSLRequest(), b"\x00\x00\x00\x08\x04\xd2\x16\x2f"),
    (GSSENCRequest(), b"\x00\x00\x00\x08\x04\xd2\x16\x30"),
    (
        CancelRequest(4711, b"\xca\xfe\xba\xbe"),
        (
            b"\x00\x00\x00\x10"  # length 16
            b"\x04\xd2\x16\x2e"  # 80877102
            b"\x00\x00\x12\x67"
            b"\xca\xfe\xba\xbe"
        ),
    ),
    (
        CancelRequest(4711, bytes(range(32))),
        b"\x00\x00\x00\x2c"  # length 44: the key of version 3.2 is as long as the packet
        b"\x04\xd2\x16\x2e\x00\x00\x12\x67" + bytes(range(32)),
    ),
]

AUTHENTICATION_RESPONSES: list[tuple[FrontendMessage, bytes]] = [
    (PasswordMessage("sesam"), b"p\x00\x00\x00\x0asesam\x00"),
    (
        SASLInitialResponse("SCRAM-SHA-256", b"n,,"),
        b"p\x00\x00\x00\x19SCRAM-SHA-256\x00\x00\x00\x00\x03n,,",
    ),
    (
        SASLInitialResponse("PLAIN", None),
        b"p\x00\x00\x00\x0ePLAIN\x00\xff\xff\xff\xff",
    ),
    (SASLResponse(b"c=biws"), b"p\x00\x00\x00\x0ac=biws"),
]

SESSION_MESSAGES: list[tuple[FrontendMessage, bytes]] = [
    (Query("SELECT 1"), b"Q\x00\x00\x00\x0dSELECT 1\x00"),
    (Query("SELECT 'ä€𝄞'"), b"Q\x00\x00\x00\x17SELECT '\xc3\xa4\xe2\x82\xac\xf0\x9d\x84\x9e'\x00"),
    (
        Parse("s1", "SELECT $1", (23, 4294967295)),
        (
            b"P\x00\x00\x00\x1bs1\x00SELECT $1\x00\x00\x02\x00\x00\x00\x17\xff\xff\xff\xff"
        ),  # an OID is unsigned
    ),
    (Parse("", "SELECT"), b"P\x00\x00\x00\x0e\x00SELECT\x00\x00\x00"),
    (
        Bind("p1", "s1", (0, 1), (b"7", None), (1,)),
        (
            b"B\x00\x00\x00\x1f"
            b"p1\x00"
            b"s1\x00"
            b"\x00\x02\x00\x00\x00\x01"  # two format codes
            b"\x00\x02"  # two values
            b"\x00\x00\x00\x017"
            b"\xff\xff\xff\xff"  # NULL
            b"\x00\x01\x00\x01"
        ),  # one result format code
    ),
    (
        Bind("", "", (1,), (b"", b"\x00\x00"), ()),
        (
            b"B\x00\x00\x00\x18"
            b"\x00\x00"
            b"\x00\x01\x00\x01"  # one format code for both
            b"\x00\x02\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00"
            b"\x00\x00"
        ),
    ),
    (Describe(ObjectKind.STATEMENT, "s1"), b"D\x00\x00\x00\x08Ss1\x00"),
    (Describe(ObjectKind.PORTAL), b"D\x00\x00\x00\x06P\x00"),
    (Close(ObjectKind.PORTAL, "p1"), b"C\x00\x00\x00\x08Pp1\x00"),
    (Close(ObjectKind.STATEMENT), b"C\x00\x00\x00\x06S\x00"),
    (Execute("p1", 100), b"E\x00\x00\x00\x0bp1\x00\x00\x00\x00\x64"),
    (Execute("", -1), b"E\x00\x00\x00\x09\x00\xff\xff\xff\xff"),
    (Flush(), b"H\x00\x00\x00\x04"),
    (Sync(), b"S\x00\x00\x00\x04"),
    (Terminate(), b"X\x00\x00\x00\x04"),
    (CopyFail("gave up"), b"f\x00\x00\x00\x0cgave up\x00"),
    (
        FunctionCall(1397, (0,), (b"-4", None), 1),
        (
            b"F\x00\x00\x00\x1a"
            b"\x00\x00\x05\x75"
            b"\x00\x01\x00\x00"
            b"\x00\x02"
            b"\x00\x00\x00\x02-4"
            b"\xff\xff\xff\xff"
            b"\x00\x01"
        ),
    ),
]

BOTH_DIRECTIONS: list[tuple[CopyData | CopyDone, bytes]] = [
    (CopyData(b"1\ta\n"), b"d\x00\x00\x00\x081\ta\n"),
    (CopyData(b""), b"d\x00\x00\x00\x04"),
    (CopyDone(), b"c\x00\x00\x00\x04"),
]

BACKEND_MESSAGES: list[tuple[BackendMessage, bytes]] = [
    (AuthenticationOk(), b"R\x00\x00\x00\x08\x00\x00\x00\x00"),
    (AuthenticationCleartextPassword(), b"R\x00\x00\x00\x08\x00\x00\x00\x03"),
    (AuthenticationMD5Password(b"salt"), b"R\x00\x00\x00\x0c\x00\x00\x00\x05salt"),
    (
        AuthenticationSASL(("SCRAM-SHA-256-PLUS", "SCRAM-SHA-256")),
        b"R\x00\x00\x00\x2a\x00\x00\x00\x0aSCRAM-SHA-256-PLUS\x00SCRAM-SHA-256\x00\x00",
    ),
    (AuthenticationSASLContinue(b"r=1,s=2"), b"R\x00\x00\x00\x0f\x00\x00\x00\x0br=1,s=2"),
    (AuthenticationSASLFinal(b"v=3"), b"R\x00\x00\x00\x0b\x00\x00\x00\x0cv=3"),
    (
        BackendKeyData(4711, b"\xca\xfe\xba\xbe"),
        b"K\x00\x00\x00\x0c\x00\x00\x12\x67\xca\xfe\xba\xbe",
    ),
    (
        BackendKeyData(4711, bytes(range(32))),
        b"K\x00\x00\x00\x28\x00\x00\x12\x67" + bytes(range(32)),
    ),
    (ParameterStatus("TimeZone", "UTC"), b"S\x00\x00\x00\x11TimeZone\x00UTC\x00"),
    (
        NegotiateProtocolVersion(ProtocolVersion(3, 2), ("_pq_.one", "_pq_.two")),
        b"v\x00\x00\x00\x1e\x00\x03\x00\x02\x00\x00\x00\x02_pq_.one\x00_pq_.two\x00",
    ),
    (ReadyForQuery(TransactionStatus.IDLE), b"Z\x00\x00\x00\x05I"),
    (ReadyForQuery(TransactionStatus.IN_TRANSACTION), b"Z\x00\x00\x00\x05T"),
    (ReadyForQuery(TransactionStatus.FAILED), b"Z\x00\x00\x00\x05E"),
    (
        RowDescription(
            (
                FieldDescription("id", 16385, 1, 23, 4, -1, 1),
                FieldDescription("ñ", type_oid=25),
            )
        ),
        (
            b"T\x00\x00\x00\x30"
            b"\x00\x02"
            b"id\x00"
            b"\x00\x00\x40\x01"  # table
            b"\x00\x01"  # attribute number
            b"\x00\x00\x00\x17"  # type
            b"\x00\x04"  # type size
            b"\xff\xff\xff\xff"  # type modifier
            b"\x00\x01"  # binary
            b"\xc3\xb1\x00"
            b"\x00\x00\x00\x00\x00\x00"
            b"\x00\x00\x00\x19\xff\xff\xff\xff\xff\xff\x00\x00"
        ),
    ),
    (RowDescription(()), b"T\x00\x00\x00\x06\x00\x00"),
    (
        DataRow((b"1", None, b"")),
        b"D\x00\x00\x00\x13\x00\x03\x00\x00\x00\x011\xff\xff\xff\xff\x00\x00\x00\x00",
    ),
    (DataRow(()), b"D\x00\x00\x00\x06\x00\x00"),
    (CommandComplete("INSERT 0 1"), b"C\x00\x00\x00\x0fINSERT 0 1\x00"),
    (EmptyQueryResponse(), b"I\x00\x00\x00\x04"),
    (
        ErrorResponse((("S", "ERROR"), ("C", "42P01"), ("M", "no"))),
        b"E\x00\x00\x00\x17SERROR\x00C42P01\x00Mno\x00\x00",
    ),
    (
        NoticeResponse((("S", "NOTICE"), ("M", "so"))),
        b"N\x00\x00\x00\x11SNOTICE\x00Mso\x00\x00",
    ),
    (ParseComplete(), b"1\x00\x00\x00\x04"),
    (BindComplete(), b"2\x00\x00\x00\x04"),
    (CloseComplete(), b"3\x00\x00\x00\x04"),
    (NoData(), b"n\x00\x00\x00\x04"),
    (
        ParameterDescription((23, 1700)),
        b"t\x00\x00\x00\x0e\x00\x02\x00\x00\x00\x17\x00\x00\x06\xa4",
    ),
    (PortalSuspended(), b"s\x00\x00\x00\x04"),
    (CopyInResponse(0, (0, 0)), b"G\x00\x00\x00\x0b\x00\x00\x02\x00\x00\x00\x00"),
    (CopyOutResponse(1, (1,)), b"H\x00\x00\x00\x09\x01\x00\x01\x00\x01"),
    (
        NotificationResponse(4711, "news", "extra"),
        b"A\x00\x00\x00\x13\x00\x00\x12\x67news\x00extra\x00",
    ),
    (FunctionCallResponse(b"4"), b"V\x00\x00\x00\x09\x00\x00\x00\x014"),
    (FunctionCallResponse(None), b"V\x00\x00\x00\x08\xff\xff\xff\xff"),
]
