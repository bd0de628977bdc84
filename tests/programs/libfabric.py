# SPDX-License-Identifier: BSD-2-Clause
"""libfabric's provider verbs: fi_info, and fi_pingpong, which compares what it gets (-c).

ofi_rxm looks for the end of connections each 10 ms. A thread of it that loses its processor between its look at the CQ
and that one flushes what came meanwhile (CAVEATS.md, Tools). It looks seldom here, so a flush is a failure.
"""
import re

import harness
import rows

ENV = {'FI_OFI_RXM_CM_PROGRESS_INTERVAL': 300000}  # us; connections take as long
SIZES = (64, 4096, 65536, 1 << 20)


def info(a, _):
    output = a.run('fi_info', '-p', 'verbs')
    for word in ('FI_EP_MSG', 'FI_EP_DGRAM', 'vrb_net0'):
        rows.check(word in output, output)


def pingpong(provider, endpoint):
    def run(a, b):
        for size in SIZES:
            port = harness.free_port()
            argv = ['fi_pingpong', '-p', provider, '-e', endpoint, '-c', '-I', 100, '-S', size]
            # Between hosts the server listens for what arranges the run at its own address alone.
            _, client = a.pair([*argv, '-B', port], [*argv, '-P', port, a.address], port, peer=b, seconds=30,
                               env=ENV if 'ofi_rxm' in provider else None)
            rows.check(re.search(r'^\S+\s+100\s+=?100\s', client, re.MULTILINE), client)
    return run


rows.row('libfabric', 'fi_info finds verbs', 'libfabric-bin', where=(rows.ONE,))(info)
for name, kind in (('verbs', 'msg'), ('verbs;ofi_rxm', 'rdm'), ('verbs;ofi_rxd', 'rdm')):
    rows.row('libfabric', f'fi_pingpong {name} {kind}, {len(SIZES)} sizes', 'libfabric-bin',
             seconds=150)(pingpong(name, kind))
