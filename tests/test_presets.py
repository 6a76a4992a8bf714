"""A preset is laid over the defaults and the config file, and under the flags."""

import tomllib
from dataclasses import replace

import pytest
import tomli_w

from gossip.config import Config, Rate, from_tables, to_tables
from gossip.config.presets import PRESETS, apply
from gossip.errors import UserError
from gossip.run import parse
from gossip.schedule.course import ONE_LAYER
from gossip.study.rate_rule import budget, rule

pytestmark = pytest.mark.usefixtures("no_pictures")

RECIPES = ("goyal", "ibm-asr", "wolf-naacl")


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_makes_a_rule_and_survives_toml(name):
    flags = ["--preset", name]
    if name == "date":
        flags += ["--baseline-batch", "128", "--warmup-epochs", "1"]
    config = parse(flags).options
    assert rule(config.rate, budget(config, 60_000), ONE_LAYER).base == config.rate.lr
    assert from_tables(tomllib.loads(tomli_w.dumps(to_tables(config)))) == config
    assert "preset" not in to_tables(config)


@pytest.mark.parametrize("name", PRESETS)
def test_recipes_leave_the_algorithm_alone_and_methods_are_synchronous(name):
    expected = Config().algorithm if name in RECIPES else ("ssgd",)
    assert apply(name, Config()).algorithm == expected


def test_a_preset_changes_only_what_it_says():
    before = Config(seed=7, rate=Rate(lr=0.3))
    assert apply("lsw", before) == replace(
        before,
        algorithm=("ssgd",),
        rate=replace(before.rate, scaling="linear", warmup="fixed", warmup_share=0.055),
    )


def test_flags_win_over_the_preset_and_the_preset_over_the_file(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text("[rate]\nlr = 0.25\nmomentum = 0.5\n[data]\nbatch_size = 3\n")
    options = parse(["--preset", "goyal", "--config", str(path), "--lr", "0.5"]).options
    rate = options.rate
    assert (rate.lr, rate.momentum, rate.weight_decay) == (0.5, 0.9, 1e-4)
    assert options.data.batch_size == 3


def test_a_preset_changes_a_complete_config_file(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text(tomli_w.dumps(to_tables(Config())))
    rate = parse(["--preset", "lena", "--config", str(path)]).options.rate
    assert (rate.scaling, rate.warmup, rate.warmup_share) == ("lena", "state-aware", 0.05)


def test_a_part_that_the_user_replaces_keeps_nothing_of_the_preset():
    assert parse(["--preset", "goyal", "--decay", "cosine"]).options.rate.decay_factor is None
    rate = parse(["--preset", "lena-official", "--scaling", "linear"]).options.rate
    assert (rate.scaling, rate.scaling_options) == ("linear", ())
    assert rate.warmup_options == ("accumulate=after",)


def test_only_flags_count_as_said_not_their_values():
    assert parse(["--preset", "goyal", "--out", "lr"]).options.rate.lr == 0.1


def test_a_length_in_another_unit_takes_the_place_of_the_presets(tmp_path):
    options = parse(["--preset", "goyal", "--warmup-steps=7", "--steps", "50"]).options
    assert (options.epochs, options.steps) == (None, 50)
    assert (options.rate.warmup_epochs, options.rate.warmup_steps) == (None, 7)
    path = tmp_path / "run.toml"
    path.write_text("steps = 60\n[rate]\nwarmup_share = 0.5\n")
    options = parse(["--preset", "goyal", "--config", str(path)]).options
    assert (options.epochs, options.rate.warmup_epochs, options.rate.warmup_share) == (100, 5, None)


def test_a_recorded_config_needs_no_preset(tmp_path):
    options = parse(["--preset", "lena-official", "--lr", "0.5"]).options
    path = tmp_path / "config.toml"
    path.write_text(tomli_w.dumps(to_tables(options)))
    assert parse(["--config", str(path)]).options == options


def test_an_unknown_preset_is_told_with_the_nearest():
    with pytest.raises(UserError, match="unknown preset 'goyl': did you mean goyal"):
        parse(["--preset", "goyl"])


def test_date_asks_for_its_baseline():
    config = parse(["--preset", "date"]).options
    with pytest.raises(UserError, match="give --baseline-batch"):
        rule(config.rate, budget(config, 60_000), ONE_LAYER)


def test_help_names_all_presets(capsys):
    with pytest.raises(SystemExit):
        parse(["--help"])
    shown = "".join(capsys.readouterr().out.split())
    assert all(name in shown for name in PRESETS)
