"""Under mpirun, a failure on one process ends the job: the others would wait for it forever.

Run as `mpirun -n NP python -m pytest --with-mpi tests/mpi`. pytest-timeout ends a process that
waits all the same (its thread method exits without MPI_Finalize, and mpirun ends the rest).
"""

import importlib
import shutil
import sys
import tempfile

import pytest

from gossip.comm.startup.environment import prepare_environment, speaks
from tests.forked import nap_longer
from tests.mpi import covering

prepare_environment()


def pytest_addoption(parser):
    """What `make test` asks of a job."""
    parser.addoption(
        "--covering", action="store_true", help="only this job's share, by tests.mpi.covering"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Leave the cases that are other jobs' to them."""
    if not config.getoption("covering", default=False):
        return
    from mpi4py import MPI

    vendor = covering.OPENMPI if "Open MPI" in MPI.Get_library_version() else covering.MPICH
    mine = covering.dealt(items, covering.Job(vendor, MPI.COMM_WORLD.size))
    kept = set(mine)
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = mine


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config):
    """A process of a job keeps its temporary files apart: pytest's numbered folders would race."""
    if config.getoption("with_mpi", default=False) and not config.option.basetemp:
        config.option.basetemp = tempfile.mkdtemp(prefix="gossip-tests-")
        config.add_cleanup(lambda: shutil.rmtree(config.option.basetemp, ignore_errors=True))


@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    """Only process 0 writes the usual report, but all start MPI, whatever happens next."""
    if config.getoption("with_mpi", default=False):
        nap_longer()
        importlib.import_module("mpi4py.MPI")
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter and not speaks():
        config.pluginmanager.unregister(reporter)
        config.pluginmanager.register(Silent(reporter), "terminalreporter")


@pytest.fixture(autouse=True)
def gloo_closed(request):
    """Close a test's Gloo groups: each leaves threads that wake up 100 times a second."""
    yield
    if not request.config.getoption("with_mpi", default=False):
        return
    from mpi4py import MPI

    from gossip.comm.transports import gloo

    if groups := list(gloo._living):
        MPI.COMM_WORLD.Barrier()  # nobody waits for a message any more
        for comm in groups:
            comm.close()
        gloo._living.clear()


class Silent:
    """Answers what other plugins ask the reporter, and writes nothing."""

    def __init__(self, reporter):
        self._reporter = reporter

    def __getattr__(self, name):
        if name.startswith("pytest_"):
            raise AttributeError(name)
        return getattr(self._reporter, name)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session, exitstatus):
    """No process removes its temporary files while another may still read them."""
    if exitstatus == pytest.ExitCode.OK and session.config.getoption("with_mpi", default=False):
        from mpi4py import MPI

        MPI.COMM_WORLD.Barrier()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Print the report of a failing test and abort."""
    report = yield
    if report.failed and item.config.getoption("with_mpi", default=False):
        from mpi4py import MPI

        if MPI.COMM_WORLD.size > 1:
            head = f"[process {MPI.COMM_WORLD.rank}] {item.nodeid} ({report.when})"
            print(f"\n{head}\n{report.longreprtext}", file=sys.__stderr__, flush=True)
            MPI.COMM_WORLD.Abort(1)
    return report
