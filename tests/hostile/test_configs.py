"""Config files, summaries and run folders from anybody."""

import json

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from gossip.config import Config, load, to_tables
from gossip.errors import UserError
from gossip.report.runs import heading, load_runs
from gossip.storage import folder, tables
from tests.hostile.damage import TEXT, damaged, fuzz, one_sentence, torn
from tests.report import made_up

WHOLE = tomli_w.dumps(to_tables(Config())).encode()
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(max_size=8), values),
    max_leaves=10,
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return made_up.run(tmp_path_factory.mktemp("hostile") / "run")


def read_config(path, data):
    path.write_bytes(data)
    with one_sentence():
        assert isinstance(load(path), Config)


def test_a_damaged_config_is_a_config_or_one_sentence(tmp_path_factory):
    path = tmp_path_factory.mktemp("config") / "config.toml"

    @fuzz(250)
    @given(data=damaged(WHOLE, TEXT))
    def check(data):
        read_config(path, data)

    check()
    for data in torn(WHOLE, 150):
        read_config(path, data)


def test_values_of_any_kind_in_any_place_are_a_config_or_one_sentence(tmp_path_factory):
    path = tmp_path_factory.mktemp("config") / "config.toml"
    known = to_tables(Config())
    sections = [key for key, value in known.items() if isinstance(value, dict)]

    @fuzz(200)
    @given(data=st.data())
    def check(data):
        section = data.draw(st.sampled_from(["", *sections]))
        keys = list(known[section] if section else known)
        key, value = data.draw(st.sampled_from(keys)), data.draw(VALUES)
        try:
            text = tomli_w.dumps({section: {key: value}} if section else {key: value})
        except (TypeError, ValueError):  # TOML has no null
            return
        read_config(path, text.encode(errors="replace"))

    check()


def deep(n):
    """A value n levels deep of which the parser itself sees little."""
    return b"a = " + b"[{" + b"a." * 60 + b"b = " + b"[" * n + b"]" * n + b"}]"


BOMBS = {
    "dots": b"a." * 200_000 + b"b = 1",
    "dotted lines": (b"a." * 200 + b"b = 1\n") * 2000,
    "quoted dots": b'"a" . ' * 100_000 + b"b = 1",
    "a table's name": b"[" + b"a." * 200_000 + b"b]",
    "brackets": b"a = " + b"[" * 500_000,
    "levels": deep(100),
    "many levels": b"gossip = " + b"[{a = " * 200 + b"1" + b"}]" * 200,
    "digits": b"steps = " + b"9" * 500_000,
    "size": b"#" * (tables.MOST_TOML_BYTES + 1),
    "no text": b"\xff\xfe" * 100,
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_config_that_costs_more_than_it_is_worth_is_refused(name, tmp_path, run):
    (tmp_path / "config.toml").write_bytes(BOMBS[name])
    with pytest.raises(UserError, match=r"config\.toml is not TOML"):
        load(tmp_path / "config.toml")
    with pytest.raises(UserError, match=r"cannot read .*config\.toml"):
        folder.read_config(tmp_path)


def test_a_device_is_not_read_to_its_end(tmp_path):
    (tmp_path / "config.toml").symlink_to("/dev/zero")
    with pytest.raises(UserError, match="is not TOML: it has more than"):
        load(tmp_path / "config.toml")
    assert folder.read_config(tmp_path) == {}


@pytest.mark.parametrize(("file", "count"), [("config.toml", 150), ("summary.json", 150)])
def test_a_damaged_run_folder_is_reported_or_one_sentence(run, file, count):
    whole = (run / file).read_bytes()

    def read(data):
        (run / file).write_bytes(data)
        with one_sentence():
            runs = load_runs([run])
            assert isinstance(heading(runs), str)
            assert isinstance(runs[0].verdict, str)
            assert isinstance(runs[0].number("wall_seconds", "total"), float)

    @fuzz(count)
    @given(data=damaged(whole, TEXT))
    def check(data):
        read(data)

    try:
        check()
        for data in torn(whole):
            read(data)
    finally:
        (run / file).write_bytes(whole)


@pytest.mark.parametrize(
    "text", ["[]", "1", '"x"', "[" * 10**6, '{"a":' * 10**5, "{" * 10**6, '{"a": 1', "", "\0"]
)
def test_a_summary_that_is_no_object_is_one_sentence(text, tmp_path):
    (tmp_path / "summary.json").write_text(text)
    with pytest.raises(UserError, match=r"cannot read .*summary\.json"):
        folder.read_summary(tmp_path)


def test_a_summary_as_deep_as_ours_is_read(tmp_path):
    value = {"a": [{"b": [{"c": 1}]}]}
    (tmp_path / "summary.json").write_text(json.dumps(value))
    assert folder.read_summary(tmp_path) == value


def test_a_link_in_a_run_folder_leads_no_text_out_of_it(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "run" / "summary.json").symlink_to(tmp_path / "precious")
    folder.write_summary(tmp_path / "run", {"verdict": "converged"})
    assert (tmp_path / "precious").read_text() == "mine"
    assert folder.read_summary(tmp_path / "run") == {"verdict": "converged"}
