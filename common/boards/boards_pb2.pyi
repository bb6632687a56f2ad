from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class FetchRequest(_message.Message):
    __slots__ = ("name", "offset")
    NAME_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    name: str
    offset: int
    def __init__(self, name: _Optional[str] = ..., offset: _Optional[int] = ...) -> None: ...

class Chunk(_message.Message):
    __slots__ = ("content",)
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    content: bytes
    def __init__(self, content: _Optional[bytes] = ...) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = ("known",)
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    known: int
    def __init__(self, known: _Optional[int] = ...) -> None: ...

class PendingRequest(_message.Message):
    __slots__ = ("known",)
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    known: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, known: _Optional[_Iterable[str]] = ...) -> None: ...

class PendingManifest(_message.Message):
    __slots__ = ("manifest", "certificate")
    MANIFEST_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    manifest: bytes
    certificate: bytes
    def __init__(self, manifest: _Optional[bytes] = ..., certificate: _Optional[bytes] = ...) -> None: ...

class CosignRequest(_message.Message):
    __slots__ = ("manifest", "key", "signature")
    MANIFEST_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    manifest: str
    key: bytes
    signature: bytes
    def __init__(self, manifest: _Optional[str] = ..., key: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class CosignReply(_message.Message):
    __slots__ = ("enough",)
    ENOUGH_FIELD_NUMBER: _ClassVar[int]
    enough: bool
    def __init__(self, enough: _Optional[bool] = ...) -> None: ...
