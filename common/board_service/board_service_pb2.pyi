from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class LatestRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetRequest(_message.Message):
    __slots__ = ("version", "digest", "encoding", "base", "offset")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    ENCODING_FIELD_NUMBER: _ClassVar[int]
    BASE_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    version: int
    digest: str
    encoding: str
    base: int
    offset: int
    def __init__(self, version: _Optional[int] = ..., digest: _Optional[str] = ..., encoding: _Optional[str] = ..., base: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = ("known",)
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    known: int
    def __init__(self, known: _Optional[int] = ...) -> None: ...

class SignedManifest(_message.Message):
    __slots__ = ("content", "signature", "more")
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    content: bytes
    signature: bytes
    more: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, content: _Optional[bytes] = ..., signature: _Optional[bytes] = ..., more: _Optional[_Iterable[bytes]] = ...) -> None: ...

class Part(_message.Message):
    __slots__ = ("manifest", "chunk")
    MANIFEST_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    manifest: SignedManifest
    chunk: bytes
    def __init__(self, manifest: _Optional[_Union[SignedManifest, _Mapping]] = ..., chunk: _Optional[bytes] = ...) -> None: ...

class RootRequest(_message.Message):
    __slots__ = ("version",)
    VERSION_FIELD_NUMBER: _ClassVar[int]
    version: int
    def __init__(self, version: _Optional[int] = ...) -> None: ...

class RootDocument(_message.Message):
    __slots__ = ("content",)
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    content: bytes
    def __init__(self, content: _Optional[bytes] = ...) -> None: ...
