#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs a module of pyverbs' own tests, as its run_tests.py does, and prints a JSON line a test.

    run.py DIRECTORY MODULE [OPTIONS of run_tests.py]

DIRECTORY holds the tests as Debian's rdma-core has them, unpacked. Each line has the test's id,
its outcome (passed, skipped, failed), and the reason of a skip or the traceback of a failure.
"""
import importlib.machinery
import json
import pathlib
import sys
import unittest


class Result(unittest.TestResult):
    """Tells each outcome as soon as it is known, so that a crash loses no test before it."""

    def __init__(self):
        super().__init__()
        self.outcome, self.text = 'passed', ''

    def startTest(self, test):
        super().startTest(test)
        self.outcome, self.text = 'passed', ''

    def _note(self, outcome, text):
        if self.outcome != 'failed':
            self.outcome, self.text = outcome, text

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._note('skipped', reason)

    def addError(self, test, err):
        super().addError(test, err)
        self._note('failed', self._exc_info_to_string(err, test))

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._note('failed', self._exc_info_to_string(err, test))

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._note('failed', f'{subtest}: {self._exc_info_to_string(err, test)}')

    def stopTest(self, test):
        super().stopTest(test)
        print(json.dumps({'id': test.id().removeprefix('tests.'), 'outcome': self.outcome,
                          'text': self.text}), flush=True)


def main():
    directory, module = pathlib.Path(sys.argv[1]), sys.argv[2]
    sys.argv[1:] = sys.argv[3:]
    sys.path.insert(0, str(directory))

    # The lines of run_tests.py, but for the last.
    parser = importlib.import_module('args_parser').parser
    importlib.machinery.SourceFileLoader('tests', str(directory / '__init__.py')).load_module()
    parser.parse_args()
    suite = unittest.defaultTestLoader.loadTestsFromModule(
        importlib.import_module(f'tests.{module}'))
    suite.run(Result())


if __name__ == '__main__':
    main()
