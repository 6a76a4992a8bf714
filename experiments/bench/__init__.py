"""The cost of a step, as ratios within one run (A B A B ..., medians): `make bench`.

python -m experiments.bench              all tables, some minutes on 2 cores
python -m experiments.bench --full       larger models and messages, more rounds
python -m experiments.bench --only exchange

One table each: training, exchange, overlap, interference and rules under mpirun; stacked, mixing,
monitor and cost_curve in one process. README.md says how to read them.
"""
