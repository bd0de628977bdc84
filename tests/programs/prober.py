# SPDX-License-Identifier: BSD-2-Clause
"""prober.c, which does with verbs what NCCL does: that is not in Debian 12 itself. It compares every byte."""
import compiled
import rows

PORT = 18515  # where the ends arrange the rest, by TCP


def run(a, b):
    program = compiled.program('prober', 'gcc', 'prober.c')
    for output in a.pair([program, a.address], [program, b.address, a.address], PORT, peer=b, seconds=40):
        for text in ('ok dma-bufs', 'ok 4194304 bytes', 'ok all'):
            rows.check(text in output, f'no "{text}"', output)


rows.row('NCCL-like prober', 'prober.c: dlvsym, GIDs by sysfs, WRITE with relaxed ordering, flush by READ',
         'libibverbs-dev')(run)
