# SPDX-License-Identifier: BSD-2-Clause
"""fio's engine rdma: all bytes have to arrive, by its own count. The receiver of SENDs compares them where it is told to,
with checksums that the sender puts into each block; WRITEs and READs no fio can compare, as their target reads nothing.
"""
import json
import time

import harness
import rows

BYTES = 64 << 20
BLOCK = 64 << 10
DEPTH = 16
DEEP = 512  # the most that fio's engine takes
VERIFY = ('--verify=crc32c', '--verify_state_save=0')

RNR = rows.Known(
    'RNR retry counter exceeded',
    "fio connects with an `rnr_retry_count` of 0, and its receiver posts a receive again only when it has taken a "
    "completion, so it needs more receives than the sender has sends; with as many most runs fail. Its "
    "engines/rdma.c says so: \"it's a good practice to setup the iodepth of of the RECV side deeper than that of the "
    "SEND side to avoid RNR (receiver not ready) error\".")


def options(depth, block, size):
    return ('--ioengine=rdma', f'--bs={block}', f'--size={size}', f'--iodepth={depth}', '--thread')


def transfer(verb, depth=DEPTH, block=BLOCK, size=BYTES, compares=False):
    """`depth`: of the server. The client's is DEPTH."""
    read, write = (VERIFY, (*VERIFY, '--do_verify=0')) if compares else ((), ())

    def run(a, b):
        port = harness.free_port()
        server = a.start('fio', '--name=target', *options(depth, block, size), f'--port={port}', '--rw=read',
                         *read)
        harness.wait_until(lambda: a.listens(server), 10, server.report())
        client = b.start('fio', '--name=source', *options(DEPTH, block, size), f'--port={port}',
                         f'--hostname={a.address}', f'--verb={verb}', '--rw=write', '--output-format=json', *write)
        try:
            finish(server, client)
            output = client.output()
            job = json.loads(output[output.index('{'):])['jobs'][0]
            moved = job['write']['io_bytes']
            rows.check(job['error'] == 0 and moved == size, output)
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
rows.row('fio', f'engine rdma, send, {DEEP * BLOCK >> 20} MiB, {DEEP} receives, compared (verify=crc32c)')(
    transfer('send', DEEP, size=DEEP * BLOCK, compares=True))
rows.row('fio', f'engine rdma, send, {BYTES >> 20} MiB, one receive',
         known=dict.fromkeys((rows.ONE, rows.TWO), RNR))(transfer('send', 1))
