# SPDX-License-Identifier: BSD-2-Clause
"""`meson install`: where things go, and that they work from there."""
import os
import shutil
import subprocess

import pytest

from harness import BUILD, DEVICE, HOST


@pytest.fixture(scope='module')
def installed(tmp_path_factory):
    """The directory below which all was installed."""
    if not shutil.which('meson'):
        pytest.skip('there is no meson')
    root = tmp_path_factory.mktemp('installed')
    done = subprocess.run(
        ['meson', 'install', '-C', BUILD, '--no-rebuild', '--quiet', '--destdir', root],
        capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return root


def only(root, name):
    (path,) = root.rglob(name)
    return path


def test_layout(installed):
    library = only(installed, 'libibverbs.so.1')
    assert library.parent.name == 'verbatim', 'apart from the libraries of the system'
    unnumbered = library.with_name('libibverbs.so')
    assert os.path.realpath(unnumbered) == os.path.realpath(library)
    programs = [path for path in installed.rglob('*')
                if path.name in ('verbatim', 'verbatimd') and path.is_file() and 'share' not in path.parts]
    assert sorted(path.name for path in programs) == ['verbatim', 'verbatimd']
    for program in programs:
        assert os.access(program, os.X_OK)
    assert next(p for p in programs if p.name == 'verbatim').parent.name == 'bin'


def test_units_name_the_installed_daemon(installed):
    daemon = only(installed, 'verbatimd')
    for folder, name in (('user', 'verbatimd'), ('system', 'verbatimd-system')):
        service = only(installed, f'{name}.service')
        assert service.parent.name == folder and service.parent.parent.name == 'systemd'
        assert service.with_suffix('.socket').exists()
        assert f'ExecStart=/{daemon.relative_to(installed)} ' in service.read_text()


def test_other_files(installed):
    """What other programs look for in places of theirs, and `rdma` beside the libraries."""
    assert only(installed, '70-verbatim.rules').parent.match('lib/udev/rules.d')
    assert next(installed.rglob('bash-completion/completions/verbatim')).is_file()
    rdma = only(installed, 'rdma')
    assert rdma.parent.parent.name == 'verbatim' and os.access(rdma, os.X_OK)


def test_nothing_else_is_installed(installed):
    """No static library of a layer, no header, no test program."""
    for path in installed.rglob('*'):
        assert path.suffix not in ('.a', '.h', '.o'), path
        assert path.name not in ('verify', 'floor_line', 'floor_memcpy'), path


def test_works_from_there(fresh_runner, installed, port):
    (verbatim,) = (path for path in installed.rglob('verbatim')
                   if path.is_file() and path.parent.name == 'bin')
    runner = fresh_runner(verbatim=verbatim, linger_ms=3000)
    argv = ['ibv_rc_pingpong', '-d', DEVICE, '-g', '0', '-p', port, '-c']
    for output in runner.pair(argv, [*argv, HOST], port):
        assert '1000 iters in' in output
    (daemon,) = runner.daemons()
    assert os.readlink(f'/proc/{daemon}/exe').startswith(str(installed))
