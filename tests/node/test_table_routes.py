"""The parts of replicas over HTTP, on real sockets."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.node.made_parts import SHARD, TABLE, made_part, no_room, put_on_disk, random_bytes, spoil
from tests.node.part_server import PartServer, part_server

from motet.limits import part_file_bytes_max
from motet.node import part_draft, part_uploads
from motet.real.part_files import PartState, part_folder, parts_token

ONE = made_part(1, random_bytes(3_000_000))
OTHER = made_part(1, random_bytes(2_000_000, seed=1))
FILE, MANIFEST = f"{ONE.path}/part.parquet", f"{ONE.path}/manifest"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PartServer]:
    with part_server(tmp_path / "parts") as served:
        yield served


def unfinished(server: PartServer) -> list[Path]:
    return list((server.folders.root / "unfinished~").iterdir())


def test_where_the_files_are_is_told_with_a_token_that_lies_there(server: PartServer) -> None:
    place = json.loads(server.ask("GET", "/api/tables").body)
    assert place["folder"] == str(server.folders.root)
    assert place["token"] == parts_token(server.folders.root)


class TestReading:
    @pytest.fixture(params=[PartState.STORED, PartState.STAGED, PartState.ARRIVED])
    def state(self, request: pytest.FixtureRequest) -> PartState:
        assert isinstance(request.param, PartState)
        return request.param

    def test_gives_it_whole_and_by_range(self, server: PartServer, state: PartState) -> None:
        server.folders.write(ONE.key, ONE.header, ONE.block, state)
        whole = server.ask("GET", FILE)
        assert (whole.status, whole.body) == (200, ONE.data)
        assert whole.headers["etag"] == f'"{ONE.header.hash}"'
        assert whole.headers["accept-ranges"] == "bytes"
        assert server.ask("GET", MANIFEST).body == ONE.manifest
        dice, size = random.Random(1), len(ONE.data)
        for _ in range(10):
            start = dice.randrange(size)
            end = dice.randrange(start, min(size + 100, start + 2_500_000))
            part = server.ask("GET", FILE, {"Range": f"bytes={start}-{end}"})
            assert (part.status, part.body) == (206, ONE.data[start : end + 1])
            given = f"bytes {start}-{min(end, size - 1)}/{size}"
            assert part.headers["content-range"] == given

    def test_a_head_tells_all_but_the_bytes(self, server: PartServer) -> None:
        assert server.ask("HEAD", FILE).status == 404
        put_on_disk(server.folders.root, ONE)
        answer = server.ask("HEAD", FILE)
        assert (answer.status, answer.body) == (200, b"")
        assert answer.headers["content-length"] == str(len(ONE.data))

    def test_beyond_its_end_there_is_nothing(self, server: PartServer) -> None:
        put_on_disk(server.folders.root, ONE)
        answer = server.ask("GET", FILE, {"Range": "bytes=3000000-"})
        assert (answer.status, answer.code) == (416, "BAD_INPUT")
        assert answer.headers["content-range"] == "bytes */3000000"

    def test_what_was_put_aside_is_not_given(self, server: PartServer) -> None:
        put_on_disk(server.folders.root, ONE, PartState.DETACHED)
        answer = server.ask("GET", FILE)
        assert (answer.status, answer.code) == (404, "OBJECT_MISSING")

    def test_of_a_damaged_file_nothing_is_given(self, server: PartServer) -> None:
        spoil(put_on_disk(server.folders.root, ONE) / "part.parquet")
        for header in ({}, {"Range": "bytes=0-9"}):
            answer = server.ask("GET", FILE, header)
            assert (answer.status, answer.code) == (500, "BAD_RECORD")
        assert [key for key, _ in server.damaged] == [ONE.key, ONE.key]
        assert "its hash is" in server.damaged[0][1]

    @pytest.mark.parametrize("name", ["part.parquet", "manifest"])
    def test_nor_of_one_whose_manifest_is(self, server: PartServer, name: str) -> None:
        spoil(put_on_disk(server.folders.root, ONE) / "manifest")
        assert server.ask("GET", f"{ONE.path}/{name}").code == "BAD_RECORD"
        assert len(server.damaged) == 1

    def test_a_file_that_is_missing_is_damage(self, server: PartServer) -> None:
        (put_on_disk(server.folders.root, ONE) / "part.parquet").unlink()
        assert server.ask("GET", FILE).code == "BAD_RECORD"

    def test_damage_that_comes_later_is_found(self, server: PartServer) -> None:
        folder = put_on_disk(server.folders.root, ONE)
        assert server.ask("GET", FILE).status == 200
        spoil(folder / "part.parquet")
        assert server.ask("GET", FILE).code == "BAD_RECORD"


@pytest.mark.parametrize(
    "path",
    [
        "/tables/",
        f"/tables/{TABLE}/{SHARD}/{ONE.key.part}",
        f"/tables/{TABLE}/{SHARD}/{ONE.key.part}/.store",
        f"/tables/{TABLE}/{SHARD}/{ONE.key.part}/part.parquet/",
        f"/tables/{TABLE}/{SHARD}/{ONE.key.part}/part.parquet%0a",
        f"/tables/{TABLE}/{SHARD}/../part.parquet",
        f"/tables/{TABLE}/{SHARD}/..%2f..%2fx/part.parquet",
        f"/tables/{TABLE}/01/{ONE.key.part}/part.parquet",
        f"/tables/{TABLE}/999/{ONE.key.part}/part.parquet",
        f"/tables/{TABLE}x/{SHARD}/{ONE.key.part}/part.parquet",
        f"/tables/{TABLE}/{SHARD}/{'A' * 16}/part.parquet",
    ],
)
@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_nothing_but_a_file_of_a_part_can_be_named(
    server: PartServer, method: str, path: str
) -> None:
    answer = server.ask(method, path, body=b"x" if method == "PUT" else None)
    assert (answer.status, answer.code) == (400, "BAD_INPUT")
    assert unfinished(server) == []


class TestPutting:
    def test_both_files_make_a_part_that_has_arrived(self, server: PartServer) -> None:
        assert server.put(ONE) == [201, 201]
        folder = part_folder(server.folders.root, ONE.key, PartState.ARRIVED)
        assert (folder / "part.parquet").read_bytes() == ONE.data
        assert (folder / "manifest").read_bytes() == ONE.manifest
        assert server.arrived == [(ONE.key, ONE.header)]
        assert unfinished(server) == []

    def test_in_any_order(self, server: PartServer) -> None:
        assert server.ask("PUT", MANIFEST, body=ONE.manifest).status == 201
        assert server.arrived == []
        assert server.ask("GET", MANIFEST).status == 404, "nobody sees half a part"
        assert server.ask("PUT", FILE, body=ONE.data).status == 201
        assert server.arrived == [(ONE.key, ONE.header)]

    def test_the_same_again_is_fine_and_other_bytes_are_not(self, server: PartServer) -> None:
        assert server.put(ONE) == [201, 201]
        assert server.put(ONE) == [200, 200]
        assert server.put(OTHER) == [409, 409]
        server.folders.store(ONE.key, ONE.header)
        assert server.put(ONE) == [200, 200]
        assert server.arrived == [(ONE.key, ONE.header)]
        assert unfinished(server) == []

    def test_half_a_part_can_be_put_again(self, server: PartServer) -> None:
        assert server.ask("PUT", FILE, body=OTHER.data).status == 201
        assert server.put(ONE) == [201, 201]
        assert unfinished(server) == []

    @pytest.mark.parametrize(
        "manifest", [OTHER.manifest, made_part(2, ONE.data).manifest, ONE.manifest[:-1], b""]
    )
    def test_files_that_do_not_belong_together_are_refused(
        self, server: PartServer, manifest: bytes
    ) -> None:
        assert server.ask("PUT", FILE, body=ONE.data).status == 201
        answer = server.ask("PUT", MANIFEST, body=manifest)
        assert answer.status == 400
        assert server.arrived == []
        assert unfinished(server) == []

    def test_only_to_a_node_that_keeps_the_shard(self, server: PartServer) -> None:
        path = FILE.replace(TABLE, "0" * 16)
        answer = server.ask("PUT", path, body=b"rows")
        assert (answer.status, answer.code) == (404, "OBJECT_MISSING")

    def test_says_how_long_it_is(self, server: PartServer) -> None:
        assert server.ask("PUT", FILE, body=iter([b"rows"])).status == 400
        headers = {"content-length": str(part_file_bytes_max + 1)}
        assert server.ask("PUT", FILE, headers).status == 413
        headers = {"content-length": str(9 << 20)}
        assert server.ask("PUT", MANIFEST, headers).status == 413

    def test_what_nothing_names_is_bounded(
        self, server: PartServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(part_uploads, "put_bytes_max", 4_000_000)
        assert server.put(ONE) == [201, 201]
        second = made_part(2, OTHER.data)
        answer = server.ask("PUT", f"{second.path}/part.parquet", body=second.data)
        assert (answer.status, answer.code) == (413, "TOO_LARGE")
        server.folders.store(ONE.key, ONE.header)
        assert server.put(second) == [201, 201], "what is stored does not count"

    def test_what_is_old_makes_room(
        self, server: PartServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(part_uploads, "put_bytes_max", 4_000_000)
        monkeypatch.setattr(part_uploads, "kept_seconds_max", -1.0)
        assert server.put(ONE) == [201, 201]
        for number in range(2, 5):
            half = made_part(number, ONE.data)
            assert server.ask("PUT", f"{half.path}/part.parquet", body=half.data).status == 201
        assert len(unfinished(server)) == 1
        assert server.ask("GET", FILE).status == 404

    def test_a_full_disk_is_told(self, server: PartServer, monkeypatch: pytest.MonkeyPatch) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(part_draft, "write_all", no_room)
            assert server.put(ONE) == [507, 507]
        assert unfinished(server) == []
        assert server.put(ONE) == [201, 201]
