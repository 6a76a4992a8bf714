"""The command `python -m gossip.data`: fetch data sets, list them."""

import sys
import time
from pathlib import Path
from typing import Annotated

import tyro

from gossip.data import cache, registry
from gossip.data.dataset import Dataset, UnavailableError
from gossip.data.sources import DATASETS
from gossip.errors import UserError, lookup
from topologies.terminal import lossy_output

app = tyro.extras.SubcommandApp()


@app.command(name="fetch")
def fetch(
    names: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="NAME ...")],
    /,
    fallback: Annotated[str | None, tyro.conf.arg(name="or", metavar="NAME")] = None,
    data_dir: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None,
) -> None:
    """Put data sets into the cache and print their names, one a line; all else goes to stderr.

    Args:
        names: Which data sets, see `list`.
        fallback: Data set to fetch instead if one cannot be had (no npm, no network). It is
            another data set: its name is printed in place of the one asked for.
        data_dir: Folder with the user's own copy, imported instead of downloaded.
    """
    if not names:
        raise UserError(f"fetch what? name one or more of {', '.join(DATASETS)}")
    for name in (*names, *([fallback] if fallback else [])):
        lookup(DATASETS, name, "dataset")
    datasets = []
    for name in names:
        datasets.append(_fetch_or(name, fallback, data_dir))
        print(datasets[-1].name, flush=True)
    # --or is for scripts such as the Makefile, which go on by themselves.
    if fallback is None:
        for dataset in datasets:
            model = DATASETS[dataset.name].model
            option = f" --model {model}" if model else ""
            _say(f"now: python -m gossip.run --dataset {dataset.name}{option}")


def _fetch_or(name: str, fallback: str | None, data_dir: Path | None) -> Dataset:
    try:
        return _fetch_one(name, data_dir)
    except UnavailableError as error:
        if fallback is None or fallback == name:
            raise
        _say(f"{error}.")
    dataset = _fetch_one(fallback, None)
    _say(
        f"{name} could not be had, so this will run on {fallback}, which is a different dataset: "
        f"{DATASETS[fallback].remark or DATASETS[fallback].origin}."
    )
    return dataset


def _fetch_one(name: str, data_dir: Path | None) -> Dataset:
    _say(f"{name}: looking in the cache, then in {data_dir or DATASETS[name].origin} ...")
    start = time.perf_counter()
    dataset = registry.fetch(name, data_dir=data_dir)
    _say(
        f"{name}: {len(dataset.train_labels)} training and {len(dataset.test_labels)} test samples "
        f"from {dataset.source} in {cache.folder_of(name)} ({time.perf_counter() - start:.1f} s)"
    )
    return dataset


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@app.command(name="list")
def list_datasets() -> None:
    """List the data sets, where they come from, and whether they are in the cache."""
    for name, source in DATASETS.items():
        shape = "x".join(map(str, source.input_shape))
        count = f"{source.num_train:6d} + {source.num_test:5d} of {shape:7s}"
        print(f"{name:14s} {_state(name):18s} {count}  {source.origin}")
        if source.remark:
            print(f"{'':14s} {source.remark}")
    print(_place())


def _place() -> str:
    """Where the cache is, or why there is none."""
    try:
        return f"cache: {cache.cache_root()}"
    except UserError as error:
        return str(error)


def _state(name: str) -> str:
    if not cache.is_cached(name):
        return "not fetched" if not DATASETS[name].local else "no fetch needed"
    size = sum(file.stat().st_size for file in cache.folder_of(name).iterdir())
    return f"cached, {size / 1e6:.1f} MB"


@lossy_output()
def main() -> None:
    """Run the command; a user's mistake is one sentence and exit code 2."""
    try:
        app.cli(prog="python -m gossip.data", description=__doc__)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
