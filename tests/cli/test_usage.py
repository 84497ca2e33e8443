"""Usage errors of the command line: one line, exit code 2."""

import pytest
import typer
from typer.testing import CliRunner

from scroll.cli.app import app

FIT = ("fit", "a.csv", "--target", "y", "-o", "m")


def run(*words):
    return CliRunner().invoke(app, list(words))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((*FIT, "--members", "x"), "`--members` must be an integer, but got 'x'. See scroll fit"),
        ((*FIT, "--members=1.5"), "`--members` must be an integer, but got '1.5'. See scroll fit"),
        (
            ("predict", "m", "t", "--interval", "low"),
            "`--interval` must be a number, but got 'low'",
        ),
        (FIT[:4], "`--output` must be given to scroll fit, but got none. See scroll fit --help."),
        (("fit",), "must be given to scroll fit, but got none. See scroll fit --help."),
        (("info",), "must be given to scroll info, but got none. See scroll info --help."),
        (("info", "a", "b"), "`scroll info` must be used as the help shows, but got unexpected"),
        (("info", "a", "--jsn"), "`--jsn` must be an option of scroll info, but got none of that"),
        (("--bogus",), "`--bogus` must be an option of scroll, but got none of that name. See"),
        (("fitt",), "`scroll` must be used as the help shows, but got no such command 'fitt'"),
        (("fit", "a.csv", "--target"), "`--target` must be used as the help shows, but got"),
        (("fit", "a" * 10**5, "-o"), "`-o` must be used as the help shows, but got"),
        (("f" * 10**5,), "`scroll` must be used as the help shows, but got no such command"),
    ],
)
def test_a_usage_error_is_one_line(words, message):
    done = run(*words)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("scroll: `")
    assert message in done.stderr
    assert len(done.stderr) < 1000


def test_help_is_shown():
    assert "Usage" in run().stdout
    for words in (("--help",), ("fit", "--help"), ("info", "--help")):
        done = run(*words)
        assert done.exit_code == 0
        assert "Usage" in done.stdout
        assert done.stderr == ""


def test_a_summary_of_long_labels_is_short(tmp_path):
    rows = "".join(f"{i},{'ab'[i % 2] * 50_000}\n" for i in range(20))
    (tmp_path / "t.csv").write_text(f"x,y\n{rows}")
    args = ["fit", str(tmp_path / "t.csv"), "--target", "y", "-o", str(tmp_path / "m.scroll")]
    done = CliRunner().invoke(app, [*args, "--max-steps", "5", "--body", "4", "--members", "1"])
    assert done.exit_code == 0
    assert len(done.output) < 5000


def test_every_option_of_every_command_is_explained():
    """One sentence or more each: what it is, not only what it is called."""
    for name, command in typer.main.get_command(app).commands.items():
        assert command.help.endswith("."), name
        for parameter in command.params:
            about = getattr(parameter, "help", None)
            assert about, (name, parameter.name)
            assert about.endswith("."), (name, parameter.name)
            assert len(about.split()) > 2, (name, parameter.name)
