"""The manifest for Kubernetes: sound YAML that keeps what the guide promises of it."""

from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
MANIFEST = ROOT / "examples" / "ray" / "raycluster.yaml"


def documents() -> dict[str, dict[str, Any]]:
    return {d["kind"]: d for d in yaml.safe_load_all(MANIFEST.read_text(encoding="utf-8"))}


def pods(cluster: dict[str, Any]) -> list[dict[str, Any]]:
    spec = cluster["spec"]
    return [group["template"]["spec"] for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"])]


def test_every_pod_encrypts_and_spills_into_memory_alone() -> None:
    cluster = documents()["RayCluster"]

    assert cluster["spec"]["authOptions"] == {"mode": "token"}
    for pod in pods(cluster):
        (container,) = pod["containers"]
        environment = {entry["name"]: entry["value"] for entry in container["env"]}
        assert environment["RAY_USE_TLS"] == "1"
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        certificates = [environment[f"RAY_TLS_{name}"] for name in ("SERVER_CERT", "SERVER_KEY", "CA_CERT")]
        assert all(place.startswith(f"{mounts['tls']}/") for place in certificates)
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        assert set(volumes) == set(mounts)
        assert mounts["spilled"] == "/tmp/ray"
        assert volumes["spilled"]["emptyDir"]["medium"] == "Memory"
