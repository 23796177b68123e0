"""What a keeper refuses, as errors: one for each of the protocol's numbers that a caller may want to catch.

::

    KeeperError                    the keeper refused; nothing was changed
    ├── NoNode                     there is no such node
    ├── NodeExists                 there is one already
    ├── BadVersion                 the node has another version than was expected
    ├── NotEmpty                   a node that has children cannot be deleted
    ├── NoChildrenForEphemerals    an ephemeral node cannot have children
    ├── NoAuth                     the ACL does not allow it
    ├── AuthFailed                 the keeper does not believe who this is
    ├── InvalidAcl                 an ACL that cannot be set
    ├── BadArguments               a path or a value that no node can have
    ├── KeeperTooLarge             the request, or the answer that it would have, exceeds a limit
    ├── KeeperFull                 the tree is as large as it may be
    ├── NotSupported               this server cannot do that
    ├── SessionExpired             the session is over, and with it its ephemeral nodes and watches
    ├── SessionMoved               the session is now with another server
    └── KeeperMultiFailed          one operation of a multi was refused, and so none was done

Two of the numbers are no refusals: a server that has lost its own peers does not know either. A write is
then ``OutcomeUnknown``; a read can be asked again.
"""

from __future__ import annotations

from typing import ClassVar

from motet.errors import MotetError, NodeError, OutcomeUnknown
from motet.format.zookeeper.messages import ErrorCode, Multi, MultiRead, Request
from motet.ids import Zxid
from motet.limits import keeper_multi_operations_max, keeper_multi_sets_max


class KeeperError(MotetError):
    """The keeper refused; nothing was changed."""

    code = "KEEPER"
    hint = "the log of the keeper may say more"
    #: what happened, of a node by its path
    says: ClassVar[str] = "the keeper refused {path}"
    #: the moment of the answer: as of it the keeper refuses this
    zxid: Zxid | None = None

    @property
    def answered_at(self) -> Zxid:
        """Of an error that the keeper has answered."""
        assert self.zxid is not None, "the keeper has answered"
        return self.zxid


class NoNode(KeeperError):
    """There is no such node."""

    code = "NO_NODE"
    hint = "create it first, or its parent"
    says = "there is no node {path}, or it has no parent"


class NodeExists(KeeperError):
    """There is one already."""

    code = "NODE_EXISTS"
    hint = "use another name, or set its data"
    says = "there is a node {path} already"


class BadVersion(KeeperError):
    """The node has another version than was expected."""

    code = "BAD_VERSION"
    hint = "read it again and decide anew"
    says = "{path} has another version"


class NotEmpty(KeeperError):
    """A node that has children cannot be deleted."""

    code = "NOT_EMPTY"
    hint = "delete its children first"
    says = "{path} has children"


class NoChildrenForEphemerals(KeeperError):
    """An ephemeral node cannot have children."""

    code = "NO_CHILDREN_FOR_EPHEMERALS"
    hint = "create it below a node that stays"
    says = "{path} would be below an ephemeral node"


class NoAuth(KeeperError):
    """The ACL does not allow it."""

    code = "NO_AUTH"
    hint = "say with add_auth who you are, or have the ACL changed"
    says = "the ACL does not allow this at {path}"


class AuthFailed(KeeperError):
    """The keeper does not believe who this is."""

    code = "AUTH_FAILED"
    hint = "check the scheme and what proves the identity"
    says = "the keeper does not take this identity"


class InvalidAcl(KeeperError):
    """An ACL that cannot be set."""

    code = "INVALID_ACL"
    hint = "check its schemes and identities; `auth` needs add_auth first"
    says = "{path} cannot have this ACL"


class BadArguments(KeeperError):
    """A path or a value that no node can have."""

    code = "BAD_ARGUMENTS"
    hint = "a path begins with / and has no empty part, no . and no .. in it"
    says = "{path} or what is to be done with it makes no sense"


class KeeperTooLarge(KeeperError):
    """The request, or the answer that it would have, exceeds what the keeper can log or reply."""

    code = "KEEPER_TOO_LARGE"
    hint = (
        f"divide it: a multi holds {keeper_multi_sets_max} sets, or {keeper_multi_operations_max} checks "
        "or deletes, unless keeper.request_bytes_max says otherwise"
    )
    says = "{path} exceeds what one reply of the keeper holds; nothing was done"


class KeeperFull(KeeperError):
    """The tree has as many nodes, or as many bytes, as it may have; nothing was changed."""

    code = "KEEPER_FULL"
    hint = "remove what nobody needs any more: drop tables and streams, or partitions of tables"
    says = "the keeper is full, and refused {path}"


class NotSupported(KeeperError):
    """This server cannot do that."""

    code = "NOT_SUPPORTED"
    hint = "do without, or use a server that can"
    says = "the server does not have this operation"


class SessionExpired(KeeperError):
    """The session is over, and with it its ephemeral nodes and watches."""

    code = "SESSION_EXPIRED"
    hint = "begin a new one with renew(), and create again what was ephemeral"
    says = "the session has expired"


class SessionMoved(KeeperError):
    """The session is now with another server; nothing was done."""

    code = "SESSION_MOVED"
    hint = "try again"
    says = "the session has moved to another server"


class KeeperMultiFailed(KeeperError):
    """One operation of a multi was refused, and so none was done.

    ``index`` says which one, ``error`` why.
    """

    code = "KEEPER_MULTI"
    hint = "none of its operations was done"

    def __init__(
        self,
        what: str,
        *,
        hint: str | None = None,
        index: int = 0,
        error: MotetError | None = None,
    ) -> None:
        super().__init__(what, hint=hint)
        self.index = index
        self.error: MotetError = KeeperError(what) if error is None else error

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_multi, (self.what, self.advice, self.index, self.error)


def _rebuild_multi(what: str, advice: str, index: int, error: MotetError) -> KeeperMultiFailed:
    return KeeperMultiFailed(what, hint=advice, index=index, error=error)


_KINDS: dict[int, type[KeeperError]] = {
    ErrorCode.UNIMPLEMENTED: NotSupported,
    ErrorCode.MARSHALLING_ERROR: KeeperTooLarge,
    ErrorCode.QUOTA_EXCEEDED: KeeperFull,
    ErrorCode.BAD_ARGUMENTS: BadArguments,
    ErrorCode.NO_NODE: NoNode,
    ErrorCode.NO_AUTH: NoAuth,
    ErrorCode.BAD_VERSION: BadVersion,
    ErrorCode.NO_CHILDREN_FOR_EPHEMERALS: NoChildrenForEphemerals,
    ErrorCode.NODE_EXISTS: NodeExists,
    ErrorCode.NOT_EMPTY: NotEmpty,
    ErrorCode.SESSION_EXPIRED: SessionExpired,
    ErrorCode.INVALID_ACL: InvalidAcl,
    ErrorCode.AUTH_FAILED: AuthFailed,
    ErrorCode.SESSION_MOVED: SessionMoved,
    ErrorCode.RECONFIG_DISABLED: NotSupported,
}

_UNKNOWN = (ErrorCode.CONNECTION_LOSS, ErrorCode.OPERATION_TIMEOUT)
"""With these a server says that it has lost sight of the request."""


def error_for(
    number: int, request: Request, *, is_write: bool, zxid: Zxid | None = None
) -> MotetError:
    """What the server said about this request, for the one who asked."""
    if number in _UNKNOWN:
        what = f"the server lost sight of the request (error {number})"
        return OutcomeUnknown(what) if is_write else NodeError(what, hint="ask again")
    path = getattr(request, "path", None) or _described(request)
    kind = _KINDS.get(number)
    if kind is None:
        error = KeeperError(f"the keeper refused {path} with error {_name(number)}")
    else:
        error = kind(kind.says.format(path=path))
    error.zxid = zxid
    return error


def _described(request: Request) -> str:
    """A request that is about no path, or about many."""
    if isinstance(request, Multi | MultiRead):
        return f"the multi of {len(request.operations)} operations"
    return "the request"


def _name(number: int) -> str:
    try:
        return f"{number} ({ErrorCode(number).name})"
    except ValueError:
        return str(number)  # of a newer server


def multi_failed(index: int, error: MotetError) -> KeeperMultiFailed:
    """The operation at this place of a multi was refused with this error."""
    what = f"operation {index} was refused: {error.code} {error.what}"
    return KeeperMultiFailed(what, index=index, error=error)
