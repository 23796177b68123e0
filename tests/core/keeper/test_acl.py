"""Lists of permissions: which are valid, what they come to, whom they let do what."""

from __future__ import annotations

import base64
import hashlib

import pytest
from tests.core.keeper.keepers import FIRST, GENERATION, OPEN, PASSWORD, SMALL, Harness

from motet.core.keeper.acl import (
    NODES_ACL,
    Identity,
    allows,
    identity_of,
    node_secret_hash,
    settled,
)
from motet.core.keeper.ids import Generation
from motet.core.keeper.operations import AddIdentity, Attached, Reattach, Write
from motet.format.zookeeper.messages import (
    Acl,
    AclResult,
    Check,
    Create,
    Created,
    Delete,
    ErrorCode,
    Exists,
    GetAcl,
    GetChildren,
    GetChildren2,
    GetData,
    ReadRequest,
    SetAcl,
    SetData,
    WriteRequest,
)
from motet.ids import SessionId

ANN, BOB = Identity("digest", "ann:1"), Identity("digest", "bob:2")
SECOND = SessionId(2)


def digest(auth: str) -> str:
    sha = base64.b64encode(hashlib.sha1(auth.encode()).digest()).decode()
    return f"{auth.split(':')[0]}:{sha}"


def acl_of(harness: Harness, path: str, session: SessionId = FIRST) -> tuple[Acl, ...]:
    result = harness.read(GetAcl(path), session)
    assert isinstance(result, AclResult)
    return result.acl


def test_a_digest_is_the_user_and_a_hash() -> None:
    assert identity_of("digest", b"user:pass") == Identity("digest", digest("user:pass"))
    assert identity_of("digest", b"ann:a:b") == Identity("digest", digest("ann:a:b"))
    assert identity_of("digest", b"\xff:x") is not None
    assert identity_of("ip", b"127.0.0.1") is None
    assert identity_of("world", b"anyone") is None


def test_a_node_is_known_by_its_secret_alone() -> None:
    known = node_secret_hash(b"secret")
    assert identity_of("motet", b"secret", known) == Identity("motet", "node")
    assert identity_of("motet", b"guess", known) is None
    assert identity_of("motet", known, known) is None
    assert identity_of("motet", b"secret") is None, "a front end that knows no secret knows no node"
    assert identity_of("motet", b"") is None
    assert settled(NODES_ACL, ()) == NODES_ACL
    assert settled((Acl(31, "motet", "somebody"),), ()) is None
    node, stranger = (Identity("motet", "node"),), (Identity("digest", "node:x"),)
    assert allows(NODES_ACL, 1, stranger)
    assert not any(allows(NODES_ACL, permission, stranger) for permission in (2, 4, 8, 16))
    assert all(allows(NODES_ACL, permission, node) for permission in (1, 2, 4, 8, 16))


@pytest.mark.parametrize(
    "acl",
    [
        (),
        (Acl(31, "auth", ""),),
        (Acl(31, "world", "somebody"),),
        (Acl(31, "digest", "nocolon"),),
        (Acl(31, "digest", "user:"),),
        (Acl(31, "digest", "a:b:c"),),
        (Acl(31, "ip", "127.0.0.1"),),
        (Acl(31, "super", ""),),
        (Acl(31, "", ""),),
        (Acl(1 << 31, "world", "anyone"),),
        (*OPEN, Acl(31, "ip", "127.0.0.1")),
    ],
)
def test_invalid_lists(acl: tuple[Acl, ...]) -> None:
    harness = Harness()
    harness.create("/b")
    assert harness.error(Create("/a", b"", acl, 0)) == ErrorCode.INVALID_ACL
    assert harness.error(SetAcl("/b", acl, -1)) == ErrorCode.INVALID_ACL


def test_what_a_node_keeps() -> None:
    one, other = Acl(1, "digest", "x:y"), Acl(2, "digest", "x:y")
    assert settled((one, other, one), ()) == (one, other)
    assert settled(OPEN, ()) == settled(OPEN * 3, ()) == ()
    assert settled((Acl(5, "auth", "whatever"),), (ANN, BOB)) == (
        Acl(5, "digest", "ann:1"),
        Acl(5, "digest", "bob:2"),
    )
    assert settled((Acl(5, "auth", ""), Acl(5, "digest", "ann:1")), (ANN,)) == (
        Acl(5, "digest", "ann:1"),
    )


def test_duplicates_are_shown_once() -> None:
    harness = Harness()
    assert harness.error(Create("/a", b"", OPEN * 2, 0)) == 0
    assert acl_of(harness, "/a") == OPEN
    assert acl_of(harness, "/") == OPEN


def with_list(permissions: int) -> Harness:
    """/p and /p/c have these permissions for ann, who is the first session; the second is nobody."""
    harness = Harness(sessions=2)
    harness.identify(b"ann:secret")
    harness.create("/p")
    harness.create("/p/c")
    acl = (Acl(permissions, "auth", ""),)
    assert harness.error(SetAcl("/p/c", acl, -1)) == 0
    assert harness.error(SetAcl("/p", acl, -1)) == 0
    return harness


#: what needs which permission, on /p or /p/c
NEEDS: list[tuple[WriteRequest, int]] = [
    (SetData("/p/c", b"", -1), 2),
    (Create("/p/d", b"", OPEN, 0), 4),
    (Delete("/p/c", -1), 8),
    (SetAcl("/p/c", OPEN, -1), 16),
    (Check("/p/c", -1), 1),
]
READS: list[tuple[ReadRequest, int]] = [
    (GetData("/p/c", False), 1),
    (Exists("/p/c", False), 1),
    (GetChildren("/p", False), 1),
    (GetChildren2("/p", False), 1),
    (GetAcl("/p/c"), 1 | 16),
]


@pytest.mark.parametrize("permission", [1, 2, 4, 8, 16])
def test_each_operation_needs_its_own_permission(permission: int) -> None:
    for request, need in NEEDS:
        harness = with_list(permission)
        error = 0 if need & permission else ErrorCode.NO_AUTH
        assert harness.error(request) == error, request
        assert with_list(permission).error(request, SECOND) == ErrorCode.NO_AUTH
    for reading, need in READS:
        harness = with_list(permission)
        assert harness.read_error(reading) == (0 if need & permission else ErrorCode.NO_AUTH)
        assert harness.read_error(reading, SECOND) == ErrorCode.NO_AUTH


def test_who_may_not_change_a_list_sees_no_digests() -> None:
    harness = Harness(sessions=2)
    ann = harness.identify(b"ann:secret")
    acl = (Acl(1, "world", "anyone"), Acl(16, "digest", ann.id))
    assert harness.error(Create("/a", b"", acl, 0)) == 0
    assert acl_of(harness, "/a") == acl
    assert acl_of(harness, "/a", SECOND) == (acl[0], Acl(16, "digest", "ann:x"))


def test_an_identity_is_forgotten_when_the_session_is_attached_again() -> None:
    harness = Harness()
    harness.identify(b"ann:secret")
    assert harness.error(Create("/a", b"", (Acl(31, "auth", ""),), 0)) == 0
    again = harness.one(Reattach(FIRST, PASSWORD)).result
    assert isinstance(again, Attached)
    assert harness.read_error(GetData("/a", False)) == ErrorCode.NO_AUTH
    identity = identity_of("digest", b"ann:secret")
    assert identity is not None
    harness.one(AddIdentity(FIRST, again.generation, identity.scheme, identity.id))
    assert harness.read_error(GetData("/a", False)) == 0


def test_what_is_no_identity_is_refused() -> None:
    harness = Harness()
    for scheme, name in [("ip", "a:b"), ("digest", "ab"), ("digest", "a:" + "b" * 2000)]:
        outcome = harness.one(AddIdentity(FIRST, GENERATION, scheme, name))
        assert outcome.error == ErrorCode.AUTH_FAILED
    for number in range(SMALL.identities_max):
        assert harness.one(AddIdentity(FIRST, GENERATION, "digest", f"a:{number}")).error == 0
    assert harness.one(AddIdentity(FIRST, GENERATION, "digest", "a:0")).error == 0, "is one already"
    one_more = harness.one(AddIdentity(FIRST, GENERATION, "digest", "a:more"))
    assert one_more.error == ErrorCode.AUTH_FAILED
    stale = harness.one(AddIdentity(FIRST, Generation(9), "digest", "a:0"))
    assert stale.error == ErrorCode.SESSION_MOVED


def test_a_multi_is_checked_with_the_identities_of_its_session() -> None:
    harness = with_list(2)
    assert harness.one(Write(FIRST, GENERATION, SetData("/p/c", b"x", -1))).error == 0
    closed = harness.write(Create("/q", b"", (Acl(31, "digest", "z:z"),), 0))
    assert closed == Created("/q")
    assert harness.error(Create("/q/r", b"", OPEN, 0)) == ErrorCode.NO_AUTH
