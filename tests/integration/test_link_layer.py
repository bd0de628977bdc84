# SPDX-License-Identifier: BSD-2-Clause
"""VERBATIM_LINK_LAYER=infiniband: programs that address by LID, with no GID given to them."""
import pytest

from harness import DEVICE, HOST, free_port
from test_cm import fresh, pair, run_perftest, run_program  # noqa: F401, pylint: disable=unused-import

INFINIBAND = {'VERBATIM_LINK_LAYER': 'infiniband'}


@pytest.mark.asan
@pytest.mark.parametrize('service', ['rc', 'uc', 'ud', 'srq', 'xsrq'])
def test_pingpong_without_gid(runner, port, service):
    argv = [f'ibv_{service}_pingpong', '-d', DEVICE, '-p', port]
    for output in runner.pair(argv, [*argv, HOST], port, env=INFINIBAND):
        assert ' iters in ' in output or 'success' in output, output
        assert 'LID 0x0001' in output or 'LID 0001' in output, output


@pytest.mark.parametrize('program', ['ib_send_lat', 'ib_write_bw', 'ib_read_lat', 'ib_atomic_bw'])
def test_perftest_without_gid(runner, port, program):
    argv = [program, '-d', DEVICE, '-F', '-p', port, '-n', 200]
    _, output = runner.pair(argv, [*argv, HOST], port, env=INFINIBAND)
    assert 'Link type       : IB' in output, output


def test_qperf(runner, port):
    server = runner.start_server(['qperf', '-lp', port], port, env=INFINIBAND)
    try:
        output = runner.run('qperf', '-lp', port, '-t', 1, HOST, 'rc_lat', 'ud_lat', 'rc_rdma_write_bw',
                            env=INFINIBAND)
    finally:
        runner.release(server)
    assert output.count('latency') == 2 and 'bw' in output, output


@pytest.mark.network
@pytest.mark.parametrize('service', ['rc', 'uc', 'ud', 'srq', 'xsrq'])
def test_pingpong_between_hosts(cables, service):
    cable, port = cables(1500), free_port()
    argv = [f'ibv_{service}_pingpong', '-d', cable.a.device, '-p', port]
    if service == 'ud':
        argv += ['-s', 1000]
    for output in cable.b.pair(argv, [*argv, cable.b.address], port, peer=cable.a, env=INFINIBAND):
        assert ' iters in ' in output or 'success' in output, output
        assert 'LID 0x0001' in output or 'LID 0001' in output, output


@pytest.mark.network
def test_qperf_between_hosts(cables):
    cable, port = cables(9000), free_port()
    cable.b.start_server(['qperf', '-lp', port], port, env=INFINIBAND)
    output = cable.a.run('qperf', '-lp', port, '-t', 1, cable.b.address, 'rc_lat', 'ud_lat', 'uc_bw',
                         env=INFINIBAND)
    assert output.count('latency') == 2 and 'bw' in output, output


# --------------------------------------------------------------------------------------------
# Connections: addresses are IPv4 there, too.

CM_PROGRAMS = ['rping', 'rdma_client', 'rdma_xclient', 'ucmatose', 'udaddy']


@pytest.mark.parametrize('name', CM_PROGRAMS)
def test_cm(fresh, name):  # noqa: F811
    run_program(fresh, name, HOST, env=INFINIBAND)


def test_cm_perftest(runner):
    run_perftest(runner, 'ib_write_lat', 'RC', HOST, env=INFINIBAND)


def test_cm_multicast(fresh):  # noqa: F811
    argv = ['mckey', '-m', '239.1.1.7', '-b', HOST]
    for output in pair(fresh, argv, [*argv, '-s'], env=INFINIBAND):
        assert 'return status 0' in output


def test_cm_ipv6(fresh):  # noqa: F811
    """Its ports have no IPv6 addresses."""
    program = fresh.start('rping', '-c', '-a', '::1', env=INFINIBAND)
    assert program.wait(10) not in (None, 0), program.report()
    assert 'No such device' in program.output(), program.report()


@pytest.mark.network
@pytest.mark.parametrize('name', CM_PROGRAMS)
def test_cm_between_hosts(cables, name):
    cable = cables(1500)
    run_program(cable.a, name, cable.a.address, peer=cable.b, env=INFINIBAND)


@pytest.mark.network
def test_cm_multicast_between_hosts(cables):
    cable = cables(1500)
    argv = ['mckey', '-m', '239.1.1.7', '-b']
    for output in pair(cable.a, [*argv, cable.a.address], [*argv, cable.b.address, '-s'],
                       peer=cable.b, env=INFINIBAND):
        assert 'return status 0' in output
