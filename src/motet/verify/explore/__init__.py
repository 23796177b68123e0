"""Explorers: every state of a model, breadth first, and what its properties say of them.

``explore(model)`` answers an :class:`Exploration`: *ok* if every reachable state was seen and all properties
hold, *violated* with the shortest trace, or *unknown* when a budget ended it. It is never ok unless
everything was looked at.
"""

from motet.verify.explore.result import Budget, Exploration, Progress, Step
from motet.verify.explore.run import ENGINES, explore

__all__ = ["ENGINES", "Budget", "Exploration", "Progress", "Step", "explore"]
