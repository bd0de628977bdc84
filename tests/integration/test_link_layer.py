"""VERBATIM_LINK_LAYER=infiniband: programs that address by LID, with no GID given to them."""
import pytest

from harness import DEVICE, HOST, free_port

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
