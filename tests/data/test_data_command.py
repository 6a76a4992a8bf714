import pytest
import torch

from gossip.data import UnavailableError
from gossip.data.__main__ import main
from gossip.data.sources import DATASETS
from gossip.models import MODELS


@pytest.fixture
def command(monkeypatch, capsys):
    def run(*words):
        monkeypatch.setattr("sys.argv", ["gossip.data", *words])
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code
        return code or 0, *capsys.readouterr()

    return run


@pytest.fixture
def broken(monkeypatch, tiny):
    """A published dataset that cannot be had here."""
    from dataclasses import replace

    def read():
        raise UnavailableError("npm is not installed")

    monkeypatch.setitem(DATASETS, "broken-data", replace(DATASETS["tiny-data"], read=read))


def test_fetch_prints_the_names_and_nothing_else(command, tiny):
    code, out, err = command("fetch", "tiny-data", "digits")
    assert (code, out) == (0, "tiny-data\ndigits\n")
    assert "tiny-data: 12 training and 6 test samples from package tiny 1.0" in err
    assert err.splitlines()[-2:] == [
        "now: python -m gossip.run --dataset tiny-data",
        "now: python -m gossip.run --dataset digits",
    ]


def test_fetch_says_which_model_to_begin_with(command, tiny, monkeypatch):
    from dataclasses import replace

    monkeypatch.setitem(DATASETS, "tiny-data", replace(DATASETS["tiny-data"], model="lenet"))
    _, _, err = command("fetch", "tiny-data")
    assert err.endswith("now: python -m gossip.run --dataset tiny-data --model lenet\n")


@pytest.mark.parametrize("name", [name for name, source in DATASETS.items() if source.model])
def test_the_model_to_begin_with_takes_the_shape_of_the_data(name):
    source = DATASETS[name]
    with torch.device("meta"):
        MODELS[source.model](source.input_shape, 3)


def test_what_cannot_be_had_is_one_sentence_and_code_2(command, broken):
    code, out, err = command("fetch", "broken-data")
    assert (code, out) == (2, "")
    assert "error: cannot get dataset 'broken-data'" in err
    assert "npm is not installed" in err
    assert "Traceback" not in err


def test_the_fallback_is_named_as_the_different_dataset_it_is(command, broken):
    code, out, err = command("fetch", "broken-data", "--or", "tiny-data")
    assert (code, out) == (0, "tiny-data\n")
    assert (
        "broken-data could not be had, so this will run on tiny-data, which is a different" in err
    )


def test_no_fallback_while_the_first_choice_is_in_the_cache(command, tiny, arrays):
    code, out, err = command("fetch", "tiny-data", "--or", "digits")
    assert (code, out) == (0, "tiny-data\n")
    assert "now:" not in err
    tiny[0] = (arrays[0] ^ 1, *arrays[1:])
    assert command("fetch", "tiny-data", "--or", "digits")[:2] == (0, "tiny-data\n")


def test_corrupt_data_is_an_error_even_with_a_fallback(command, tiny, arrays):
    tiny[0] = (arrays[0] ^ 1, *arrays[1:])
    code, out, err = command("fetch", "tiny-data", "--or", "digits")
    assert (code, out) == (2, "")
    assert "is not 'tiny-data'" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("fetch", "mnits"), "did you mean mnist?"),
        (("fetch", "digits", "--or", "mnits"), "did you mean mnist?"),
        (("fetch",), "fetch what?"),
    ],
)
def test_wrong_names_are_refused_before_anything_is_fetched(command, words, message):
    code, out, err = command(*words)
    assert (code, out) == (2, "")
    assert message in err


def test_list_shows_every_dataset_and_where_it_stands(command, tiny):
    code, out, _ = command("list")
    assert code == 0
    for name in DATASETS:
        assert name in out
    assert "not fetched" in out
    command("fetch", "tiny-data")
    line = next(line for line in command("list")[1].splitlines() if line.startswith("tiny-data"))
    assert "cached" in line
    assert "package tiny 1.0" in line
