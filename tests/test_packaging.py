"""The project installs from pinned versions, and its packaging files agree with each other."""

from __future__ import annotations

import re
import subprocess
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from fastapi.routing import APIRoute
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from bot.http.health import health_router
from bot.settings.load import load
from sandbox.remote.server.config import ServerSettings
from tests.tables import table

if TYPE_CHECKING:
    from collections.abc import Callable

    from bot.settings import Settings

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
PINS = dict(
    line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")
)
GROUPS = PROJECT["dependency-groups"]
EXTRAS = PROJECT["project"]["optional-dependencies"]
DEPENDENCIES = [
    *PROJECT["project"]["dependencies"],
    *(requirement for extra in EXTRAS.values() for requirement in extra),
    *(requirement for group in ("dev", "browser", "real-model") for requirement in GROUPS[group]),
]


@pytest.mark.parametrize("name", ["constraints.txt", "constraints-sandbox.txt"])
def test_constraints_hold_names_and_versions_only(name: str) -> None:
    for line in (ROOT / name).read_text().splitlines():
        assert line.startswith("#") or re.fullmatch(r"[A-Za-z0-9_.-]+==[A-Za-z0-9.]+", line)


@table("dependency", DEPENDENCIES)
def test_each_dependency_is_pinned_to_a_version_that_it_allows(dependency: str) -> None:
    requirement = Requirement(dependency)
    pins = {canonicalize_name(name): pinned for name, pinned in PINS.items()}
    assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)])


def test_the_build_backend_is_pinned_too() -> None:
    assert {"hatchling", "pip"} <= set(PINS)


@pytest.mark.parametrize(
    "name", ["Makefile", "Dockerfile", ".ci/run", "constraints.txt", "constraints-sandbox.txt", "pyproject.toml"]
)
def test_no_index_and_no_host_in_it(name: str) -> None:
    text = (ROOT / name).read_text()
    assert not re.search(r"https?://|--(extra-)?index-url|--find-links|--trusted-host", text)


def test_one_version() -> None:
    assert version("antler") == PROJECT["project"]["version"]


def test_the_ci_script_is_executable_and_parses() -> None:
    script = ROOT / ".ci/run"
    assert script.stat().st_mode & 0o111
    subprocess.run(["bash", "-n", script], check=True, timeout=10)


def test_the_image_is_given_the_sources_only() -> None:
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    packages = set(PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])
    assert allowed == packages | {
        "agents",
        "skills",
        "pyproject.toml",
        "constraints.txt",
        "constraints-sandbox.txt",
        "config.yaml.example",
        "README.md",
        "LICENSE",
    }


COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())


def _services() -> dict[str, Any]:
    """The services that run this repository's image, by name."""
    return {name: each for name, each in COMPOSE["services"].items() if each["image"] == "antler"}


def test_every_profile_of_compose_is_told_and_has_a_service() -> None:
    profiles = [profile for each in COMPOSE["services"].values() for profile in each["profiles"]]
    told = re.findall(r"docker compose --profile (\w+)", (ROOT / "docs/docker.md").read_text())
    assert set(profiles) == set(told) == {"demo", "bot", "postgres", "sandbox"}


def test_no_service_of_compose_has_privileges() -> None:
    for name, service in _services().items():
        assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"]), name
        assert "no-new-privileges:true" in service["security_opt"], name
        assert not {"privileged", "cap_add", "user", "ports", "devices"} & set(service), name
        others = [option for option in service["security_opt"] if not option.startswith("no-new")]
        assert not others or name == "sandbox"
    assert COMPOSE["networks"]["sandboxes"] == {"internal": True}
    assert COMPOSE["services"]["sandbox"]["networks"] == ["sandboxes"]


@pytest.mark.parametrize("name", _services())
def test_what_compose_sets_is_a_setting(name: str) -> None:
    words = {"POSTGRES_PASSWORD": "secret", "SANDBOX_TOKEN": "0123456789abcdef"}
    given = {key: _interpolated(value, words) for key, value in _services()[name].get("environment", {}).items()}
    dockerfile = re.findall(r"(ANTLER__\w+)=(\S+)", (ROOT / "Dockerfile").read_text())
    settings = load(None, dict(dockerfile) | given)
    assert settings.data_dir == Path("/data")
    assert settings.sandbox.use == ("remote" if name == "bot-sandbox" else "landlock")
    assert (settings.database.url is not None) == (name == "bot-postgres")


@pytest.mark.parametrize("name", ["compose.yaml", "compose.scale.yaml"])
def test_the_extras_of_the_image_can_be_chosen(name: str) -> None:
    (default,) = re.findall(r"^ARG EXTRAS=(\S+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert set(default.split(",")) <= set(EXTRAS)
    services = yaml.safe_load((ROOT / name).read_text())["services"].values()
    built = [service["build"]["args"]["EXTRAS"] for service in services if service.get("image") == "antler"]
    assert set(built) == {f"${{EXTRAS:-{default}}}"}


def test_the_sandbox_server_of_compose_can_read_its_settings() -> None:
    text = _interpolated(
        COMPOSE["services"]["sandbox"]["environment"]["SETTINGS"], {"SANDBOX_TOKEN": "0123456789abcdef"}
    )
    settings = ServerSettings.model_validate(yaml.safe_load(text))
    assert (settings.sandbox.use, settings.data_dir) == ("bubblewrap", Path("/data"))
    remote = COMPOSE["services"]["bot-sandbox"]["environment"]["ANTLER__SANDBOX__REMOTE__URL"]
    assert remote == f"http://sandbox:{settings.listen.port}"


GUIDE = (ROOT / "docs" / "install.md").read_text()
"""The guide; all names in its manifests exist in them, in the image, or in the settings."""
MANIFESTS: list[dict[str, Any]] = [
    manifest
    for block in re.findall(r"^```yaml\n(.*?)^```", GUIDE, re.DOTALL | re.MULTILINE)
    for manifest in yaml.safe_load_all(block)
]
PATCH: dict[str, Any] = next(manifest for manifest in MANIFESTS if "kind" not in manifest)


def _manifest(kind: str, name: str = "antler") -> dict[str, Any]:
    (found,) = [each for each in MANIFESTS if each.get("kind") == kind and each["metadata"]["name"] == name]
    return found


def _pod(manifest: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = manifest["spec"]["template"]["spec"]
    return found


def _secret(name: str = "antler") -> dict[str, str]:
    """The Secret filled in, because Antler rejects the placeholders."""
    held: dict[str, str] = _manifest("Secret", name)["stringData"]
    return {key: re.sub(r"replace-me[\w-]*", "x" * 35, value) for key, value in held.items()}


def _variables(container: dict[str, Any]) -> dict[str, str]:
    """The container's own variables."""
    found = {}
    for each in container.get("env", ()):
        secret = each.get("valueFrom", {}).get("secretKeyRef")
        found[each["name"]] = each["value"] if secret is None else _secret(secret["name"])[secret["key"]]
    return found


@pytest.fixture
def in_the_pod(tmp_path: Path) -> Callable[[dict[str, str]], Settings]:
    """The settings of the pod's config with variables on top of the image's and the Secret's."""
    file = tmp_path / "config.yaml"
    file.write_text(_manifest("ConfigMap")["data"]["config.yaml"])
    image = dict(re.findall(r"(ANTLER__\w+)=(\S+)", (ROOT / "Dockerfile").read_text()))
    return lambda more: load(file, image | _secret() | more)


def test_the_pod_of_the_guide_can_be_configured_so(in_the_pod: Callable[[dict[str, str]], Settings]) -> None:
    deployment, volume = _manifest("Deployment"), _manifest("PersistentVolumeClaim")
    pod = _pod(deployment)
    (container,) = pod["containers"]
    assert container["envFrom"] == [{"secretRef": {"name": _manifest("Secret")["metadata"]["name"]}}]
    settings = in_the_pod(_variables(container))
    assert settings.sandbox.use == "landlock"
    assert settings.data_dir.parent in [Path(each["mountPath"]) for each in container["volumeMounts"]]
    assert settings.shutdown_grace_seconds + 10 == pod["terminationGracePeriodSeconds"]
    assert (deployment["spec"]["replicas"], deployment["spec"]["strategy"]) == (1, {"type": "Recreate"})
    assert {"persistentVolumeClaim": {"claimName": volume["metadata"]["name"]}, "name": "data"} in pod["volumes"]


def test_the_probes_of_the_guide_ask_for_what_is_served(in_the_pod: Callable[[dict[str, str]], Settings]) -> None:
    (container,) = _pod(_manifest("Deployment"))["containers"]
    _, port = in_the_pod({}).http.address
    assert container["ports"] == [{"name": "http", "containerPort": port}]
    served = {route.path for route in health_router(lambda: True).routes if isinstance(route, APIRoute)}
    probes = {name: probe["httpGet"] for name, probe in container.items() if name.endswith("Probe")}
    assert {name: probe["port"] for name, probe in probes.items()} == dict.fromkeys(probes, "http")
    assert {probe["path"] for probe in probes.values()} == served
    assert probes["readinessProbe"]["path"] == "/readyz"


def test_no_container_of_the_guide_has_privileges() -> None:
    pod, changed = _pod(_manifest("Deployment")), _pod(PATCH)
    user = int(re.findall(r"useradd .* --uid (\d+)", (ROOT / "Dockerfile").read_text())[0])
    assert {pod["securityContext"][key] for key in ("runAsUser", "runAsGroup", "fsGroup")} == {user}
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in (*pod["containers"], *changed["initContainers"]):
        context = container["securityContext"]
        assert (context["allowPrivilegeEscalation"], context["readOnlyRootFilesystem"]) == (False, True)
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert not {"privileged", "runAsUser"} & set(context)
    more = {"procMount", "seccompProfile", "appArmorProfile"}
    assert not more & set(pod["containers"][0]["securityContext"])
    assert changed["hostUsers"] is False


def test_every_volume_of_the_guide_is_there() -> None:
    pod, changed = _pod(_manifest("Deployment")), _pod(PATCH)
    volumes = {each["name"]: each for each in (*pod["volumes"], *changed["volumes"])}
    for container in (*pod["containers"], *changed["initContainers"]):
        assert {each["name"] for each in container["volumeMounts"]} <= volumes.keys()
    for each in volumes.values():
        if "persistentVolumeClaim" in each:
            _manifest("PersistentVolumeClaim", each["persistentVolumeClaim"]["claimName"])
        if "secret" in each:
            held = _manifest("Secret", each["secret"]["secretName"])["stringData"]
            assert {item["key"] for item in each["secret"]["items"]} <= held.keys()


def test_the_sandbox_server_of_the_guide_is_the_one_that_antler_asks(
    in_the_pod: Callable[[dict[str, str]], Settings],
) -> None:
    held = _secret("antler-sandbox")
    server = ServerSettings.model_validate(yaml.safe_load(held["sandbox.yaml"]))
    ((sandbox,), (antler,)) = _pod(PATCH)["initContainers"], _pod(PATCH)["containers"]
    settings = in_the_pod(_variables(antler))
    assert settings.sandbox.use == "remote"
    assert str(settings.sandbox.remote.url).rstrip("/") == f"http://{server.listen.host}:{server.listen.port}"
    assert settings.sandbox.remote.token is not None
    assert settings.sandbox.remote.token.get_secret_value() == server.token.get_secret_value() == held["token"]
    assert server.data_dir.parent in [Path(each["mountPath"]) for each in sandbox["volumeMounts"]]
    *_, module, config, file = sandbox["command"]
    assert f"python -m {module} {config} " in COMPOSE["services"]["sandbox"]["command"][-1]
    assert Path(file).parent in [Path(each["mountPath"]) for each in sandbox["volumeMounts"]]
    assert str(server.listen.port) in sandbox["startupProbe"]["exec"]["command"][-1]


def _interpolated(text: str, words: dict[str, str]) -> str:
    return re.sub(r"\$\{(\w+):-\}", lambda found: words[found[1]], text)


def test_the_wheel_holds_what_the_page_is_made_of() -> None:
    """hatchling omits files that git ignores; everything else below a package is in the wheel."""
    files = [*(ROOT / "bot/http/page/static").iterdir(), *(ROOT / "bot/http/page/templates").rglob("*.html")]
    assert len(files) > 15
    ignored = subprocess.run(
        ["git", "check-ignore", *map(str, files)], cwd=ROOT, capture_output=True, text=True, check=False, timeout=10
    )
    assert ignored.stdout == ""
