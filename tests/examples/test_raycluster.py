"""The manifest for Kubernetes: sound YAML that keeps what the guide promises of it."""

import re
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


def test_it_is_one_cluster_of_one_version_with_a_head_whose_runs_last() -> None:
    found = documents()
    spec = found["RayCluster"]["spec"]
    images = {container["image"] for pod in pods(found["RayCluster"]) for container in pod["containers"]}

    assert len(images) == 1
    assert images.pop().rpartition(":")[2] == spec["rayVersion"]
    assert spec["headGroupSpec"]["serviceType"] == "ClusterIP"
    assert spec["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"
    (workers,) = spec["workerGroupSpecs"]
    assert workers["minReplicas"] <= workers["replicas"] <= workers["maxReplicas"]
    runs = next(v for v in pods(found["RayCluster"])[0]["volumes"] if v["name"] == "runs")
    claim = found["PersistentVolumeClaim"]["metadata"]["name"]
    assert runs["persistentVolumeClaim"]["claimName"] == claim
    selector = found["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"]
    assert selector == {"ray.io/cluster": found["RayCluster"]["metadata"]["name"]}
    assert found["NetworkPolicy"]["spec"]["policyTypes"] == ["Ingress"]


def test_the_guide_names_it_and_starts_the_run_that_it_is_for() -> None:
    text = (ROOT / "docs" / "guide" / "ray.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"kubectl exec .*?\n(.*?)```", text, re.DOTALL)

    assert "kubectl apply -f examples/ray/raycluster.yaml" in text
    assert "--runtime ray --address auto --out /runs/" in command
    least, most = re.findall(r"(two) to (twenty) workers", text)[0]
    (workers,) = documents()["RayCluster"]["spec"]["workerGroupSpecs"]
    assert {"two": 2, "twenty": 20}[least] == workers["minReplicas"]
    assert {"two": 2, "twenty": 20}[most] == workers["maxReplicas"]
