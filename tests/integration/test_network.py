# SPDX-License-Identifier: BSD-2-Clause
"""Between two hosts: network namespaces joined by a cable. Programs, untouched; every byte compared;
and what crossed the cable, checked by code that shares nothing with what sent it.
"""
import pytest

import roce
from harness import VERIFY, free_port
from netns import Capture
from test_perftest import PROGRAMS, rows

pytestmark = pytest.mark.network

KI = 1 << 10
MI = 1 << 20
PATH_MTU = {1500: 1024, 9000: 4096, 65535: 4096}
OPERATIONS = [
    *(('rc', op) for op in ('send', 'send_imm', 'write', 'write_imm', 'read', 'cas', 'faa')),
    *(('uc', op) for op in ('send', 'write', 'write_imm')),
    *(('ud', op) for op in ('send', 'send_imm')),
]


def run_pair(cable, argv, port, seconds=30, **options):
    """The server on host b, the client on host a, which is told b's address."""
    return cable.b.pair(argv, [*argv, cable.b.address], port, peer=cable.a, seconds=seconds,
                        **options)


def pingpong(cable, service, *options, gid_index=0, iterations=100):
    port = free_port()
    argv = [f'ibv_{service}_pingpong', '-d', cable.a.device, '-g', gid_index, '-n', iterations,
            '-p', port, '-c', *options]
    for output in run_pair(cable, argv, port):
        assert f'{iterations} iters in' in output or service == 'srq', output
        assert 'iters in' in output and 'invalid data' not in output, output


def perftest(cable, program, *options, iterations=50, gid_index=0, **more):
    """Returns the client's rows."""
    port = free_port()
    argv = [program, '-d', cable.a.device, '-x', gid_index, '-F', '-p', port, '-n', iterations,
            *options]
    _, output = run_pair(cable, argv, port, **more)
    found = rows(output)
    assert found, f'no results\n{output}'
    return found


def verify(cable, service, op, sizes, *options, count=16, gid_index=0, mtu=None, **more):
    port = free_port()
    if op in ('cas', 'faa', 'atomic_write'):
        sizes = [8]
    if service == 'ud':
        sizes = [size for size in sizes if size <= PATH_MTU[mtu or cable.mtu]]
    argv = [VERIFY, 'data', '--port', port, '--service', service, '--op', op, '--listen', '::',
            '--sizes', ','.join(map(str, sizes)), '--count', count, '--gid-index', gid_index,
            *options]
    for output in run_pair(cable, argv, port, **more):
        assert f'verified {len(sizes) * count} messages' in output, output


def both_directions(report, cable, index=0):
    ends = cable.a.addresses[index], cable.b.addresses[index]
    assert set(report.by_direction) == {ends, ends[::-1]}, report.by_direction


@pytest.fixture(params=[1500, *(pytest.param(mtu, marks=pytest.mark.long) for mtu in (9000, 65535))])
def captured(request, cables):
    """A cable whose bursts are cut before they are captured."""
    return cables(request.param, segment=False)


@pytest.mark.parametrize('service', ['rc', 'uc', 'ud', 'srq'])
def test_pingpong(captured, service):
    mtu = PATH_MTU[captured.mtu]
    options = ['-s', 1000] if service == 'ud' else ['-s', 10001, '-m', mtu]
    with Capture(captured.a) as capture:
        pingpong(captured, service, *options)
    # With a shared receive queue the program ends when messages of some QPs are still on their way.
    report = roce.check(capture.path, mtu, ends=service != 'srq')
    both_directions(report, captured)
    # An end that waits for its processor for a millisecond is asked again, which happens more often the
    # busier the machine is; nothing is lost here, though, and most is answered in time.
    assert not report.naks and report.repeated < report.packets // 2, report


@pytest.mark.parametrize('options', [[], ['-e'], ['-s', 30000]], ids=['plain', 'events', 'long'])
def test_xrc_pingpong(captured, options):
    port, mtu = free_port(), PATH_MTU[captured.mtu]
    argv = ['ibv_xsrq_pingpong', '-d', captured.a.device, '-g', 0, '-m', mtu, '-p', port, '-n', 20,
            *options]
    with Capture(captured.a) as capture:
        for output in run_pair(captured, argv, port):
            assert 'success' in output, output
    report = roce.check(capture.path, mtu, ends=False)
    assert report.by_operation[roce.XRC, 'send'] >= 40, report


# Each operation, and each service with one of them; the rest in the long run.
IN_SHORT_RUN = [('ib_send_bw', 'RC'), ('ib_write_bw', 'RC'), ('ib_read_lat', 'RC'), ('ib_atomic_bw', 'RC'),
                ('ib_send_lat', 'UC'), ('ib_send_bw', 'UD'), ('ib_write_lat', 'XRC')]
PROGRAMS_SOME_LONG = [
    pytest.param(program, service, id=f'{program}-{service}',
                 marks=[] if (program, service) in IN_SHORT_RUN else pytest.mark.long)
    for program, service in PROGRAMS]


@pytest.mark.parametrize('program, service', PROGRAMS_SOME_LONG)
@pytest.mark.parametrize('captured', [1500, *(pytest.param(mtu, marks=pytest.mark.long) for mtu in (9000, 65535))],
                         indirect=True)
def test_perftest(captured, program, service):
    mtu = PATH_MTU[captured.mtu]
    if 'atomic' in program:
        options = []
    elif service in ('RC', 'XRC'):
        options = ['-s', 64 * KI + 1 if program.endswith('bw') else 3001]
    else:  # nothing that is lost comes again: less than a receive buffer
        options = ['-s', 1001, '-n', 40]
    with Capture(captured.a) as capture:
        perftest(captured, program, '-c', service, *options)
    report = roce.check(capture.path, mtu)
    if service in ('RC', 'XRC'):
        both_directions(report, captured)
    kind = program.split('_')[1]
    assert report.by_operation[getattr(roce, service), kind] >= 40, report


@pytest.mark.parametrize('program, options', [
    ('ib_send_bw', ['-b', '-s', 4 * KI]),
    ('ib_send_bw', ['-e', '-s', 4 * KI]),
    ('ib_send_bw', ['-q', 8, '-s', 16 * KI]),
    ('ib_send_bw', ['-s', 1]),
    ('ib_send_bw', ['-s', MI]),
    ('ib_send_bw', ['--use-srq', '-q', 4]),
    ('ib_send_lat', ['-e', '-s', 8]),
    ('ib_send_lat', ['-c', 'UD', '-e', '-s', 8]),
    ('ib_send_lat', ['-I', 64, '-s', 48]),
    ('ib_write_bw', ['-b', '-s', 64 * KI]),
    ('ib_write_bw', ['-q', 8, '-b', '-s', 64 * KI]),
    ('ib_write_bw', ['-s', 8 * MI, '-n', 8]),
    ('ib_read_bw', ['-b', '-s', 64 * KI]),
    ('ib_read_bw', ['-e', '-q', 4, '-s', MI]),
    ('ib_read_bw', ['-o', 1, '-s', 100]),
    ('ib_atomic_bw', ['-b', '-q', 4]),
    ('ib_atomic_lat', ['-A', 'CMP_AND_SWAP']),
], ids=lambda value: value if isinstance(value, str) else '_'.join(map(str, value)))
def test_modes(cables, program, options):
    perftest(cables(9000), program, *options)


@pytest.mark.long
@pytest.mark.parametrize('mtu', list(PATH_MTU))
@pytest.mark.parametrize('program, service', [
    entry for entry in PROGRAMS if 'atomic' not in entry[0] and entry[1] == 'RC'])
def test_all_sizes(cables, program, service, mtu):
    found = perftest(cables(mtu), program, '-c', service, '-a', seconds=100)
    assert [int(row[0]) for row in found] == [2 ** power for power in range(1, 24)]


SIZES = [0, 1, 2, 3, 5, 8, 255, 1023, 1024, 1025, 4095, 4096, 4097, 10000, 65537]


@pytest.mark.parametrize('service, op', OPERATIONS)
def test_every_byte(cables, service, op):
    sizes = SIZES if service == 'rc' else SIZES[:-2]
    pieces = [] if op in ('cas', 'faa') else ['--pieces', 3]
    verify(cables(1500), service, op, sizes, *pieces)


PLACEMENT = [('atomic_write', []), ('atomic_write', ['--wr-api']), ('write_flush', ['--wr-api'])]


@pytest.mark.parametrize('op, options', PLACEMENT, ids=['atomic_write', 'wr_api', 'write_flush'])
def test_placement(cables, op, options):
    cable = cables(1500, segment=False)
    with Capture(cable.a) as capture:
        verify(cable, 'rc', op, SIZES, *options)
    report = roce.check(capture.path, 1024)
    kind = op.split('_')[-1] if op == 'write_flush' else op
    assert report.by_operation[roce.RC, kind] >= 16, report
    verify(cable, 'rc', op, [1, 5000], *options, count=200,
           env={'VERBATIM_TEST_LOSS': '0.02,7'})


@pytest.mark.parametrize('op', ['send', 'write', 'read'])
def test_every_byte_of_large_messages(cables, op):
    verify(cables(9000), 'rc', op, [MI - 1, MI, 3 * MI + 5, 8 * MI], '--depth', 4, count=4)


@pytest.mark.parametrize('mtu', [9000, pytest.param(65535, marks=pytest.mark.long)])
@pytest.mark.parametrize('op', ['send', 'write_imm', 'read', 'faa'])
def test_every_byte_of_many(cables, op, mtu):
    verify(cables(mtu), 'rc', op, [16, 1000, 4096, 20000], '--depth', 64, count=512)


@pytest.mark.parametrize('op', ['send', 'write', 'read', 'cas'])
def test_every_byte_asleep(cables, op):
    verify(cables(9000), 'rc', op, [1, 100, 5000, 65537], '--events')


@pytest.mark.parametrize('which, service, op', [
    pytest.param(which, service, op, id=f'{name}-{service}-{op}',
                 marks=[] if name == 'global' or op == 'write' else pytest.mark.long)
    for which, name in ((1, 'global'), (2, 'link_local'))
    for service, op in (('rc', 'send'), ('rc', 'write'), ('rc', 'read'), ('uc', 'send'), ('ud', 'send'), ('rc', 'faa'))])
def test_ipv6(cables, service, op, which):
    cable = cables(1500, segment=False)
    index = cable.a.gid_index(cable.a.addresses[which])
    assert index == cable.b.gid_index(cable.b.addresses[which])
    with Capture(cable.a) as capture:
        verify(cable, service, op, SIZES if service == 'rc' else [1, 100, 1000], gid_index=index)
    report = roce.check(capture.path, 1024)
    assert report.by_direction[cable.a.addresses[which], cable.b.addresses[which]], report
    assert len(report.by_direction) <= 2, report.by_direction


def test_passive_target(cables):
    """The target sleeps in pause() and is still written, read and counted up."""
    cable, port = cables(9000), free_port()
    argv = [VERIFY, 'passive', '--port', port, '--count', 40, '--listen', '::',
            '--sizes', f'1,8,100,4096,65537,{MI}']
    target = cable.b.start_server(argv, port)
    initiator = cable.a.start(*argv, cable.b.address)
    output = initiator.finish(seconds=60)
    assert 'served 40 rounds' in output, output
    assert target.status is None, target.report()


def share_the_port(cable, count, index=0, ops=('send', 'write', 'read', 'send_imm'), **options):
    """Two servers and two clients on each host, all at once, every byte compared."""
    gid_index = cable.a.gid_index(cable.a.addresses[index])
    ends, clients = [], []
    for number, op in enumerate(ops):
        server, client = cable.hosts if number % 2 else cable.hosts[::-1]
        port = free_port()
        argv = [VERIFY, 'data', '--port', port, '--op', op, '--listen', '::', '--sizes',
                '100,5000,70000', '--count', count, '--seed', number + 1, '--gid-index', gid_index]
        ends.append(server.start_server(argv, port, **options))
        clients.append((client, [*argv, server.address]))
    ends += [client.start(*argv, **options) for client, argv in clients]
    for end in ends:
        assert f'verified {3 * count} messages' in end.finish(60)


@pytest.mark.asan
def test_processes_share_the_port(cables):
    share_the_port(cables(9000), 200)


@pytest.mark.parametrize('index', [0, 1], ids=['ipv4', 'ipv6'])
@pytest.mark.parametrize('merge', [True, False], ids=['gro', 'plain'])
def test_processes_share_the_port_of_a_card(cables, merge, index):
    share_the_port(cables(1500, cards=True, merge=merge), 100, index)


def test_processes_share_the_port_as_captured(captured):
    with Capture(captured.a) as capture:
        share_the_port(captured, 100)
    report = roce.check(capture.path, PATH_MTU[captured.mtu])
    both_directions(report, captured)
    assert len(report.flows) == 4, report


LOSSES = pytest.mark.parametrize('loss', [
    '0.01', *(pytest.param(loss, marks=pytest.mark.long) for loss in ('0.001', '0.05'))])


@LOSSES
@pytest.mark.parametrize('op', ['send', 'write_imm', 'read', 'faa'])
def test_loss(cables, op, loss):
    """Both ends lose that share of what they send: no byte is wrong, and it comes to its end."""
    verify(cables(9000), 'rc', op, [1, 5000, 100000], count=200, seconds=60,
           env={'VERBATIM_TEST_LOSS': f'{loss},7'})


@LOSSES
@pytest.mark.parametrize('program', ['ib_send_bw', 'ib_write_bw', 'ib_read_bw', 'ib_atomic_bw'])
def test_loss_perftest(cables, program, loss):
    options = [] if 'atomic' in program else ['-s', 64 * KI]
    perftest(cables(9000), program, *options, iterations=300, seconds=60,
             env={'VERBATIM_TEST_LOSS': f'{loss},3'})


@pytest.mark.parametrize('program', ['ib_send_bw', 'ib_write_bw', 'ib_read_bw', 'ib_atomic_bw'])
def test_loss_xrc(cables, program):
    options = [] if 'atomic' in program else ['-s', 64 * KI]
    perftest(cables(9000), program, '-c', 'XRC', *options, iterations=300, seconds=60,
             env={'VERBATIM_TEST_LOSS': '0.01,5'})


def test_loss_is_seen_in_the_capture(cables):
    """So that the tests above cannot pass because nothing was lost. What comes again fills the gap, and
    counts as repeated only where an answer was lost, too."""
    cable = cables(9000, segment=False)
    with Capture(cable.a) as capture:
        verify(cable, 'rc', 'write', [100000], count=100, env={'VERBATIM_TEST_LOSS': '0.01,7'})
    report = roce.read(capture.path, 4096)
    wrong = [line for line in report.wrong if 'leaves' not in line and 'within' not in line
             and 'before the end' not in line]
    assert not wrong, wrong
    assert any('leaves' in line for line in report.wrong), report
