"""The engine behind a name or a Dask client."""

import multiprocessing
from contextlib import suppress
from typing import Any

from gossip.engines.base import Engine
from gossip.engines.extras import extra
from gossip.engines.here import Here
from gossip.errors import UserError, one_of

ENGINES = ("here", "dask")


def as_engine(engine: Any, workers: int = 1) -> Engine:
    """The engine: "here", "dask", or the workers of a `distributed.Client`.

    "dask" is the client that is current (`distributed.Client` makes itself so), and where there is
    none, a new one with a local cluster of `workers` processes of one thread each; it stays until
    the program ends, as Dask's own do.

    Raises:
        UserError: no such engine, Dask is not installed, or the client is closed.
    """
    if engine == "here":
        return Here()
    if isinstance(engine, str):
        one_of(ENGINES, engine, "engine")
    elif engine is None or not hasattr(engine, "scatter"):
        raise UserError(
            f"engine={engine!r}: give {' or '.join(map(repr, ENGINES))}, or a distributed.Client"
        )
    distributed = extra("distributed", "dask")
    from gossip.engines.cluster import Cluster

    return Cluster(_current(distributed, workers) if engine == "dask" else engine)


def _current(distributed: Any, workers: int) -> Any:
    with suppress(ValueError):  # there is none
        return distributed.default_client()
    return local_client(distributed, workers)


def local_client(distributed: Any, workers: int) -> Any:
    """A client with a local cluster of processes, its dashboard at any free port.

    Raises:
        UserError: a worker process has come here, by a script without a guard for its main part.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise UserError(
            "a worker process has come upon the line that starts the workers: put what the script "
            "does under if __name__ == '__main__':"
        )
    cluster = distributed.LocalCluster(
        n_workers=0, threads_per_worker=1, processes=True, dashboard_address=":0"
    )
    # Only now: LocalCluster would wait without end for one that cannot start.
    cluster.scale(workers)
    return distributed.Client(cluster)
