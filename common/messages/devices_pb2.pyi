from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class IntroduceRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class IntroduceReply(_message.Message):
    __slots__ = ("content",)
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    content: bytes
    def __init__(self, content: _Optional[bytes] = ...) -> None: ...

class JoinRequest(_message.Message):
    __slots__ = ("secret", "key", "signature", "identity", "identity_signature", "version")
    SECRET_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    secret: bytes
    key: bytes
    signature: bytes
    identity: bytes
    identity_signature: bytes
    version: str
    def __init__(self, secret: _Optional[bytes] = ..., key: _Optional[bytes] = ..., signature: _Optional[bytes] = ..., identity: _Optional[bytes] = ..., identity_signature: _Optional[bytes] = ..., version: _Optional[str] = ...) -> None: ...

class JoinReply(_message.Message):
    __slots__ = ("name", "max_users", "refused")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MAX_USERS_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    name: str
    max_users: int
    refused: str
    def __init__(self, name: _Optional[str] = ..., max_users: _Optional[int] = ..., refused: _Optional[str] = ...) -> None: ...

class WorkRequest(_message.Message):
    __slots__ = ("version",)
    VERSION_FIELD_NUMBER: _ClassVar[int]
    version: str
    def __init__(self, version: _Optional[str] = ...) -> None: ...

class WorkPart(_message.Message):
    __slots__ = ("head", "chunk")
    HEAD_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    head: WorkHead
    chunk: bytes
    def __init__(self, head: _Optional[_Union[WorkHead, _Mapping]] = ..., chunk: _Optional[bytes] = ...) -> None: ...

class WorkHead(_message.Message):
    __slots__ = ("work", "kind", "frame_bytes", "total_bytes", "pause_seconds")
    WORK_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    FRAME_BYTES_FIELD_NUMBER: _ClassVar[int]
    TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    PAUSE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    work: str
    kind: str
    frame_bytes: int
    total_bytes: int
    pause_seconds: float
    def __init__(self, work: _Optional[str] = ..., kind: _Optional[str] = ..., frame_bytes: _Optional[int] = ..., total_bytes: _Optional[int] = ..., pause_seconds: _Optional[float] = ...) -> None: ...

class AnswerChunk(_message.Message):
    __slots__ = ("content",)
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    content: bytes
    def __init__(self, content: _Optional[bytes] = ...) -> None: ...

class AnswerReceipt(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
