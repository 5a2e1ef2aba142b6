"""A command line as a user types it, and what came of it."""

from typer.testing import CliRunner, Result

from firstword.app.cli import cli


def run(*words: str, input: str | None = None) -> Result:
    return CliRunner().invoke(cli, words, input=input)


def refused(*words: str) -> str:
    """The one line that a command ends with."""
    result = run(*words)
    assert result.exit_code == 1, result.output
    assert isinstance(result.exception, SystemExit)
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    return result.stderr
