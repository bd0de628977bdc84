# SPDX-License-Identifier: BSD-2-Clause
"""perftest: bulk by UD beside the same by RC. All the rest of perftest is among the tests of `make test`."""
import re

import harness
import rows

SIZE = 2048
RUNS = 3


def bandwidth(a, b, service):
    """MiB/s that arrive."""
    port = harness.free_port()
    argv = ['ib_send_bw', '-c', service, '-s', SIZE, '-D', 1, '-p', port, '-F']
    server, _ = a.pair(argv, [*argv, a.address], port, peer=b)
    return float(re.search(rf'^ *{SIZE} +\d+ +[\d.]+ +([\d.]+)', server, re.MULTILINE)[1])


def run(a, b):
    rates = {service: max(bandwidth(a, b, service) for _ in range(RUNS)) for service in ('UD', 'RC')}
    rows.check(rates['UD'] >= rates['RC'] / 2, rates)


rows.row('perftest', f'ib_send_bw of {SIZE} bytes: UD at least half of RC')(run)
