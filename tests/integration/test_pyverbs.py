# SPDX-License-Identifier: BSD-2-Clause
"""Debian's own tests of pyverbs, unmodified, against tests/pyverbs/expected.txt, and what differs from that in
the newest expected-N.txt that is not newer than the package.

One process a module, each in `verbatim run`, so that a crash costs its module only. The table at the
end of pytest's output tells how many passed and why the others were skipped.
"""
import collections
import gzip
import json
import os
import pathlib
import shutil
import subprocess

import pytest

from conftest import TABLES
from harness import BUILD, DEVICE, ROOT, SLOWER, Runner

# All in one worker: they are cases of a suite that runs once.
pytestmark = pytest.mark.xdist_group('pyverbs')

HERE = ROOT / 'tests/pyverbs'
SUITE = pathlib.Path('/usr/share/doc/rdma-core/tests')
PYTHON = '/usr/bin/python3'  # the one that python3-pyverbs is for
VENDORS = ('test_mlx5_', 'test_efa', 'test_cuda_')
SECONDS = 40  # a module
LIBRDMACM = BUILD / 'src/cm/librdmacm.so.1'

Expected = collections.namedtuple('Expected', 'outcome reasons')


def read_file(path, reasons, tests):
    """Adds the lines of a file to {name: (text, why)} and {test: Expected}, or replaces what is there."""
    text, here = path.read_text(encoding='utf-8'), set()
    for number, line in enumerate(text.splitlines(), 1):
        kind, _, rest = line.partition(' ')
        if not line or kind == '#':
            continue
        if kind == 'reason':
            name, said, why = rest.split(': ', 2)
            reasons[name] = (said, why)
            continue
        test, *names = rest.split()
        assert kind in ('passed', 'skipped', 'refused', 'gone'), f'line {number}: {line}'
        assert test not in here, f'line {number}: {test} is there twice'
        here.add(test)
        if kind == 'gone':
            del tests[test]
            continue
        assert set(names) <= set(reasons), f'line {number}: unknown reason in {names}'
        assert names or kind == 'passed', f'line {number}: skipped without a reason'
        tests[test] = Expected(kind, names)


def release():
    """The number of the rdma-core that pyverbs is of."""
    done = subprocess.run(['dpkg-query', '-W', '-f', '${Version}', 'python3-pyverbs'],
                          capture_output=True, text=True, check=False)
    return int(done.stdout.split('.')[0]) if done.returncode == 0 else 0


def read_expected():
    """({name: (text, why)}, {test: Expected})"""
    reasons, tests = {}, {}
    read_file(HERE / 'expected.txt', reasons, tests)
    newer = {int(path.stem.split('-')[1]): path for path in HERE.glob('expected-*.txt')}
    fitting = [number for number in newer if number <= release()]
    if fitting:
        read_file(newer[max(fitting)], reasons, tests)
    return reasons, tests


REASONS, EXPECTED = read_expected()


def reason_of(expected, text):
    """The listed reason that allows this skip, or None."""
    return next((name for name in expected.reasons if text.startswith(REASONS[name][0])), None)


def refusal_of(expected, text):
    """The listed reason that allows this failure, or None."""
    if expected.outcome != 'refused':
        return None
    return next((name for name in expected.reasons if REASONS[name][0] in text), None)


@pytest.fixture(scope='module')
def suite(tmp_path_factory):
    """The tests where they can be imported: Debian compresses the longer ones."""
    if not SUITE.is_dir():
        pytest.fail(f'{SUITE} does not exist: was rdma-core installed without documentation?')
    copy = tmp_path_factory.mktemp('pyverbs') / 'tests'
    shutil.copytree(SUITE, copy)
    for packed in copy.glob('*.gz'):
        packed.with_suffix('').write_bytes(gzip.decompress(packed.read_bytes()))
    return copy


def run_module(runner, suite, module):
    """{test: (outcome, text)} of one module; what did not come to its end is not in it."""
    # Over the system's librdmacm nothing can be connected: its tests then find no interface, and skip.
    view = ['--no-sysfs'] if module == 'test_rdmacm' and not LIBRDMACM.exists() else []
    program = runner.start(PYTHON, HERE / 'run.py', suite, module, '--dev', DEVICE, run=view)
    status = program.wait(SECONDS * SLOWER)
    output = program.output()
    found = {}
    for line in output.splitlines():
        if line.startswith('{"id": '):
            told = json.loads(line)
            found[told['id']] = (told['outcome'], told['text'])
    if status != 0:
        found[f'{module} itself'] = ('failed', program.report())
    runner.release(program)
    return found


def make_table(found):
    """How many passed, why the others were skipped, and which ones should no longer be listed."""
    counts = collections.Counter(outcome for outcome, _ in found.values())
    lines = [', '.join(f'{counts[outcome]} {outcome}'
                       for outcome in ('passed', 'skipped', 'failed'))]
    listed = {test: outcome for test, outcome in found.items() if test in EXPECTED}
    why = collections.Counter(reason_of(EXPECTED[test], text) or text
                              for test, (outcome, text) in listed.items() if outcome == 'skipped')
    for name, count in why.most_common():
        lines.append(f'{count:5} skipped: {REASONS[name][1] if name in REASONS else name}')
    for test, (outcome, _) in listed.items():
        if outcome == 'passed' and EXPECTED[test].outcome != 'passed':
            lines.append(f'      {test} passes now: change its line in expected.txt')
    return lines


@pytest.fixture(scope='module')
def results(suite, request):
    """{test: (outcome, text)} of all modules that are not a vendor's."""
    found = {}
    with Runner(f'test-pyverbs-{os.getpid()}') as runner:
        for path in sorted(suite.glob('test_*.py')):
            if not path.name.startswith(VENDORS):
                found.update(run_module(runner, suite, path.stem))
    request.config.stash[TABLES]['pyverbs'] = make_table(found)
    return found


@pytest.mark.asan
@pytest.mark.parametrize('test', EXPECTED)
def test_pyverbs(results, test):
    assert test in results, 'has no result: it crashed, ran out of time, or is no longer there'
    outcome, text = results[test]
    if outcome == 'failed' and refusal_of(EXPECTED[test], text):
        pytest.skip(REASONS[refusal_of(EXPECTED[test], text)][1])
    assert outcome != 'failed', text
    if outcome == 'skipped':
        reason = reason_of(EXPECTED[test], text)
        assert reason, f'skipped, and not for a reason that expected.txt lists: {text}'
        pytest.skip(REASONS[reason][1])


@pytest.mark.asan
def test_all_are_listed(results):
    """Each test the package has is in expected.txt, and each module came to its end."""
    for test, (outcome, text) in results.items():
        assert test in EXPECTED, f'{test}: {outcome} {text}'
