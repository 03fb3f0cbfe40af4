"""Installs a build to a folder of its own and builds a host program against it: by pkg-config, by find_package, shared and static.

usage: run.py BUILD_FOLDER
"""
import os, pathlib, shutil, subprocess, sys, tempfile

HERE = pathlib.Path(__file__).resolve().parent
MODEL = HERE.parents[1] / "models" / "bytellama" / "model.onnx"


def sh(*command, **more):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **more)
    if done.returncode:
        sys.exit(f"FAIL  {' '.join(map(str, command))}\n{done.stdout[-2000:]}{done.stderr[-3000:]}")
    return done.stdout


def by_pkg_config(prefix, folder, env, static):
    """Static means our own library only: what it stands on is linked as the system has it."""
    flags = sh("pkg-config", "--cflags", "--libs", "quern", env=env).split()
    if static:
        needs = sh("pkg-config", "--print-requires-private", "quern", env=env).split()
        flags = [str(next(prefix.rglob("libquern.a"))) if f == "-lquern" else f for f in flags]
        flags += sh("pkg-config", "--libs", *needs, env=env).split() + ["-fopenmp", "-lm"]
    program = folder / ("static" if static else "shared")
    sh(env["CC"], HERE / "host.c", "-std=c11", "-pedantic", "-Wall", "-Wextra", "-Werror", "-o", program, *flags)
    return program


def exported_names(prefix):
    """The shared library shows nothing but the public calls."""
    library = next(prefix.rglob("libquern.so"))
    names = [line.split()[-1] for line in sh("nm", "-D", "--defined-only", library).splitlines()]
    return sorted(n for n in names if not n.startswith("quern_"))


def main():
    build = sys.argv[1]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        prefix = folder / "prefix"
        sh("cmake", "--install", build, "--prefix", prefix)
        libraries = next(prefix.rglob("libquern.so")).parent
        env = dict(os.environ, CC=os.environ.get("CC", "cc"), PKG_CONFIG_PATH=str(libraries / "pkgconfig"), LD_LIBRARY_PATH=str(libraries))
        programs = [by_pkg_config(prefix, folder, env, static) for static in (False, True)]
        made = folder / "made"
        with_cpp = shutil.which("c++") is not None
        source = folder / "source"
        shutil.copytree(HERE, source)
        if not with_cpp:
            text = (source / "CMakeLists.txt").read_text()
            (source / "CMakeLists.txt").write_text(text.replace(" CXX", "").split("# The header")[0])
        sh("cmake", "-S", source, "-B", made, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}")
        sh("cmake", "--build", made)
        programs.append(made / "host")
        for program in programs:
            print(program.name, sh(program, MODEL, folder / "out.nnef.tgz", env=env).strip())
        sh(prefix / "bin" / "quern", "--version")
        foreign = exported_names(prefix)
        if foreign:
            sys.exit(f"FAIL  the shared library exports {foreign[:20]}")
        print(f"{len(programs)} passed, 0 failed")


if __name__ == "__main__":
    main()
