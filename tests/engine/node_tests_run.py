"""The ONNX node tests through `quern run`: float execution on the CPU, the conformance suite of the executor.

usage: node_tests_run.py CASES [--update] [--only TEXT] [--why]      as node_tests.py; the list is node_tests_run.expected
"""
import pathlib, queue, sys
from common import Broken, need, quern

need("onnx")
from node_tests import HERE, parse, report, run_all


def run_case(case):
    for folder in sorted(case.glob("test_data_set_*")):
        done = quern("run", case / "model.onnx", "--test-data-set", folder, timeout=120)
        if done.returncode:
            raise Broken(("differs: " if "differ" in done.stderr else "") + done.stderr.strip()[-500:])


def work(jobs, results):
    while True:
        try:
            case = jobs.get_nowait()
        except queue.Empty:
            return
        try:
            run_case(case)
            results[case.name] = None
        except Exception as error:
            results[case.name] = str(error) or type(error).__name__


def main():
    args, cases = parse()
    return report(run_all(cases, work), HERE / "node_tests_run.expected", args)


if __name__ == "__main__":
    sys.exit(main())
