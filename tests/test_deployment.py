"""compose.scale.yaml and docs/kubernetes: all names in them exist there, in the image, or in the settings."""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import typer
import yaml
from fastapi.routing import APIRoute

from bot.__main__ import app
from bot.control.lock import SHARED
from bot.http.health import health_router
from bot.settings.load import load
from bot.skills.folders import SKILLS
from bot.store.identity import users_folder
from harness.files.spool import FOLDER as SPOOL
from harness.mcp.pool import FOLDER as TOKENS
from sandbox.remote.server.config import ServerSettings
from tests.parts import missing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bot.settings import Settings

ROOT = Path(__file__).parents[1]
KUBERNETES = ROOT / "docs" / "kubernetes"
GUIDE = (ROOT / "docs" / "scaling.md").read_text()
DOCKERFILE = (ROOT / "Dockerfile").read_text()
IMAGE = dict(re.findall(r"(ANTLER__\w+)=(\S+)", DOCKERFILE))
"""The image's own variables."""
USER = int(re.findall(r"useradd .* --uid (\d+)", DOCKERFILE)[0])
SHARED_FOLDERS = {SHARED.parts[0], users_folder(Path()).name, SPOOL, SKILLS, TOKENS}
FILLED_IN = "x" * 35
"""Replacement for replace-me: Antler rejects values that cannot be secrets."""
SERVED = {route.path for route in health_router(lambda: True).routes if isinstance(route, APIRoute)}


def check_arguments(arguments: list[str]) -> None:
    """Check arguments of the command `antler`, as passed to the image's entrypoint."""
    name, *rest = arguments
    command: Any = typer.main.get_command(app)
    known = {option for parameter in command.commands[name].params for option in parameter.opts}
    assert {each for each in rest if each.startswith("--")} <= known


# Compose.

COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.scale.yaml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
OURS = ("gateway", "worker")


def interpolated(text: str, words: Mapping[str, str]) -> str:
    """Interpolate ${NAME:-default} and ${NAME:?} like Compose."""
    return re.sub(r"\$\{(\w+):[-?]([^}]*)\}", lambda found: words.get(found[1], found[2]), text)


def in_compose(name: str, **words: str) -> Settings:
    """The settings of a service. words: of the file .env."""
    given = {key: interpolated(value, words) for key, value in SERVICES[name]["environment"].items()}
    return load(None, IMAGE | given)


@pytest.mark.parametrize("name", OURS)
def test_the_processes_of_compose_are_configured_alike(name: str) -> None:
    settings = in_compose(name, POSTGRES_PASSWORD="secret")
    assert settings == in_compose("gateway", POSTGRES_PASSWORD="secret")
    assert settings.workers.enabled
    assert settings.database_url == "postgresql+psycopg://antler:secret@db/antler"
    assert settings.sandbox.use == "landlock"
    assert SERVICES[name]["stop_grace_period"] == f"{settings.shutdown_grace_seconds + 10:.0f}s"
    assert SERVICES[name]["command"][0] == name
    check_arguments(SERVICES[name]["command"])


@pytest.mark.parametrize("name", OURS)
def test_what_belongs_to_conversations_is_shared_and_of_the_images_user(name: str) -> None:
    targets = {target: source for source, target in (each.split(":")[:2] for each in SERVICES[name]["volumes"])}
    data = in_compose(name, POSTGRES_PASSWORD="secret").data_dir
    assert {target for target in targets if target.startswith("/data")} == {str(data / each) for each in SHARED_FOLDERS}
    assert {source for source in targets.values() if "/" not in source} <= COMPOSE["volumes"].keys()
    made = re.findall(r"install -d -o antler -g antler -m 0700 ([^\\]+)", DOCKERFILE)[0].split()
    assert {Path(each) for each in made} == {data} | {data / each for each in SHARED_FOLDERS}


def test_no_service_has_privileges_and_the_database_is_not_published() -> None:
    for name, service in SERVICES.items():
        assert not {"privileged", "cap_add", "user", "devices"} & set(service), name
        assert name == "page" or "ports" not in service
        if name in (*OURS, "page"):
            assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
            assert service["security_opt"] == ["no-new-privileges:true"]
    assert all(port.startswith("127.0.0.1:") for port in SERVICES["page"]["ports"])
    assert SERVICES["db"]["networks"] == ["database"]
    assert COMPOSE["networks"]["database"] == COMPOSE["networks"]["sandboxes"] == {"internal": True}


def test_the_sandbox_server_of_compose_is_the_one_that_antler_asks() -> None:
    words = {"POSTGRES_PASSWORD": "secret", "SANDBOX_USE": "remote", "SANDBOX_TOKEN": FILLED_IN}
    extended = SERVICES["sandbox"]["extends"]
    service = yaml.safe_load((ROOT / extended["file"]).read_text())["services"][extended["service"]]
    text = interpolated(service["environment"]["SETTINGS"], words)
    server, asked = ServerSettings.model_validate(yaml.safe_load(text)), in_compose("worker", **words).sandbox
    assert (asked.use, asked.remote.url) == ("remote", f"http://sandbox:{server.listen.port}")
    assert asked.remote.token == server.token


def test_a_worker_of_compose_is_asked_where_it_answers() -> None:
    address = in_compose("worker", POSTGRES_PASSWORD="secret").workers.listen
    asked = SERVICES["worker"]["healthcheck"]["test"][-1]
    assert re.findall(r"http://([\d.:]+)(/\w+)", asked) == [(address, "/readyz")]


# The proxy of both.

PROXY = (KUBERNETES / "page" / "haproxy.cfg").read_text()


def test_the_proxy_asks_for_the_gateway_that_leads() -> None:
    _, port = in_compose("gateway", POSTGRES_PASSWORD="secret").http.address
    assert f'"${{GATEWAYS}}:{port}"' in PROXY
    assert re.findall(r"http-check send .* uri (\S+)", PROXY) == ["/readyz"]
    assert SERVICES["page"]["environment"] == {"GATEWAYS": "gateway"}
    (published,) = SERVICES["page"]["ports"]
    assert f"bind :{published.rpartition(':')[2]}\n" in PROXY
    assert COMPOSE["configs"]["page"]["file"] == str((KUBERNETES / "page/haproxy.cfg").relative_to(ROOT))
    if (program := shutil.which("haproxy", path="/usr/sbin:/usr/bin")) is not None:
        file = KUBERNETES / "page/haproxy.cfg"
        subprocess.run([program, "-c", "-f", file], env={"GATEWAYS": "gateway"}, check=True, timeout=30)


# Kubernetes: with the sandbox server, and the base alone.


@cache
def rendered(name: str) -> list[dict[str, Any]]:
    """The documents that `kubectl apply -k` would send, for the kustomize features used here; a test compares them."""
    found: list[dict[str, Any]] = []
    built(KUBERNETES / name, found)
    return found


def built(folder: Path, found: list[dict[str, Any]]) -> None:
    """Add the resources and changes of a kustomization or component. Generated maps have no hash in their names."""
    wanted = yaml.safe_load((folder / "kustomization.yaml").read_text())
    assert wanted.keys() <= {"apiVersion", "kind", "namespace", "resources", "components", "configMapGenerator",
                             "patches", "images"}  # fmt: skip
    own: list[dict[str, Any]] = []
    for each in wanted.get("resources", ()):
        if (folder / each).is_dir():
            built(folder / each, own)
        else:
            own += yaml.safe_load_all((folder / each).read_text())
    for each in wanted.get("configMapGenerator", ()):
        data = {file: (folder / file).read_text() for file in each["files"]}
        own.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": each["name"]}, "data": data})
    for each in own:
        if "namespace" in wanted and each["kind"] != "Namespace":
            each["metadata"]["namespace"] = wanted["namespace"]
    found += own
    for each in wanted.get("components", ()):
        built(folder / each, found)
    for patch in wanted.get("patches", ()):
        assert set(patch["target"]) == {"kind", "name"}
        for each in found:
            names = (each["kind"], each["metadata"]["name"])
            if all(re.fullmatch(patch["target"][key], name) for key, name in zip(("kind", "name"), names, strict=True)):
                patched(each, yaml.safe_load(patch["patch"]))
    for image in wanted.get("images", ()):
        for pod in (each["spec"]["template"] for each in found if "template" in each.get("spec", {})):
            for container in containers(pod):
                if container["image"] == image["name"]:
                    container["image"] = f"{image['newName']}:{image['newTag']}"


def patched(document: dict[str, Any], changes: list[dict[str, Any]]) -> None:
    """Apply JSON patches (RFC 6902) that add a missing key."""
    for change in changes:
        *path, last = change["path"].strip("/").split("/")
        place: Any = document
        for step in path:
            place = place[int(step) if isinstance(place, list) else step]
        assert (change["op"], last in place) == ("add", False)
        place[last] = change["value"]


@pytest.mark.image  # CI has no kubectl
@pytest.mark.parametrize("overlay", ["base", "example", "sandbox-server"])
def test_kustomize_makes_the_same_of_them(overlay: str) -> None:
    program = shutil.which("kubectl")
    if program is None:
        missing("kubectl is not installed")
    done = subprocess.run([program, "kustomize", KUBERNETES / overlay], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    real = list(yaml.safe_load_all(re.sub(r"\bpage-[a-z0-9]{10}\b", "page", done.stdout)))

    def key(each: dict[str, Any]) -> tuple[str, str]:
        return each["kind"], each["metadata"]["name"]

    assert sorted(real, key=key) == sorted(rendered(overlay), key=key)


def manifest(overlay: str, kind: str, name: str) -> dict[str, Any]:
    (found,) = [each for each in rendered(overlay) if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return found


def pods(overlay: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The template of each workload, with its name."""
    for each in rendered(overlay):
        if "template" in each.get("spec", {}):
            yield each["metadata"]["name"], each["spec"]["template"]


def containers(pod: dict[str, Any]) -> list[dict[str, Any]]:
    return [*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]]


def in_the_guide() -> dict[str, str]:
    """The Secret that the guide says to create, filled in."""
    (lines,) = re.findall(r"^```sh\n(TELEGRAM_BOT_TOKEN=.*?)^```", GUIDE, re.DOTALL | re.MULTILINE)
    return dict(line.replace("replace-me", FILLED_IN).split("=", 1) for line in lines.splitlines())


def in_the_pod(overlay: str, name: str, folder: Path) -> Settings:
    """The settings of a workload's pods."""
    (config,) = [each for each in rendered(overlay) if "config.yaml" in each.get("data", {})]
    (container,) = manifest(overlay, "Deployment", name)["spec"]["template"]["spec"]["containers"]
    file = folder / "config.yaml"
    file.write_text(config["data"]["config.yaml"])
    held = in_the_guide()
    assert container["envFrom"] == [{"secretRef": {"name": "antler"}}]
    for each in container.get("env", ()):
        reference = each.get("valueFrom", {}).get("secretKeyRef")
        held[each["name"]] = each["value"] if reference is None else held[reference["key"]]
    return load(file, IMAGE | held)


@pytest.mark.parametrize("overlay", ["base", "example"])
@pytest.mark.parametrize("name", OURS)
def test_the_pods_can_be_configured_so(overlay: str, name: str, tmp_path: Path) -> None:
    settings = in_the_pod(overlay, name, tmp_path)
    pod = manifest(overlay, "Deployment", name)["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert settings.workers.enabled
    assert settings.database.url is not None
    assert settings.sandbox.use == {"base": "landlock", "example": "remote"}[overlay]
    assert pod["terminationGracePeriodSeconds"] == settings.shutdown_grace_seconds + 10
    assert container["args"][0] == name
    check_arguments(container["args"])
    address = settings.http.listen if name == "gateway" else settings.workers.listen
    (port,) = container["ports"]
    assert address == f"0.0.0.0:{port['containerPort']}"
    probes = {key: probe["httpGet"] for key, probe in container.items() if key.endswith("Probe")}
    assert len(probes) == 3
    for probe in probes.values():
        assert probe["port"] == port["name"]
        assert probe["path"] in SERVED
        assert probe["httpHeaders"] == [{"name": "Host", "value": "localhost"}]
    # A standby is as ready as the leader; otherwise no rollout would end.
    assert probes["readinessProbe"]["path"] == {"gateway": "/healthz", "worker": "/readyz"}[name]
    own = {each["mountPath"]: each for each in container["volumeMounts"]}
    data = settings.data_dir
    assert {each["subPath"]: path for path, each in own.items() if "subPath" in each} == {
        folder: str(data / folder) for folder in SHARED_FOLDERS
    }
    made = next(each for each in pod["initContainers"] if each["name"] == "folders")["command"][-1]
    assert set(made.partition("mkdir -p ")[2].split()) == SHARED_FOLDERS


@pytest.mark.parametrize("overlay", ["base", "example", "sandbox-server"])
def test_everything_that_is_named_is_there(overlay: str) -> None:
    labels = {name: pod["metadata"]["labels"] for name, pod in pods(overlay)}
    there = {(each["kind"], each["metadata"]["name"]) for each in rendered(overlay)}
    there |= {("Secret", "antler"), ("Secret", "sandbox")}
    for each in rendered(overlay):
        spec = each.get("spec", {})
        selector = spec.get("selector") or spec.get("podSelector") or {}
        wanted = selector.get("matchLabels", selector)
        if wanted:
            assert any(wanted.items() <= found.items() for found in labels.values()), each["metadata"]["name"]
        if "scaleTargetRef" in spec:
            assert (spec["scaleTargetRef"]["kind"], spec["scaleTargetRef"]["name"]) in there
    for name, pod in pods(overlay):
        spec = pod["spec"]
        assert ("ServiceAccount", spec["serviceAccountName"]) in there
        assert spec["automountServiceAccountToken"] is False
        claims = manifest(overlay, "StatefulSet", name)["spec"]["volumeClaimTemplates"] if name == "sandbox" else []
        volumes = {each["name"] for each in spec["volumes"]} | {each["metadata"]["name"] for each in claims}
        assert {mount["name"] for each in containers(pod) for mount in each["volumeMounts"]} <= volumes
        for volume in spec["volumes"]:
            for kind, key, field in (
                ("ConfigMap", "configMap", "name"),
                ("Secret", "secret", "secretName"),
                ("PersistentVolumeClaim", "persistentVolumeClaim", "claimName"),
            ):
                assert key not in volume or (kind, volume[key][field]) in there


@pytest.mark.parametrize("overlay", ["base", "example", "sandbox-server"])
def test_no_pod_has_privileges(overlay: str) -> None:
    for name, pod in pods(overlay):
        context = pod["spec"]["securityContext"]
        assert context["runAsNonRoot"]
        assert name == "page" or (context["runAsUser"], context["fsGroup"]) == (USER, USER)
        assert context.get("seccompProfile") == (None if name == "sandbox" else {"type": "RuntimeDefault"})
        for each in containers(pod):
            confined = dict(each["securityContext"])
            more = {"seccompProfile", "appArmorProfile", "procMount"} if name == "sandbox" else set()
            assert confined.keys() == {"allowPrivilegeEscalation", "readOnlyRootFilesystem", "capabilities"} | more
            assert (confined["allowPrivilegeEscalation"], confined["readOnlyRootFilesystem"]) == (False, True)
            assert confined["capabilities"] == {"drop": ["ALL"]}
        assert name != "sandbox" or pod["spec"]["hostUsers"] is False


def test_a_drain_ends_one_process_at_a_time_and_a_rollout_none_before_its_successor() -> None:
    for name in OURS:
        budget = manifest("base", "PodDisruptionBudget", name)["spec"]
        assert (budget["maxUnavailable"], budget["unhealthyPodEvictionPolicy"]) == (1, "AlwaysAllow")
        strategy = manifest("base", "Deployment", name)["spec"]["strategy"]["rollingUpdate"]
        assert strategy == {"maxSurge": 1, "maxUnavailable": 0}
    scaler = manifest("base", "HorizontalPodAutoscaler", "worker")["spec"]
    assert "replicas" not in manifest("base", "Deployment", "worker")["spec"]
    (metric,) = scaler["metrics"]
    pod = manifest("base", "Deployment", "worker")["spec"]["template"]["spec"]
    assert metric["containerResource"]["container"] in {each["name"] for each in pod["containers"]}


def test_the_page_is_that_of_the_gateways() -> None:
    (proxy,) = manifest("example", "Deployment", "page")["spec"]["template"]["spec"]["containers"]
    gateways = manifest("example", "Service", "gateway")
    (variable,) = proxy["env"]
    host = f"{gateways['metadata']['name']}.{gateways['metadata']['namespace']}.svc.cluster.local"
    assert (variable["name"], variable["value"]) == ("GATEWAYS", host)
    assert gateways["spec"]["clusterIP"] == "None"
    assert proxy["ports"] == [{"name": "http", "containerPort": int(re.findall(r"bind :(\d+)", PROXY)[0])}]
    policy = manifest("example", "NetworkPolicy", "gateway")["spec"]
    ((caller,),) = [rule["from"] for rule in policy["ingress"]]
    labels = dict(pods("example"))["page"]["metadata"]["labels"]
    assert caller["podSelector"]["matchLabels"].items() <= labels.items()


def test_the_sandbox_server_of_the_guide_is_the_one_that_antler_asks(tmp_path: Path) -> None:
    (text,) = re.findall(r"^```yaml\n(token: .*?)^```", GUIDE, re.DOTALL | re.MULTILINE)
    server = ServerSettings.model_validate(yaml.safe_load(text.replace("replace-me", FILLED_IN)))
    asked = in_the_pod("example", "worker", tmp_path).sandbox.remote
    service, servers = (manifest("sandbox-server", kind, "sandbox") for kind in ("Service", "StatefulSet"))
    assert (asked.token, service["spec"]["clusterIP"]) == (server.token, "None")
    names = [f"sandbox-{number}.{servers['spec']['serviceName']}" for number in range(servers["spec"]["replicas"])]
    port = service["spec"]["ports"][0]["port"]
    assert asked.url == tuple(f"http://{name}.{service['metadata']['namespace']}.svc:{port}" for name in names)
    assert str(server.listen.host) == "0.0.0.0"
    (container,) = servers["spec"]["template"]["spec"]["containers"]
    assert container["ports"] == [{"name": "http", "containerPort": server.listen.port}]
    assert container["command"][-4:-1] == ["-m", "sandbox.remote.server", "--config"]
    assert str(server.data_dir).startswith("/data")
    policy = manifest("sandbox-server", "NetworkPolicy", "sandbox")["spec"]
    (rule,) = policy["ingress"]
    (caller,) = rule["from"]
    namespace = manifest("base", "Namespace", "antler")["metadata"]
    assert caller["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"] == namespace["name"]
    assert namespace["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert "egress" not in policy
