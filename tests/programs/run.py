# SPDX-License-Identifier: BSD-2-Clause
"""Runs rows in a place (scripts/test-programs): run.py RESULTS [PROGRAM...]

Two hosts are joined by a cable; both ends of a row are on the first, or one on each. Nothing is set for the
programs but what they demand themselves: Verbatim's devices are those that it has by default.
"""
import importlib
import pathlib
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / 'integration')]

import netns  # noqa: E402
import rows  # noqa: E402

MODULES = ('openmpi', 'mpich', 'ucx', 'libfabric', 'qemu', 'qperf', 'fio', 'dapl', 'debuggers')


class OutOfTime(Exception):
    """Raised by the alarm of a row."""


def on_alarm(*_):
    raise OutOfTime('out of time')


def version(package):
    """Of the installed package."""
    done = subprocess.run(['dpkg-query', '-W', '-f', '${Version}', package], capture_output=True, text=True,
                          check=False)
    return done.stdout or 'not installed'


def attempt(row):
    """What went wrong, or nothing."""
    wrong = ''
    with netns.Cable(mtu=9000, name='programs') as cable:
        for host in cable.hosts:
            del host.env['VERBATIM_DEVICES']
        signal.alarm(row.seconds)
        try:
            row.function(cable.a, cable.a if row.where == rows.ONE else cable.b)
        except (Exception, OutOfTime) as error:  # whatever it is, it is the row's
            wrong = f'{type(error).__name__}: {error}'
        finally:
            signal.alarm(0)
        left = cable.close()
    if left:
        wrong += f'\nleft behind: {left}'
    return wrong


def verdict(row, wrong):
    """One of holds, known, FAILED."""
    if row.known:
        return 'known' if wrong else 'FAILED'
    return 'FAILED' if wrong else 'holds'


def main():
    results, *wanted = sys.argv[1:]
    signal.signal(signal.SIGALRM, on_alarm)
    for module in MODULES:
        importlib.import_module(module)
    unknown = set(wanted) - {row.program for row in rows.rows}
    if unknown:
        sys.exit(f'test-programs: no rows of {", ".join(sorted(unknown))}')
    count = dict.fromkeys(('holds', 'known', 'FAILED'), 0)
    with open(results, 'w', encoding='utf-8') as file:
        for row in rows.rows:
            if wanted and row.program not in wanted:
                continue
            start = time.monotonic()
            wrong = attempt(row)
            result = verdict(row, wrong)
            count[result] += 1
            print(f'{row.program}, {row.text}, {row.where}: {result}, {time.monotonic() - start:.1f} s', flush=True)
            if result == 'FAILED':
                print(wrong or 'it is known to fail, and did not')
            print(row.program, f'{row.package} {version(row.package)}', row.text, row.where, result,
                  row.known or '', sep='\t', file=file, flush=True)
    if count['known']:
        print(f'{count["known"]} failed as they are known to')
    print(f'{count["holds"]} passed, {count["FAILED"]} failed')
    return 1 if count['FAILED'] else 0


sys.exit(main())
