"""Whatever a tracker does, a run is neither stopped nor slowed, and one line says it."""

import sys
import threading
from importlib.util import find_spec

import numpy as np
import pytest
import torch

import gossip
from gossip import run, trace
from gossip.errors import UserError
from gossip.report import command
from gossip.storage import folder
from gossip.trace import Trace
from gossip.trackers import TRACKERS, Tracking, adapters, facts_of, queue

ROWS = [{"step": t, "lr": 0.5, "train_loss": 1 / (t + 1)} for t in range(20)]


class Fake:
    """Takes rows when `may` says so."""

    made: list["Fake"]

    def __init__(self, about):
        self.about, self.got = about, []
        Fake.made.append(self)

    may = threading.Event()

    def log(self, step, values):
        self.may.wait()
        self.got.append((step, values))

    def close(self):
        self.may.wait()


class Raising(Fake):
    def log(self, step, values):
        raise ConnectionError("no route to host")


class Exiting(Fake):
    def __init__(self, about):
        sys.exit("no API key")


@pytest.fixture(autouse=True)
def fakes(monkeypatch):
    for name, kind in (("fake", Fake), ("raising", Raising), ("exiting", Exiting)):
        monkeypatch.setitem(TRACKERS, name, kind)
    monkeypatch.setattr(queue, "PATIENCE_SECONDS", 0.05)
    Fake.made, Fake.may = [], threading.Event()
    yield
    Fake.may.set()


def about(path):
    return facts_of(path, {"rate": {"lr": 0.5}, "record": {"host": "here"}})


def test_rows_come_in_order_and_all_of_them(tmp_path):
    Fake.may.set()
    tracking = Tracking("fake", about(tmp_path / "study" / "run"))
    tracking.rows([*ROWS, {"step": 20}, {"step": 21, "lr": np.nan, "seconds": 3.0}])
    tracking.close(60)
    assert tracking.done
    (made,) = Fake.made
    assert made.about.name == "study/run"
    assert made.about.settings == {"rate.lr": 0.5}
    expected = [(row["step"], {k: v for k, v in row.items() if k != "step"}) for row in ROWS]
    assert made.got == [*expected, (21, {"seconds": 3.0})]


def test_one_that_hangs_costs_rows_and_one_line(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(queue, "WAITING", 5)
    tracking = Tracking("fake", about(tmp_path))
    for _ in range(50):
        tracking.rows(ROWS)  # comes back, though nothing is taken
    tracking.close(0.01)
    assert capsys.readouterr().err.count("note: --log fake is too slow for 5 rows") == 1


@pytest.mark.parametrize(
    ("name", "said"), [("raising", "no route to host"), ("exiting", "SystemExit: no API key")]
)
def test_one_that_raises_gets_nothing_more_and_that_is_said_once(name, said, tmp_path, capsys):
    tracking = Tracking(name, about(tmp_path))
    tracking.rows(ROWS)
    tracking.close(60)
    tracking.rows(ROWS)
    assert tracking.failed
    assert not tracking.done
    err = capsys.readouterr().err
    assert err.count("note:") == 1
    assert said in err


def test_the_end_of_a_run_does_not_wait_for_one_that_has_raised(tmp_path, monkeypatch):
    """Not even where as many rows were waiting as there may be."""

    class Late(Fake):
        def __init__(self, about):
            self.may.wait()
            raise ConnectionError("no route to host")

    monkeypatch.setitem(TRACKERS, "fake", Late)
    monkeypatch.setattr(queue, "WAITING", 5)
    tracking = Tracking("fake", about(tmp_path))
    tracking.rows(ROWS)
    Fake.may.set()
    ending = threading.Thread(target=tracking.close, args=(3600,), daemon=True)
    ending.start()
    ending.join(30)
    assert tracking.failed
    assert not ending.is_alive()


@pytest.mark.parametrize("name", [n for n in adapters.TRACKERS if n != "tensorboard"])
def test_one_that_is_not_installed_says_what_to_install(name, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    tracking = Tracking(name, about(tmp_path))
    tracking.close(60)
    assert f"pip install 'gossip-sgd[{name}]'" in capsys.readouterr().err


def test_there_is_no_such_tracker(tmp_path):
    with pytest.raises(UserError, match="unknown tracker 'tensorbord': did you mean tensorboard"):
        Tracking("tensorbord", about(tmp_path))
    with pytest.raises(UserError, match="give a list"):
        gossip.record(gossip.Gossip(torch.nn.Linear(1, 1)), tmp_path / "run", log="fake")


@pytest.mark.usefixtures("no_pictures")
def test_a_run_is_the_same_beside_trackers_that_hang_and_raise(tmp_path, capsys):
    options = ["--dataset", "digits", "--algorithm", "dpsgd", "--learners", "2", "--steps", "4"]
    options += ["--monitor-every", "1"]
    for out, log in (("plain", []), ("logged", ["--log", "fake", "raising"])):
        assert run.main([*options, *log, "--out", str(tmp_path / out)]) == 0
    plain, logged = (trace.load(tmp_path / name) for name in ("plain", "logged"))
    for name in ("alpha_e", "train_loss", "sigma_w2"):
        np.testing.assert_array_equal(trace.column(plain, name), trace.column(logged, name))
    assert folder.read_summary(tmp_path / "logged")["verdict"] == "converged"
    assert "no route to host" in capsys.readouterr().err


def test_a_recording_tells_its_tracker(tmp_path):
    Fake.may.set()
    model = gossip.Gossip(torch.nn.Linear(3, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with gossip.record(model, tmp_path / "run", every=1, log=["fake"]):
        for _ in range(3):
            model(torch.ones(2, 3)).square().mean().backward()
            optimizer.step()
    deadline = threading.Event()
    while len(Fake.made[0].got) < 3 and not deadline.wait(0.01):
        pass
    assert [step for step, _ in Fake.made[0].got] == [0, 1, 2]
    assert Fake.made[0].got[0][1]["lr"] == 0.1


def run_over(path):
    path.mkdir()
    folder.write_config(path, {"algorithm": "dpsgd", "rate": {"lr": 0.5}})
    with Trace(path, ["lr", "train_loss"]) as written:
        written.append(ROWS)
    return path


@pytest.mark.skipif(find_spec("tensorboard") is None, reason="tensorboard is not installed")
@pytest.mark.filterwarnings("ignore")
def test_tensorboard_reads_what_was_exported(tmp_path, capsys):
    path = run_over(tmp_path / "run")
    figure = ["--figure", str(tmp_path / "f.svg")]
    assert command.main([str(path), *figure, "--export", "tensorboard"]) == 0
    assert "tensorboard: 1 of 1 runs exported" in capsys.readouterr().out
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(path / "tensorboard")).Reload().Scalars("train_loss")
    assert [event.step for event in events] == list(range(20))
    np.testing.assert_allclose([event.value for event in events], [r["train_loss"] for r in ROWS])


@pytest.mark.skipif(find_spec("mlflow") is None, reason="mlflow is not installed")
@pytest.mark.filterwarnings("ignore")
def test_mlflow_reads_what_was_logged(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "ml").as_uri())
    tracking = Tracking("mlflow", about(tmp_path))
    tracking.rows(ROWS)
    tracking.close(60)
    assert tracking.done
    from mlflow import MlflowClient

    client = MlflowClient()
    (found,) = client.search_runs([client.get_experiment_by_name("gossip").experiment_id])
    history = client.get_metric_history(found.info.run_id, "train_loss")
    assert [(m.step, m.value) for m in history] == [(r["step"], r["train_loss"]) for r in ROWS]
    assert (found.data.params["rate.lr"], found.info.status) == ("0.5", "FINISHED")


def test_a_tracker_that_is_unknown_is_refused_before_anything_is_read(tmp_path, capsys):
    assert command.main([str(run_over(tmp_path / "run")), "--export", "fakes"]) == 2
    assert "unknown tracker 'fakes': did you mean fake" in capsys.readouterr().err
    assert not (tmp_path / "run" / "figure.png").exists()
