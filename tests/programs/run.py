# SPDX-License-Identifier: BSD-2-Clause
"""Runs rows in a place (scripts/test-programs): run.py [--runs N] RESULTS [PROGRAM...]

Two hosts are joined by a cable; both ends of a row are on the first, or one on each. Nothing is set for the
programs but what they demand themselves: Verbatim's devices are those that it has by default.
"""
import argparse
import importlib
import pathlib
import re
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / 'integration')]

import netns  # noqa: E402
import rows  # noqa: E402

MODULES = ('openmpi', 'mpich', 'ucx', 'libfabric', 'qemu', 'qperf', 'fio', 'dapl', 'rpma', 'iser', 'ceph', 'prober',
           'debuggers', 'redis', 'perftest', 'golang')


class OutOfTime(Exception):
    """Raised by the alarm of a row."""


def on_alarm(*_):
    raise OutOfTime('out of time')


def version(package):
    """Of the installed package, or nothing."""
    done = subprocess.run(['dpkg-query', '-W', '-f', '${Version}', package], capture_output=True, text=True,
                          check=False)
    return done.stdout


def is_before(version_a, version_b):
    done = subprocess.run(['dpkg', '--compare-versions', version_a, 'lt', version_b], check=False)
    return done.returncode == 0


def expected(row, installed):
    """The row, with the failure that the installed version of its package has, or none."""
    failures = [row.known] if isinstance(row.known, rows.Known) else row.known or ()
    for known in failures:
        if not (known.since and is_before(installed, known.since) or
                known.until and not is_before(installed, known.until)):
            return row._replace(known=known)
    return row._replace(known=None)


def attempt(row):
    """What went wrong, or nothing."""
    wrong = ''
    with netns.Cable(mtu=row.mtu, name='programs') as cable:
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
    if row.known and (wrong or row.known.always):
        return 'known' if re.search(row.known.symptom, wrong) else 'FAILED'
    return 'FAILED' if wrong else 'holds'


def attempts(row, runs):
    """What went wrong in the last run, or nothing; and the seconds of each. After one that FAILED there is none."""
    seconds = []
    wrong = ''
    while len(seconds) < runs:
        start = time.monotonic()
        wrong = attempt(row)
        seconds.append(time.monotonic() - start)
        if verdict(row, wrong) == 'FAILED':
            break
    return wrong, seconds


def times(result, seconds, runs):
    """How often it was as expected, and how long it took."""
    if runs == 1:
        return f'{seconds[0]:.1f} s'
    return f'{len(seconds) - (result == "FAILED")} of {runs}, {min(seconds):.1f}-{max(seconds):.1f} s'


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--runs', type=int, default=1)
    parser.add_argument('results')
    parser.add_argument('programs', nargs='*')
    options = parser.parse_args()
    results, wanted = options.results, options.programs
    signal.signal(signal.SIGALRM, on_alarm)
    for module in MODULES:
        importlib.import_module(module)
    unknown = set(wanted) - {row.program for row in rows.rows}
    if unknown:
        sys.exit(f'test-programs: no rows of {", ".join(sorted(unknown))}')
    count = dict.fromkeys(('holds', 'known', 'FAILED', 'absent'), 0)
    with open(results, 'w', encoding='utf-8') as file, open(results + '.failed', 'w', encoding='utf-8') as failed:
        for row in rows.rows:
            if wanted and row.program not in wanted:
                continue
            installed = version(row.package)
            package = f'{row.package} {installed or "not installed"}'
            if installed:
                row = expected(row, installed)
                wrong, seconds = attempts(row, options.runs)
                result = verdict(row, wrong)
            else:
                wrong, seconds, result = '', [], 'absent'
            count[result] += 1
            line = f'{row.program}, {package}, {row.text}, {row.where}: {result}'
            if seconds:
                line += f', {times(result, seconds, options.runs)}'
            print(line, flush=True)
            if result == 'FAILED':
                wrong = wrong or 'it is known to fail, and did not'
                print(wrong, flush=True)
            if wrong:
                print(line, wrong, sep='\n', file=failed, flush=True)
            if result in ('holds', 'known') and row.known and not row.known.always:
                result = 'may fail'  # whether it did or not
            print(row.program, package, row.text, row.where, result, row.known.why if row.known else '', sep='\t',
                  file=file, flush=True)
    if count['absent']:
        print(f'{count["absent"]} of packages that this release has not')
    if count['known']:
        print(f'{count["known"]} failed as they are known to')
    print(f'{count["holds"]} passed, {count["FAILED"]} failed')
    return 1 if count['FAILED'] else 0


sys.exit(main())
