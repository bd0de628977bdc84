# SPDX-License-Identifier: BSD-2-Clause
"""Speeds between two hosts (network namespaces joined by a cable), each as a ratio to what plain
sockets do over the same cable in the same run. Part of `make bench`.
"""
import json
import os
import sys

import measure
from measure import harness
import netns  # beside harness

KI = 1 << 10
DELAY_US = 1000  # one way


class Ends:
    """Both ends of a cable: the server on host b, the client on host a, each on a CPU of its own."""

    def __init__(self, cable, floors):
        self.cable = cable
        self.distance = floors.line_ns
        self.on_server = ('taskset', '-c', floors.cpus[0])
        self.on_client = ('taskset', '-c', floors.cpus[1])

    def perftest(self, program, *options, env=None):
        """The columns of the client's last row."""
        port = harness.free_port()
        argv = [program, '-d', self.cable.a.device, '-x', '0', '-F', '-p', port, *options]
        _, output = self.cable.b.pair(
            [*self.on_server, *argv],
            [*self.on_client, *argv, self.cable.b.management or self.cable.b.address], port,
            seconds=60, peer=self.cable.a, env=env)
        return measure.table_row(output)

    def iwarp(self, program, *options):
        """The columns of the client's last row, by iWARP: rdma_cm connects."""
        port = harness.free_port()
        argv = [program, '-R', '-F', '-p', port, *options]
        _, output = self.cable.b.pair(
            [*self.on_server, *argv], [*self.on_client, *argv, self.cable.b.address], port,
            seconds=60, peer=self.cable.a, env={'VERBATIM_TRANSPORT': 'iwarp'})
        return measure.table_row(output)

    def latency_ns(self, program, *options):
        return float(self.perftest(program, *options)[4]) * 1000

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

    def udp_ns(self, how, *packets):
        """One way of 8 bytes; `how` the receivers wait: spin or sleep."""
        port = str(harness.free_port())
        program = measure.BENCH / 'udp_pingpong'
        return float(self.plain_pair(
            [program, 'server', how, port, self.cable.b.address, *packets],
            [program, 'client', how, port, self.cable.a.address, self.cable.b.address, *packets],
            lambda server: 'ready' in server.output()))


    def tcp_ns(self):
        """One way of 8 bytes; both ends spin."""
        port = str(harness.free_port())
        program = measure.BENCH / 'tcp_pingpong'
        return float(self.plain_pair(
            [program, 'server', port, self.cable.b.address],
            [program, 'client', port, self.cable.b.address],
            lambda server: 'ready' in server.output()))


def met(ratio, target):
    """'met' or 'missed'; target as '>= 1.2'."""
    relation, bound = target.split()
    good = ratio >= float(bound) if relation == '>=' else ratio <= float(bound)
    return 'met' if good else 'missed'


def beside_tcp(ends, runs, target, measured):
    """A bandwidth beside one TCP stream; a row without a target is for comparison."""
    value, floor, ratio, steady = measure.median_steady(measured, ends.tcp_mib, runs, ends.distance)
    return (f'{value:.0f} MiB/s', f'TCP, one stream: {floor:.0f} MiB/s', f'{ratio:.2f}', f'{steady}', target,
            met(ratio, target) if target else '')


def bandwidth_row(ends, runs, program):
    return beside_tcp(ends, runs, '>= 1.2', lambda: ends.bandwidth_mib(program, '-s', 64 * KI, '-n', 10000))


def afar_row(ends, runs, program):
    """The window follows the path, as that of TCP does, whose acknowledgements take the same way."""
    return beside_tcp(ends, runs, '>= 0.7', lambda: ends.bandwidth_mib(program, '-s', 64 * KI, '-n', 20000))


def iwarp_bandwidth_row(ends, runs, program, target):
    return beside_tcp(ends, runs, target, lambda: float(ends.iwarp(program, '-s', 64 * KI, '-n', 20000)[3]))


def sockets_row(ends, runs, program, operation, path_mtu):
    """Beside plain sockets that send such packets, ICRC included, and do nothing else."""
    target = '>= 0.9'
    value, floor, ratio, steady = measure.median_steady(
        lambda: ends.bandwidth_mib(program, '-s', 64 * KI, '-n', 20000),
        lambda: ends.gso_mib(operation, path_mtu, 'icrc'), runs, ends.distance)
    return (f'{value:.0f} MiB/s', f'plain sockets: {floor:.0f} MiB/s', f'{ratio:.2f}', f'{steady}', target,
            met(ratio, target))


def rate_row(ends, runs, target, program, *options):
    value, _, _, steady = measure.median_steady(
        lambda: ends.message_rate(program, '-n', 200000, *options), lambda: 1, runs, ends.distance)
    return (f'{value:.2f} M/s', '', '', f'{steady}', f'{target} M/s', met(value, target))


def datagrams_row(ends, runs):
    """UD beside RC, with messages of 1 KiB."""
    options = ['ib_send_bw', '-s', KI, '-n', 100000]
    target = '>= 0.5'
    value, floor, ratio, steady = measure.median_steady(
        lambda: ends.bandwidth_mib(*options, '-c', 'UD'), lambda: ends.bandwidth_mib(*options), runs,
        ends.distance)
    return (f'{value:.0f} MiB/s', f'RC: {floor:.0f} MiB/s', f'{ratio:.2f}', f'{steady}', target,
            met(ratio, target))


def gso_row(ends, runs, *packets):
    """How far packets of this kind go on these sockets, if nothing else is done."""
    return beside_tcp(ends, runs, '', lambda: ends.gso_mib(*packets))


def latency_row(ends, runs, program, how):
    target = '<= 1.5'
    value, floor, ratio, steady = measure.median_steady(
        lambda: ends.latency_ns(program, '-s', 8, '-n', 20000), lambda: ends.udp_ns(how), runs,
        ends.distance)
    words = {'spin': 'spinning', 'sleep': 'asleep in epoll'}[how]
    return (f'{value / 1000:.2f} us', f'UDP, {words}: {floor / 1000:.2f} us', f'{ratio:.2f}',
            f'{steady}', target, met(ratio, target))


def iwarp_latency_row(ends, runs, program):
    target = '<= 1.3'
    value, floor, ratio, steady = measure.median_steady(
        lambda: float(ends.iwarp(program, '-s', 8, '-n', 20000)[4]) * 1000, ends.tcp_ns, runs, ends.distance)
    return (f'{value / 1000:.2f} us', f'TCP, spinning: {floor / 1000:.2f} us', f'{ratio:.2f}', f'{steady}', target,
            met(ratio, target))


def packets_row(ends, runs):
    """No target: how quick packets of this kind are on these sockets, if nothing else is done."""
    value, floor, ratio, steady = measure.median_steady(
        lambda: ends.udp_ns('spin', 'packets'), lambda: ends.udp_ns('spin'), runs, ends.distance)
    return (f'{value / 1000:.2f} us', f'UDP, spinning: {floor / 1000:.2f} us', f'{ratio:.2f}',
            f'{steady}', '', '')


def loss_row(ends, runs, program, loss, target):
    options = [program, '-s', 64 * KI, '-n', 20000]
    value, floor, ratio, steady = measure.median_steady(
        lambda: ends.bandwidth_mib(*options, loss=loss), lambda: ends.bandwidth_mib(*options), runs,
        ends.distance)
    return (f'{value:.0f} MiB/s', f'without loss: {floor:.0f} MiB/s', f'{ratio:.2f}', f'{steady}', target,
            met(ratio, target))


RATES = [
    ('>= 1.5', 'ib_write_bw', '-s', 8),
    ('>= 1.5', 'ib_send_bw', '-s', 64),
    ('>= 1', 'ib_read_bw', '-s', 8),
    ('>= 1', 'ib_atomic_bw'),
    ('>= 0.8', 'ib_send_bw', '-c', 'UD', '-s', KI),
]


def small_rows(at, runs):
    """Message rates."""
    for target, program, *options in RATES:
        yield (' '.join(map(str, (program, *options, 'messages, MTU 1500'))),
               lambda t=target, p=program, o=options: rate_row(at(1500), runs, t, p, *o))
    yield 'ib_send_bw UD 1 KiB, MTU 1500', lambda: datagrams_row(at(1500), runs)


def stream_rows(at, runs):
    """Streams: beside plain sockets with the same packets, on a cable and on one as between cards; on a long
    one beside TCP.
    """
    streams = ('ib_write_bw', 'write'), ('ib_send_bw', 'send')
    for what, options in (('', {}), (', cards', {'cards': True})):
        for program, operation in streams:
            yield (f'{program} 64 KiB beside sockets, MTU 1500{what}',
                   lambda p=program, o=operation, x=options: sockets_row(at(1500, **x), runs, p, o, 1024))
    for program, _ in streams:
        yield (f'{program} 64 KiB, MTU 1500, {DELAY_US} us of delay',
               lambda p=program: afar_row(at(1500, delay_us=DELAY_US), runs, p))


def iwarp_rows(at, runs):
    for mtu in (1500, 9000):
        for program, target in (('ib_write_bw', '>= 0.9'), ('ib_send_bw', ''), ('ib_read_bw', '')):
            yield (f'iWARP: {program} 64 KiB, MTU {mtu}',
                   lambda m=mtu, p=program, t=target: iwarp_bandwidth_row(at(m), runs, p, t))
    yield 'iWARP: ib_send_lat 8 B, MTU 1500', lambda: iwarp_latency_row(at(1500), runs, 'ib_send_lat')


def all_rows(at, runs):
    """(name, function that measures the row); `at` gives the ends for an MTU and options."""
    yield from iwarp_rows(at, runs)
    yield from small_rows(at, runs)
    yield from stream_rows(at, runs)
    for mtu in (1500, 9000):
        for program in ('ib_write_bw', 'ib_send_bw'):
            yield (f'{program} 64 KiB, MTU {mtu}',
                   lambda m=mtu, p=program: bandwidth_row(at(m), runs, p))
        for operation in ('write', 'send'):
            path_mtu = 1024 if mtu == 1500 else 4096
            for what, icrc in (('', ()), (' with ICRC', ('icrc',))):
                yield (f'plain sockets, packets as of {operation} 64 KiB{what}, MTU {mtu}',
                       lambda m=mtu, o=operation, p=path_mtu, i=icrc:
                       gso_row(at(m), runs, o, p, *i))
    for program, how in (('ib_send_lat', 'spin'), ('ib_write_lat', 'sleep'),
                         ('ib_read_lat', 'sleep')):
        yield (f'{program} 8 B, MTU 1500',
               lambda p=program, h=how: latency_row(at(1500), runs, p, h))
    yield 'plain sockets, packets as of ib_send_lat 8 B, MTU 1500', lambda: packets_row(at(1500), runs)
    for loss, target in ((0.001, '>= 0.93'), (0.01, '>= 0.75')):
        for program in ('ib_write_bw', 'ib_send_bw', 'ib_read_bw'):
            yield (f'{program} 64 KiB, MTU 9000, {loss * 100:g} % lost',
                   lambda p=program, x=loss, t=target: loss_row(at(9000), runs, p, x, t))


def run(floors, runs, wanted):
    """Prints the table of the rows that are wanted; how many failed."""
    cables, rows, failures = {}, [], 0

    def at(mtu, cards=False, delay_us=0):
        key = mtu, cards, delay_us
        if key not in cables:
            cables[key] = netns.Cable(mtu, name=f'bench-{os.getpid()}-{mtu}', linger_ms=2000, cards=cards,
                                      delay_us=delay_us)
        return Ends(cables[key], floors)
    try:
        for name, row in all_rows(at, runs):
            if not wanted(name):
                continue
            print(f'{name} ...', file=sys.stderr)
            try:
                rows.append((name, *row()))
            except netns.Unavailable as reason:
                print(f'between hosts: not measured: {reason}')
                return 0
            except AssertionError as error:
                failures += 1
                print(error, file=sys.stderr)
                rows.append((name, 'FAILED', '', '', '', '', ''))
    finally:
        for cable in cables.values():
            cable.close()
    if rows:
        print(f'\nBetween two hosts (namespaces, veth), medians of {runs} runs, each beside plain '
              f'sockets; steady: those in which the processors stayed equally far apart:\n')
        measure.print_table(('what', 'measured', 'beside it', 'ratio', 'steady', 'target', ''), rows)
    return failures
