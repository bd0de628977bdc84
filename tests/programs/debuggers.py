# SPDX-License-Identifier: BSD-2-Clause
"""valgrind and gdb around ibv_rc_pingpong, which compares what it gets (-c)."""
import harness
import rows

PINGPONG = ('ibv_rc_pingpong', '-g', 0, '-c', '-n', 50)


def watched(a, b, *before):
    """The output of a client that runs under another program."""
    port = harness.free_port()
    argv = [*PINGPONG, '-p', port]
    _, client = a.pair(argv, [*before, *argv, a.address], port, peer=b, seconds=50)
    return client


def valgrind(a, b):
    output = watched(a, b, 'valgrind', '--error-exitcode=9', '--leak-check=full', '--errors-for-leak-kinds=definite')
    rows.check('ERROR SUMMARY: 0 errors' in output and '50 iters' in output, output)


def gdb(a, b):
    output = watched(a, b, 'gdb', '-batch', '-ex', 'set breakpoint pending on', '-ex', 'break ibv_create_qp',
                     '-ex', 'run', '-ex', 'info threads', '-ex', 'backtrace', '-ex', 'finish', '-ex', 'continue',
                     '--args')
    for text in ('hit Breakpoint 1', '__libc_start_main', 'Value returned', '50 iters', 'exited normally'):
        rows.check(text in output, f'no "{text}"', output)


rows.row('valgrind', 'ibv_rc_pingpong, no error, no leak', seconds=90)(valgrind)
rows.row('gdb', 'ibv_rc_pingpong: a breakpoint in ibv_create_qp, then to its end', seconds=90)(gdb)
