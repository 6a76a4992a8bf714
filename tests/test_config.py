"""A run is decided by one tree; TOML, the command line and Python say the same."""

import shlex
import tomllib
from dataclasses import replace

import pytest
import tomli_w

from gossip.config import Averaging, Config, Data, Rate, from_tables, load, to_tables
from gossip.errors import UserError
from gossip.keyvalue import parse_options
from gossip.run import parse


def test_toml_round_trip_is_the_identity():
    config = Config(
        algorithm=("ssgd-star",),
        epochs=2.5,
        gossip=Averaging(learners=4, topology="small-world", topology_options=("degree=2",)),
        data=Data(dataset="digits", data_dir="/somewhere", replacement=True),
        rate=Rate(
            lr=0.1,
            decay="step",
            decay_at=(0.3,),
            decay_factor=0.5,
            momentum=0.9,
            scaling="lena",
            scaling_options=("clip=upper",),
            warmup="state-aware",
            warmup_share=0.1,
            layer_ratio="quantile",
            layer_ratio_limits=(0.2, 0.7),
        ),
    )
    assert from_tables(tomllib.loads(tomli_w.dumps(to_tables(config)))) == config


def test_flags_win_over_the_file_and_the_file_over_the_defaults(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text('algorithm = "ssgd"\nsteps = 7\n[rate]\nlr = 0.25\n[record]\nhost = "x"\n')
    options = parse(["--config", str(path), "--lr", "0.5"]).options
    assert options == replace(Config(), algorithm=("ssgd",), steps=7, rate=replace(Rate(), lr=0.5))


def test_all_options_are_flat_flags():
    said = (
        "--algorithm dpsgd ssgd-star --topology torus --topology-options rows=2 --learners 8 "
        "--widths 10 20 --optimizer adam --monitor full --replacement"
    )
    options = parse(shlex.split(said)).options
    assert options.algorithm == ("dpsgd", "ssgd-star")
    assert options.gossip.topology_options == ("rows=2",)
    assert options.model.widths == (10, 20)
    assert options.data.replacement


@pytest.mark.parametrize(
    ("tables", "complaint"),
    [
        ({"stepz": 3}, "unknown key 'stepz': did you mean steps?"),
        ({"rate": {"lrr": 3}}, "unknown key 'rate.lrr': did you mean lr?"),
        ({"rate": 3}, r"\[rate\] must be a table"),
        ({"steps": "many"}, "^steps: Expected `int`, got `str`$"),
        ({"rate": {"lr": "1"}}, "^rate.lr: Expected `float`, got `str`$"),
        ({"steps": 0}, "^steps=0: it must be at least 1$"),
        ({"rate": {"lr": -1.0}}, "lr=-1.0: it must be a number from 0 up"),
        ({"rate": {"lr": float("nan")}}, "lr=nan"),
        ({"algorithm": "dpsdg"}, "unknown algorithm 'dpsdg': did you mean dpsgd?"),
        ({"algorithm": []}, "no algorithm given"),
        ({"algorithm": ["ssgd", "ssgd"]}, "name each one once"),
        ({"gossip": {"learners": 0}}, "^learners=0: it must be at least 1$"),
        ({"gossip": {"weights": "metropolis"}}, "did you mean metropolis-hastings"),
        ({"data": {"dataset": "minst"}}, "unknown dataset 'minst': did you mean mnist?"),
        ({"data": {"inputs": "units"}}, "did you mean unit"),
        ({"data": {"concentration": 0.0}}, "concentration=0.0"),
        ({"model": {"widths": [50, 0]}}, "widths=0"),
        ({"rate": {"decay_at": [2.0]}}, "decay_at=2.0"),
        ({"rate": {"scaling": "linaer"}}, "did you mean linear"),
        ({"rate": {"warmup": "lewg"}}, "did you mean legw"),
        ({"rate": {"warmup_steps": 0}}, "warmup_steps=0: it must be at least 1"),
        ({"rate": {"warmup_share": 1.5}}, "warmup_share=1.5"),
        ({"rate": {"warmup_epochs": -1.0}}, "warmup_epochs=-1.0"),
        ({"rate": {"warmup_steps": 3, "warmup_share": 0.1}}, "say the same in two units"),
        ({"rate": {"baseline_batch": 0}}, "baseline_batch=0"),
        ({"rate": {"layer_ratio": "fixd"}}, "did you mean fixed"),
        (
            {"rate": {"layer_ratio": "fixed", "layer_ratio_limits": [2.0, 1.0]}},
            "layer-ratio limits 2 1",
        ),
        ({"model": {"batch_norm": "averag"}}, "did you mean average"),
        ({"monitoring": {"monitor": "ful"}}, "did you mean full"),
    ],
)
def test_bad_tables_are_one_sentence(tables, complaint):
    with pytest.raises(UserError, match=complaint) as caught:
        from_tables(tables)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ['steps = "many"', "stepz = 3", "[data]\nbatch_size = 0"])
def test_what_is_wrong_in_a_file_is_told_with_its_name(tmp_path, text):
    path = tmp_path / "run.toml"
    path.write_text(text)
    with pytest.raises(UserError) as caught:
        load(path)
    assert str(caught.value).startswith(f"config file {path}: ")


@pytest.mark.parametrize(
    ("text", "complaint"), [(b"= 3", "is not TOML"), (b"\xff\xfe", "is not TOML")]
)
def test_a_file_that_is_not_toml(tmp_path, text, complaint):
    path = tmp_path / "run.toml"
    path.write_bytes(text)
    with pytest.raises(UserError, match=complaint):
        load(path)
    with pytest.raises(UserError, match="cannot read the config file"):
        load(tmp_path / "nothing.toml")


@pytest.mark.parametrize(
    ("section", "key"), [("model", "model"), ("data", "dataset"), ("gossip", "topology")]
)
def test_a_config_file_cannot_name_code(tmp_path, section, key):
    path = tmp_path / "run.toml"
    path.write_text(f'[{section}]\n{key} = "os:system"\n')
    with pytest.raises(UserError, match=f"names code.*--{key} os:system"):
        load(path)
    said = parse(["--config", str(path), f"--{key}", "mine:function"]).options
    assert getattr(getattr(said, section), key) == "mine:function"


def test_key_value_options():
    assert parse_options(["k=4", "some-name=x=y"], "topology") == {"k": "4", "some_name": "x=y"}
    for bad, complaint in ((["k"], "write it as key=value"), (["k=1", "k=2"], "given twice")):
        with pytest.raises(UserError, match=complaint):
            parse_options(bad, "topology")
