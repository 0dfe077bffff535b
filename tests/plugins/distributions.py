"""Writes small distributions and installs them where only a subprocess sees them."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).parents[2]
HELLO = ROOT / "plugins" / "fairtk-hello"
BROKEN = Path(__file__).parent / "broken"


def write(folder, name, code, version="1.0", entry=None, command=None, requires=()):
    """Put a distribution into a folder as pip would: the module and its metadata.

    It has hooks, or the command of this name: the attribute `command` of its module.
    """
    module = name.replace("-", "_")
    folder.mkdir(exist_ok=True)
    (folder / f"{module}.py").write_text(code)
    info = folder / f"{module}-{version}.dist-info"
    info.mkdir()
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Dist: {requirement}" for requirement in requires]
    (info / "METADATA").write_text("\n".join(lines) + "\n")
    points = f"[fairtk]\n{name} = {entry or module}\n"
    if command is not None:
        points = f"[fairtk.commands]\n{command} = {module}:command\n"
    (info / "entry_points.txt").write_text(points)
    return folder


def copied(source, folder):
    """Return a copy of a distribution's sources: building leaves files behind."""
    ignore = shutil.ignore_patterns("build", "*.egg-info", "tests")
    return shutil.copytree(source, folder / source.name, ignore=ignore)


def environment(folder):
    """Make a virtual environment that also sees the packages of this one; return its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = subprocess.run([python, "-c", where], check=True, capture_output=True, text=True)
    ours = sysconfig.get_path("purelib")
    link = f"import site; site.addsitedir({ours!r})\n"  # follows the .pth files there
    Path(site.stdout.strip(), "this_environment.pth").write_text(link)
    return python


def pip(arguments, python):
    """Run pip, offline, on another environment."""
    options = ["--no-deps", "--no-index", "--no-build-isolation"]
    command = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check"]
    more = options if arguments[0] == "install" else []
    done = subprocess.run([*command, *arguments, *more], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def run(arguments, *folders, exits=0, interpreter=sys.executable, **variables):
    """Run Python with folders on its path, as if their distributions were installed.

    Returns:
        What it printed, and what it wrote to stderr.
    """
    env = {k: v for k, v in os.environ.items() if not k.startswith("FAIRTK_")}
    env |= {"PYTHONPATH": os.pathsep.join(map(str, [*folders, ROOT])), **variables}
    done = subprocess.run(
        [interpreter, *arguments], capture_output=True, text=True, env=env, cwd="/"
    )
    assert done.returncode == exits, done.stdout + done.stderr
    return done.stdout, done.stderr


def python(script, *folders, words=(), **options):
    """Run a piece of Python with words as its arguments."""
    return run(["-c", script, *words], *folders, **options)


def fairtk(arguments, *folders, **options):
    """Run the command line, as the console script does."""
    return python("from fairtk_command import main; main()", *folders, words=arguments, **options)
