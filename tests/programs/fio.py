# SPDX-License-Identifier: BSD-2-Clause
"""fio's engine rdma. It compares nothing; all bytes have to arrive, by its own count."""
import json

import harness
import rows

BYTES = 64 << 20
BLOCK = 64 << 10
OPTIONS = ('--ioengine=rdma', f'--bs={BLOCK}', f'--size={BYTES}', '--iodepth=16', '--thread')


def transfer(verb):
    def run(a, b):
        port = harness.free_port()
        server = a.start('fio', '--name=target', *OPTIONS, f'--port={port}', '--rw=read')
        harness.wait_until(lambda: a.listens(server), 10, server.report())
        client = b.start('fio', '--name=source', *OPTIONS, f'--port={port}', f'--hostname={a.address}',
                         f'--verb={verb}', '--rw=write', '--output-format=json')
        try:
            harness.finish_both((server, client), 40)
            output = client.output()
            job = json.loads(output[output.index('{'):])['jobs'][0]
            moved = job['write']['io_bytes']
            rows.check(job['error'] == 0 and moved == BYTES, output)
        finally:
            b.release(client)
            a.release(server)
    return run


for name in ('write', 'read'):
    rows.row('fio', f'engine rdma, {name}, {BYTES >> 20} MiB')(transfer(name))
