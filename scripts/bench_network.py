# SPDX-License-Identifier: BSD-2-Clause
"""Speeds between two hosts (network namespaces joined by a cable), each as a ratio to what plain
sockets do over the same cable in the same run. Part of `make bench`.
"""
import contextlib
import dataclasses
import functools
import json
import os
import resource
import statistics
import subprocess
import sys

import measure
from measure import harness
import netns  # beside harness

KI = 1 << 10
MI = 1 << 20
DELAY_US = 1000  # one way
BUFFER_MIB = 8  # what a socket is to hold
REASON_CHARS = 60

# What ends a row, and no other. Not what is wrong in here, such as a NameError.
FAILURES = (AssertionError, subprocess.SubprocessError, OSError, ValueError, LookupError, ArithmeticError)


def reason(error):
    """The beginning of what an exception says, for a cell."""
    lines = str(error).splitlines() or [type(error).__name__]
    return lines[0][:REASON_CHARS]


def children_s():
    """Processor time of the programs that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def address_of_pair(host, number):
    """The host's address for the pair of programs of this number; it gets those of others than the first here."""
    if number == 0:
        return host.address
    address = f'{host.address}{number}'
    if address not in host.addresses:
        host.ip('addr', 'add', f'{address}/24', 'dev', host.interface)
        host.addresses.append(address)
    return address


class Ends:
    """Both ends of a cable: the server on host b, the client on host a, each on a CPU of its own."""

    def __init__(self, cable, floors):
        self.cable = cable
        self.distance = floors.line_ns
        self.cpus = floors.cpus
        self.on_server = ('taskset', '-c', floors.cpus[0])
        self.on_client = ('taskset', '-c', floors.cpus[1])

    def perftest(self, program, *options, env=None):
        """The columns of the client's last row; of UD the server's, as what is lost is not sent again."""
        port = harness.free_port()
        argv = [program, '-d', self.cable.a.device, '-x', '0', '-F', '-p', port, *options]
        received, sent = self.cable.b.pair(
            [*self.on_server, *argv],
            [*self.on_client, *argv, self.cable.b.management or self.cable.b.address], port,
            seconds=60, peer=self.cable.a, env=env)
        return measure.table_row(received if 'UD' in options else sent)

    def iwarp(self, program, *options):
        """The columns of the client's last row, by iWARP: rdma_cm connects."""
        port = harness.free_port()
        argv = [program, '-R', '-F', '-p', port, *options]
        _, output = self.cable.b.pair(
            [*self.on_server, *argv], [*self.on_client, *argv, self.cable.b.address], port,
            seconds=60, peer=self.cable.a, env={'VERBATIM_TRANSPORT': 'iwarp'})
        return measure.table_row(output)

    def latency_us(self, program, *options):
        return float(self.perftest(program, *options)[4])

    def bandwidth_mib(self, program, *options, loss=None):
        env = {'VERBATIM_TEST_LOSS': f'{loss},1'} if loss else None
        return float(self.perftest(program, *options, env=env)[3])

    def message_rate(self, program, *options):
        """Millions of messages a second."""
        return float(self.perftest(program, *options)[4])

    def plain_pair(self, server_argv, client_argv, ready, seconds=60):
        """The client's output; of programs without verbs. `ready` says whether the server is."""
        server = self.cable.b.start_plain(*self.on_server, *server_argv)
        client = None
        try:
            harness.wait_until(lambda: ready(server), 10, 'the server')
            client = self.cable.a.start_plain(*self.on_client, *client_argv)
            return client.finish(seconds)
        finally:
            if client:
                self.cable.a.release(client)
            self.cable.b.release(server)

    def tcp_mib(self):
        """iperf3, one stream."""
        port = str(harness.free_port())
        output = self.plain_pair(
            ['iperf3', '-s', '-1', '-p', port],
            ['iperf3', '-c', self.cable.b.address, '-p', port, '-t', '1', '-J'],
            lambda _: harness.is_listening(int(port), self.cable.b.anchor))
        return json.loads(output)['end']['sum_received']['bits_per_second'] / 8 / (1 << 20)

    def gso_mib(self, operation, path_mtu, *icrc):
        """Payload in packets like those of 64 KiB SENDs or WRITEs, by plain sockets."""
        port = str(harness.free_port())
        program = measure.BENCH / 'udp_gso'
        return float(self.plain_pair(
            [program, 'server', port, self.cable.b.address, *icrc],
            [program, 'client', operation, path_mtu, port, self.cable.a.address,
             self.cable.b.address, *icrc],
            lambda server: 'ready' in server.output()))

    def at_once(self, starts):
        """Runs pairs of programs beside one another; the clients' outputs, and the processor time of all. `starts` has
        a function for each pair, which starts the server and returns it and a function that starts the client.
        """
        before = children_s()
        with contextlib.ExitStack() as stack:
            pairs, clients = [], []
            for start in starts:
                pairs.append(start())
                stack.callback(self.cable.b.release, pairs[-1][0])
            for _, start_client in pairs:
                clients.append(start_client())
                stack.callback(self.cable.a.release, clients[-1])
            harness.finish_both([*(server for server, _ in pairs), *clients], 60)
            outputs = [client.output() for client in clients]
        return outputs, children_s() - before

    def perftest_on(self, number, program, *options):
        """For at_once: both ends on this processor, with addresses of their own."""
        a, b = self.cable.hosts
        port = harness.free_port()

        def argv(host):
            return ['taskset', '-c', self.cpus[number], program, '-d', host.device,
                    '-x', host.gid_index(address_of_pair(host, number)), '-F', '-p', port, *options]
        server, client = argv(b), argv(a)
        return lambda: (b.start_server(server, port), lambda: a.start(*client, b.address))

    def gso_on(self, number, operation, path_mtu, *icrc):
        """The same of plain sockets."""
        a, b = self.cable.hosts
        ours, theirs = (address_of_pair(host, number) for host in (a, b))
        port, argv = harness.free_port(), ['taskset', '-c', self.cpus[number], measure.BENCH / 'udp_gso']

        def start():
            server = b.start_plain(*argv, 'server', port, theirs, *icrc)
            try:
                server.wait_for('ready')
            except AssertionError:
                b.release(server)
                raise
            return server, lambda: a.start_plain(*argv, 'client', operation, path_mtu, port, ours, theirs, *icrc)
        return start

    def streams(self, pairs, processes, how):
        """(MiB/s, the processors that the senders use) of WRITEs of 64 KiB from so many addresses to as many, by a
        thread each: of one process or of several, that polls or sleeps when there is nothing to do. Both ends of a
        pair are on one processor (two_pairs_row).
        """
        a, b = self.cable.hosts
        program, words, targets = measure.BENCH / 'streams', [], []
        with contextlib.ExitStack() as stack:
            for number in range(pairs):
                ours, theirs = (address_of_pair(host, number) for host in (a, b))
                port = harness.free_port()
                targets.append(b.start_server(['taskset', '-c', self.cpus[number], program, 'target', b.device,
                                               b.gid_index(theirs), theirs, port], port))
                stack.callback(b.release, targets[-1])
                words.append([self.cpus[number], a.gid_index(ours), theirs, port])
            share = pairs // processes
            senders = []
            for first in range(0, pairs, share):
                chosen = range(first, first + share)
                senders.append(a.start('taskset', '-c', ','.join(self.cpus[number] for number in chosen), program,
                                       how, a.device, *(word for number in chosen for word in words[number])))
                stack.callback(a.release, senders[-1])
            harness.finish_both([*targets, *senders], 60)
            rates, used = zip(*(map(float, sender.output().split()) for sender in senders))
        return sum(rates), sum(used)

    def udp_us(self, how, *packets):
        """One way of 8 bytes; `how` the receivers wait: spin or sleep."""
        port = str(harness.free_port())
        program = measure.BENCH / 'udp_pingpong'
        return float(self.plain_pair(
            [program, 'server', how, port, self.cable.b.address, *packets],
            [program, 'client', how, port, self.cable.a.address, self.cable.b.address, *packets],
            lambda server: 'ready' in server.output())) / 1000

    def tcp_us(self):
        """One way of 8 bytes; both ends spin."""
        port = str(harness.free_port())
        program = measure.BENCH / 'tcp_pingpong'
        return float(self.plain_pair(
            [program, 'server', port, self.cable.b.address],
            [program, 'client', port, self.cable.b.address],
            lambda server: 'ready' in server.output())) / 1000


@dataclasses.dataclass
class Result:
    """What a row has measured, and the floor beside it, in the same unit."""
    value: float
    unit: str
    steady: int  # how many runs were
    mark: str = ''  # of the ratio, as '>= 1.2', or of the value if a unit is behind it; '' is for comparison
    floor_name: str = ''
    floor: float = None
    ratio: float = None
    detail: str = ''  # of the value

    @property
    def met(self):
        """None without a mark."""
        if not self.mark:
            return None
        relation, bound, *of_value = self.mark.split()
        return measure.is_met(self.value if of_value else self.ratio, f'{relation} {bound}')

    def text(self, value):
        return f'{value:.{0 if self.unit == "MiB/s" else 2}f} {self.unit}'

    def cells(self):
        value = f'{self.text(self.value)} {self.detail}'.rstrip()
        floor = self.floor_name if self.floor is None else f'{self.floor_name}: {self.text(self.floor)}'
        return (value, floor, '' if self.ratio is None else f'{self.ratio:.2f}', f'{self.steady}',
                self.mark, {None: '', True: 'met', False: 'missed'}[self.met])

    def items(self):
        return {'unit': self.unit, 'value': self.value, 'floor': self.floor, 'floor_name': self.floor_name,
                'ratio': self.ratio, 'mark': self.mark, 'met': self.met, 'steady': self.steady, 'detail': self.detail}


def beside(ends, runs, unit, mark, measured, floor_name, floor):
    """The medians of what is measured, of its floor, and of their ratio. What has no mark is measured once."""
    value, base, ratio, steady = measure.median_steady(measured, floor, runs if mark else 1, ends.distance)
    return Result(value, unit, steady, mark, floor_name, base, ratio)


def beside_tcp(ends, runs, mark, measured):
    """A bandwidth beside one TCP stream; a row without a mark is for comparison."""
    return beside(ends, runs, 'MiB/s', mark, measured, 'TCP, one stream', ends.tcp_mib)


def bandwidth_row(ends, runs, program):
    return beside_tcp(ends, runs, '>= 1.2', lambda: ends.bandwidth_mib(program, '-s', 64 * KI, '-n', 10000))


def afar_row(ends, runs, program):
    """The window follows the path: beside what a socket does there. With one buffer on the way in each round trip
    that is BUFFER_MIB / RTT, which is told, too: 4000 MiB/s at 1 ms each way. Two processors, which the cable needs as
    well, carry a fraction of it, whoever sends; so the mark is of the lower bound, a TCP stream. Its
    acknowledgements take the same way as ours.
    """
    result = beside_tcp(ends, runs, '>= 0.7', lambda: ends.bandwidth_mib(program, '-s', 64 * KI, '-n', 20000))
    bound = BUFFER_MIB / (2 * DELAY_US * 1e-6)
    result.floor_name = f'{BUFFER_MIB} MiB / RTT: {bound:.0f} MiB/s; {result.floor_name}'
    return result


def iwarp_bandwidth_row(ends, runs, program, mark):
    return beside_tcp(ends, runs, mark, lambda: float(ends.iwarp(program, '-s', 64 * KI, '-n', 20000)[3]))


def sockets_row(ends, runs, program, operation, path_mtu):
    """Beside plain sockets that send such packets, ICRC included, and do nothing else."""
    return beside(ends, runs, 'MiB/s', '>= 0.9', lambda: ends.bandwidth_mib(program, '-s', 64 * KI, '-n', 20000),
                  'plain sockets', lambda: ends.gso_mib(operation, path_mtu, 'icrc'))


@functools.cache
def loopback_rate(payload):
    """Millions of packets a second with so much behind the BTH, from one thread to another in trains of 64, by
    plain sockets over the loopback; None, if the program could not tell. It takes two seconds, so once has to do.
    """
    try:
        output = subprocess.check_output([measure.BENCH / 'wire_udp', str(payload)], text=True, timeout=30)
    except subprocess.SubprocessError as error:
        print(f'no floor: {error}', file=sys.stderr)
        return None
    return float(output.split()[1]) * MI / payload / 1e6


# Of ib_send_bw in UD: with a number of messages, the server would wait for those that are lost.
FOR_A_SECOND = '-D', 1


def rate_row(ends, runs, mark, payload, program, *options):
    """Beside plain sockets with as many packets as there are requests, each as long as one (in UD but for the DETH):
    datagrams of UD over the cable and with their ICRC; smaller ones, which tests/bench/udp_gso has not, over the
    loopback and without.
    """
    datagrams = 'UD' in options
    alone = None if datagrams else loopback_rate(payload)

    def floor():
        return ends.gso_mib('send', payload, 'icrc') * MI / payload / 1e6 if datagrams else alone or 1
    length = FOR_A_SECOND if datagrams else ('-n', 200000)
    result = beside(ends, runs, 'M/s', f'{mark} M/s', lambda: ends.message_rate(program, *length, *options),
                    f'plain sockets{"" if datagrams else ", loopback"}', floor)
    if not (datagrams or alone):
        result.floor_name, result.floor, result.ratio = '', None, None
    return result


def datagrams_row(ends, runs):
    """UD beside RC, with messages of 1 KiB."""
    options = ['ib_send_bw', '-s', KI, *FOR_A_SECOND]
    return beside(ends, runs, 'MiB/s', '>= 0.5', lambda: ends.bandwidth_mib(*options, '-c', 'UD'),
                  'RC', lambda: ends.bandwidth_mib(*options))


def gso_row(ends, runs, *packets):
    """How far packets of this kind go on these sockets, if nothing else is done."""
    return beside_tcp(ends, runs, '', lambda: ends.gso_mib(*packets))


def latency_row(ends, runs, program, how):
    words = {'spin': 'spinning', 'sleep': 'asleep in epoll'}[how]
    return beside(ends, runs, 'us', '<= 1.5', lambda: ends.latency_us(program, '-s', 8, '-n', 20000),
                  f'UDP, {words}', lambda: ends.udp_us(how))


def iwarp_latency_row(ends, runs, program):
    return beside(ends, runs, 'us', '<= 1.3', lambda: float(ends.iwarp(program, '-s', 8, '-n', 20000)[4]),
                  'TCP, spinning', ends.tcp_us)


def packets_row(ends, runs):
    """No mark: how quick packets of this kind are on these sockets, if nothing else is done."""
    return beside(ends, runs, 'us', '', lambda: ends.udp_us('spin', 'packets'),
                  'UDP, spinning', lambda: ends.udp_us('spin'))


def loss_row(ends, runs, program, loss, mark, messages):
    options = [program, '-s', 64 * KI, '-n', messages]
    return beside(ends, runs, 'MiB/s', mark, lambda: ends.bandwidth_mib(*options, loss=loss),
                  'without loss', lambda: ends.bandwidth_mib(*options))


def two_pairs_row(ends, runs):
    """What two pairs of processes, each with its own addresses, reach at once, as a multiple of one pair; beside the
    same of plain sockets.

    One pair alone can take two processors, one each end: on a machine with no more a second pair gains nothing, were
    they ever so independent. So both ends of a pair are on one processor, the second pair on another. Then two pairs
    reach twice as much if they use two processors, and as much as one if they share something that only one at a time
    has. They sleep when there is nothing to do (-e): who polls would take turns with the other end.
    """
    messages, seen = 10000, []

    def perftest(pairs):
        outputs, seconds = ends.at_once([ends.perftest_on(number, 'ib_send_bw', '-s', 64 * KI, '-n', messages, '-e')
                                         for number in range(pairs)])
        return sum(float(measure.table_row(output)[3]) for output in outputs), seconds * KI / (pairs * messages / 16)

    def factor():
        seen.append((*perftest(1), *perftest(2)))
        return seen[-1][2] / seen[-1][0]

    def sockets(pairs):
        outputs, _ = ends.at_once([ends.gso_on(number, 'send', KI, 'icrc') for number in range(pairs)])
        return sum(map(float, outputs))

    def factor_of_sockets():
        one = sockets(1)
        return sockets(2) / one

    result = beside(ends, runs, 'x', '>= 0.9', factor, 'plain sockets', factor_of_sockets)
    one, one_s, two, two_s = map(statistics.median, zip(*seen))
    result.detail = f'({one:.0f}, {two:.0f} MiB/s; {one_s:.2f}, {two_s:.2f} s of processors a GiB)'
    return result


def two_threads_row(ends, runs, how):
    """What two threads of one process, each with a device, a QP and an address of its own, reach at once, as a multiple
    of one thread; beside the same of two processes with a thread each, which share nothing (two_pairs_row has plain
    sockets beside those). Told, too: how many processors the senders use, while the ends that they write to are on the
    same two. Threads that wait for each other's locks use more of them for the same data, or reach less.
    """
    threads, processes = [], []

    def factor(seen, count):
        seen.append((*ends.streams(1, 1, how), *ends.streams(2, count, how)))
        return seen[-1][2] / seen[-1][0]

    result = beside(ends, runs, 'x', '>= 0.9', lambda: factor(threads, 1),
                    'two processes', lambda: factor(processes, 2))
    one, one_used, two, two_used = map(statistics.median, zip(*threads))
    *_, others, others_used = map(statistics.median, zip(*processes))
    result.detail = f'({one:.0f}, {two:.0f} MiB/s by {one_used:.2f}, {two_used:.2f} processors)'
    result.floor_name += f' ({others:.0f} MiB/s by {others_used:.2f})'
    return result


# (mark in M/s, bytes of a request behind the BTH and ahead of the ICRC, program)
RATES = [
    ('>= 1.5', 16 + 8, 'ib_write_bw', '-s', 8),
    ('>= 1.5', 64, 'ib_send_bw', '-s', 64),
    ('>= 1', 16, 'ib_read_bw', '-s', 8),
    ('>= 1', 28, 'ib_atomic_bw'),
    ('>= 0.8', KI, 'ib_send_bw', '-c', 'UD', '-s', KI),
]


def small_rows(at, runs):
    """Message rates."""
    for mark, payload, program, *options in RATES:
        yield (' '.join(map(str, (program, *options, 'messages, MTU 1500'))),
               lambda m=mark, b=payload, p=program, o=options: rate_row(at(1500), runs, m, b, p, *o))
    yield 'ib_send_bw UD 1 KiB, MTU 1500', lambda: datagrams_row(at(1500), runs)


def stream_rows(at, runs):
    """Streams: beside plain sockets with the same packets, on a cable and on one as between cards; on a long
    one beside TCP; two pairs of processes, and two threads.
    """
    streams = ('ib_write_bw', 'write'), ('ib_send_bw', 'send')
    for what, options in (('', {}), (', cards', {'cards': True})):
        for program, operation in streams:
            yield (f'{program} 64 KiB beside sockets, MTU 1500{what}',
                   lambda p=program, o=operation, x=options: sockets_row(at(1500, **x), runs, p, o, 1024))
    yield 'ib_send_bw -e 64 KiB, two pairs beside one, MTU 1500', lambda: two_pairs_row(at(1500), runs)
    for how, words in (('polls', 'poll'), ('sleeps', 'sleep')):
        yield (f'WRITE 64 KiB, two threads that {words} beside one, MTU 1500',
               lambda h=how: two_threads_row(at(1500), runs, h))
    for program, _ in streams:
        yield (f'{program} 64 KiB, MTU 1500, {DELAY_US} us of delay',
               lambda p=program: afar_row(at(1500, delay_us=DELAY_US), runs, p))


def iwarp_rows(at, runs):
    for mtu in (1500, 9000):
        for program, mark in (('ib_write_bw', '>= 0.9'), ('ib_send_bw', ''), ('ib_read_bw', '')):
            yield (f'iWARP: {program} 64 KiB, MTU {mtu}',
                   lambda u=mtu, p=program, m=mark: iwarp_bandwidth_row(at(u), runs, p, m))
    yield 'iWARP: ib_send_lat 8 B, MTU 1500', lambda: iwarp_latency_row(at(1500), runs, 'ib_send_lat')


# (MTU, share of the packets, mark, messages); at 1500 there are four times as many packets, of 1 KiB. At 5 % there is
# no mark: docs/design/transport.md has what remains in virtual time.
LOSSES = [
    (9000, 0.001, '>= 0.93', 20000),
    (9000, 0.01, '>= 0.75', 20000),
    (9000, 0.05, '', 3000),
    (1500, 0.001, '>= 0.93', 6000),
    (1500, 0.01, '>= 0.75', 6000),
]


def loss_rows(at, runs):
    for mtu, loss, mark, messages in LOSSES:
        for program in ('ib_write_bw', 'ib_send_bw', 'ib_read_bw'):
            yield (f'{program} 64 KiB, MTU {mtu}, {loss * 100:g} % lost',
                   lambda u=mtu, p=program, x=loss, m=mark, n=messages: loss_row(at(u), runs, p, x, m, n))


def bandwidth_rows(at, runs):
    """Beside TCP; and how far packets go on plain sockets."""
    for mtu in (1500, 9000):
        for program in ('ib_write_bw', 'ib_send_bw'):
            yield (f'{program} 64 KiB, MTU {mtu}',
                   lambda m=mtu, p=program: bandwidth_row(at(m), runs, p))
    for operation in ('write', 'send'):  # those at 1500 are beside the streams
        yield (f'plain sockets, packets as of {operation} 64 KiB with ICRC, MTU 9000',
               lambda o=operation: gso_row(at(9000), runs, o, 4096, 'icrc'))


def latency_rows(at, runs):
    for program, how in (('ib_send_lat', 'spin'), ('ib_write_lat', 'sleep'),
                         ('ib_read_lat', 'sleep')):
        yield (f'{program} 8 B, MTU 1500',
               lambda p=program, h=how: latency_row(at(1500), runs, p, h))
    yield 'plain sockets, packets as of ib_send_lat 8 B, MTU 1500', lambda: packets_row(at(1500), runs)


# The rows of each: (name, function that measures the row); `at` gives the ends for an MTU and options.
SECTIONS = {
    'iWARP': iwarp_rows,
    'message rates': small_rows,
    'streams': stream_rows,
    'bandwidth': bandwidth_rows,
    'latency': latency_rows,
    'loss': loss_rows,
}


class Cables:
    """The cables of the rows, each made when it is first asked for; closed together."""

    def __init__(self, floors):
        self._floors = floors
        self._made = {}

    def at(self, mtu, cards=False, delay_us=0):
        key = mtu, cards, delay_us
        if key not in self._made:
            self._made[key] = netns.Cable(mtu, name=f'bench-{os.getpid()}-{mtu}', linger_ms=2000, cards=cards,
                                          delay_us=delay_us)
        return Ends(self._made[key], self._floors)

    def close(self):
        for cable in self._made.values():
            try:
                cable.close()
            except FAILURES as error:
                print(f'a cable: {error}', file=sys.stderr)


def attempt(name, row):
    """The row's Result, or the exception in its place."""
    print(f'{name} ...', file=sys.stderr)
    try:
        return row()
    except (netns.Unavailable, *FAILURES) as error:
        print(f'{name}: {error!r}' if not str(error) else error, file=sys.stderr)
        return error


def measured_rows(floors, runs, wanted, clock):
    """(name, Result, or the exception in its place) of the rows that are wanted, each when it is measured."""
    cables = Cables(floors)
    try:
        for section, rows in SECTIONS.items():
            for name, row in rows(cables.at, runs):
                if not wanted(name):
                    continue
                with clock.section(f'between hosts, {section}'):
                    result = attempt(name, row)
                yield name, result
    finally:
        cables.close()


def rows_as_dicts(floors, runs, wanted, clock):
    """The same for machines, a dict each: name, unit, value, floor, floor_name, ratio, mark, met (None without a mark),
    steady, detail; or name, failed (why), unavailable (whether the machine has not what the row needs).
    """
    for name, result in measured_rows(floors, runs, wanted, clock):
        if isinstance(result, Exception):
            yield {'name': name, 'failed': reason(result), 'unavailable': isinstance(result, netns.Unavailable)}
        else:
            yield {'name': name, **result.items()}


def run(floors, runs, wanted, clock):
    """Prints the table of the rows that are wanted, whatever becomes of some; how many failed."""
    rows, failures, met, missed = [], 0, 0, []
    try:
        for name, result in measured_rows(floors, runs, wanted, clock):
            if not isinstance(result, Exception):
                rows.append((name, *result.cells()))
                met += result.met is True
                missed += [name] if result.met is False else []
            elif isinstance(result, netns.Unavailable):
                rows.append((name, 'not measured', reason(result), '', '', '', ''))
            else:
                failures += 1
                rows.append((name, 'FAILED', reason(result), '', '', '', ''))
    finally:
        if rows:
            print(f'\nBetween two hosts (namespaces, veth), medians of {runs} runs, each beside plain '
                  f'sockets; rows without a mark once.\nsteady: runs in which the processors stayed equally far '
                  f'apart:\n')
            measure.print_table(('what', 'measured', 'beside it', 'ratio', 'steady', 'mark', ''), rows)
            print(f'\nBetween hosts {met} marks met, {len(missed)} missed{": " if missed else ""}{"; ".join(missed)}')
    return failures
