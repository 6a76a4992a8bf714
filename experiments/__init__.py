"""Studies that reproduce published figures and tables; README.md says which of them do.

python -m experiments.dpsgd.fig2            # n = 5 learners: DPSGD, SSGD and SSGD*
python -m experiments.dpsgd.topologies      # n = 16 learners on different graphs
python -m experiments.lena                  # learning-rate rules for large batches
python -m experiments.date                  # large batches on LeNet and an LSTM
python -m experiments.rivals                # decentralised against large-batch training
python -m experiments.time                  # the papers' figures of time, simulated
python -m experiments.processes.stragglers  # slow learners in real time
python -m experiments.processes.lost        # processes that are killed on the way
python -m experiments.methods               # the family of methods; --parts network: between hosts
python -m experiments.publish               # tables, figures and pages from finished runs
python -m experiments.bench                 # the cost of a step, see bench/README.md
python -m experiments.gpu_check             # the GPU code on one GPU, see gpu_check/README.md
"""
