"""Exit 0 if the running Python has the packages of tests/requirements.txt in the pinned versions."""
import importlib.metadata, pathlib, sys

for line in (pathlib.Path(__file__).parent.parent / "tests" / "requirements.txt").read_text().splitlines():
    name, _, version = line.partition("==")
    try:
        if name and importlib.metadata.version(name) != version:
            sys.exit(1)
    except importlib.metadata.PackageNotFoundError:
        sys.exit(1)
