"""Fetches suites by the clients of their registries, once, into target/strangers: pip, cargo, apt-get, and curl for npm.

`prepare` gives the command that runs a suite. Nothing is fetched a second time unless its version has changed."""

import hashlib
import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
CACHE = HERE.parents[1] / "target" / "strangers"
VENV = CACHE / "venv"
DRIVERS = HERE / "drivers"
PYTEST = ["pytest==8.3.4", "pytest-timeout==2.3.1"]
# A fetch that takes longer has a registry that does not answer. Builds may take longer.
PATIENCE = 300
PATIENCE_BUILD = 900
# The names of files have at most 255 bytes.
LONGEST_NAME = 200
NPM = "https://registry.npmjs.org"
DEB_SRC = """Types: deb-src
URIs: http://deb.debian.org/debian
Suites: RELEASE
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
"""


class Failed(Exception):
    """A suite is not to be had; the text names cause and cure."""


def call(what: str, cure: str, *command, limit: int = PATIENCE, **more) -> str:
    """Runs a registry's client, or a build of what it brought."""
    try:
        done = subprocess.run(
            [str(word) for word in command], capture_output=True, text=True, timeout=limit, **more
        )
    except FileNotFoundError:
        raise Failed(f"{what}: {command[0]} is not installed; {cure}") from None
    except subprocess.TimeoutExpired:
        raise Failed(f"{what}: not done in {limit} s; {cure}") from None
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
        wrong = [line for line in lines if "rror" in line or line.startswith("E:")]
        raise Failed(f"{what}: {(wrong or lines or ['no message'])[0].strip()}; {cure}")
    return done.stdout


def once(mark: str, make) -> None:
    """Calls `make` unless it has been done with success before."""
    name = " ".join(mark.replace("/", "_").split())
    if len(name) > LONGEST_NAME:
        name = f"{name[:100]} {hashlib.sha256(name.encode()).hexdigest()}"
    done = CACHE / "done" / name
    if not done.exists():
        make()
        done.parent.mkdir(parents=True, exist_ok=True)
        done.touch()


def pip(*words) -> None:
    cure = "pip must reach PyPI, or a mirror that PIP_INDEX_URL names"
    if not (VENV / "bin/pip").exists():
        cure_venv = "install Debian's python3-venv"
        call("python3 -m venv", cure_venv, "/usr/bin/python3", "-m", "venv", VENV)
    call("pip " + words[0], cure, VENV / "bin/pip", "--disable-pip-version-check", *words)


def install(packages: list[str]) -> None:
    wanted = PYTEST + packages
    once("pip " + " ".join(wanted), lambda: pip("install", "--quiet", *wanted))


def unpack(archive: Path, folder: Path) -> None:
    """Without the archive's own folder, whose name is not always the expected one."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    cure = f"remove {archive} if it is damaged"
    call("tar", cure, "tar", "xf", archive, "-C", folder, "--strip-components=1")


def sdist(package: str) -> Path:
    """The unpacked source distribution of a package on PyPI."""
    name, version = package.split("==")
    folder = CACHE / f"{name}-{version}"

    def make() -> None:
        downloads = CACHE / "downloads" / name
        shutil.rmtree(downloads, ignore_errors=True)
        pip("download", "--quiet", "--no-deps", "--no-binary", name, "--dest", downloads, package)
        unpack(next(downloads.glob("*.tar.gz")), folder)

    once("sdist " + package, make)
    return folder


def crate(package: str) -> list[str]:
    """The test programs of a crate, built."""
    name, version = package.split("==")
    cure = "cargo must reach crates.io, or a mirror that its configuration names"
    source = CACHE / f"vendor-{name}"
    folder = CACHE / f"crate-{name}-{version}"

    def make() -> None:
        shutil.rmtree(source, ignore_errors=True)
        (source / "src").mkdir(parents=True)
        (source / "src/lib.rs").touch()
        manifest = f'[package]\nname = "fetch"\nedition = "2024"\n[dependencies]\n{name} = "={version}"\n[workspace]\n'
        (source / "Cargo.toml").write_text(manifest)
        call("cargo vendor", cure, "cargo", "vendor", "--versioned-dirs", cwd=source)
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(source / "vendor" / f"{name}-{version}", folder)
        # Else it would count as a forgotten member of our own workspace.
        with open(folder / "Cargo.toml", "a") as manifest_file:
            manifest_file.write("\n[workspace]\n")

    once("crate " + package, make)
    command = ["cargo", "test", "--no-run", "--message-format=json", "--target-dir", CACHE / "crates"]
    messages = call("cargo test --no-run", cure, *command, limit=PATIENCE_BUILD, cwd=folder).splitlines()
    built = [json.loads(line) for line in messages if line.startswith("{")]
    return [found["executable"] for found in built if found.get("executable") and found["profile"]["test"]]


def npm(package: str) -> Path:
    """The unpacked package, without those that it depends on. The client of npm is large, and its registry is plain HTTP."""
    name, version = package.split("==")
    file = f"{name.split('/')[-1]}-{version}.tgz"
    folder = CACHE / f"npm-{file.removesuffix('.tgz')}"

    def make() -> None:
        downloads = CACHE / "downloads"
        downloads.mkdir(parents=True, exist_ok=True)
        address = f"{os.environ.get('npm_config_registry', NPM).rstrip('/')}/{name}/-/{file}"
        cure = "curl must reach npm's registry, or a mirror that npm_config_registry names"
        call(f"curl {address}", cure, "curl", "-sSfL", "-o", downloads / file, address)
        unpack(downloads / file, folder)

    once("npm " + package, make)
    return folder


def debian(package: str, release: str) -> Path:
    """The unpacked source of a package of a Debian release, without Debian's patches."""
    folder = CACHE / f"debian-{package}-{release}"

    def make() -> None:
        state = CACHE / f"apt-{release}"
        for part in ["lists/partial", "cache/archives/partial", "parts"]:
            (state / part).mkdir(parents=True, exist_ok=True)
        (state / "parts/strangers.sources").write_text(DEB_SRC.replace("RELEASE", release))
        places = ["-o", "Dir::Etc::SourceList=/dev/null", "-o", f"Dir::Etc::SourceParts={state}/parts"]
        places += ["-o", f"Dir::State::Lists={state}/lists", "-o", f"Dir::Cache={state}/cache"]
        places += ["-o", "APT::Sandbox::User=root"]
        cure = "apt-get must reach deb.debian.org"
        # A release that is not out yet replaces its packages: each fetch looks again.
        call("apt-get update", cure, "apt-get", *places, "update")
        downloads = CACHE / "downloads" / f"{package}-{release}"
        shutil.rmtree(downloads, ignore_errors=True)
        downloads.mkdir(parents=True)
        source = ["source", "--download-only", package]
        call(f"apt-get source {package}", cure, "apt-get", *places, *source, cwd=downloads)
        # Some have a signature beside them.
        unpack(next(path for path in downloads.glob("*.orig.tar.*") if path.suffix != ".asc"), folder)

    once(f"debian {package} {release}", make)
    return folder


def go(version: str, packages: list[str]) -> tuple[Path, list[str]]:
    """The library's source of a toolchain, and the test programs of its packages, built."""
    script = HERE.parent / "scripts/go_toolchains.py"
    cure = "pip must reach PyPI, or a mirror that PIP_INDEX_URL names"
    root = Path(call(f"Go {version}", cure, "/usr/bin/python3", script, version).split()[-1])
    kept = CACHE.parent / "go"
    ours = {"GOROOT": str(root), "GOTOOLCHAIN": "local", "GOPROXY": "off", "GOENV": "off", "GOTELEMETRY": "off"}
    ours |= {"GOPATH": str(kept / "path"), "GOCACHE": str(kept / "built" / version), "GOFLAGS": "-buildvcs=false"}
    programs = []
    for package in packages:
        made = CACHE / f"go-{version}-{package.replace('/', '-')}"
        command = [root / "bin/go", "test", "-c", "-o", made, package]
        cure_build = f"install gcc, or remove {kept} if it is damaged"
        environment = {**os.environ, **ours}
        once(f"go {version} {package}", lambda: call(f"go test {package}", cure_build, *command, limit=PATIENCE_BUILD, cwd=CACHE, env=environment))
        programs.append(str(made))
    return root / "src", programs


def build(folder: Path, line: str) -> None:
    """Builds a source by shell lines, once; again if they have changed."""
    cure = "install what it needs, or remove the folder if it is damaged"
    once(f"build {folder.name} {line}", lambda: call(f"build in {folder}", cure, "sh", "-ec", line, limit=PATIENCE_BUILD, cwd=folder))


def replaced(line: str, words: dict[str, str]) -> str:
    for word, value in words.items():
        line = line.replace(word, value)
    return line


def prepare(name: str, suite: dict, say) -> list[str]:
    """Fetches what `suite` needs; its command, with the folder where it is to run as first word."""
    CACHE.mkdir(parents=True, exist_ok=True)
    for program in suite.get("needs", []):
        if not shutil.which(program):
            raise Failed(f"{program} is not installed; install Debian's {suite['package']}")
    folder, files = CACHE, []
    if "pip" in suite:
        install(suite["pip"])
    if "sdist" in suite:
        folder = sdist(suite["sdist"])
    if "crates" in suite:
        files = [program for package in suite["crates"] for program in crate(package)]
    if "go" in suite:
        folder, files = go(suite["go"], suite["packages"])
    if "debian" in suite:
        folder = debian(suite["debian"], suite.get("release", "bookworm"))
    words = {"VENV": str(VENV), "DRIVERS": str(DRIVERS)}
    if "npm" in suite:
        words["NPM"] = str(npm(suite["npm"]))
    if "build" in suite:
        build(folder, replaced(suite["build"], words))
    folder = folder / suite.get("folder", "")
    words["FILES"] = " ".join(files)
    words["PYTEST"] = f"{VENV}/bin/python -m pytest -q --tb=short -p strangers_pytest -p no:cacheprovider --timeout=40"
    command = []
    for word in shlex.split(replaced(suite["run"], words)):
        found = sorted(str(path) for path in folder.glob(word)) if "*" in word and word[0] != "/" else []
        command += [os.path.relpath(path, folder) for path in found] or [word]
    say(f"{name}: {suite['what']}")
    return [str(folder), *command]
