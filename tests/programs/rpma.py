# SPDX-License-Identifier: BSD-2-Clause
"""librpma: rpma.c, which compares every byte that it writes, reads and sends."""
import compiled
import harness
import rows


def run(a, b):
    program = compiled.program('rpma', 'gcc', 'rpma.c', '-lrpma', '-libverbs')
    port = harness.free_port()
    server = a.start(program, 'server', a.address, port)
    harness.wait_until(lambda: a.listens(server), 10, server.report())
    client = b.start(program, 'client', a.address, port)
    try:
        harness.finish_both((server, client), 30)
        for end, what in ((server, 'ok what was written'), (client, 'ok what was read back')):
            rows.check(what in end.output() and 'ok 100 messages' in end.output(), end.report())
    finally:
        b.release(client)
        a.release(server)


rows.row('librpma', 'rpma.c: WRITE in pieces, flush, READ, atomic WRITE, messages', 'librpma-dev')(run)
