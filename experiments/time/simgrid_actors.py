"""Programs of learners are run by SimGrid, a network simulator of others: seconds until all end.

PYTHON simgrid_actors.py FILE.json    with a Python that has simgrid; ours need not

The file holds {"bandwidth": bytes per second, "latency": seconds, "programs": [...]}; a program is
a list of ["sleep", seconds], ["put", to, tag, bytes], ["get", from, tag], ["wait"], which waits
for what it got since the last, ["all"], which waits for what it put, too, and ["barrier"], for
all. Messages leave when they are put, whether or not the other waits.
"""

import json
import sys
import tempfile
from importlib import import_module
from pathlib import Path

PLATFORM = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <cluster id="c" prefix="h" suffix="" radical="0-{last}" speed="1Gf" bw="{bandwidth}Bps"
           lat="{latency}s" sharing_policy="SPLITDUPLEX"/>
</platform>
"""
PLAIN = ("network/model:CM02", "network/TCP-gamma:0", "network/crosstraffic:0")
"""Without SimGrid's corrections for TCP, which are of one cluster: alpha, beta and fair sharing."""


def main() -> None:
    """Print the simulated seconds."""
    given = json.loads(Path(sys.argv[1]).read_text())
    sg = import_module("simgrid")
    engine = sg.Engine(
        ["simgrid", *(f"--cfg={option}" for option in PLAIN), "--log=root.thres:error"]
    )
    programs = given["programs"]
    # A way leads over two links of the cluster, each with half of the latency.
    text = PLATFORM.format(
        last=len(programs) - 1, bandwidth=given["bandwidth"], latency=given["latency"] / 2
    )
    with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
        file.write(text)
        file.flush()
        engine.load_platform(file.name)
    hosts = {host.name: host for host in engine.all_hosts}
    everyone = sg.Barrier(len(programs))
    ends = [0.0] * len(programs)

    def learner(j: int) -> None:
        own = sg.Actor.self()
        for operation, *what in programs[j]:
            if operation == "get":
                sg.Mailbox.by_name(f"{what[0]} {j} {what[1]}").set_receiver(own)
        sg.this_actor.yield_()
        sent, gets = [], []
        for operation, *what in programs[j]:
            if operation == "sleep":
                sg.this_actor.sleep_for(what[0])
            elif operation == "put":
                box = sg.Mailbox.by_name(f"{j} {what[0]} {what[1]}")
                sent.append(box.put_async("row", int(what[2])))
            elif operation == "get":
                gets.append(sg.Mailbox.by_name(f"{what[0]} {j} {what[1]}").get_async())
            elif operation == "barrier":
                everyone.wait()
            else:
                for get in gets:
                    (get[0] if isinstance(get, tuple) else get).wait()
                gets = []
                if operation == "all":
                    for comm in sent:
                        comm.wait()
                    sent = []
        ends[j] = engine.clock
        for comm in sent:
            comm.wait()

    for j in range(len(programs)):
        sg.Actor.create(f"learner {j}", hosts[f"h{j}"], learner, j)
    engine.run()
    print(repr(max(ends)))


if __name__ == "__main__":
    main()
