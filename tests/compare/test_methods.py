"""What a method's run is made of, and who wins where two sides say the same."""

from dataclasses import replace

import pytest

from gossip.compare import methods
from gossip.compare.options import changed
from gossip.config import Config, Rate
from gossip.config.presets import PRESETS
from gossip.errors import UserError

BASE = Config(epochs=2.0, rate=Rate(lr=0.3, decay="cosine"))


def made(text: str, given: tuple[str, ...] = (), base: Config = BASE, **values: str) -> Config:
    return methods.config(methods.parse(text), base, 4, 7, values, given=given)


def test_a_preset_defines_the_method_and_the_base_the_rest() -> None:
    config = made("lsw")
    assert (config.rate.scaling, config.rate.warmup) == ("linear", "fixed")
    assert (config.rate.lr, config.rate.decay, config.seed) == (0.3, "cosine", 7)
    assert config.gossip.learners == 4


def test_the_rate_of_a_preset_counts_only_where_the_command_line_has_none() -> None:
    assert made("goyal").rate.lr == PRESETS["goyal"]["rate"]["lr"]
    config = made("goyal", ("lr", "momentum"))
    assert (config.rate.lr, config.rate.momentum) == (0.3, None)
    assert config.rate.weight_decay == PRESETS["goyal"]["rate"]["weight_decay"]


def test_the_length_is_never_that_of_a_preset() -> None:
    assert {made(name).epochs for name in PRESETS} == {2.0}


def test_what_defines_a_method_stays_whatever_is_said_for_all() -> None:
    base = changed(BASE, {"warmup": "fixed", "warmup_epochs": "1", "scaling": "sqrt"})
    given = ("warmup", "warmup_epochs", "scaling")
    lena, dpsgd = (made(name, given, base) for name in ("lena", "dpsgd"))
    assert (lena.rate.scaling, lena.rate.warmup) == ("lena", "state-aware")
    assert (lena.rate.warmup_epochs, lena.rate.warmup_share) == (None, 0.05)
    assert (dpsgd.rate.scaling, dpsgd.rate.warmup_epochs) == ("sqrt", 1.0)
    assert "lena keeps its own scaling=lena" in methods.notes(methods.parse("lena"), given)[0]
    assert methods.notes(methods.parse("dpsgd"), given) == []


def test_options_of_its_own_and_tuned_values_win() -> None:
    text = "dpsgd:topology=one-peer-exponential,lr=0.2,widths=20 10"
    config = made(text, ("lr", "topology"), momentum="0.9")
    assert config.gossip.topology == "one-peer-exponential"
    assert (config.rate.lr, config.model.widths, config.rate.momentum) == (0.2, (20, 10), 0.9)
    assert made("lsw:algorithm=dpsgd").algorithm == ("dpsgd",)


def test_adascale_counts_epochs_unless_its_own_options_say_tau() -> None:
    assert made("adascale").rate.scaling_options == ()
    tau = made("adascale:scaling_options=progress=tau")
    assert tau.rate.scaling_options == ("progress=tau",)
    assert made("adascale", scaling_options="progress=tau") == tau  # tuned


def test_the_single_worker_has_one_learner_no_scaling_and_no_warmup() -> None:
    changes = {"scaling": "lena", "scaling_options": "clip=upper", "warmup": "fixed"}
    base = changed(BASE, {**changes, "warmup_steps": "3", "topology": "karate"})
    config = made("single", tuple(changes), base)
    assert config.gossip.learners == 1
    assert config.rate == BASE.rate
    assert config.gossip.topology == "ring"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("lsv", "unknown method 'lsv': did you mean lsw"),
        ("lsw:lrr=1", "option of method lsw 'lrr': did you mean lr"),
        ("lsw:lr", "write it as key=value"),
        ("lsw:", "write it as key=value"),
        ("lsw:lr=1,lr=2", "given twice"),
        ("lsw:seed=3", "must be the same for all methods"),
    ],
)
def test_a_method_that_means_nothing_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        methods.parse(text)


def test_a_value_of_the_wrong_kind_is_refused() -> None:
    with pytest.raises(UserError, match="lr=fast: Expected `float`"):
        made("lsw:lr=fast")
    with pytest.raises(UserError, match="lr=-1: lr="):
        made("lsw:lr=-1")


def test_the_base_is_not_changed() -> None:
    before = replace(BASE)
    made("lena-official")
    assert before == BASE


def test_tau_counts_for_no_method_that_does_not_say_it_itself() -> None:
    base = changed(BASE, {"scaling": "adascale", "scaling_options": "progress=tau first=measured"})
    for name in ("ssgd", "dpsgd", "adascale"):
        assert "progress=tau" not in made(name, (), base).rate.scaling_options
    assert made("ssgd", (), base).rate.scaling_options == ("first=measured",)


def test_a_part_that_a_method_replaces_keeps_nothing_of_the_preset() -> None:
    config = made("lena-official:scaling=linear")
    assert (config.rate.scaling, config.rate.scaling_options) == ("linear", ())


def test_what_a_preset_does_not_follow_is_said() -> None:
    notes = methods.notes(methods.parse("lena"), ("scaling_options", "warmup_epochs"))
    assert ["scaling-options" in notes[0], "warmup-epochs" in notes[1]] == [True, True]


def test_a_method_has_one_algorithm() -> None:
    with pytest.raises(UserError, match="one algorithm"):
        made("lena:algorithm=dpsgd ssgd")
