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
    __slots__ = ("version", "digest", "manifest", "file", "offset")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    MANIFEST_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    version: int
    digest: str
    manifest: str
    file: bool
    offset: int
    def __init__(self, version: _Optional[int] = ..., digest: _Optional[str] = ..., manifest: _Optional[str] = ..., file: _Optional[bool] = ..., offset: _Optional[int] = ...) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = ("known",)
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    known: int
    def __init__(self, known: _Optional[int] = ...) -> None: ...

class Cosignature(_message.Message):
    __slots__ = ("key", "signature")
    KEY_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    signature: bytes
    def __init__(self, key: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class SignedManifest(_message.Message):
    __slots__ = ("content", "signatures", "cosignatures")
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    SIGNATURES_FIELD_NUMBER: _ClassVar[int]
    COSIGNATURES_FIELD_NUMBER: _ClassVar[int]
    content: bytes
    signatures: _containers.RepeatedScalarFieldContainer[bytes]
    cosignatures: _containers.RepeatedCompositeFieldContainer[Cosignature]
    def __init__(self, content: _Optional[bytes] = ..., signatures: _Optional[_Iterable[bytes]] = ..., cosignatures: _Optional[_Iterable[_Union[Cosignature, _Mapping]]] = ...) -> None: ...

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

class PendingRequest(_message.Message):
    __slots__ = ("known",)
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    known: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, known: _Optional[_Iterable[str]] = ...) -> None: ...

class PendingManifest(_message.Message):
    __slots__ = ("manifest", "certificate")
    MANIFEST_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    manifest: SignedManifest
    certificate: bytes
    def __init__(self, manifest: _Optional[_Union[SignedManifest, _Mapping]] = ..., certificate: _Optional[bytes] = ...) -> None: ...

class CosignRequest(_message.Message):
    __slots__ = ("manifest", "cosignature")
    MANIFEST_FIELD_NUMBER: _ClassVar[int]
    COSIGNATURE_FIELD_NUMBER: _ClassVar[int]
    manifest: str
    cosignature: Cosignature
    def __init__(self, manifest: _Optional[str] = ..., cosignature: _Optional[_Union[Cosignature, _Mapping]] = ...) -> None: ...

class CosignReply(_message.Message):
    __slots__ = ("enough",)
    ENOUGH_FIELD_NUMBER: _ClassVar[int]
    enough: bool
    def __init__(self, enough: _Optional[bool] = ...) -> None: ...
