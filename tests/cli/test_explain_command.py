import ast
import pickle
import re
from pathlib import Path

import pytest

from lln.cli.doctor import topics
from lln.core.errors import InputError, choice

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "errors.md"


def used():
    """Topics that the source names: in an InputError, or in a sentence that says `lln explain ...`."""
    found = {}
    for path in sorted((ROOT / "src" / "lln").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.keyword) and node.arg == "topic" and isinstance(node.value, ast.Constant):
                found.setdefault(node.value.value, path)
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                for name in re.findall(r"more: lln explain ([\w-]+)", node.value):
                    found.setdefault(name, path)
    return found


def test_every_topic_in_the_source_has_its_part_of_the_page_and_the_other_way_round():
    anchors = re.findall(r"^\(([\w-]+)\)=$", PAGE.read_text(), flags=re.MULTILINE)
    assert len(set(anchors)) == len(anchors)
    told = used()
    assert set(told) == set(anchors)
    assert list(topics()) == anchors


def test_the_installed_page_is_the_one_of_the_documentation():
    here = ROOT / "src" / "lln" / "cli" / "errors.md"
    assert here.read_bytes() == PAGE.read_bytes(), "copy it: cp docs/errors.md src/lln/cli/errors.md"


def test_an_error_names_its_topic_below_its_sentence_and_in_a_traceback():
    with pytest.raises(InputError) as caught:
        choice("preset", "lorentz", ["lorenz"])
    assert "\n" not in str(caught.value)
    assert caught.value.topic == "unknown-name"
    assert caught.value.__notes__ == ["more: lln explain unknown-name"]
    again = pickle.loads(pickle.dumps(caught.value))  # as it comes back from a worker
    assert (str(again), again.topic, again.__notes__) == (str(caught.value), "unknown-name", caught.value.__notes__)
    assert not hasattr(InputError("width must be 1"), "__notes__")


def test_the_command_prints_the_topic_after_the_sentence(lln):
    done = lln("explain", "transpose")
    assert done.code == 2
    sentence, more = done.err.splitlines()
    assert sentence.startswith("lln: unknown topic 'transpose'; did you mean 'transposed'?")
    assert more == "more: lln explain unknown-name"


def test_explain_prints_prose_without_examples_and_fits_the_terminal(lln):
    done = lln("explain", "Uneven")
    assert done.code == 0
    title, blank, *text = done.out.splitlines()
    assert (title, blank) == ("unevenly sampled", "")
    assert "`--resample` interpolates" in " ".join(text)
    assert "```" not in done.out
    assert max(map(len, text)) <= 80
    assert "See known inputs (tutorials/forcing.md)" in " ".join(lln("explain", "inputs-needed").out.split())


def test_marks_of_emphasis_are_not_shown():
    assert topics()["diverged"].paragraphs[0].startswith("These are outcomes, not errors. Left the region means")


def test_explain_alone_lists_every_topic(lln):
    listed = [line.split()[0] for line in lln("explain").out.splitlines()[1:]]
    assert listed == list(topics())


@pytest.mark.parametrize("topic", list(topics()))
def test_every_part_says_something(topic):
    title, paragraphs = topics()[topic]
    assert title
    assert len(" ".join(paragraphs)) > 60
