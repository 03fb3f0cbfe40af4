"""Archives as files: the same input gives the same bytes at any thread count and in every kind of container; a failure leaves nothing behind."""
import hashlib, os, pathlib, shutil, signal, subprocess, tarfile, tempfile, time
from common import FLOAT, MODELS, Engine, Tally, compile_model, need, quern, quern_path

need("tract", "numpy")
import numpy as np

MODEL = MODELS / "bytellama" / "model.onnx"


def digest(path):
    if path.is_dir():
        return {p.relative_to(path).as_posix(): digest(p) for p in sorted(path.rglob("*")) if p.is_file()}
    return hashlib.sha256(path.read_bytes()).hexdigest()


def same_bytes(folder, flags):
    seen = {}
    for threads in (1, 2, 64):
        for run in range(2):
            out = folder / f"o{threads}.{run}.nnef.tgz"
            compile_model(MODEL, out, "--threads", threads, *flags)
            seen.setdefault(digest(out), []).append(f"{threads} threads, run {run}")
    return len(seen) == 1, f"{len(seen)} different results of 6: {list(seen.values()) if len(seen) > 1 else ''}"


def same_content(folder, engine):
    """Folder, tar and compressed tar hold the same files, and the engine computes the same with each."""
    kinds = [folder / "same", folder / "same.nnef.tar", folder / "same.nnef.tgz"]
    contents, outputs = [], []
    for kind in kinds:
        compile_model(MODEL, kind)
        if kind.is_dir():
            contents.append(digest(kind))
        else:
            with tarfile.open(kind) as tar:
                members = [m for m in tar.getmembers() if m.isfile()]
                contents.append({m.name: hashlib.sha256(tar.extractfile(m).read()).hexdigest() for m in members})
                if any(m.mtime or m.uid or m.gid or m.uname or m.gname for m in members):
                    return False, f"{kind.name} tells who made it, or when"
        ids = np.arange(24, dtype=np.int64).reshape(2, 12)
        outputs.append(engine.run(kind, [ids, np.ones_like(ids)])[0])
    names = sorted(set().union(*contents))
    good = contents[0] == contents[1] == contents[2] and all(np.array_equal(outputs[0], o) for o in outputs)
    return good, f"{len(names)} files each"


def no_model_name(folder):
    """The path and the name of the input file do not enter the archive."""
    copy = folder / "another name.onnx"
    shutil.copyfile(MODEL, copy)
    compile_model(copy, folder / "a.nnef.tgz")
    compile_model(MODEL, folder / "b.nnef.tgz")
    return digest(folder / "a.nnef.tgz") == digest(folder / "b.nnef.tgz"), "same bytes from a copy under another name"


def replaces(folder):
    """An archive in the way is replaced whole, a folder too: no file of the old one stays."""
    for out in (folder / "again", folder / "again.nnef.tgz"):
        compile_model(MODEL, out, *FLOAT)
        before = digest(out)
        if out.is_dir():
            (out / "stale.dat").write_bytes(b"of an older compile")
            compile_model(MODEL, out, *FLOAT)
        else:
            compile_model(MODEL, out)
            compile_model(MODEL, out, *FLOAT)
        if digest(out) != before:
            return False, f"{out.name} differs after a second compile"
    return True, "folder and tgz"


def failure_leaves_nothing(folder):
    """A truncated model, a bad pin, a model that cannot be lowered: the folder is as before, an older archive too."""
    cut = folder / "cut.onnx"
    cut.write_bytes(MODEL.read_bytes()[:3_000_000])
    old = folder / "old.nnef.tgz"
    compile_model(MODEL, old)
    before = digest(folder)
    attempts = [[cut, "-o", old], [cut, "-o", folder / "new"], [MODEL, "-o", old, "--layer", "no/such=8"], [MODEL, "-o", folder / "x.nnef.tar", "--set", "seq=0"],
                [folder / "absent.onnx", "-o", old]]
    for args in attempts:
        done = quern("compile", *args)
        if done.returncode != 1 or not done.stderr.startswith("quern: "):
            return False, f"{args}: exit {done.returncode}, {done.stderr.strip()[-200:]}"
        if digest(folder) != before:
            return False, f"{args}: left {set(digest(folder)) - set(before)}"
    return True, f"{len(attempts)} failures"


def interrupted(folder):
    """Killed at any moment, the output is the old one or the new one, never half of it; an interrupt also removes what was begun."""
    out = folder / "out.nnef.tgz"
    compile_model(MODEL, out)
    old = digest(out)
    compile_model(MODEL, folder / "whole.nnef.tgz", *FLOAT)
    new = digest(folder / "whole.nnef.tgz")
    (folder / "whole.nnef.tgz").unlink()
    for wait in (0.01, 0.03, 0.06, 0.1, 0.2):
        child = subprocess.Popen([quern_path(), "compile", MODEL, "-o", out, *FLOAT], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(wait)
        child.send_signal(signal.SIGINT)
        child.wait()
        if digest(out) not in (old, new):
            return False, f"half an archive after {wait} s"
        extra = [p.name for p in folder.iterdir() if p != out]
        if extra:
            return False, f"an interrupt after {wait} s left {extra}"
    return True, "5 moments"


def unwritable(folder):
    if os.geteuid() == 0:
        done = quern("compile", MODEL, "-o", "/proc/quern.nnef.tgz")
    else:
        folder.chmod(0o500)
        done = quern("compile", MODEL, "-o", folder / "o.nnef.tgz")
        folder.chmod(0o700)
    return done.returncode == 1 and "cannot write" in done.stderr, done.stderr.strip()[:200]


def full_disk(folder):
    """Less room than the archive takes (a file size limit stands for a full disk): an error, and nothing stays."""
    done = subprocess.run(["sh", "-c", 'ulimit -f 1000; trap "" XFSZ; exec "$@"', "sh", quern_path(), "compile", MODEL, "-o", folder / "o.nnef.tgz", *FLOAT],
        capture_output=True, text=True)
    left = [p.name for p in folder.iterdir()]
    return done.returncode == 1 and not left, f"exit {done.returncode}, {done.stderr.strip()[-200:]}, left {left}"


def main():
    tally, engine = Tally(), Engine()
    cases = [("same bytes, Q4_0", lambda f: same_bytes(f, [])), ("same bytes, int8 and Q8_1", lambda f: same_bytes(f, ["--bits", "8", "--embedding-bits", "8"])),
             ("same content in every container", lambda f: same_content(f, engine)), ("name of the model", no_model_name), ("replaced", replaces),
             ("failure", failure_leaves_nothing), ("interrupt", interrupted), ("unwritable", unwritable), ("full disk", full_disk)]
    for name, call in cases:
        with tempfile.TemporaryDirectory() as folder:
            tally.attempt(name, lambda: call(pathlib.Path(folder)))
    engine.close()
    tally.end()


if __name__ == "__main__":
    main()
