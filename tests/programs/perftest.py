# SPDX-License-Identifier: BSD-2-Clause
"""perftest: bulk by UD beside the same by RC. All the rest of perftest is among the tests of `make test`."""
import re

import harness
import rows

BULK = 64 << 10
RUNS = 3


def bandwidth(a, b, service, size):
    """MiB/s that arrive."""
    port = harness.free_port()
    argv = ['ib_send_bw', '-c', service, '-s', size, '-D', 1, '-p', port, '-F']
    server, _ = a.pair(argv, [*argv, a.address], port, peer=b)
    return float(re.search(rf'^ *{size} +\d+ +[\d.]+ +([\d.]+)', server, re.MULTILINE)[1])


def ud_beside_rc(ud_bytes, rc_bytes):
    def run(a, b):
        rates = {service: max(bandwidth(a, b, service, size) for _ in range(RUNS))
                 for service, size in (('UD', ud_bytes), ('RC', rc_bytes))}
        rows.check(rates['UD'] >= rates['RC'] / 2, rates)
    return run


for bytes_each in (2048, 4096):
    rows.row('perftest', f'ib_send_bw of {bytes_each} bytes: UD at least half of RC')(
        ud_beside_rc(bytes_each, bytes_each))
# Not on one host, where RC has 64 KiB copied at once.
rows.row('perftest', 'ib_send_bw: UD of 4096 bytes at least half of RC of 64 KiB', where=(rows.TWO,))(
    ud_beside_rc(4096, BULK))
# The most that a datagram holds there.
rows.row('perftest', 'ib_send_bw of 1024 bytes, MTU 1500: UD at least half of RC', where=(rows.TWO,), mtu=1500)(
    ud_beside_rc(1024, 1024))
