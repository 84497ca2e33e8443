"""Commands that other packages add to `scroll`: installed, missing, broken."""

import os
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from scroll.cli import plugins
from scroll.cli.app import app
from scroll.cli.usage import Commands
from sweeps import exhaustive

OWN = ["demo", "fit", "predict", "evaluate", "export", "info"]
HELLO = """
def hello(name: str) -> None:
    \"\"\"Greet somebody.\"\"\"
    print(f"hello {name}")

def fit() -> None:
    print("not scroll's own")
"""
ENTRIES = "[scroll.commands]\nhello = hello_scroll:hello\nfit = hello_scroll:fit\n"


def names(app):
    """Names of the commands in the order of the help."""
    return list(typer.main.get_command(app).commands)


@pytest.fixture
def bare(monkeypatch):
    """An app with one command of its own, in an environment without plugins."""
    monkeypatch.setattr(plugins, "entry_points", lambda group: ())
    made = typer.Typer(cls=Commands)
    made.command("zeal")(lambda: None)
    plugins.add_commands(made)
    return made


@pytest.fixture
def third_party(tmp_path, monkeypatch):
    """A module in a package that declares two commands, as pip would install it."""
    folder = tmp_path / "hello_scroll-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: hello-scroll\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(ENTRIES)
    (tmp_path / "hello_scroll.py").write_text(HELLO)
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    monkeypatch.setenv("PYTHONPATH", path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path / "hello_scroll.py"
    sys.modules.pop("hello_scroll", None)


def run(*words):
    """Call an app that has a command `fit` and all plugins, in this process."""
    made = typer.Typer(cls=Commands)

    @made.command("fit")
    def fit() -> None:
        print("own")

    plugins.add_commands(made)
    return CliRunner().invoke(made, words)


def test_the_commands_of_the_reproduction_come_after_the_librarys_own():
    pytest.importorskip("scroll_paper")
    assert [name for name in names(app) if name in (*OWN, "bench", "records")] == [
        *OWN, "bench", "records"
    ]  # fmt: skip
    done = CliRunner().invoke(app, ["bench", "list"])
    assert done.exit_code == 0
    assert "headline" in done.stdout


@pytest.mark.parametrize("name", ["bench", "records"])
@pytest.mark.parametrize("words", [(), ("headline", "--quick"), ("--help",)])
def test_a_missing_reproduction_says_in_one_line_how_to_install_it(bare, name, words):
    done = CliRunner().invoke(bare, [name, *words])
    assert (done.exit_code, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"scroll: `scroll {name}` must be provided by the package scroll-paper")
    assert "pip install . ./paper" in line


def test_a_missing_reproduction_is_listed_in_the_help(bare):
    assert names(bare) == ["zeal", "bench", "records"]
    assert "scroll-paper" in CliRunner().invoke(bare, ["--help"]).stdout


def test_a_command_of_another_package_is_found(third_party):
    words = [sys.executable, "-m", "scroll", "hello", "world"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "hello world\n", "")
    assert "Greet somebody." in run("--help").stdout
    done = run("hello")
    assert done.exit_code == 2
    assert "`name` must be given to" in done.stderr


def test_a_plugin_cannot_replace_a_command(third_party):
    assert run("fit").stdout == "own\n"


def test_a_broken_plugin_breaks_its_own_command_alone(third_party):
    third_party.write_text("import no_such_library")
    assert run("fit").exit_code == 0
    done = run("hello", "world")
    assert (done.exit_code, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("scroll: `scroll hello` must come from a package that can be imported")
    assert "hello-scroll" in line
    assert "no_such_library" in line


def test_the_help_imports_nothing_heavy():
    code = (
        "import sys; from scroll.cli.app import app\n"
        "try: app(['--help'])\nexcept SystemExit: pass\n"
        "heavy = {'sklearn', 'scipy', 'pandas', 'matplotlib', 'gpytorch', 'vbll', 'transformers'}\n"
        "found = heavy & set(sys.modules)\nassert not found, found"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_the_reproduction_runs_as_a_module():
    pytest.importorskip("scroll_paper")
    words = [sys.executable, "-m", "scroll_paper"]
    done = subprocess.run([*words, "bench", "list"], capture_output=True, text=True, check=True)
    assert "headline" in done.stdout


@exhaustive
def test_the_reproduction_refuses_as_a_module():
    pytest.importorskip("scroll_paper")
    words = [sys.executable, "-m", "scroll_paper"]
    done = subprocess.run([*words, "bench", "--bogus"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
