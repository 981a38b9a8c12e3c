"""As much of the Kubernetes API as Spark needs to get executors: a pod is a process on this machine.

What a pod's image would do is here, after Spark's own `entrypoint.sh`; no kubelet, no network and no image are tried.
"""

from __future__ import annotations

import json
import os
import re
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psutil

from k2k_assets.java.find import find_java
from k2k_assets.spark.spark_command import spark_home
from k2k_assets_tests.support.spark.cluster import kill_with_children

_ADDRESS = "127.0.0.1"
_OBJECT = re.compile(r"/api/v1/namespaces/(?P<namespace>[^/]+)/(?P<kind>[a-z]+)(?:/(?P<name>[^/]+))?$")
_KINDS = {"pods": "Pod", "configmaps": "ConfigMap", "persistentvolumeclaims": "PersistentVolumeClaim"}


@dataclass
class Pod:
    """A pod that Spark has asked for.

    Attributes:
        manifest: As Spark wrote it.
        process: What runs as its container.
    """

    manifest: dict[str, Any]
    process: psutil.Popen

    @property
    def container(self) -> dict[str, Any]:
        """Its only container."""
        (found,) = self.manifest["spec"]["containers"]
        return dict(found)

    @property
    def environment(self) -> dict[str, str]:
        """What its container finds in its environment."""
        own = {"status.podIP": _ADDRESS, "metadata.name": self.manifest["metadata"]["name"]}
        return environment_of(self.container, own)

    def described(self) -> dict[str, Any]:
        """As the API tells of it."""
        code = self.process.poll()
        phase = "Running" if code is None else "Failed"
        state = {"running": {}} if code is None else {"terminated": {"exitCode": abs(code) or 1}}
        status = {"name": self.container["name"], "ready": code is None, "state": state}
        return {**self.manifest, "status": {"phase": phase, "podIP": _ADDRESS, "containerStatuses": [status]}}


def environment_of(container: Mapping[str, Any], own: Mapping[str, str]) -> dict[str, str]:
    """The environment of a container.

    Args:
        container: As in the manifest.
        own: What `fieldRef` may name.
    """
    return {
        each["name"]: each["value"] if "value" in each else own.get(each["valueFrom"]["fieldRef"]["fieldPath"], "")
        for each in container.get("env", ())
    }


class Kubernetes:
    """A namespace with the pod of the driver in it, and those that the driver asks for.

    Args:
        folder: For the logs of executors.
        driver: Name of the driver's pod.

    Attributes:
        pods: Pods that are there, by name.
        asked: All that Spark has asked for so far.
        namespaces: Where it has asked.
        requests: Resources and verbs of all its requests, as a role names them.
    """

    def __init__(self, folder: Path, driver: str) -> None:
        self.folder, self.driver = folder, driver
        self.pods: dict[str, Pod] = {}
        self.asked: list[Pod] = []
        self.namespaces: set[str] = set()
        self.requests: set[tuple[str, str]] = set()
        self._lock = threading.Lock()

    def create(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """Starts a pod."""
        metadata = manifest["metadata"]
        metadata.update(uid=str(uuid.uuid4()), creationTimestamp="2026-01-01T00:00:00Z", resourceVersion="1")
        (container,) = manifest["spec"]["containers"]
        own = {"status.podIP": _ADDRESS, "metadata.name": metadata["name"]}
        with self._lock, (self.folder / f"{metadata['name']}.log").open("wb") as log:
            process = psutil.Popen(
                _executor(environment_of(container, own)),
                env={**os.environ, **environment_of(container, own), "SPARK_HOME": str(spark_home())},
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
            pod = self.pods[metadata["name"]] = Pod(manifest, process)
            self.asked.append(pod)
            return pod.described()

    def described(self, selector: str = "") -> list[dict[str, Any]]:
        """The pods with some labels."""
        wanted = dict(each.split("=", 1) for each in selector.split(",") if "=" in each and "!" not in each)
        with self._lock:
            found = [pod.described() for pod in self.pods.values()]
        return [pod for pod in found if wanted.items() <= pod["metadata"].get("labels", {}).items()]

    def delete(self, name: str) -> None:
        """Ends a pod."""
        with self._lock:
            pod = self.pods.pop(name, None)
        if pod is not None:
            kill_with_children(pod.process)

    def stop(self) -> None:
        """Ends all pods."""
        for name in list(self.pods):
            self.delete(name)


def _executor(environment: Mapping[str, str]) -> list[str]:
    """The command of an executor's pod, as `entrypoint.sh` of Spark's image has it."""
    options = [environment[name] for name in sorted(environment) if name.startswith("SPARK_JAVA_OPT_")]
    memory = environment["SPARK_EXECUTOR_MEMORY"]
    arguments = {
        "driver-url": "DRIVER_URL", "executor-id": "EXECUTOR_ID", "cores": "EXECUTOR_CORES",
        "app-id": "APPLICATION_ID", "hostname": "EXECUTOR_POD_IP", "resourceProfileId": "RESOURCE_PROFILE_ID",
        "podName": "EXECUTOR_POD_NAME",
    }  # fmt: skip
    told = [word for name, key in arguments.items() for word in (f"--{name}", environment[f"SPARK_{key}"])]
    java = [str(find_java()), *options, f"-Xms{memory}", f"-Xmx{memory}", "-cp", f"{spark_home()}/jars/*"]
    return [*java, "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend", *told]


@contextmanager
def kubernetes(folder: Path, driver: str) -> Iterator[tuple[Kubernetes, str]]:
    """A Kubernetes that never outlives the test, and its `spark.master`.

    Args:
        folder: For the logs of executors.
        driver: Name of the driver's pod.
    """
    made = Kubernetes(folder, driver)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, said = _answer(made, self.command, self.path, json.loads(body) if body else {})
            written = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(written)))
            self.end_headers()
            self.wfile.write(written)

        do_GET = do_POST = do_DELETE = do_PATCH = do_PUT = _serve  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer((_ADDRESS, 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield made, f"k8s://http://{_ADDRESS}:{server.server_port}"
        finally:
            server.shutdown()
            made.stop()


def _answer(cluster: Kubernetes, method: str, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    url = urlsplit(path)
    query = {name: values[0] for name, values in parse_qs(url.query).items()}
    found = _OBJECT.match(url.path)
    if found is None:
        return 404, _status(404, "NotFound")
    kind, name = found["kind"], found["name"]
    cluster.namespaces.add(found["namespace"])
    cluster.requests.add((kind, _verb(method, name, "watch" in query)))
    if kind not in _KINDS or "watch" in query:
        return 404, _status(404, "NotFound")
    if method == "POST":
        return 201, cluster.create(body) if kind == "pods" else body
    if method == "DELETE":
        names = [name] if name else [pod["metadata"]["name"] for pod in cluster.described(query["labelSelector"])]
        if kind == "pods":
            for each in names:
                cluster.delete(each)
        return 200, _status(200, "")
    if name is None:
        items = cluster.described(query.get("labelSelector", "")) if kind == "pods" else []
        return 200, {"kind": f"{_KINDS[kind]}List", "apiVersion": "v1", "metadata": {}, "items": items}
    if name == cluster.driver:
        return 200, {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name, "uid": "of-the-driver"}}
    pod = cluster.pods.get(name) if kind == "pods" else None
    return (200, pod.described()) if pod else (404, _status(404, "NotFound"))


def _verb(method: str, name: str | None, watches: bool) -> str:
    if method == "GET":
        return "watch" if watches else "get" if name else "list"
    return {"POST": "create", "PATCH": "patch", "PUT": "update"}.get(method, "delete" if name else "deletecollection")


def _status(code: int, reason: str) -> dict[str, Any]:
    return {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "code": code, "reason": reason,
        "status": "Success" if code < 400 else "Failure",
    }  # fmt: skip
