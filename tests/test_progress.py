"""Progress bars."""

from timex.progress import counting_bar


def test_a_bar_is_drawn_on_a_terminal_alone(capsys, monkeypatch):
    with counting_bar("work", 3) as done:
        done(2)
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("FORCE_COLOR", "1")
    with counting_bar("work", 3) as done:
        done(2)
    assert "2/3" in capsys.readouterr().err
