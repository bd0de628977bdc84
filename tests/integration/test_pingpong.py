# SPDX-License-Identifier: BSD-2-Clause
"""The pingpong programs of ibverbs-utils, untouched, in every mode they have."""
import pytest

from harness import DEVICE, HOST, free_port

KI = 1 << 10
MI = 1 << 20


def run_pair(runner, port, argv, attempts):
    """With -e and -t together the program has a race of its own, on any adapter: a completion that
    comes between its ibv_req_notify_cq and its poll gives an event and is polled at once; when it
    then takes the event it does not bear an empty CQ. That alone is tried again.
    """
    for attempt in range(1, attempts + 1):
        try:
            return runner.pair([*argv, '-p', port], [*argv, '-p', port, HOST], port)
        except AssertionError as error:
            if 'poll CQ failed 2' not in str(error) or attempt == attempts:
                raise
            port = free_port()
    return None


def pingpong(runner, port, service, *options, iterations=200):
    """Runs both ends; returns (server's output, client's output)."""
    argv = [f'ibv_{service}_pingpong', '-d', DEVICE, '-g', '0', '-n', iterations, *options]
    outputs = run_pair(runner, port, argv, attempts=5 if {'-e', '-t'} <= set(options) else 1)
    for output in outputs:
        assert ' iters in ' in output, output
        assert 'bytes in' in output, output
        assert 'invalid data' not in output, output
        assert 'remote address' in output and '127.0.0.1' in output, output
    return outputs


ALWAYS = pytest.mark.asan

# -e and -t together are left out: with -t the program takes an empty CQ after an event for a failure,
# though ibv_get_cq_event(3) says that there can be extra events. See CAVEATS.md.
RC_MODES = [
    pytest.param([], marks=[ALWAYS, pytest.mark.first], id='plain'),
    pytest.param(['-c'], id='validate'),
    pytest.param(['-e'], marks=[ALWAYS, pytest.mark.first], id='events'),
    pytest.param(['-t'], marks=ALWAYS, id='timestamps'),
    pytest.param(['-N'], marks=ALWAYS, id='new_send'),
    pytest.param(['-o'], id='odp'),
    pytest.param(['-O'], id='implicit_odp'),
    pytest.param(['-o', '-P'], id='odp-prefetch'),
    pytest.param(['-O', '-P'], id='implicit_odp-prefetch'),
    pytest.param(['-j'], marks=ALWAYS, id='device_memory'),
    pytest.param(['-e', '-c'], id='events-validate'),
    pytest.param(['-e', '-N', '-c'], id='events-new_send'),
    pytest.param(['-t', '-N', '-c'], id='timestamps-new_send'),
    pytest.param(['-N', '-j', '-c'], id='new_send-device_memory'),
    pytest.param(['-t', '-N', '-O', '-P', '-c'], marks=ALWAYS, id='everything-implicit_odp'),
    pytest.param(['-t', '-N', '-j', '-c'], id='everything-device_memory'),
]


@pytest.mark.parametrize('options', RC_MODES)
def test_rc_modes(runner, port, options):
    pingpong(runner, port, 'rc', *options)


@pytest.mark.parametrize('size', [1, 7, 64, 255, 1024, 1025, 4095, 4 * KI, 64 * KI + 1, MI, 8 * MI])
def test_rc_sizes(runner, port, size):
    pingpong(runner, port, 'rc', '-c', '-s', size, iterations=20 if size >= MI else 200)


@pytest.mark.parametrize('options', [['-e'], ['-N'], ['-O']], ids=['events', 'new_send', 'odp'])
def test_rc_large_messages_in_other_modes(runner, port, options):
    pingpong(runner, port, 'rc', '-c', '-s', 8 * MI, *options, iterations=10)


@pytest.mark.parametrize('depth', [1, 2, 16, 500, 1000])
def test_rc_depths(runner, port, depth):
    pingpong(runner, port, 'rc', '-c', '-r', depth)


@pytest.mark.parametrize('mtu', [256, 512, 1024, 2048, 4096])
def test_rc_mtus(runner, port, mtu):
    pingpong(runner, port, 'rc', '-c', '-m', mtu, '-s', 10000)


@pytest.mark.asan
def test_rc_many_iterations(runner, port):
    pingpong(runner, port, 'rc', '-c', '-s', 64, iterations=20000)


@pytest.mark.parametrize('options', [
    pytest.param([], marks=ALWAYS, id='plain'),
    pytest.param(['-e', '-c'], id='events'),
    pytest.param(['-c', '-s', 1], id='1_byte'),
    pytest.param(['-c', '-s', MI, '-m', 4096], id='1_MiB'),
    pytest.param(['-c', '-r', 1], id='depth_1'),
])
def test_uc(runner, port, options):
    pingpong(runner, port, 'uc', *options)


@pytest.mark.parametrize('options', [
    pytest.param([], marks=ALWAYS, id='plain'),
    pytest.param(['-e', '-c'], id='events'),
    pytest.param(['-c', '-s', 1], id='1_byte'),
    pytest.param(['-c', '-s', 4096], id='mtu'),
    pytest.param(['-c', '-r', 2], id='depth_2'),
])
def test_ud(runner, port, options):
    pingpong(runner, port, 'ud', *options)


@pytest.mark.parametrize('options', [
    pytest.param([], marks=ALWAYS, id='plain'),
    pytest.param(['-c', '-q', 1], id='1_qp'),
    pytest.param(['-c', '-q', 64], id='64_qps'),
    pytest.param(['-e', '-c'], marks=ALWAYS, id='events'),
    pytest.param(['-o', '-c'], id='odp'),
    pytest.param(['-c', '-s', 64 * KI], id='64_KiB'),
    pytest.param(['-c', '-q', 4, '-r', 16], id='depth_16'),
])
@pytest.mark.alone  # an end that leaves last may see that what it still sent has failed, 50 ms later
def test_srq(runner, port, options):
    pingpong(runner, port, 'srq', *options)


def test_several_pairs_at_once(runner):
    """Each pair with its own connection; none may disturb another."""
    ends = []
    for _ in range(4):
        port = free_port()
        argv = ['ibv_rc_pingpong', '-d', DEVICE, '-g', '0', '-p', port, '-n', 500, '-c', '-e']
        ends.append(runner.start_server(argv, port))
        ends.append(runner.start(*argv, HOST))
    for end in ends:
        output = end.finish(seconds=30)
        assert '500 iters in' in output and 'invalid data' not in output, output


@pytest.mark.asan
@pytest.mark.parametrize('options', [[], ['-e'], ['-o'], ['-s', 64 * KI, '-n', 50]],
                         ids=['plain', 'events', 'odp', 'long'])
def test_xsrq(runner, port, options):
    argv = ['ibv_xsrq_pingpong', '-d', DEVICE, '-g', '0', '-p', port, *options]
    for output in runner.pair(argv, [*argv, HOST], port):
        assert 'success' in output, output
