# SPDX-License-Identifier: BSD-2-Clause
"""tgt's target by iSER, with libiscsi as the initiator: iscsi-inq, and qemu-img, which writes a disk and compares."""
import contextlib
import pathlib
import random
import tempfile

import harness
import rows

NAME = 'iqn.2024-01.test:disk'
INITIATOR = 'iqn.2024-01.test:initiator'
BYTES = 32 << 20
CONTROL = 7  # its control port, by which tgtadm reaches it

SHORT, LONG = 256 << 10, 2 << 20  # the second is what QEMU asks for by itself
INITIATOR_PACKAGE = 'libiscsi7'
INITIATOR_REFUSES = rows.Known(
    'Cannot allocate memory',
    'libiscsi 1.19 has buffers of 256 KiB for iSER and refuses a request for more (`overflow_data_size` of lib/iser.c: '
    '"Libiscsi-iSER supports messages smaller than 512k"), which QEMU does not know. Elsewhere its block driver '
    '`blkdebug` divides them.', until='1.20')
TARGET_REFUSES = rows.Known(
    f'rdma-rd size:{LONG} too big',
    'tgtd has buffers of 512 KiB for iSER, unless `buf_sz_kb` says more, and closes the connection on a request for more '
    '(`iser_task_alloc_rdma_bufs` of usr/iscsi/iser.c: "rdma-rd size:2097152 too big"). Its Block Limits page has a maximum '
    'transfer length of 0, so QEMU knows no limit. libiscsi 1.20, which has none of its own, connects again and sends '
    'the same request, without end (`reconnect_max_retries` is -1 in its lib/init.c). With `buf_sz_kb=2048` it holds.',
    since='1.20')


def admin(host, env, *words):
    return host.run('tgtadm', '-C', CONTROL, '--lld', 'iser', *words, env=env)


@contextlib.contextmanager
def target(host, directory, port, options):
    """tgtd, with a disk. `options`: more of them for iSER."""
    env = {'TGT_IPC_SOCKET': pathlib.Path(directory, 'socket')}
    program = host.start('tgtd', '-f', '-C', CONTROL, '--iscsi', f'portal={host.address}:{port}',
                         '--iser', f'port={port},pool_sz_mb=128{options}', env=env)
    try:
        harness.wait_until(lambda: host.listens(program), 20, program.report())
        admin(host, env, '--mode', 'target', '--op', 'new', '--tid', '1', '--targetname', NAME)
        admin(host, env, '--mode', 'logicalunit', '--op', 'new', '--tid', '1', '--lun', '1',
              '--backing-store', pathlib.Path(directory, 'disk'))
        # By iSER it wants both to be allowed (iser_text.c: ip_acl, then iqn_acl); by TCP one of them is enough.
        for who in (('--initiator-address', 'ALL'), ('--initiator-name', INITIATOR)):
            admin(host, env, '--mode', 'target', '--op', 'bind', '--tid', '1', *who)
        yield program
    finally:
        host.release(program)


def image(host, port, divided):
    """The disk, as qemu-img is told of it. `divided`: no request is for more than SHORT."""
    words = ('driver=iscsi', 'transport=iser', f'portal={host.address}:{port}', f'target={NAME}', 'lun=1',
             f'initiator-name={INITIATOR}')
    if divided:
        words = ('driver=blkdebug', f'max-transfer={SHORT}', *('image.' + word for word in words))
    return ','.join(words)


def qemu_img(host, program, *words):
    """Its output. What is said of a failure has what tgtd says, too."""
    try:
        return host.run('qemu-img', *words, seconds=20)
    except AssertionError as error:
        raise AssertionError(f'{error}\n{program.report()}') from None


def write_and_compare(divided=False, options=''):
    def run(a, b):
        port = harness.free_port()
        with tempfile.TemporaryDirectory() as directory:
            disk, pattern = pathlib.Path(directory, 'disk'), pathlib.Path(directory, 'pattern')
            pattern.write_bytes(random.Random(port).randbytes(BYTES))
            disk.write_bytes(bytes(BYTES))
            with target(a, directory, port, options) as program:
                output = b.run('iscsi-inq', '-i', INITIATOR, f'iser://{a.address}:{port}/{NAME}/1')
                rows.check('Vendor:IET' in output, output, program.report())
                there = image(a, port, divided)
                qemu_img(b, program, 'convert', '-n', '-f', 'raw', '--target-image-opts', pattern, there)
                output = qemu_img(b, program, 'compare', '--image-opts', f'driver=file,filename={pattern}', there)
                rows.check('Images are identical' in output, output)
            rows.check(disk.read_bytes() == pattern.read_bytes(), 'the disk of the target differs')
    return run


WHAT = f'iSER: qemu-img by libiscsi, {BYTES >> 20} MiB by'
rows.row('tgt', f'{WHAT} {SHORT >> 10} KiB, compared', seconds=90)(write_and_compare(divided=True))
rows.row('tgt', f'{WHAT} {LONG >> 20} MiB, compared', package=INITIATOR_PACKAGE, seconds=90,
         known=dict.fromkeys((rows.ONE, rows.TWO), (INITIATOR_REFUSES, TARGET_REFUSES)))(write_and_compare())
rows.row('tgt', f'{WHAT} {LONG >> 20} MiB, buf_sz_kb={LONG >> 10}, compared', package=INITIATOR_PACKAGE, seconds=90,
         known=dict.fromkeys((rows.ONE, rows.TWO), (INITIATOR_REFUSES,)))(
             write_and_compare(options=f',buf_sz_kb={LONG >> 10}'))
