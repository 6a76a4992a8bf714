"""From a config to the objects of a run; the one place where names become things."""

from gossip.study.study import Study, algorithm, prepare

__all__ = ["Study", "algorithm", "prepare"]
