# SPDX-License-Identifier: BSD-2-Clause
"""perftest: bulk by UD beside the same by RC. All the rest of perftest is among the tests of `make test`."""
import re

import harness
import rows

SIZES = (2048, 4096)
RUNS = 3


def bandwidth(a, b, service, size):
    """MiB/s that arrive."""
    port = harness.free_port()
    argv = ['ib_send_bw', '-c', service, '-s', size, '-D', 1, '-p', port, '-F']
    server, _ = a.pair(argv, [*argv, a.address], port, peer=b)
    return float(re.search(rf'^ *{size} +\d+ +[\d.]+ +([\d.]+)', server, re.MULTILINE)[1])


def ud_beside_rc(size):
    def run(a, b):
        rates = {service: max(bandwidth(a, b, service, size) for _ in range(RUNS)) for service in ('UD', 'RC')}
        rows.check(rates['UD'] >= rates['RC'] / 2, rates)
    return run


for bytes_each in SIZES:
    rows.row('perftest', f'ib_send_bw of {bytes_each} bytes: UD at least half of RC')(ud_beside_rc(bytes_each))
