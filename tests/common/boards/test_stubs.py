"""The generated messages are those of the .proto files."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

COMMON = Path(__file__).parents[3] / "common"


@pytest.mark.skipif(
    importlib.util.find_spec("grpc_tools") is None,
    reason="needs the generator: pip install 'grpcio-tools<1.82'",
)
@pytest.mark.parametrize("place", ["boards/boards", "messages/devices"])
def test_generating_the_messages_again_gives_the_files_that_are_there(tmp_path, place):
    folder, name = COMMON / Path(place).parent, Path(place).name
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{folder}"]
    command += [f"--python_out={tmp_path}", f"--pyi_out={tmp_path}", f"{name}.proto"]

    subprocess.run(command, check=True, timeout=60)

    for file in (f"{name}_pb2.py", f"{name}_pb2.pyi"):
        assert (tmp_path / file).read_text() == (folder / file).read_text(), f"{file}: generate it again"


def test_the_methods_are_those_of_the_proto_file():
    from fedboard.common.boards.boards_pb2 import DESCRIPTOR
    from fedboard.common.boards.methods import COSIGN, FETCH, PENDING, SERVICE, WATCH

    service = DESCRIPTOR.services_by_name["Boards"]
    assert service.full_name == SERVICE
    assert [method.name for method in service.methods] == [FETCH, WATCH, PENDING, COSIGN]
    assert [method.server_streaming for method in service.methods] == [True, True, True, False]
