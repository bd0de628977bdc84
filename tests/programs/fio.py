# SPDX-License-Identifier: BSD-2-Clause
"""fio's engine rdma. It compares nothing; all bytes have to arrive, by its own count."""
import json
import time

import harness
import rows

BYTES = 64 << 20
BLOCK = 64 << 10
DEPTH = 16
DEEP = 512  # the most that fio's engine takes

RNR = rows.Known(
    'RNR retry counter exceeded',
    "fio connects with an `rnr_retry_count` of 0, and its receiver posts a receive again only when it has taken a "
    "completion, so it needs more receives than the sender has sends; with as many most runs fail. Its "
    "engines/rdma.c says so: \"it's a good practice to setup the iodepth of of the RECV side deeper than that of the "
    "SEND side to avoid RNR (receiver not ready) error\".")


def options(depth, block):
    return ('--ioengine=rdma', f'--bs={block}', f'--size={BYTES}', f'--iodepth={depth}', '--thread')


def transfer(verb, depth=DEPTH, block=BLOCK):
    """`depth`: of the server. The client's is DEPTH."""
    def run(a, b):
        port = harness.free_port()
        server = a.start('fio', '--name=target', *options(depth, block), f'--port={port}', '--rw=read')
        harness.wait_until(lambda: a.listens(server), 10, server.report())
        client = b.start('fio', '--name=source', *options(DEPTH, block), f'--port={port}', f'--hostname={a.address}',
                         f'--verb={verb}', '--rw=write', '--output-format=json')
        try:
            finish(server, client)
            output = client.output()
            job = json.loads(output[output.index('{'):])['jobs'][0]
            moved = job['write']['io_bytes']
            rows.check(job['error'] == 0 and moved == BYTES, output)
        finally:
            b.release(client)
            a.release(server)
    return run


def finish(server, client):
    """Both end well. fio may wait for ever after an error."""
    deadline = time.monotonic() + 40
    while time.monotonic() < deadline and None in (server.status, client.status):
        for end in (server, client):
            rows.check('cq completion status' not in end.output(), server.report(), client.report())
        time.sleep(0.01)
    harness.finish_both((server, client), 0)


for name in ('write', 'read'):
    rows.row('fio', f'engine rdma, {name}, {BYTES >> 20} MiB')(transfer(name))
rows.row('fio', f'engine rdma, send, {BYTES >> 20} MiB, {DEEP} receives')(transfer('send', DEEP, 128 << 10))
rows.row('fio', f'engine rdma, send, {BYTES >> 20} MiB, one receive',
         known=dict.fromkeys((rows.ONE, rows.TWO), RNR))(transfer('send', 1))
