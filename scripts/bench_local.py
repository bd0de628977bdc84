# SPDX-License-Identifier: BSD-2-Clause
"""Speeds on one host, each beside what the machine itself can do, and for an ordinary user beside
root. Part of `make bench`.
"""
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys

import measure
from measure import harness

KI = 1 << 10
MI = 1 << 20

LATENCIES = [
    ('send 8 B', 'ib_send_lat', ['-s', 8]),
    ('send 8 B inline', 'ib_send_lat', ['-s', 8, '-I', 8]),
    ('send 8 B UC', 'ib_send_lat', ['-s', 8, '-c', 'UC']),
    ('send 8 B UD', 'ib_send_lat', ['-s', 8, '-c', 'UD']),
    ('send 4 KiB', 'ib_send_lat', ['-s', 4 * KI]),
    ('write 8 B', 'ib_write_lat', ['-s', 8]),
    ('read 8 B', 'ib_read_lat', ['-s', 8]),
    ('atomic 8 B', 'ib_atomic_lat', []),
    ('send 8 B events', 'ib_send_lat', ['-s', 8, '-e']),
]
SIZES = [('4 KiB', 4 * KI, 200000), ('64 KiB', 64 * KI, 50000), ('1 MiB', MI, 5000)]
RATES = [
    ('send 8 B', 'ib_send_bw', ['-s', 8]),
    ('send 8 B, 16 QPs', 'ib_send_bw', ['-s', 8, '-q', 16]),
    ('write 8 B', 'ib_write_bw', ['-s', 8]),
    ('read 8 B', 'ib_read_bw', ['-s', 8]),
    ('atomic 8 B', 'ib_atomic_bw', []),
]

# (the row's unit, its column of ucx_perftest, whether less is better)
LATENCY, BANDWIDTH, RATE = ('ns', 1, True), ('MiB/s', 5, False), ('M/s', 7, False)
UCX = {('send', 'ns'): 'tag_lat', ('write', 'ns'): 'ucp_put_lat',
       ('send', 'MiB/s'): 'tag_bw', ('write', 'MiB/s'): 'ucp_put_bw',
       ('send', 'M/s'): 'tag_bw', ('write', 'M/s'): 'ucp_put_bw'}

USER = 1.3  # an ordinary user's rows are within this factor of root's
# The row's mark: of the column that it is divided by, or of the value itself (None); what that is called. Two
# targets: while the processors are near, and far.
MARKS = {
    'latency, send 8 B': (('<= 5', '<= 2'), 'floor', 'lines'),
    'latency, write 8 B': (('<= 4', '<= 1.5'), 'floor', 'lines'),
    'latency, atomic 8 B': ('<= 2', 'write', 'ib_write_lat'),
    'latency, send 8 B events': ('<= 1.2', 'floor', 'eventfd'),
    'bandwidth, send 64 KiB': ('>= 1', 'ucx', 'UCX'),
    'bandwidth, send 1 MiB': ('>= 1', 'ucx', 'UCX'),
    'bandwidth, write 64 KiB': ('>= 0.9', 'floor', 'memcpy'),
    'bandwidth, write 1 MiB': ('>= 0.9', 'floor', 'memcpy'),
    'bandwidth, read 64 KiB': ('>= 0.9', 'floor', 'memcpy'),
    'bandwidth, read 1 MiB': ('>= 0.9', 'floor', 'memcpy'),
    'rate, send 8 B': ('>= 0.7', 'ucx', 'UCX'),
    'rate, write 8 B': ('>= 10', None, 'M/s'),
    'rate, read 8 B': ('>= 5', None, 'M/s'),
    'rate, atomic 8 B': ('>= 5', None, 'M/s'),
}

PEERS = [1, 100, 300]
PEERS_MANY = 300
EVERYBODY = [2, 8, 32, 64, 128, 512]  # processes, each connected to all others
LONG = 512  # so many take six minutes and 8 GiB: measured only if a word names the row
NEAR = [1000]  # processes, each connected to 32 others
USER_MAX = 64  # processes, all connected, of rows that are measured as an ordinary user, too
MEMORY_OF = 64  # processes whose memory has a mark
TIMES = 'poll_ns', 'send_us', 'exchange_us', 'alone_us'  # of a crowd; the rest does not vary

REGISTRATION = '<= 1.2'

THREADED = [(operation, target) for target in ('polls', 'spins', 'sleeps') for operation in ('write', 'read', 'faa')]
THREADED_POLLED, THREADED_ASLEEP = '<= 1.5', '<= 8'  # of SEND; us
# What a request that its target has to execute takes at least: a line there and one back; or, of those that wake it,
# a wake. While it spins it looks when it likes.
THREADED_FLOORS = {('write', 'polls'): '2 lines', ('read', 'polls'): '2 lines', ('faa', 'polls'): '2 lines',
                   ('faa', 'sleeps'): 'wake'}


def reason_of(error):
    """Why a row failed, in a few words."""
    if isinstance(error, (subprocess.TimeoutExpired, subprocess.CalledProcessError)):
        argv = [error.cmd] if isinstance(error.cmd, (str, pathlib.Path)) else error.cmd
        how = (f'not ended within {error.timeout:g} s' if isinstance(error, subprocess.TimeoutExpired)
               else f'status {error.returncode}')
        text = f'{" ".join(pathlib.Path(word).name for word in argv[:5])}: {how}'
    else:
        lines = str(error).split('\n')
        # what was expected, and the last words of whom
        text = ': '.join(dict.fromkeys(line.strip() for line in (lines[0], lines[-1]) if line.strip()))
        if not isinstance(error, AssertionError):
            text = f'{type(error).__name__}: {text}'
    return text if len(text) <= 80 else f'{text[:77]}...'


class Report:
    """What is printed, which marks were met, which rows failed."""

    def __init__(self, as_json):
        self._as_json = as_json
        self._tables = []
        self._met, self._missed, self._failed, self._unjudged = [], [], [], []

    def attempt(self, name, function):
        """(what the function returns, None), or (None, why it failed). One row that fails stops no other."""
        print(f'{name} ...', file=sys.stderr)
        try:
            return function(), None
        except Exception as error:  # whatever it is: a row may not cost the others
            reason = reason_of(error)
            print(f'{name}: FAILED: {type(error).__name__}: {error}', file=sys.stderr)
            self._failed.append(name)
            self.line(name=name, failed=reason)
            return None, reason

    def judge(self, name, value, target):
        """'met' or 'missed', which the last line counts."""
        verdict = 'met' if measure.is_met(value, target) else 'missed'
        (self._met if verdict == 'met' else self._missed).append(name)
        return verdict

    def cannot_judge(self, name):
        """What the mark is of was not measured, as UCX is not installed."""
        self._unjudged.append(name)

    def line(self, **fields):
        """For machines."""
        if self._as_json:
            print(json.dumps(fields), flush=True)

    def table(self, title, *head):
        """The rows of a table, to append to; end() prints it."""
        rows = []
        self._tables.append((title, head, rows))
        return rows

    def end(self, floors):
        """Prints all tables; how many rows failed."""
        if floors.lines:
            self.line(**machine(floors))
        self.line(name='marks', met=self._met, missed=self._missed, failed=self._failed, unjudged=self._unjudged)
        if not self._as_json and (self._failed or any(rows for _, _, rows in self._tables)):
            self._print(floors)
        return len(self._failed)

    def _print(self, floors):
        if floors.lines:
            print(tell_machine(**machine(floors)))
        for title, head, rows in self._tables:
            if rows:
                print(f'\n{title}\n')
                measure.print_table(head, rows)
        missed = f': {"; ".join(self._missed)}' if self._missed else ''
        unjudged = f'. {len(self._unjudged)} not judged: {"; ".join(self._unjudged)}' if self._unjudged else ''
        failed = f'. {len(self._failed)} FAILED: {"; ".join(self._failed)}' if self._failed else ''
        print(f'\nOn one host {len(self._met)} marks met, {len(self._missed)} missed{missed}{unjudged}{failed}')


def machine(floors):
    """How far apart the two processors are, on which all times depend."""
    line_ns = statistics.median(floors.lines)
    return {'name': 'machine', 'cpus': floors.cpus, 'line_ns': line_ns, 'line_ns_least': min(floors.lines),
            'line_ns_most': max(floors.lines), 'distance': measure.distance(line_ns), 'near_ns_most': measure.NEAR_NS,
            'shared_caches': measure.shared_caches(floors.cpus)}


def tell_machine(cpus, line_ns, line_ns_least, line_ns_most, distance, near_ns_most, shared_caches, **_):
    shared = 'the system does not say which caches they share'
    if shared_caches is not None:
        shared = f'the system says that they share {" and ".join(shared_caches) or "no cache"}'
    return (f'On one host, on CPUs {" and ".join(cpus)}: {distance}, {line_ns:.0f} ns a line ({line_ns_least:.0f} to '
            f'{line_ns_most:.0f} in this run; near: at most {near_ns_most} ns);\n{shared}.')


def beside_root(report, name, values, less=True):
    """The cell 'user/root', and what is to be said of it for machines."""
    ratio = statistics.median(user / root for user, root in zip(values['user'], values['root']))
    target = f'<= {USER}' if less else f'>= {1 / USER:.2f}'
    verdict = report.judge(f'{name}: user/root', ratio, target)
    return f'{ratio:.2f} {verdict}', {'ratio': ratio, 'target': target, 'verdict': verdict}


def told(verdict, value):
    """What the last column says of a mark."""
    return f'{verdict} ({value:.2f})'


class Row:
    """What is measured, what nothing can beat, and the size of its messages."""

    def __init__(self, name, kind, measured, floor, size, iterations):
        self.name = name
        self.unit, self.ucx_column, self.less = kind
        self.measured = measured  # of a runner
        self.floor = floor
        self.size = size
        self.iterations = iterations

    def ucx(self, floors):
        test = UCX.get((self.name.split(', ')[1].split(' ')[0], self.unit))
        if not test or any(word in self.name for word in ('U', 'QPs', 'inline', 'events')):
            return None
        if not shutil.which('ucx_perftest'):
            return None
        value = measure.ucx_row(floors, test, self.size, self.iterations)[self.ucx_column]
        return value * {'ns': 1000, 'MiB/s': 1, 'M/s': 1e-6}[self.unit]


def all_rows(floors):
    for name, program, options in LATENCIES:
        yield Row(f'latency, {name}', LATENCY,
                  lambda runner, p=program, o=options: measure.latency_ns(runner, floors, p, '-n', 20000, *o),
                  floors.eventfd_ns if 'events' in name else floors.line_ns, 4 * KI if '4 KiB' in name else 8, 20000)
    for operation in ('send', 'write', 'read'):
        for name, size, iterations in SIZES:
            yield Row(f'bandwidth, {operation} {name}', BANDWIDTH,
                      lambda runner, p=f'ib_{operation}_bw', s=size, n=iterations:
                      measure.bandwidth_mib(runner, floors, p, '-s', s, '-n', n),
                      lambda s=size: floors.memcpy_between_mib(s), size, iterations)
    for name, program, options in RATES:
        # beside it: how many cache lines cross one way in a second, one after the other
        yield Row(f'rate, {name}', RATE,
                  lambda runner, p=program, o=options: measure.message_rate(runner, floors, p, '-n', 200000, *o),
                  lambda: 1000 / floors.line_ns(), 8, 200000)


def measure_row(row, runners, floors, runs):
    """{column: the value of each run}; each run measures all columns beside each other."""
    values = {}
    for _ in range(runs):
        run = {'floor': row.floor()}
        if row.unit == 'MiB/s':
            run['own'] = floors.memcpy_mib(row.size)
        for name, runner in runners.items():
            run[name] = row.measured(runner)
        run['ucx'] = row.ucx(floors)
        if MARKS.get(row.name, (None, None))[1] == 'write':
            run['write'] = measure.latency_ns(list(runners.values())[0], floors, 'ib_write_lat', '-n', 20000, '-s', 8)
        for name, value in run.items():
            if value is not None:
                values.setdefault(name, []).append(value)
    return values


def ratio_of(values, name, to):
    """The median of the ratios of each run; None if one of them was not measured."""
    if name not in values or to not in values:
        return None
    return statistics.median(value / base for value, base in zip(values[name], values[to]))


def judge_row(report, row, values, main):
    """The cells of the row's mark, and what is to be said of it for machines."""
    if row.name not in MARKS:
        return ('', ''), {}
    target, to, what = MARKS[row.name]
    if isinstance(target, tuple):
        where = measure.distance(statistics.median(values['floor']))
        target, what = target[where == 'far'], f'{what} ({where})'
    value = ratio_of(values, main, to) if to else statistics.median(values[main])
    if value is None:
        report.cannot_judge(row.name)
        return (f'{target} {what}', 'not measured'), {}
    verdict = report.judge(row.name, value, target)
    return ((f'{target} {what}', told(verdict, value)),
            {'mark': {'target': target, 'of': what, 'value': value, 'verdict': verdict}})


def show_row(report, row, values, main):
    """The columns of the table."""
    medians = {name: statistics.median(each) for name, each in values.items()}

    def text(name):
        return f'{medians[name]:.{2 if row.unit == "M/s" else 0}f}' if name in medians else ''

    def ratio(to):
        value = ratio_of(values, main, to)
        return '' if value is None else f'{value:.2f}'
    user, user_fields = '', {}
    if 'root' in values and 'user' in values:
        user, fields = beside_root(report, row.name, values, row.less)
        user_fields = {'user_mark': fields}
    mark, mark_fields = judge_row(report, row, values, main)
    report.line(name=row.name, unit=row.unit, **medians, **user_fields, **mark_fields,
                ratios={to: ratio_of(values, main, to) for to in ('floor', 'own', 'ucx', 'write') if to in values})
    floor = f'{text("floor")} (own {text("own")})' if 'own' in values else text('floor')
    return (row.name, row.unit, text('root'), text('user'), user, floor, ratio('floor'), text('ucx'), ratio('ucx'),
            *mark)


def run_rows(report, runners, floors, runs, wanted):
    """The table of perftest's rows."""
    main = list(runners)[0]
    rows = report.table(
        f'Perftest, medians of {runs} runs, each beside its floor. Floors: one way of a cache line, a memcpy of what '
        'another\nprocessor wrote (own: of what lies in the cache of who copies):',
        'what', 'unit', 'root', 'user', 'user/root', 'floor', f'{main}/floor', 'UCX posix', f'{main}/UCX', 'mark', '')
    for row in all_rows(floors):
        if not wanted(row.name):
            continue
        cells, reason = report.attempt(
            row.name, lambda r=row: show_row(report, r, measure_row(r, runners, floors, runs), main))
        rows.append(cells or (row.name, row.unit, 'FAILED', *7 * [''], reason))


def run_threads(report, runners, wanted):
    """WRITEs of 8 bytes by one thread and by two, each with a QP and a CQ: tests/bench/threads."""
    if not wanted('threads'):
        return
    rows = report.table('Threads that write 8 B, each with a QP and a CQ of its own:',
                        'who', '1 thread', '2 threads', 'ratio', '')
    for who, runner in runners.items():
        rates, reason = report.attempt(f'threads, {who}', lambda r=runner: [float(r.run(
            measure.BENCH / 'threads', harness.DEVICE, threads, seconds=60)) for threads in (1, 2)])
        if reason:
            rows.append((who, 'FAILED', '', '', reason))
            continue
        rows.append((who, *(f'{rate:.2f} M/s' for rate in rates), f'{rates[1] / rates[0]:.2f}', ''))
        report.line(name='threads', who=who, unit='M/s', rates=rates)


def registration_row(report, who, runner):
    """The cells behind the name."""
    register, deregister, pages = map(float, runner.run(
        measure.BENCH / 'registration', harness.DEVICE, 1024, seconds=120).split())
    ratio = register / pages
    verdict = report.judge(f'registration, {who}', ratio, REGISTRATION)
    report.line(name='registration', who=who, unit='us/MiB', register=register, deregister=deregister, pages=pages,
                mark={'target': REGISTRATION, 'of': 'pages', 'value': ratio, 'verdict': verdict})
    return (*(f'{value:.1f} us/MiB' for value in (register, deregister, pages)), f'{REGISTRATION} pages',
            told(verdict, ratio))


def run_registration(report, runners, wanted):
    """ibv_reg_mr and ibv_dereg_mr of 1 GiB that was written before: tests/bench/registration."""
    if not wanted('registration'):
        return
    rows = report.table('Registration of 1 GiB that was written before; pages: to look up each page once:',
                        'who', 'ibv_reg_mr', 'ibv_dereg_mr', 'pages', 'mark', '')
    for who, runner in runners.items():
        cells, reason = report.attempt(f'registration, {who}', lambda w=who, r=runner: registration_row(report, w, r))
        rows.append((who, *(cells or ('FAILED', '', '', '', reason))))


def verify_ns(runner, floors, operation, target):
    """The median time from post to completion, of programs with a thread that sleeps outside of verbs. Where pages
    migrate they have done so after some thousands of requests.
    """
    port = harness.free_port()
    argv = [harness.VERIFY, 'latency', '--op', operation, '--target', target, '--sizes', 8, '--count', 10000,
            '--port', port, '--sleeper']
    _, output = runner.pair(['taskset', '-c', floors.cpus[0], *argv],
                            ['taskset', '-c', floors.cpus[1], *argv, harness.HOST], port, seconds=60)
    found = re.search(r'median (\d+) ns', output)
    if not found:
        raise AssertionError(f'verify reported nothing\n{output}')
    return float(found[1])


def threaded_row(report, name, runners, floors, runs, operation, target):
    """The cells behind the name."""
    values, floor = {}, THREADED_FLOORS.get((operation, target))
    for _ in range(runs):
        if floor:
            values.setdefault('floor', []).append(floors.wake_ns() if floor == 'wake' else 2 * floors.line_ns())
        for who, runner in runners.items():
            if target == 'polls':
                values.setdefault(f'{who} send', []).append(verify_ns(runner, floors, 'send', target))
            values.setdefault(who, []).append(verify_ns(runner, floors, operation, target))
    marks, verdicts = {}, []
    for who in runners:
        value = (ratio_of(values, who, f'{who} send') if target == 'polls'
                 else statistics.median(values[who]) / 1000)
        wanted = THREADED_POLLED if target == 'polls' else THREADED_ASLEEP
        verdict = report.judge(f'{name}, {who}', value, wanted)
        verdicts.append(f'{who} {told(verdict, value)}')
        marks[who] = {'target': wanted, 'value': value, 'verdict': verdict}
    medians = {name: statistics.median(each) for name, each in values.items()}
    report.line(name=name, unit='ns', **medians, floor_name=floor, marks=marks)
    return (*(f'{medians[who]:.0f}' if who in medians else '' for each in runners for who in (each, f'{each} send')),
            f'{floor}: {medians["floor"]:.0f}' if floor else '',
            f'{THREADED_POLLED} of SEND' if target == 'polls' else f'{THREADED_ASLEEP} us', ', '.join(verdicts))


def run_threaded(report, runners, floors, runs, wanted):
    """What a program with several threads pays, whose regions may not migrate: `verify latency --sleeper`."""
    rows = report.table(
        f'Programs with a thread more, which sleeps: from post to completion, in ns, medians of {runs} runs; beside it '
        'SEND by\nsuch programs, and the floor of a request that is no copy but a message: two cache lines, one each '
        'way, or to wake a\nprocess in a futex that answers by a cache line:',
        'what', *(column for who in runners for column in (who, 'SEND')), 'floor', 'mark', '')
    for operation, target in THREADED:
        name = f'with threads, {operation} 8 B, target {target}'
        if wanted(name):
            cells, reason = report.attempt(name, lambda n=name, o=operation, t=target: threaded_row(
                report, n, runners, floors, runs, o, t))
            rows.append((name, *(cells or ('FAILED', *(2 * len(runners)) * [''], reason))))


class Crowd:
    """One row of tests/bench/crowd, for each user."""

    def __init__(self, kind, options, count):
        self.kind, self.options, self.count = kind, options, count
        self.name = f'{kind}, {count} peers'
        self.root_alone = kind == 'alltoall' and count >= USER_MAX  # takes long

    def measure(self, runners, runs):
        """{who: what crowd printed, in each run}; `alone_us` is what a SEND took with one peer."""
        seen = {who: [] for who in (list(runners)[:1] if self.root_alone else runners)}
        for _ in range(runs if self.kind == 'peers' else 1):
            for who, values in seen.items():
                values.append(ask_crowd(runners[who], self.options, self.count))
                if self.is_many():
                    values[-1]['alone_us'] = ask_crowd(runners[who], [], 1)['send_us']
        return seen

    def is_many(self):
        return self.kind == 'peers' and self.count == PEERS_MANY

    def marks(self, who, seen):
        """(what, value, target, its unit or what it is a ratio to), of medians, and of ratios in each run."""
        def ratio(name, base, of):
            return statistics.median(run[name] / other[of] for run, other in zip(seen[who], base))
        if self.is_many():
            yield 'empty poll', statistics.median(run['poll_ns'] for run in seen[who]), '<= 30', 'ns'
            yield 'send', ratio('send_us', seen[who], 'alone_us'), '<= 1.3', 'of 1 peer'
            yield 'addresses', seen[who][-1]['peer_kib'][0], '<= 1536', 'KiB'
        if self.kind == 'alltoall' and self.count + 1 == MEMORY_OF:
            yield 'memory', seen[who][-1]['total_mib'], '<= 2048', 'MiB'
        if self.kind == 'peers' and who == 'user' and 'root' in seen:
            yield 'poll: user/root', ratio('poll_ns', seen['root'], 'poll_ns'), f'<= {USER}', 'of root'
            yield 'send: user/root', ratio('send_us', seen['root'], 'send_us'), f'<= {USER}', 'of root'

    def show(self, report, seen):
        """The rows of the table, and those of the table of marks."""
        rows, marks = [], []
        for who, runs in seen.items():
            values = {**runs[-1], **{name: statistics.median(run[name] for run in runs)
                                     for name in TIMES if name in runs[-1]}}
            judged = [{'what': what, 'target': target, 'of': of, 'value': value,
                       'verdict': report.judge(f'{self.name}, {who}: {what}', value, target)}
                      for what, value, target, of in self.marks(who, seen)]
            report.line(name=self.kind, who=who, **values, marks=judged)
            rows.append((self.name, who, f'{values["poll_ns"]:.0f} ns', f'{values["send_us"]:.2f} us',
                         f'{values["exchange_us"]:.1f} us', *(f'{kib} KiB' for kib in values['peer_kib']),
                         f'{values["total_mib"]} MiB', ''))
            marks.extend((f'{self.name}, {who}: {mark["what"]}', f'{mark["target"]} {mark["of"]}',
                          told(mark['verdict'], mark['value'])) for mark in judged)
        return rows, marks


def ask_crowd(runner, options, count):
    return json.loads(runner.run(measure.BENCH / 'crowd', *options, harness.DEVICE, count, seconds=600))


def run_crowds(report, runners, runs, wanted):
    """How cost grows with the number of peers."""
    rows = report.table(
        f'A process with many peers, medians of {runs} runs; alltoall: each is connected to all others; near: to 32; '
        'these once:', 'what', 'who', 'empty poll', 'send 8 B, one way', 'message while all exchange',
        'addresses a peer', 'memory a peer', 'memory of all', '')
    marks = report.table('Its marks:', 'what', 'mark', '')
    crowds = [*(('peers', [], n) for n in PEERS), *(('alltoall', ['--all'], n - 1) for n in EVERYBODY),
              *(('near', ['--near', 16], n - 1) for n in NEAR)]
    for kind, options, count in crowds:
        crowd = Crowd(kind, options, count)
        if not wanted(crowd.name, count + 1 == LONG):
            continue
        seen, reason = report.attempt(crowd.name, lambda c=crowd: c.show(report, c.measure(runners, runs)))
        if reason:
            rows.append((crowd.name, '', 'FAILED', *5 * [''], reason))
        else:
            rows.extend(seen[0])
            marks.extend(seen[1])


def run(floors, runs, wanted, as_json, clock):
    """Prints the tables of the rows that are wanted; how many rows failed."""
    report = Report(as_json)
    report.attempt('a cache line', floors.line_ns)  # and the CPUs
    try:
        with harness.Runner(f'bench-{os.getpid()}', linger_ms=2000) as runner:
            runners = {'root': runner, 'user': measure.AsUser(runner)} if os.getuid() == 0 else {'user': runner}
            sections = {
                'perftest': lambda: run_rows(report, runners, floors, runs, wanted),
                'programs with threads': lambda: run_threaded(report, runners, floors, runs, wanted),
                'threads': lambda: run_threads(report, runners, wanted),
                'registration': lambda: run_registration(report, runners, wanted),
                'many peers': lambda: run_crowds(report, runners, runs, wanted),
            }
            for name, section in sections.items():
                with clock.section(f'one host, {name}'):
                    section()
    finally:  # what was measured until it was interrupted, too
        failures = report.end(floors)
    return failures
