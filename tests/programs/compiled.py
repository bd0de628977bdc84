# SPDX-License-Identifier: BSD-2-Clause
"""Programs of this folder that are compiled in the place, as they need libraries of its release."""
import pathlib
import subprocess

HERE = pathlib.Path(__file__).resolve().parent


def program(name, compiler, source, *libraries):
    """The program, compiled anew if its source is newer."""
    path, source = pathlib.Path('/build', name), HERE / source
    if not path.exists() or path.stat().st_mtime < source.stat().st_mtime:
        subprocess.run([compiler, '-O2', '-Wall', '-Werror', '-o', path, source, *libraries], check=True)
    return path
