"""What experiments/time.md says in words, beside its tables."""

HEAD = """\
<!-- Written by python -m experiments.publish: change experiments/time/page.py, not this file. -->
# Time: what the simulator says of the papers, and how far it is to be believed

Nothing is trained here: [the simulator](../docs/simulate.md) says how long steps take. Published
seconds are beside what the models give, then stragglers, scaling and phase diagrams; the second
half compares the simulator with closed forms, with another simulator, and with measured steps.

Commands: `python -m experiments.time` makes the table ([time.csv](results/time.csv)),
`python -m experiments.time.netns` (root, tc) measures steps between network namespaces
([time_netns.csv](results/time_netns.csv)), `python -m experiments.time.by_simgrid` (Debian's
python3-simgrid) runs the other simulator ([time_simgrid.csv](results/time_simgrid.csv)), and
`python -m experiments.publish` makes this page and its pictures.
"""
READING = """\
## In short

Our reading of the tables below; the criteria are stricter.

- Published seconds come out within 2 %: AdaDamp's with the 4 slots that its simulation had. With a
  slot for every worker the same model takes a third to a half off the times of growing batches.
- Learners that are slow now and then cost gossip that averages while it computes 8 to 19 %, little
  with n, and 43 to 47 % where it averages after the step; SSGD pays ln n. One that is
  slow for good costs everybody the same but AD-PSGD. On a ring of n learners its delay needs n/2
  steps to reach all: the lines of 1024 and 4096 learners end before.
- To a common error, gossip on the one-peer graph is ahead of an all-reduce below 1 Gbit/s although
  it needs up to half as many steps more; on fast networks with n = 16 an all-reduce wins a fifth to
  two fifths of them. Two seeds of one small net: which wins is the network's, by how much is not.
- Closed forms are exact, and so is SimGrid's view, but where rows of two steps meet.
- Between hosts, with the work of the two cores that carry everything in the model, cells that no
  constant came from are off by 4 % in the median: 2 % at 10 Mbit/s, 9 % at 1000. All-reduces with
  latency come out up to a third too slow, single rows on the fastest links a third too fast.
- Where stragglers are real processes on two cores, their own work lengthens every step; beside it
  the predictions hold.
- The comparison showed a fault of ours: over Gloo, the two rows of a pair travelled one after the
  other, 101 ms in place of the predicted 52. It is mended; the table below is of after that.
"""
PHASES_SAID = """\
By a step: ResNet-50, 0.1 s a gradient; within 1 % the one that averages more counts.

All-reduce or gossip to a target: runs of SSGD and DPSGD (`python -m experiments.time.to_target`,
[time_runs.csv](results/time_runs.csv); MNIST, 5,000 samples, 784-50-50-10, 16 samples per learner
and step, two seeds), the same batches and rates for all. The target is the lowest test error that
all of them came to, each counts with the rate of its fewest steps, and its steps are timed one by
one: 2 ms a gradient, rows of 169 kB.

One learner or many to a target: how many learners are worth their messages, by [recorded
runs](rivals.md) of a small net on Fashion-MNIST; the updates that the single worker and LAMB needed
to come within 3 points of its error, times simulated seconds of a step with their own gradients and
rows of 158 kB.

Latency from 1 us to 0.1 s; share of the networks that each wins:

"""
MISSING = """\
## What is not here

- AdaDamp's Figs. 5, 6 and 8 to 10, loss and accuracy over simulated seconds, are on the page of
  [batches that grow](adadamp.md), by the model of slots above: `python -m gossip.simulate RUN...`
  counts every gradient alike, also where a batch grows.
- LENA's published seconds themselves: the constants are those of a fit to them whose residuals are
  known (at most 1.3 % for ResNet-18, 2.4 % for ResNet-50), so there is nothing left to compare.
- DATE's 119 % weak scaling from 8 to 512 TPUs: no model in which learners do the same and messages
  cost something gives more than 100 %.
- Overlap of an all-reduce with the backward pass (`--overlap`) beside measured steps:
  DistributedDataParallel has it for models of several buckets, and the one measured here has one.
"""
