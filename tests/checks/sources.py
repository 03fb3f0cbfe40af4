"""What the sources keep to, checked as text. Exit 1 when a rule is broken; sizes only warn.

  names     Only graph/ (the operator table and the loader that looks operators up in it) may compare an operator's name.
            Passes, the archive writer and the command ask what a row says of itself: traits, hints, callbacks. So a new operator is one
            new file, and no list of names elsewhere has to learn of it.
  layers    cli/ includes the public header and its own; graph/ does not include passes/; protobuf-c's types stay in graph/onnx/.
  sizes     a file over 400 lines, a function over 60 or a line over 160 characters is named, as a warning.
"""
import pathlib, re, subprocess, sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("include", "graph", "passes", "cli", "tests/unit", "tests/fuzz")
NAME_TEST = re.compile(r"\b(?:str(?:n?case)?n?cmp|strstr|strchr|memcmp|fnmatch)\s*\([^;]*(?:op->name|op_type)\b")


def sources():
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.[ch]")):
            yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8").splitlines()


def broken_rules(name, lines):
    for number, line in enumerate(lines, 1):
        where = f"{name}:{number}"
        include = re.match(r'\s*#include ["<]([^">]+)', line)
        if name.startswith(("passes/", "cli/")) and NAME_TEST.search(line):
            yield f"{where}: compares an operator's name; give the row a trait or a hint and ask that"
        if not include:
            continue
        target = include.group(1)
        if name.startswith("cli/") and target.startswith(("graph/", "passes/")):
            yield f"{where}: the command includes '{target}', it may use the public header only"
        if name.startswith("graph/") and target.startswith("passes/"):
            yield f"{where}: graph/ includes '{target}'"
        if not name.startswith("graph/onnx/") and ("pb-c.h" in target or "protobuf-c" in target):
            yield f"{where}: protobuf-c outside graph/onnx/"


def long_functions(lines):
    start = None
    for number, line in enumerate(lines, 1):
        if line == "{":
            start = number
        elif line == "}" and start:
            if number - start - 1 > 60:
                yield start, number - start - 1
            start = None


def main():
    broken = []
    for name, lines in sources():
        broken += broken_rules(name, lines)
        if len(lines) > 400:
            print(f"warning: {name} has {len(lines)} lines")
        for number, line in enumerate(lines, 1):
            if len(line) > 160:
                print(f"warning: {name}:{number}: a line of {len(line)} characters")
        for number, length in long_functions(lines):
            print(f"warning: {name}:{number}: a function of {length} lines")
    for text in broken:
        print(text)
    print(f"{len(broken)} broken rules")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
