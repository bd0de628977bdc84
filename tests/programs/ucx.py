# SPDX-License-Identifier: BSD-2-Clause
"""UCX: ucx_perftest by UCP and UCT, ucx_info. It checks data where it can (-V is of newer versions)."""
import functools
import re
import subprocess

import harness
import rows

MESSAGES = ('tag_lat', 'tag_bw', 'tag_sync_lat', 'tag_sync_bw', 'stream_lat', 'stream_bw', 'ucp_am_lat', 'ucp_am_bw')
UCP = (*MESSAGES, 'ucp_put_lat', 'ucp_put_bw', 'ucp_get', 'ucp_add', 'ucp_fadd', 'ucp_swap', 'ucp_cswap')
ATOMIC = ('add', 'fadd', 'swap', 'cswap')
THREADS = ('-T', 4, '-M', 'multi')
ONE_SIDED = ('ucp_put_lat', 'ucp_put_bw', 'ucp_get')  # not atomics, which UCP does by messages here
ASLEEP = ('-E', 'sleep')
TARGET_AWAKE = (*ASLEEP, '-o')  # that looks at its memory all the time

# Of the layer below UCP: the tests, how they are given the data, and a size. All that the transports have.
UCT = {
    'rc_verbs': ((('am_lat', 'am_bw'), ('short', 'shortiov'), 8), (('am_lat', 'am_bw'), ('bcopy', 'zcopy'), 4096),
                 (('put_lat', 'put_bw'), ('short',), 8), (('put_lat', 'put_bw', 'get'), ('bcopy', 'zcopy'), 4096),
                 (('put_lat', 'put_bw', 'get'), ('zcopy',), 65536),
                 (('add_lat', 'add_mr', 'fadd', 'cswap'), ('short',), 8)),
    'ud_verbs': ((('am_lat', 'am_bw'), ('short', 'shortiov'), 8), (('am_lat', 'am_bw'), ('bcopy', 'zcopy'), 1024)),
}

# What else ucx_perftest has tests of.
LACKING = {
    ('rc_verbs', 'swap', 'short'): rows.Known(
        'rc_verbs/vrb_net0:1 does not support required 64-bit atomic: swap',
        'InfiniBand has no atomic swap, so the transport `rc_verbs` of UCX has none; UCP does it by a message.'),
    ('rc_verbs', 'put_lat', 'shortiov'): rows.Known(
        'UCX  ERROR Failed to send: Invalid parameter',
        '`ucx_perftest -D shortiov` is "only for active messages", as its help says; with a put it waits for ever.'),
    ('rc_verbs', 'am_lat', 'short', *THREADS): rows.Known(
        'UCT tests do not support multi-thread mode',
        '`ucx_perftest -T` is of UCP only, as its help says.'),
    ('ud_verbs', 'put_lat', 'short'): rows.Known(
        'ud_verbs/vrb_net0:1 does not support operation put short',
        'A UD QP has SENDs alone, and the transport `ud_verbs` of UCX active messages alone: no put, get or atomic; UCP '
        'does them by messages.'),
}


# What sleeps for ever for certain. ucp_put_bw and the atomics do by chance.
ENDLESS = ('ucp_put_lat', 'ucp_get')
NO_EVENT = rows.Known(
    'not ended in 5 s',
    'With `-E sleep` a target that finds nothing to do sleeps in `ucp_worker_wait`: in `ucp_get` once an iteration, in '
    '`ucp_put_lat` until its memory changes (`progress_responder` of ucp_tests.cc in UCX). An RDMA READ or WRITE '
    'completes at its requester alone, so no device has an event for the target. By shared memory of its own, without '
    'verbs, UCX sleeps for ever in the same tests. With `-o` the target does not sleep, and they end.')


@functools.cache
def without_mpi():
    """Built with MPI, it is a program of MPI where its standard input is no terminal, unless told otherwise."""
    told = subprocess.run(['ucx_perftest', '-h'], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return ['-P', 0] if '-P <0|1>' in told.stdout else []


def perftest(a, b, options, iterations, env, seconds=40, both=()):
    """`both`: options of the server, too; UCX 1.18 wants the device of a test of UCT there."""
    port = harness.free_port()
    argv = ['ucx_perftest', *without_mpi(), '-p', port, *both]
    _, client = a.pair(argv, [*argv, a.address, '-n', iterations, '-w', 10, *options], port, peer=b,
                       seconds=seconds, env=env)
    figures = re.search(r'^Final:\s+(\d+)\s+[\d.]+', client, re.MULTILINE)
    rows.check(figures and int(figures[1]) == iterations, client)


def ucp(transport, tests, *options, seconds=40):
    def run(a, b):
        for test in tests:
            sizes = (8,) if any(word in test for word in ATOMIC) else (8, 4096, 100000)
            for size in sizes:
                perftest(a, b, ['-t', test, '-s', size, *options], 200, {'UCX_TLS': transport}, seconds)
    return run


def uct(transport, tests, *options, seconds=40):
    def run(a, b):
        for test, layout, size in tests:
            perftest(a, b, ['-t', test, '-D', layout, '-s', size, *options], 1000, {}, seconds,
                         ('-x', transport, '-d', f'{a.device}:1'))
    return run


def info(a, _):
    output = a.run('ucx_info', '-d')
    for transport in ('rc_verbs', 'ud_verbs'):
        rows.check(re.search(rf'Transport: {transport}\n#\s+Device: vrb_net0:1', output), output)
    rows.check('WARN' not in output and 'ERROR' not in output, output)


rows.row('UCX', 'ucx_info finds rc_verbs and ud_verbs', 'ucx-utils', where=(rows.ONE,))(info)
for name in ('rc_v', 'ud_v'):
    rows.row('UCX', f'ucx_perftest, UCP, {name}, {len(UCP)} tests', 'ucx-utils', seconds=120)(
        ucp(name, UCP))
    rows.row('UCX', f'ucx_perftest, UCP, {name}, {len(UCP)} tests, 4 threads', 'ucx-utils', seconds=120)(
        ucp(name, UCP, *THREADS))
    rows.row('UCX', f'ucx_perftest, UCP, {name}, {len(MESSAGES)} tests, asleep', 'ucx-utils', seconds=120)(
        ucp(name, MESSAGES, *ASLEEP))
rows.row('UCX', f'ucx_perftest, UCP, rc_v, {", ".join(ONE_SIDED)}, requester asleep', 'ucx-utils',
         seconds=120)(ucp('rc_v', ONE_SIDED, *TARGET_AWAKE))
for endless in ENDLESS:
    rows.row('UCX', f'ucx_perftest, UCP, rc_v, {endless}, both asleep', 'ucx-utils',
             known={rows.ONE: NO_EVENT, rows.TWO: NO_EVENT})(ucp('rc_v', (endless,), *ASLEEP, seconds=5))
for name, groups in UCT.items():
    its_tests = [(test, layout, size) for tests, layouts, size in groups for test in tests for layout in layouts]
    rows.row('UCX', f'ucx_perftest, UCT, {name}, {len(its_tests)} tests', 'ucx-utils', seconds=60)(uct(name, its_tests))
for (name, its_test, its_layout, *more), reason in LACKING.items():
    row_text = f'ucx_perftest, UCT, {name}, {its_test} {its_layout}' + ', 4 threads' * bool(more)
    rows.row('UCX', row_text, 'ucx-utils', known={rows.ONE: reason, rows.TWO: reason})(
        uct(name, [(its_test, its_layout, 8)], *more, seconds=5))
