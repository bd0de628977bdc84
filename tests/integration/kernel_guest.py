# SPDX-License-Identifier: BSD-2-Clause
"""A small guest with the kernel of a release of Debian, and this machine's programs on it.

The guest sees this machine's root directory, read-only, so it needs no userland of its own: an image is a kernel
and an initrd with busybox and a few modules. Packages come through apt, configured for that release in a directory
of its own; images are kept in VERBATIM_CACHE. Nothing here needs a network once they are built.

The machine is KVM's where that works, else QEMU's emulation, which is some twenty times slower.
"""
import fcntl
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import threading
import time

import guest as rxe
import harness

KEYRING = '/usr/share/keyrings/debian-archive-keyring.gpg'
KERNELS = {'bullseye': '5.10', 'bookworm': '6.1', 'trixie': '6.12'}
PACKAGE = 'linux-image-amd64'
MODULES = 'virtio_pci 9p 9pnet_virtio veth'.split()
IMAGES = rxe.CACHE / 'kernels'
NOBODY = 'setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all --bounding-set=-all'
KVM_SECONDS = 20  # to boot: it takes three

INIT = '''#!/bin/busybox sh
# Mounts the host's root, and serves commands: a line on the second serial port names a script in /mnt.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
for module in /modules/*; do insmod $module; done
mount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=262144,cache=loose root /host
mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144 share /host/mnt
mount -t tmpfs -o mode=1777 tmp /host/tmp
mount -t tmpfs -o mode=755 run /host/run
mkdir -p /dev/shm /dev/pts
mount -t tmpfs -o mode=1777 shm /dev/shm
mount -t devpts pts /dev/pts
for place in dev proc sys; do mount --move /$place /host/$place; done
ip link set lo up
stty -F /host/dev/ttyS1 raw -echo
exec chroot /host /bin/sh -c '
exec <>/dev/ttyS1 >&0
cd /tmp
echo up $(cut -d" " -f1 /proc/uptime) $(uname -r)
while read -r script; do
	/bin/bash /mnt/$script >/mnt/$script.out 2>&1 </dev/null
	echo ended $?
done'
'''


def _call(*argv, **options):
    done = subprocess.run([str(word) for word in argv], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False, **options)
    if done.returncode:
        if rxe.NO_NETWORK.search(done.stdout):
            raise rxe.Unavailable(f'a kernel needs packages of Debian: {done.stdout[-500:]}')
        raise AssertionError(f'{argv}\n{done.stdout[-4000:]}')
    return done.stdout


def _mirror():
    """The mirror that this machine uses for Debian."""
    script = pathlib.Path(__file__).parents[2] / 'scripts/debian-mirror'
    found = subprocess.run([script], stdout=subprocess.PIPE, text=True, check=False)
    if found.returncode:
        raise rxe.Unavailable('apt has no mirror of Debian')
    return found.stdout.strip()


def _download(release, folder):
    """Fetches the release's kernel, by an apt that knows nothing else; returns its version."""
    apt = folder / 'apt'
    for name in ('lists/partial', 'cache/archives/partial'):
        (apt / name).mkdir(parents=True)
    (apt / 'sources.list').write_text(f'deb [signed-by={KEYRING}] {_mirror()} {release} main\n')
    options = [word for name, value in {
        'Dir::Etc::sourcelist': apt / 'sources.list', 'Dir::Etc::sourceparts': '/dev/null',
        'Dir::State::lists': apt / 'lists', 'Dir::Cache': apt / 'cache', 'Dir::State::status': '/dev/null',
        'APT::Architecture': 'amd64', 'APT::Sandbox::User': 'root', 'APT::Update::Error-Mode': 'any',
        'Acquire::Languages': 'none',
    }.items() for word in ('-o', f'{name}={value}')]
    _call('apt-get', '-qq', *options, 'update')
    kernel = re.search(r'Depends: linux-image-(\S+)', _call('apt-cache', *options, 'depends', PACKAGE))[1]
    _call('apt-get', '-qq', *options, 'download', f'linux-image-{kernel}', 'busybox-static', cwd=folder)
    return kernel


def _modules(folder, kernel):
    """Paths of the modules and of what they need, in the order in which they are inserted."""
    if not (folder / 'kernel/lib').exists():
        (folder / 'kernel/lib').symlink_to('usr/lib')
    _call('depmod', '-b', folder / 'kernel', kernel)
    paths = []
    for module in MODULES:
        for path in re.findall(r'^insmod (\S+)', _call(
                'modprobe', '-d', folder / 'kernel', '-S', kernel, '--show-depends', module), re.MULTILINE):
            if path not in paths:
                paths.append(path)
    return paths


def _build(release, folder):
    kernel = _download(release, folder)
    for package in folder.glob('*.deb'):
        _call('dpkg', '-x', package, folder / ('kernel' if package.name.startswith('linux') else 'busybox'))
    root = folder / 'root'
    for name in ('bin', 'proc', 'sys', 'dev', 'host', 'modules'):
        (root / name).mkdir(parents=True)
    shutil.copy(next((folder / 'busybox').glob('**/bin/busybox')), root / 'bin')
    for number, path in enumerate(_modules(folder, kernel)):
        inserted = root / f'modules/{number:02}-{pathlib.Path(path).name}'
        shutil.copy(path, inserted)
        if inserted.suffix == '.xz':
            _call('xz', '-d', inserted)
    (root / 'init').write_text(INIT)
    (root / 'init').chmod(0o755)
    shutil.copy(folder / f'kernel/boot/vmlinuz-{kernel}', folder / 'vmlinuz')
    with open(folder / 'initrd', 'wb') as initrd:
        names = subprocess.run(['find', '.'], cwd=root, stdout=subprocess.PIPE, check=True).stdout
        subprocess.run(['cpio', '-o', '-H', 'newc', '--quiet'], cwd=root, input=names, stdout=initrd, check=True)


def image(release):
    """The folder with vmlinuz and initrd of the release's kernel, built if it is missing."""
    if os.geteuid() != 0 or os.uname().machine != 'x86_64':
        raise rxe.Unavailable('guests are made by root, on x86-64')
    IMAGES.mkdir(parents=True, exist_ok=True)
    place = IMAGES / release
    stamp = place / 'built-by'
    digest = hashlib.sha256(repr((INIT, MODULES, PACKAGE)).encode()).hexdigest()
    with open(IMAGES / f'{release}.lock', 'w', encoding='ascii') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if stamp.exists() and stamp.read_text() == digest:
            return place
        with tempfile.TemporaryDirectory(prefix='verbatim-kernel-', dir=IMAGES) as made:
            _build(release, pathlib.Path(made))
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            for name in ('vmlinuz', 'initrd'):
                shutil.move(f'{made}/{name}', place / name)
        stamp.write_text(digest)
    return place


class Guest:
    """A running guest: a context manager. `share` is a directory that the guest sees as /mnt."""
    # Some hosts refuse the capabilities of their own processor to a guest.
    processors = ['host', 'host,-arch-capabilities']

    def __init__(self, release, boot_seconds=300):
        self.release = release
        self._image = image(release)
        self._directory = tempfile.TemporaryDirectory(prefix='verbatim-kernel-')
        self.share = pathlib.Path(self._directory.name)
        self.share.chmod(0o755)
        self._boot_seconds = boot_seconds
        self._qemu = None
        self._lines = []
        self._count = 0
        self.machine = None

    def _arguments(self, accelerator):
        return ['qemu-system-x86_64', *accelerator, '-smp', '2', '-m', '2048', '-nodefaults', '-no-user-config',
                '-display', 'none', '-no-reboot', '-kernel', self._image / 'vmlinuz', '-initrd', self._image / 'initrd',
                '-append', 'console=ttyS0 quiet panic=-1 mitigations=off no_timer_check tsc=reliable',
                '-serial', f'file:{self.share}/console.log', '-serial', 'stdio',
                '-fsdev', 'local,id=root,path=/,security_model=none,readonly=on,multidevs=remap',
                '-device', 'virtio-9p-pci,fsdev=root,mount_tag=root',
                '-fsdev', f'local,id=share,path={self.share},security_model=none',
                '-device', 'virtio-9p-pci,fsdev=share,mount_tag=share']

    def _listen(self, output):
        for line in output:
            self._lines.append(line.strip())

    def _wait_line(self, word, seconds):
        """The next line that the guest says, which begins with the word; None: not in time, or QEMU has ended."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            while self._lines:
                line = self._lines.pop(0)
                if line.startswith(word):
                    return line
            if self._qemu.poll() is not None:
                return None
            time.sleep(0.05)
        return None

    def _boot(self, accelerator, seconds):
        self._lines.clear()
        self._qemu = subprocess.Popen([str(word) for word in self._arguments(accelerator)], text=True,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        threading.Thread(target=self._listen, args=[self._qemu.stdout], daemon=True).start()
        line = self._wait_line('up', seconds)
        if not line:
            self._end()
        return line

    def _boot_somehow(self):
        """KVM is tried until it fails once: some hosts offer it, and then a kernel gets stuck in it."""
        while Guest.processors and os.access('/dev/kvm', os.R_OK | os.W_OK):
            self.machine = 'KVM'
            up = self._boot(['-accel', 'kvm', '-cpu', Guest.processors[0]], KVM_SECONDS)
            if up:
                return up
            Guest.processors.pop(0)
        self.machine = 'TCG'
        return self._boot(['-accel', 'tcg,thread=multi', '-cpu', 'max'], self._boot_seconds)

    def __enter__(self):
        try:
            up = self._boot_somehow()
            assert up, f'the guest does not start\n{self._console()}'
            self.kernel = up.split()[2]
        except BaseException:
            self._end()
            self._directory.cleanup()
            raise
        return self

    def __exit__(self, *_):
        self._end()
        self._directory.cleanup()

    def _end(self):
        if self._qemu:
            self._qemu.kill()
            self._qemu.wait()
        self._qemu = None

    def _console(self):
        log = self.share / 'console.log'
        return log.read_text(errors='replace')[-3000:] if log.exists() else ''

    def run(self, script, seconds=60, status=0):
        """The output of a shell script of root's, whatever its status if that is None."""
        self._count += 1
        name = f'script-{self._count}'
        (self.share / name).write_text(f'exec timeout -k 5 {seconds} bash -c \'. /mnt/{name}.body\'\n')
        (self.share / f'{name}.body').write_text(script + '\n')
        self._qemu.stdin.write(name + '\n')
        self._qemu.stdin.flush()
        line = self._wait_line('ended', seconds + 30)
        out = self.share / f'{name}.out'
        output = out.read_text(errors='replace') if out.exists() else ''
        assert line, f'no answer\n{output}\n{self._console()}'
        assert status in (None, int(line.split()[1])), f'{line}\n{output}\n{self._console()}'
        return output

    def install(self, *programs):
        """Puts a copy of this build, and these programs beside it, where every user finds them: in /mnt."""
        subprocess.run(['meson', 'install', '-C', harness.BUILD, '--no-rebuild', '--quiet', '--destdir',
                        self.share / 'verbatim'], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for program in programs:
            shutil.copy(program, self.share)

