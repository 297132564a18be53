#!/usr/bin/env python3
"""The rules of CONTRIBUTING.md that a machine can check: layers, sizes, names of types, words, links, strays.

    tools/house_rules.py             checks the files that git tracks; one line per finding, exit 1 if any
    tools/house_rules.py --self-test checks that every rule finds what it is for
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SIZE_MAX = 5 << 20

# Words that must not be committed, with what to do instead.
BANNED = {
    r"\bFIX" r"ME\b": "open an issue and name its number",
    r"\bTODO\b(?!\(#\d+\))": "write TODO(#number), or do it",
    r"\bXXX\b": "say what is wrong",
    r"\bHACK\b": "say why it must be so",
    r"\bn_past\b": "num_computed_tokens",
    r"#\s*ifdef\s+DEBUG": "a test",
}
BANNED_FOLDERS = {"utils", "common", "misc", "helpers"}

# Documents that a command makes, and which may not be there yet.
MADE_BY_COMMANDS = {"docs/benchmarks/cpu.md"}

# Headers of the CUDA toolkit and of its libraries, and our own that need them: the rest of millrace builds without.
CUDA_INCLUDE = r'^#include (?:<(?:cuda|cublas|nccl)|"cuda/native/)'
CUDA_FOLDERS = ("src/cuda/native/", "bench/cuda/")

# (what a path must match, most lines); the first match counts.
LINE_LIMITS = [
    (r"_(test|fuzz)\.cpp$", 800),
    (r"^src/(kernels|cuda/kernels)/.*\.(cpp|cu)$", 600),
    (r"^(src|apps|bench)/.*\.(cpp|cu)$", 500),
    (r"^(src|apps|bench)/.*\.(h|cuh)$", 250),
    (r"^tests/.*\.cpp$", 800),
]
FUNCTION_LINES_MAX = 70
COLUMNS_MAX = 100
FOLDER_SOURCES_MAX = 30
SOURCES = (".cpp", ".cu", ".h", ".cuh")
# A type where it is defined, as clang-format lays it out.
TYPE = r"(?:struct|class|union|enum(?: class)?) (\w+(?:::\w+)*)(?: final)?(?: : [^;]*)?(?: {.*)?$"


def layers(cmake: str) -> dict[str, set[str]]:
    """What each folder of src/ may include, from the lines of CMakeLists.txt that link it."""
    direct = {}
    for name, rest in re.findall(r"^millrace_(?:cuda_)?library\((\w+)\s*(.*)\)$", cmake, re.MULTILINE):
        direct[name] = {word for word in rest.split() if word in direct}
    closed: dict[str, set[str]] = {}
    for name, below in direct.items():
        closed[name] = {name} | below.union(*(closed[folder] for folder in below))
    return closed


def check_layers(path: str, text: str, allowed: dict[str, set[str]]) -> list[str]:
    match = re.match(r"src/(\w+)/", path)
    if not match:
        return []
    folder = match.group(1)
    if folder not in allowed:
        return [f"{path}: CMakeLists.txt does not name the folder {folder}"]
    found = re.findall(r'^#include "(\w+)/', text, re.MULTILINE)
    return [f"{path}: {folder}/ may not include {other}/" for other in found if other not in allowed[folder]]


def check_cuda(path: str, text: str) -> list[str]:
    """What needs the CUDA toolkit stays where only its builds compile it; what is emulated, in tests."""
    findings = []
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(CUDA_INCLUDE, line) and not path.startswith(CUDA_FOLDERS):
            findings.append(f"{path}:{number}: only {' and '.join(CUDA_FOLDERS)} may include what needs the CUDA toolkit")
        if line.startswith('#include "cuda/emulated/') and not re.match(r"src/cuda/emulated/|.*_(test|bench)\.cpp$", path):
            findings.append(f"{path}:{number}: the emulated device is for tests")
    return findings


def check_lines(path: str, text: str) -> list[str]:
    findings = []
    lines = text.splitlines()
    limit = next((most for pattern, most in LINE_LIMITS if re.search(pattern, path)), None)
    if limit and len(lines) > limit:
        findings.append(f"{path}: {len(lines)} lines, at most {limit}")
    for number, line in enumerate(lines, 1):
        if path.endswith(SOURCES) and len(line) > COLUMNS_MAX and "R\"" not in line and "http" not in line:
            findings.append(f"{path}:{number}: {len(line)} columns, at most {COLUMNS_MAX}")
    return findings


def check_functions(path: str, text: str) -> list[str]:
    """Functions at namespace level, as clang-format lays them out: from a line in the first column to its `}`."""
    if not path.endswith((".cpp", ".cu")) or path.endswith(("_test.cpp", "_bench.cpp")):
        return []
    findings = []
    start = None
    other = re.compile(r"^(namespace|class|struct|enum|union|extern|constexpr .*=|const .*=|#|//|})")
    for number, line in enumerate(text.splitlines(), 1):
        if start is None and line and not line[0].isspace() and not other.match(line):
            start = number
        elif line.startswith("}") and start is not None:
            if number - start + 1 > FUNCTION_LINES_MAX and not line.startswith("};"):
                findings.append(f"{path}:{start}: a function of {number - start + 1} lines, at most {FUNCTION_LINES_MAX}")
            start = None
        if line.endswith(";") and start == number:
            start = None
    return findings


def types_of(text: str) -> list[tuple[str, int]]:
    """Types defined at namespace level, with their lines; those of a nameless namespace are one file's own."""
    namespaces: list[str] = []
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if match := re.match(r"(?:inline )?namespace ?([\w:]*) ?{(?:  //.*)?$", line):
            namespaces.append(match[1])
        elif line.startswith("}  // namespace"):
            namespaces.pop()
        elif "" not in namespaces and (match := re.match(TYPE, line)):
            found.append(("::".join(namespaces + [match[1]]), number))
    return found


def check_types(texts: dict[str, str]) -> list[str]:
    """One name is one type: of two, the linker keeps either's functions for both, and says nothing."""
    places: dict[str, str] = {}
    findings = []
    for path, text in texts.items():
        for name, number in types_of(text):
            first = places.setdefault(name, path)
            if first != path:
                findings.append(f"{path}:{number}: {name} is another type in {first}")
    return findings


def check_words(path: str, text: str) -> list[str]:
    if path == "tools/house_rules.py":
        return []
    findings = []
    for number, line in enumerate(text.splitlines(), 1):
        for pattern, instead in BANNED.items():
            if re.search(pattern, line):
                findings.append(f"{path}:{number}: {re.search(pattern, line).group(0)!r}: {instead}")
    return findings


def check_place(path: str) -> list[str]:
    findings = []
    parts = pathlib.PurePath(path).parts
    if BANNED_FOLDERS.intersection(parts[:-1]):
        findings.append(f"{path}: a folder is a noun of the field, not {'/'.join(BANNED_FOLDERS.intersection(parts))}")
    if re.search(r"\.(cpp|cu)$", path) and parts[0] not in ("src", "apps", "tests", "bench"):
        findings.append(f"{path}: no target compiles it")
    return findings


def check_folder_sizes(paths: list[str]) -> list[str]:
    counts: dict[pathlib.PurePath, int] = {}
    for path in paths:
        if path.startswith("src/") and path.endswith((".cpp", ".cu")) and not re.search(r"_(test|bench|fuzz)\.cpp$", path):
            folder = pathlib.PurePath(path).parent
            counts[folder] = counts.get(folder, 0) + 1
    return [f"{folder}: {count} sources, at most {FOLDER_SOURCES_MAX}" for folder, count in counts.items() if count > FOLDER_SOURCES_MAX]


def anchor_of(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def check_links(path: str, text: str) -> list[str]:
    """Links of a document to files of this tree, and to headings of documents."""
    findings = []
    for link in re.findall(r"\[[^\]\n]*\]\(([^)\s]+)\)", text):
        place, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link):
            continue
        found = (ROOT / path).parent.joinpath(place).resolve() if place else None
        if found and found.is_relative_to(ROOT) and str(found.relative_to(ROOT)) in MADE_BY_COMMANDS:
            continue
        if found and not found.exists():
            findings.append(f"{path}: a link to {link}, which is not there")
            continue
        linked = found.read_text() if found and found.suffix == ".md" else text
        headings = re.findall(r"^#+ (.*)$", linked, re.MULTILINE)
        if anchor and (not found or found.suffix == ".md") and anchor not in map(anchor_of, headings):
            findings.append(f"{path}: a link to {link}, which has no such heading")
    return findings


def check_file(path: str, text: str, allowed: dict[str, set[str]]) -> list[str]:
    findings = check_place(path) + check_words(path, text)
    if path.endswith(".md"):
        findings += check_links(path, text)
    if path.endswith(SOURCES):
        findings += check_layers(path, text, allowed) + check_cuda(path, text)
        findings += check_lines(path, text) + check_functions(path, text)
    return findings


def check_tree() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    paths = [path for path in listed.split("\0") if path and (ROOT / path).is_file()]
    allowed = layers((ROOT / "CMakeLists.txt").read_text())
    findings = check_folder_sizes(paths)
    sources = {}
    for path in paths:
        data = (ROOT / path).read_bytes()
        if len(data) > SIZE_MAX:
            findings.append(f"{path}: {len(data)} bytes, at most {SIZE_MAX}")
        if b"\0" not in data and not path.startswith("tests/golden/"):
            text = data.decode("utf-8", "replace")
            findings += check_file(path, text, allowed)
            if path.endswith(SOURCES):
                sources[path] = text
    return findings + check_types(sources)


def self_test() -> None:
    allowed = layers("millrace_library(base PUBLIC fmt::fmt)\nmillrace_library(text PUBLIC base)\nmillrace_library(sched PUBLIC base)\n")
    assert allowed["text"] == {"text", "base"}
    cases = [
        ("src/text/a.h", '#include "base/b.h"\n', 0),
        ("src/base/a.h", '#include "text/b.h"\n', 1),
        ("src/sched/a.cpp", '#include "text/b.h"\n', 1),
        ("src/nowhere/a.h", "\n", 1),
        ("src/base/a.h", "\n" * 250, 0),
        ("src/base/a.h", "\n" * 251, 1),
        ("src/base/a.cpp", "x" * 101 + "\n", 1),
        ("src/base/a.cpp", "int f() {\n" + "  g();\n" * 68 + "}\n", 0),
        ("src/base/a.cpp", "int f() {\n" + "  g();\n" * 69 + "}\n", 1),
        ("src/base/a.cpp", "int f(\n    int x\n) {\n" + "  g();\n" * 67 + "}\n", 1),
        ("src/base/a.cpp", "int f();\nint g() {\n" + "  h();\n" * 60 + "}\n", 0),
        ("src/base/a.cpp", "// FIX" + "ME later\n", 1),
        ("src/base/a.cpp", "// TO" + "DO(#12) later\n", 0),
        ("src/base/a.cpp", "// TO" + "DO later\n", 1),
        ("src/utils/a.md", "\n", 1),
        ("docs/a.md", "[a](../README.md) [b](https://example.org/c) [c](../src) [d](#e)\n# E\n", 0),
        ("docs/a.md", "[a](no.md) [b](../README.md#no-such-heading) [d](#e)\n", 3),
        ("docs/guides/a.md", "[a](../benchmarks/cpu.md)\n", 0),
        ("tools/a.cpp", "\n", 1),
        ("src/base/a.cu", "x" * 101 + "\n", 1),
        ("src/base/a.cuh", "\n" * 251, 1),
        ("src/text/a.cpp", "#include <cuda_runtime_api.h>\n", 1),
        ("bench/a.cpp", '#include "cuda/native/a.h"\n', 1),
        ("bench/cuda/a.cpp", '#include "cuda/native/a.h"\n#include <cublasLt.h>\n', 0),
        ("tests/a/a.cpp", '#include "cuda/emulated/work.h"\n', 1),
        ("tests/a/a_test.cpp", '#include "cuda/emulated/work.h"\n', 0),
    ]
    for path, text, expected in cases:
        found = check_file(path, text, allowed)
        assert len(found) == expected, (path, found)
    many = [f"src/base/f{i}.cpp" for i in range(FOLDER_SOURCES_MAX + 1)]
    assert len(check_folder_sizes(many)) == 1 and not check_folder_sizes(many[1:])
    one = "namespace a::b {\n\nstruct X final : Y<Z> {\n  struct In {\n  };\n};\n\n}  // namespace a::b\n"
    hidden = "namespace a::b {\nnamespace {\nclass X {\n};\n}  // namespace\nclass X;\n}  // namespace a::b\n"
    assert not check_types({"a.h": one, "b.cpp": hidden, "c.h": one.replace("a::b", "c")})
    assert len(check_types({"a.h": one, "b.h": one.replace("struct X final : Y<Z>", "enum class X")})) == 1
    print(f"{len(cases) + 4} passed, 0 failed")


def main() -> None:
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return
    findings = check_tree()
    print("\n".join(findings) if findings else "house rules: nothing to say")
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
