# SPDX-License-Identifier: BSD-2-Clause
"""UCX: ucx_perftest by UCP and UCT, ucx_info. It checks data where it can (-V is of newer versions)."""
import re

import harness
import rows

UCP = ('tag_lat', 'tag_bw', 'tag_sync_lat', 'stream_lat', 'stream_bw', 'ucp_am_lat', 'ucp_am_bw', 'ucp_put_lat',
       'ucp_put_bw', 'ucp_get', 'ucp_add', 'ucp_fadd', 'ucp_swap', 'ucp_cswap')
ATOMIC = ('add', 'fadd', 'swap', 'cswap')

# Of the layer below UCP: the test, how it is given the data, and its size. UCX has no more of datagrams.
UCT = {
    'rc_verbs': (('am_lat', 'short', 8), ('am_bw', 'bcopy', 4096), ('am_bw', 'zcopy', 4096), ('put_lat', 'short', 8),
                 ('put_bw', 'bcopy', 4096), ('put_bw', 'zcopy', 65536), ('get', 'bcopy', 4096),
                 ('get', 'zcopy', 65536), ('fadd', 'short', 8), ('cswap', 'short', 8)),
    'ud_verbs': (('am_lat', 'short', 8), ('am_bw', 'bcopy', 1024), ('am_bw', 'zcopy', 1024)),
}


def perftest(a, b, options, iterations, env):
    port = harness.free_port()
    argv = ['ucx_perftest', '-p', port]
    _, client = a.pair(argv, [*argv, a.address, '-n', iterations, '-w', 10, *options], port, peer=b, seconds=40,
                       env=env)
    figures = re.search(r'^Final:\s+(\d+)\s+[\d.]+', client, re.MULTILINE)
    rows.check(figures and int(figures[1]) == iterations, client)


def ucp(transport, *options):
    def run(a, b):
        for test in UCP:
            sizes = (8,) if any(word in test for word in ATOMIC) else (8, 4096, 100000)
            for size in sizes:
                perftest(a, b, ['-t', test, '-s', size, *options], 200, {'UCX_TLS': transport})
    return run


def uct(transport, tests):
    def run(a, b):
        for test, layout, size in tests:
            perftest(a, b, ['-x', transport, '-d', f'{a.device}:1', '-t', test, '-D', layout, '-s', size], 1000, {})
    return run


def info(a, _):
    output = a.run('ucx_info', '-d')
    for transport in ('rc_verbs', 'ud_verbs'):
        rows.check(re.search(rf'Transport: {transport}\n#\s+Device: vrb_net0:1', output), output)
    rows.check('WARN' not in output and 'ERROR' not in output, output)


rows.row('UCX', 'ucx_info finds rc_verbs and ud_verbs', 'ucx-utils', where=(rows.ONE,))(info)
for name in ('rc_v', 'ud_v'):
    rows.row('UCX', f'ucx_perftest, UCP, {name}, {len(UCP)} tests', 'ucx-utils', seconds=120)(ucp(name))
for name, its_tests in UCT.items():
    rows.row('UCX', f'ucx_perftest, UCT, {name}, {len(its_tests)} tests', 'ucx-utils', seconds=60)(uct(name, its_tests))
