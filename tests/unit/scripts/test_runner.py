#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""scripts/test, scripts/bounded and .ci/run themselves, on copies of them whose parts are stubs. TAP."""
import os
import pathlib
import re
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(sys.argv[1])
# How long what is to be found and ended sleeps: a number of its own, others may run the same test.
DAY = f'86400.{random.randrange(10**9):09}'
LEFT = f'setsid env -i sh -c "sleep {DAY}; true" >/dev/null 2>&1 &'


def tree(directory, fuzz='', make=''):
    """A source tree in which the part `fuzz` runs this shell code, and make has these recipes."""
    root = pathlib.Path(directory, 'tree')
    shutil.copytree(ROOT / 'scripts', root / 'scripts', ignore=shutil.ignore_patterns('__pycache__'))
    shutil.copytree(ROOT / '.ci', root / '.ci')
    (root / 'tests/fuzz').mkdir(parents=True)
    (root / 'tests/fuzz/meson.build').write_text("executable('fuzz_packet',\nexecutable('fuzz_mad',\n")
    (root / 'scripts/fuzz').write_text('#!/bin/bash\n' + fuzz)
    (root / 'Makefile').write_text(make)
    return root


def run(root, *words, seconds=60, **options):
    with open(root / 'output', 'w', encoding='utf-8') as output:
        status = subprocess.run([root / words[0], *words[1:]], stdin=subprocess.DEVNULL, stdout=output,
                                stderr=output, timeout=seconds, check=False, **options).returncode
    return status, (root / 'output').read_text(encoding='utf-8')


def sleepers():
    """The processes that sleep for that day, and those whose command line says so."""
    found = []
    for entry in os.listdir('/proc'):
        try:
            if entry.isdigit() and f'sleep {DAY}'.encode() in \
                    pathlib.Path('/proc', entry, 'cmdline').read_bytes().replace(b'\0', b' '):
                found.append(int(entry))
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found


OF_THE_C_LIBRARY = 3 << 31  # signals 32 and 33, which nobody can change through it


def expect(condition, output):
    if not condition:
        raise AssertionError(output)


def output_in_a_file_is_kept(directory):
    """What is written before and behind the output of a program that is read along stays in the file."""
    root = tree(directory, 'echo "some inputs $*"; echo "warned" >&2; echo "2 passed, 1 failed"; exit 1')
    status, output = run(root, 'scripts/test', 'fuzz')
    expect(status == 1 and output.startswith('== fuzz\nsome inputs 3\nwarned\n'), output)
    expect(output.endswith('\n2 passed, 1 failed\n'), output)
    expect('\0' not in output, output)


def what_is_left_behind_is_a_failure(directory):
    """Whatever its session and environment; it is named and ended."""
    root = tree(directory, LEFT + ' echo "1 passed, 0 failed"')
    status, output = run(root, 'scripts/test', 'fuzz')
    expect(status == 1 and output.endswith('\n1 passed, 2 failed\n'), output)  # shell and sleep
    expect('left behind' in output and f'sleep {DAY}' in output, output)
    expect(not sleepers(), f'{sleepers()} still there')


def nothing_left_is_no_failure(directory):
    root = tree(directory, 'sh -c "sleep 0.5" & echo "1 passed, 0 failed"')
    status, output = run(root, 'scripts/test', 'fuzz')
    expect(status == 0 and output.endswith('\n1 passed, 0 failed\n') and 'left behind' not in output, output)


def orphans_are_reaped(directory):
    """Who waits for the end of a daemon that it has started does not wait for a zombie."""
    root = tree(directory)
    status, output = run(root, 'scripts/bounded', '20', 'bash', '-c',
                         '(setsid sleep 0.2 & echo $! >pid); pid=$(<pid); while kill -0 $pid; do sleep 0.1; done',
                         cwd=root)
    expect(status == 0, output)


def out_of_time(directory):
    """Is a failure beside what was counted, and ends whatever runs."""
    root = tree(directory)
    status, output = run(root, 'scripts/bounded', '1', 'sh', '-c',
                         f'trap "" TERM; (setsid sh -c "sleep {DAY}; true") & sleep {DAY}; sleep {DAY}')
    expect(status == 124 and 'out of time (1 s)' in output and f'sleep {DAY}' in output, output)
    expect(not sleepers(), f'{sleepers()} still there')


def terminated(directory):
    """Who ends scripts/test ends all that it runs."""
    root = tree(directory, f'setsid sleep {DAY} & sleep {DAY}')
    with open(root / 'output', 'w', encoding='utf-8') as output, \
            subprocess.Popen([root / 'scripts/test', 'fuzz'], stdout=output, stderr=output) as program:
        deadline = time.monotonic() + 20
        while len(sleepers()) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        program.send_signal(signal.SIGTERM)
        status = program.wait(30)
    expect(status == 130 and not sleepers(), f'{status} {sleepers()}')


def signals_have_their_default_actions(directory):
    root = tree(directory, 'grep -E "Sig(Ign|Blk)" /proc/self/status; echo "1 passed, 0 failed"')

    def ignore():
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1, signal.SIGTERM])
    status, output = run(root, 'scripts/test', 'fuzz', preexec_fn=ignore, restore_signals=False)
    masks = re.findall(r'Sig(?:Ign|Blk):\t(\w+)', output)
    expect(status == 0 and len(masks) == 2, output)
    expect(not any(int(mask, 16) & ~OF_THE_C_LIBRARY for mask in masks), output)


def a_budget_leaves_out(directory):
    """Parts that are too long for what is left, by name; the others run."""
    root = tree(directory, 'echo "1 passed, 0 failed"')
    status, output = run(root, 'scripts/test', '--budget', '210', 'asan', 'fuzz', 'asan')
    expect(status == 0 and 'not run, for want of time: asan asan\n' in output, output)
    expect(output.endswith('\n1 passed, 0 failed\n'), output)


def a_failure_of_pytest_has_its_reason(directory):
    """The begin and the end of a long one, in a line."""
    results = pathlib.Path(directory, 'pytest.xml')
    results.write_text('<testsuite><testcase classname="t.test_cm" name="test_many"><failure message="10 connections&#10;'
                       + 'x ' * 1000 + '&#10;the client got REJECTED"/></testcase><testcase classname="a" name="b"/>'
                       '<testcase classname="a" name="c"><skipped/></testcase></testsuite>')
    said = subprocess.run([ROOT / 'scripts/count-tests', 'junit', results], capture_output=True, text=True, check=True).stdout
    count, line = said.splitlines()
    expect(count == '1 1', said)
    expect(line.startswith('test_cm: test_many: 10 connections x ') and line.endswith(' the client got REJECTED'), said)
    expect(len(line) < 500, said)


def ci_sums_both(directory):
    """And says so last, with all signals ignored, and whatever make adds."""
    root = tree(directory, make='''test:
\t@echo "5 passed, 0 failed"; echo more
test-long:
\t@echo "budget $(BUDGET)"; echo "7 passed, 2 failed"; exit 1
''')

    def ignore():
        for number in (signal.SIGPIPE, signal.SIGCHLD, signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
    status, output = run(root, '.ci/run', preexec_fn=ignore, restore_signals=False, env={**os.environ, 'CI': 'true'})
    expect(status == 1 and output.endswith('\n12 passed, 2 failed\n') and re.search(r'^budget 2\d{3}$', output, re.M), output)


def ci_counts_what_dies(directory):
    root = tree(directory, make='test:\n\t@echo "5 passed, 0 failed"; kill -9 $$$$\ntest-long:\n\t@true\n')
    status, output = run(root, '.ci/run')
    expect(status == 1 and output.endswith('\n5 passed, 2 failed\n'), output)


TESTS = [output_in_a_file_is_kept, what_is_left_behind_is_a_failure, nothing_left_is_no_failure, orphans_are_reaped,
         a_failure_of_pytest_has_its_reason, out_of_time, terminated, signals_have_their_default_actions,
         a_budget_leaves_out, ci_sums_both, ci_counts_what_dies]


def main():
    failed = 0
    print(f'1..{len(TESTS)}')
    for number, test in enumerate(TESTS, 1):
        with tempfile.TemporaryDirectory(prefix='verbatim-scripts-') as directory:
            try:
                test(directory)
                print(f'ok {number} {test.__name__}', flush=True)
            except (AssertionError, subprocess.TimeoutExpired) as error:
                failed += 1
                print(f'not ok {number} {test.__name__}', flush=True)
                for line in str(error).splitlines():
                    print(f'# {line}', flush=True)
    return failed != 0


if __name__ == '__main__':
    sys.exit(main())
