"""What an operator refuses, an error for each precondition. Their place in the tree: ``motet.errors``."""

from __future__ import annotations

from motet.errors import MotetError


class OperatorError(MotetError):
    """The operator did not do what it was asked to do with a shard or a node."""

    code = "OPERATOR"
    hint = "`motet shard describe` shows how the shard stands"


class NotActive(OperatorError):
    """Another operator is the active one, or none is yet."""

    code = "NOT_ACTIVE"
    hint = "ask the active operator, or try again in a moment"


class OperatorBusy(OperatorError):
    """Too many requests wait for the operator."""

    code = "OPERATOR_BUSY"
    hint = "try again when some of them are done"


class MapTooOld(OperatorError):
    """A stream was deleted, or the operator has changed, since the map that a request goes by."""

    code = "MAP_TOO_OLD"
    #: what the map would say now
    fence = 0
    hint = "read the shard map again, and ask again if it is still wanted"


class NoSuchNode(OperatorError):
    """There is no node of that name that could hold data."""

    code = "NO_SUCH_NODE"
    hint = "`motet status` lists the nodes"


class NoLeader(OperatorError):
    """The shard has no leader now."""

    code = "NO_LEADER"
    hint = "a majority of its nodes has to be there; then one is elected by itself"


class ElectionUnderWay(OperatorError):
    """The shard is electing a leader."""

    code = "ELECTION_UNDER_WAY"
    hint = "try again in a moment"


class ReconfigurationUnderWay(OperatorError):
    """The ensemble of the shard is being changed already; one change at a time."""

    code = "RECONFIGURATION_UNDER_WAY"
    hint = "try again when it is complete"


class NodeLeads(OperatorError):
    """The leader of a shard can be neither swapped nor taken out."""

    code = "NODE_LEADS"
    hint = "elect another leader first"


class LastReplica(OperatorError):
    """An ensemble has one node at least."""

    code = "LAST_REPLICA"
    hint = "add a node first, or delete the stream"


class NotInEnsemble(OperatorError):
    """The node holds no replica of the shard."""

    code = "NOT_IN_ENSEMBLE"


class AlreadyInEnsemble(OperatorError):
    """The node holds a replica of the shard already."""

    code = "ALREADY_IN_ENSEMBLE"
    hint = "name another node, or none: then the operator chooses"


class NoNodeToPlaceOn(OperatorError):
    """There is no node left that could take the replica."""

    code = "NO_NODE_TO_PLACE_ON"
    hint = "start another data node, or ask for fewer replicas"


class ReconfigurationAborted(OperatorError):
    """It was called off; the ensemble is what it was."""

    code = "RECONFIGURATION_ABORTED"
    hint = "see that the nodes are well, and try again"
