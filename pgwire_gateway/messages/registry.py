"""Which message a type byte means, in each direction once a session is open."""

from pgwire_gateway.messages.authentication import AuthenticationRequest
from pgwire_gateway.messages.base import BackendMessage, FrontendMessage
from pgwire_gateway.messages.copy_data import (
    CopyData,
    CopyDone,
    CopyFail,
    CopyInResponse,
    CopyOutResponse,
)
from pgwire_gateway.messages.extended_query import (
    Bind,
    BindComplete,
    Close,
    CloseComplete,
    Describe,
    Execute,
    Flush,
    Parse,
    ParseComplete,
    PortalSuspended,
    Sync,
)
from pgwire_gateway.messages.responses import (
    BackendKeyData,
    CommandComplete,
    EmptyQueryResponse,
    ErrorResponse,
    NegotiateProtocolVersion,
    NoticeResponse,
    NotificationResponse,
    ParameterStatus,
    ReadyForQuery,
)
from pgwire_gateway.messages.row_data import (
    DataRow,
    NoData,
    ParameterDescription,
    RowDescription,
)
from pgwire_gateway.messages.simple_query import (
    FunctionCall,
    FunctionCallResponse,
    Query,
    Terminate,
)

FRONTEND_MESSAGES: dict[bytes, type[FrontendMessage]] = {
    message.type_byte: message
    for message in (
        Bind,
        Close,
        CopyData,
        CopyDone,
        CopyFail,
        Describe,
        Execute,
        Flush,
        FunctionCall,
        Parse,
        Query,
        Sync,
        Terminate,
    )
}
"""Messages a client may send in an open session."""

BACKEND_MESSAGES: dict[bytes, type[BackendMessage]] = {
    message.type_byte: message
    for message in (
        AuthenticationRequest,
        BackendKeyData,
        BindComplete,
        CloseComplete,
        CommandComplete,
        CopyData,
        CopyDone,
        CopyInResponse,
        CopyOutResponse,
        DataRow,
        EmptyQueryResponse,
        ErrorResponse,
        FunctionCallResponse,
        NegotiateProtocolVersion,
        NoData,
        NoticeResponse,
        NotificationResponse,
        ParameterDescription,
        ParameterStatus,
        ParseComplete,
        PortalSuspended,
        ReadyForQuery,
        RowDescription,
    )
}
"""Messages the server may send; AuthenticationRequest stands for all of its kind."""
