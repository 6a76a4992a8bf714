"""The GPU code is checked on one GPU in under 8 minutes, without a network: `make gpu-check`.

python -m experiments.gpu_check                                          on a machine with a GPU
python -m experiments.gpu_check --device cpu --backend gloo --smoke      tries the code anywhere

The driver (command.py) imports neither torch nor what uses it before its jobs have ended, and
never starts CUDA: each part is a process, or a job of several, with a time limit of its own.
"""
