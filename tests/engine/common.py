"""What the tests of this folder share: the command under test, the real engine in a process of its own, a tally."""
import os, pathlib, shutil, subprocess, sys, tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = ROOT / "models"
SHARED = ROOT.parent / "shared"  # reference exports of the developers; not in the repository
SKIP = 77
SANITIZED = bool(os.environ.get("QUERN_SANITIZED"))  # the same code, many times slower: tests take less of it
CPUINFO = pathlib.Path("/proc/cpuinfo")
# The engine chooses its kernels by it; the variable is the engine's own.
AVX512 = CPUINFO.exists() and "avx512f" in CPUINFO.read_text() and "-avx512f" not in os.environ.get("TRACT_CPU_ISA", "")
FLOAT = ["--bits", "32", "--embedding-bits", "32"]


def skip(why):
    print(f"SKIP {why}")
    sys.exit(SKIP)


def need(*packages):
    import importlib.util

    missing = [p for p in packages if importlib.util.find_spec(p) is None]
    if missing:
        skip(f"the Python package {', '.join(missing)} is not there; scripts/setup installs it")


def quern_path():
    path = shutil.which(os.environ.get("QUERN", "quern"))
    if not path:
        sys.exit("set QUERN to the command under test")
    return path


def quern(*args, timeout=600):
    """Runs the command; a crash or a sanitizer's finding is an exception, an ordinary failure is not."""
    done = subprocess.run([quern_path(), *map(str, args)], capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL)
    if done.returncode not in (0, 1, 2):
        raise Broken(f"quern ended with {done.returncode}: {done.stderr.strip()[-2000:]}")
    return done


class Broken(Exception):
    pass


def compile_model(model, out, *flags):
    done = quern("compile", model, "-o", out, *flags)
    if done.returncode:
        raise Broken(done.stderr.strip()[-500:])
    return done


class Engine:
    """tract in a process of its own, because a panic there ends the process. One archive stays loaded until another is asked for."""

    def __init__(self):
        self.child = None

    def _start(self):
        import multiprocessing

        context = multiprocessing.get_context("spawn")
        self.log = tempfile.TemporaryFile(mode="w+")
        self.pipe, other = context.Pipe()
        os.environ.setdefault("RUST_BACKTRACE", "0")
        saved = os.dup(2)
        os.dup2(self.log.fileno(), 2)  # the child's stderr: why it panicked
        try:
            self.child = context.Process(target=_serve, args=(other,), daemon=True)
            self.child.start()
        finally:
            os.dup2(saved, 2)
            os.close(saved)
        other.close()

    def ask(self, *request):
        if not self.child or not self.child.is_alive():
            self._start()
        try:
            self.pipe.send(request)
            ok, answer = self.pipe.recv()
        except (EOFError, OSError):
            self.child.join()
            self.child = None
            self.log.seek(0)
            lines = [l for l in self.log.read().splitlines() if l.strip() and not l.startswith("note:")]
            raise Broken("the engine panicked: " + " ".join(lines[-2:])[-300:]) from None
        if not ok:
            raise Broken(answer)
        return answer

    def run(self, archive, feeds):
        """Outputs in order. `feeds`: arrays by ONNX input name or in order."""
        return self.ask("run", str(archive), {k: v for k, v in feeds.items()} if isinstance(feeds, dict) else list(feeds))

    def facts(self, archive):
        """(name, fact) of each input."""
        return self.ask("facts", str(archive))

    def close(self):
        if self.child:
            self.child.kill()
            self.child.join()
            self.child = None


def _serve(pipe):
    import numpy, tract

    loaded, model, runnable = None, None, None
    while True:
        try:
            what, archive, *rest = pipe.recv()
        except EOFError:
            return
        try:
            stamp = (archive, os.stat(archive).st_mtime_ns)
            if stamp != loaded:
                loaded = None
                model = tract.nnef().with_tract_extra().with_tract_transformers().load(archive)
                names = [model.input_name(i) for i in range(model.input_count())]
                facts = [(n, str(model.input_fact(i))) for i, n in enumerate(names)]
                runnable = model.into_runnable()
                loaded = stamp
            if what == "facts":
                pipe.send((True, facts))
                continue
            feeds = rest[0]
            if isinstance(feeds, dict):
                feeds = [feeds[n] for n in names] if set(names) <= set(feeds) else list(feeds.values())
            if what == "profile":
                pipe.send((True, runnable.profile_json([numpy.array(f, order="C") for f in feeds])))
                continue
            pipe.send((True, [numpy.array(o.to_numpy()) for o in runnable.run([numpy.array(f, order='C') for f in feeds])]))
        except Exception as error:  # the engine's own errors are text
            loaded = None
            pipe.send((False, "the engine: " + " ".join(str(error).split())[:400]))


def rel_l2(got, want):
    import numpy

    if got.shape != want.shape:
        raise Broken(f"shape {got.shape}, expected {want.shape}")
    p, q = got.astype(numpy.float64).ravel(), want.astype(numpy.float64).ravel()
    return float(numpy.linalg.norm(p - q) / (numpy.linalg.norm(q) or 1.0))


def cosine(got, want):
    import numpy

    if got.shape != want.shape:
        raise Broken(f"shape {got.shape}, expected {want.shape}")
    p, q = got.astype(numpy.float64).ravel(), want.astype(numpy.float64).ravel()
    return float(p @ q / ((numpy.linalg.norm(p) or 1.0) * (numpy.linalg.norm(q) or 1.0)))


def ort_session(path):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


class Tally:
    def __init__(self):
        self.passed, self.failed = 0, 0

    def check(self, good, text):
        print(("ok    " if good else "FAIL  ") + text, flush=True)
        self.passed += bool(good)
        self.failed += not good
        return good

    def attempt(self, text, call):
        """`call` returns (good, detail); Broken counts as a failure with its text."""
        try:
            good, detail = call()
        except (Broken, subprocess.TimeoutExpired) as error:
            good, detail = False, str(error)
        return self.check(good, f"{text}: {detail}")

    def end(self):
        print(f"{self.passed} passed, {self.failed} failed")
        sys.exit(1 if self.failed or not self.passed else 0)
