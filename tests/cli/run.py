"""Runs the cases of this folder: NAME.sh, what it prints (NAME.stdout, NAME.stderr) and its exit status (NAME.exit; none means 0).

usage: run.py [--update] [NAME ...]     --update rewrites the expectations; read the difference before you commit it

A script runs with sh in a new, empty folder. $MODELS is models/ of the repository, $CASES this folder, and `quern` the command under test. In what it
prints, these folders are replaced by their names, and lines that depend on the machine do not belong in a case.
"""
import argparse, os, pathlib, shutil, subprocess, sys, tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TIMEOUT = 900  # seconds; with sanitizers on a busy machine the longest case has taken 300


def run_case(script, quern):
    with tempfile.TemporaryDirectory() as folder:
        tools = pathlib.Path(folder) / "bin"
        work = pathlib.Path(folder) / "work"
        tools.mkdir()
        work.mkdir()
        (tools / "quern").symlink_to(quern)
        env = dict(os.environ, PATH=f"{tools}:{os.environ['PATH']}", MODELS=str(ROOT / "models"), CASES=str(HERE), PYTHON=sys.executable, LC_ALL="C")
        done = subprocess.run(["sh", str(script)], cwd=work, env=env, capture_output=True, timeout=TIMEOUT, stdin=subprocess.DEVNULL)

        def plain(data):
            text = data.decode("utf-8", "backslashreplace")
            for path, name in ((str(work), "$WORK"), (str(ROOT / "models"), "$MODELS"), (str(HERE), "$CASES")):
                text = text.replace(path, name)
            return text

        return {"stdout": plain(done.stdout), "stderr": plain(done.stderr), "exit": f"{done.returncode}\n" if done.returncode else ""}


def show_difference(expected, got):
    import difflib

    for line in difflib.unified_diff(expected.splitlines(), got.splitlines(), "expected", "got", lineterm=""):
        print("   ", line)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--update", action="store_true")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    quern = shutil.which(os.environ.get("QUERN", "quern"))
    if not quern:
        sys.exit("set QUERN to the command under test")
    passed, failed = 0, []
    for script in sorted(HERE.glob("*.sh")):
        if args.names and script.stem not in args.names:
            continue
        result, same = run_case(script, os.path.abspath(quern)), True
        for kind, got in result.items():
            path = script.with_suffix("." + kind)
            expected = path.read_text(encoding="utf-8") if path.exists() else ""
            if args.update and got:
                path.write_text(got, encoding="utf-8")
            elif args.update:
                path.unlink(missing_ok=True)
            elif got != expected:
                same = False
                print(f"{script.stem}: {kind} differs")
                show_difference(expected, got)
        passed += same
        if not same:
            failed.append(script.stem)
    print(f"{passed} passed, {len(failed)} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
