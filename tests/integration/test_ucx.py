# SPDX-License-Identifier: BSD-2-Clause
"""UCX over Verbatim: it takes devices that it finds in /dev/infiniband, and connects RC by UD."""
import re

import pytest

from harness import DEVICE, HOST

ENV = {'UCX_NET_DEVICES': f'{DEVICE}:1'}


def perftest(runner, port, transports, *options):
    """The figures of the last line: iterations, then times and rates."""
    argv = ['ucx_perftest', '-p', port]
    _, client = runner.pair(argv, [*argv, HOST, *options], port, seconds=40,
                            env={**ENV, 'UCX_TLS': transports})
    figures = re.search(r'^Final:\s+(\d+)\s+([\d.]+)', client, re.MULTILINE)
    assert figures, client
    return int(figures[1])


def test_finds_the_devices(runner):
    output = runner.run('ucx_info', '-d', env=ENV)
    for transport in ('rc_verbs', 'ud_verbs'):
        assert re.search(rf'Transport: {transport}\n#\s+Device: {DEVICE}:1', output), output
    assert 'WARN' not in output, output


@pytest.mark.parametrize('transports', ['ib', 'ud_verbs'])
@pytest.mark.parametrize('options', [
    ['-t', 'tag_lat', '-s', '8', '-n', '2000'],
    ['-t', 'tag_bw', '-s', '100000', '-n', '200'],
    ['-t', 'ucp_get', '-s', '4096', '-n', '200'],
    ['-t', 'ucp_fadd', '-s', '8', '-n', '200'],
], ids=lambda options: options[1])
def test_perftest(runner, port, transports, options):
    iterations = perftest(runner, port, transports, *options)
    assert iterations == int(options[-1])
