# SPDX-License-Identifier: BSD-2-Clause
"""perftest, untouched: each of its programs, over every service and in the modes it has.

perftest compares no data; test_data.py does. What counts here: both ends end well and report.
"""
import re

import pytest

from harness import DEVICE, HOST

CONNECTX5 = {'VERBATIM_VENDOR_PART_ID': '4119'}  # a part for which perftest uses ibv_wr_*()
# Which of the two a program uses is shown with each service by test_plain and test_wr_api.
BOTH_APIS_LONG = pytest.mark.parametrize('env', [
    pytest.param({}, id='post_send'), pytest.param(CONNECTX5, id='wr_api', marks=pytest.mark.long)])
ALL_SIZES = [2 ** power for power in range(1, 24)]
ALWAYS = pytest.mark.asan


def rows(output):
    """The lines of the result table, each as a list of its columns."""
    return [line.split() for line in output.splitlines() if re.match(r'^ \d+ +\d+ ', line)]


def perftest(runner, port, program, *options, iterations=200, sizes=None, seconds=30, **more):
    """Runs both ends; the client reports a row for each size. Returns the client's rows."""
    argv = [program, '-d', DEVICE, '-F', '-p', port, '-n', iterations, *options]
    _, output = runner.pair(argv, [*argv, HOST], port, seconds=seconds, **more)
    found = rows(output)
    assert found, f'no results\n{output}'
    if sizes:
        assert [int(row[0]) for row in found] == sizes, output
    return found


SERVICES = {'send': ['RC', 'UC', 'UD', 'XRC'], 'write': ['RC', 'UC', 'XRC'], 'read': ['RC', 'XRC'],
            'atomic': ['RC', 'XRC']}
PROGRAMS = [(f'ib_{operation}_{kind}', service)
            for operation, services in SERVICES.items()
            for kind in ('bw', 'lat') for service in services]
PROGRAM_IDS = [f'{program}-{service}' for program, service in PROGRAMS]


@pytest.mark.asan
@pytest.mark.parametrize('program, service', PROGRAMS, ids=PROGRAM_IDS)
def test_plain(runner, port, program, service):
    options = [] if 'atomic' in program else ['-s', 1024]
    perftest(runner, port, program, '-c', service, *options)


# Each program, and each service with one of them; the rest in the long run.
@pytest.mark.parametrize('program, service', [
    pytest.param(program, service, id=f'{program}-{service}', marks=[] if service == 'RC' or (program, service) in (
        ('ib_send_bw', 'UC'), ('ib_send_lat', 'UD'), ('ib_read_bw', 'XRC')) else pytest.mark.long)
    for program, service in PROGRAMS])
def test_wr_api(runner, port, program, service):
    options = [] if 'atomic' in program else ['-s', 1024]
    perftest(runner, port, program, '-c', service, *options, env=CONNECTX5)


def all_sizes(runner, port, program, service, env):
    """Takes five seconds of CPU time: perftest measures the processor's clock for every row."""
    # UC and UD drop what finds no receive: fewer messages than the receives that are posted.
    sizes = ALL_SIZES if service != 'UD' else ALL_SIZES[:12]
    perftest(runner, port, program, '-c', service, '-a', iterations=20, sizes=sizes, seconds=60,
             env=env)


WITH_SIZES = [(program, service) for program, service in PROGRAMS if 'atomic' not in program]
# up to 8 MiB: one here, the rest in the long run
WITH_SIZES_SOME_LONG = [
    pytest.param(program, service, marks=[] if (program, service) == ('ib_write_bw', 'RC') else
                 [pytest.mark.long]) for program, service in WITH_SIZES]


@pytest.mark.parametrize('program, service', WITH_SIZES_SOME_LONG)
def test_all_sizes(runner, port, program, service):
    all_sizes(runner, port, program, service, {})


@pytest.mark.long
@pytest.mark.parametrize('program, service', WITH_SIZES)
def test_all_sizes_wr_api(runner, port, program, service):
    all_sizes(runner, port, program, service, CONNECTX5)


@BOTH_APIS_LONG
@pytest.mark.parametrize('program, options', [
    pytest.param('ib_send_bw', ['-c', 'RC'], marks=ALWAYS),
    ('ib_send_bw', ['-c', 'UC']),
    ('ib_send_bw', ['-c', 'UD', '-s', 1024]),
    ('ib_send_bw', ['-c', 'RC', '-e']),
    ('ib_write_bw', ['-c', 'RC']),
    ('ib_write_bw', ['-c', 'UC']),
    ('ib_read_bw', ['-c', 'RC']),
    ('ib_atomic_bw', ['-c', 'RC']),
], ids=lambda value: value if isinstance(value, str) else '_'.join(map(str, value[1:])))
def test_both_directions(runner, port, program, options, env):
    perftest(runner, port, program, '-b', *options, env=env, seconds=60)


@pytest.mark.parametrize('program, options', [
    pytest.param('ib_send_lat', ['-c', 'RC'], marks=ALWAYS),
    ('ib_send_lat', ['-c', 'UC']),
    ('ib_send_lat', ['-c', 'UD']),
    ('ib_send_bw', ['-c', 'RC']),
    ('ib_send_bw', ['-c', 'UC']),
    ('ib_send_bw', ['-c', 'UD', '-s', 1024]),
    ('ib_read_bw', ['-c', 'RC']),
    ('ib_read_lat', ['-c', 'RC']),
    ('ib_atomic_lat', ['-c', 'RC']),
], ids=lambda value: value if isinstance(value, str) else '_'.join(map(str, value[1:])))
def test_events(runner, port, program, options):
    perftest(runner, port, program, '-e', *options, seconds=60)


@BOTH_APIS_LONG
@pytest.mark.parametrize('program, options', [
    pytest.param('ib_send_bw', ['-c', 'RC'], marks=ALWAYS),
    pytest.param('ib_send_bw', ['-c', 'RC', '-b'], marks=pytest.mark.long),
    pytest.param('ib_send_bw', ['-c', 'UC'], marks=pytest.mark.long),
    ('ib_send_bw', ['-c', 'UD', '-s', 1024]),
    pytest.param('ib_write_bw', ['-c', 'RC'], marks=pytest.mark.long),
    ('ib_write_bw', ['-c', 'RC', '-s', 1 << 20]),
    pytest.param('ib_write_bw', ['-c', 'UC'], marks=pytest.mark.long),
    ('ib_read_bw', ['-c', 'RC']),
    ('ib_atomic_bw', ['-c', 'RC']),
], ids=lambda value: value if isinstance(value, str) else '_'.join(map(str, value[1:])))
def test_sixteen_qps(runner, port, program, options, env):
    perftest(runner, port, program, '-q', 16, *options, env=env, seconds=60)


@BOTH_APIS_LONG
@pytest.mark.parametrize('program, service', [
    pytest.param('ib_send_lat', 'RC', marks=ALWAYS),
    ('ib_send_lat', 'UC'),
    ('ib_send_lat', 'UD'),
    ('ib_send_bw', 'RC'),
    ('ib_send_bw', 'UD'),
    ('ib_write_lat', 'RC'),
    ('ib_write_lat', 'UC'),
    ('ib_write_bw', 'RC'),
    ('ib_write_bw', 'UC'),
])
def test_inline(runner, port, program, service, env):
    perftest(runner, port, program, '-c', service, '-I', 64, '-s', 48, env=env)


@BOTH_APIS_LONG
@pytest.mark.parametrize('program, options', [
    ('ib_send_bw', ['-l', 8]),
    ('ib_write_bw', ['-l', 8]),
    ('ib_read_bw', ['-l', 8]),
    ('ib_atomic_bw', ['-l', 8]),
    ('ib_send_bw', ['-l', 8, '-c', 'UC']),
    ('ib_send_bw', ['-Q', 1]),
    ('ib_write_bw', ['-Q', 1]),
    ('ib_write_bw', ['-Q', 50]),
    ('ib_send_bw', ['-t', 1, '-r', 1, '-Q', 1]),
    ('ib_send_bw', ['-t', 1000, '-r', 1000]),
    ('ib_write_bw', ['-t', 1, '-Q', 1]),
    ('ib_send_bw', ['-m', 256]),
    ('ib_write_bw', ['-m', 256]),
    ('ib_read_bw', ['-m', 1024]),
    ('ib_read_bw', ['-o', 1]),
    ('ib_read_lat', ['-o', 1]),
    ('ib_atomic_bw', ['-A', 'CMP_AND_SWAP']),
    ('ib_atomic_lat', ['-A', 'CMP_AND_SWAP']),
    ('ib_send_bw', ['--use-srq']),
    ('ib_send_lat', ['--use-srq']),
    ('ib_send_bw', ['--use-srq', '-q', 4]),
    ('ib_send_bw', ['--odp']),
    ('ib_write_bw', ['--odp']),
    ('ib_write_bw', ['--mr_per_qp', '-q', 4]),
    ('ib_write_bw', ['--reversed']),
    ('ib_send_bw', ['-N']),
], ids=lambda value: value if isinstance(value, str) else '_'.join(map(str, value)))
def test_other_options(runner, port, program, options, env):
    perftest(runner, port, program, *options, env=env)


def test_old_post_send_of_a_known_part(runner, port):
    perftest(runner, port, 'ib_write_bw', '--use_old_post_send', env=CONNECTX5)


def test_run_by_duration(runner, port):
    argv = ['ib_write_bw', '-d', DEVICE, '-F', '-p', port, '-D', 1, '-f', 0]
    _, output = runner.pair(argv, [*argv, HOST], port)
    assert rows(output), output


@pytest.mark.parametrize('program, options', [
    ('ib_write_bw', ['--use_rocm=0']),
    ('ib_write_bw', ['--use_cuda=0']),
    ('ib_write_bw', ['-c', 'UD']),
], ids=lambda value: value if isinstance(value, str) else '_'.join(map(str, value)))
@pytest.mark.parametrize('peer', [[], [HOST]], ids=['server', 'client'])
def test_options_refused(runner, port, program, options, peer):
    """What this perftest does not have: it says so before it looks for a peer."""
    runner.run(program, '-d', DEVICE, '-F', '-p', port, '-n', 20, *options, *peer, status=1)


@pytest.mark.parametrize('program, options', [
    ('ib_send_bw', ['-c', 'DC']),
    ('ib_write_bw', ['--rate_limit=5', '--rate_limit_type=HW']),
], ids=lambda value: value if isinstance(value, str) else '_'.join(map(str, value)))
def test_refused(runner, port, program, options):
    """What this device does not have: both ends say so once they have met, and end."""
    argv = [program, '-d', DEVICE, '-F', '-p', port, '-n', 20, *options]
    ends = [runner.start_server(argv, port), runner.start(*argv, HOST)]
    for end in ends:
        status = end.wait(20)
        assert status is not None and status > 0, end.report()
