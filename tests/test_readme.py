"""The README, read aloud: its length, the length of its sentences, and numbers that say what they count."""

import re
from pathlib import Path

import pytest

README = (Path(__file__).parents[1] / "README.md").read_text()
LINES, WORDS = 140, 25
UNIT = r"(?: %| ?(?:[a-z]{2,}|AUROC|AUPRC))"
"""What may follow a number: a per cent sign or a word that says what is counted."""
REASON = r"(?:Python|above|score p from|to|is|within|one|SeqComb-MV|fold) "
"""What may stand before a number without a unit: a version, a score, a bound of one."""


def paragraphs(text):
    """Paragraphs and list items without code, tables, pictures, headings, links and quotations of code."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^(\||#|!\[).*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"`[^`]*`", "code", text)
    return [" ".join(part.split()) for part in re.split(r"\n\s*\n|\n(?=- )", text) if part.strip()]


def sentences(text):
    return [s for part in paragraphs(text) for s in re.split(r'(?<=[.!?:;])\s+(?=[A-Z`*"])', part.removeprefix("- "))]


def bare_numbers(sentence):
    """Numbers with neither a unit behind them nor a reason in front of them."""
    found = []
    for match in re.finditer(r"(?<![\w.])\.?\d[\d.,]*(?<![.,])", sentence):
        before, after = sentence[: match.start()], sentence[match.end() :]
        if not re.match(UNIT, after) and not re.search(rf"{REASON}$", before):
            found.append(match[0])
    return found


def test_it_is_short():
    assert len(README.splitlines()) <= LINES


def test_no_sentence_is_long():
    assert [s for s in sentences(README) if len(s.split()) > WORDS] == []


def test_every_number_says_what_it_counts():
    assert {s: numbers for s in sentences(README) if (numbers := bare_numbers(s))} == {}


def test_the_first_sentence_names_the_problem_and_the_next_the_user():
    first, second = sentences(README)[:2]
    assert re.search(r"which moments and sensors made your .*model decide", first)
    assert "engineers" in second


@pytest.mark.parametrize(
    ("sentence", "bare"),
    [
        ("It takes 300 steps and keeps 8 % of the cells.", []),
        ("A score p from 0 to 1.", []),
        ("The answer is 42.", []),
        ("We got 42, then 43.", ["42", "43"]),
    ],
)
def test_a_bare_number_is_found(sentence, bare):
    assert bare_numbers(sentence) == bare
