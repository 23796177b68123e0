"""A small language for models of protocols. A model reads like a TLA+ module that happens to run.

======================  ========================================================================
TLA+                    here
======================  ========================================================================
``VARIABLES``           the fields of a frozen :class:`Record`, typed; the types are checked as TypeOK
``CONSTANTS``           :func:`parameter`, with its bounds
``Init``                :meth:`Model.initial`
``\\E r \\in Replicas``  ``@action(r=Replicas)``; an action instance is a name and its arguments
``/\\ guard``            ``require(guard)``
``x' = [x EXCEPT …]``   ``s.but(x=…)``; what is not named is UNCHANGED
``INVARIANT``           ``@invariant``
``[][P]_vars``          ``@step``, a method of the state before and the state after
``<>P``, ``[]<>P``      ``@eventually``, ``@always_eventually``
``P ~> Q``              ``@leads_to``, a method that answers ``(P, Q)``
``WF``, ``SF``          :func:`weak`, :func:`strong` in ``fairness``
``SYMMETRY``            ``symmetry = Replicas``, with :meth:`Model.renamed`
``CONSTRAINT``          ``@bound``
======================  ========================================================================

Actions are plain functions of a state and their arguments, so they are explored, simulated, matched
against the log lines of a running node, and compared with kernels, all from one text.
"""

from motet.verify.model.action import (
    Domain,
    NotEnabled,
    action,
    always_eventually,
    bound,
    chosen,
    eventually,
    invariant,
    leads_to,
    numbered,
    require,
    step,
)
from motet.verify.model.base import Fairness, Model, Parameter, Variant, parameter, strong, weak
from motet.verify.model.record import Record

__all__ = [
    "Domain",
    "Fairness",
    "Model",
    "NotEnabled",
    "Parameter",
    "Record",
    "Variant",
    "action",
    "always_eventually",
    "bound",
    "chosen",
    "eventually",
    "invariant",
    "leads_to",
    "numbered",
    "parameter",
    "require",
    "step",
    "strong",
    "weak",
]
