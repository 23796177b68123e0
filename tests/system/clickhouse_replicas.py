"""Two ClickHouse servers on loopback that replicate tables to each other through a keeper."""

from __future__ import annotations

import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from motet.client.link import parse_endpoint
from motet.testing.port_block import HOST, PortBlock

START_SECONDS_MAX = 60.0
ANSWER_SECONDS_MAX = 60.0
PATIENCE_SECONDS = 120.0
_look_every_seconds = 0.1

_CONFIG = """<?xml version="1.0"?>
<yandex>
  <logger><level>information</level><log>{folder}/log</log><errorlog>{folder}/errors</errorlog></logger>
  <listen_host>{host}</listen_host>
  <http_port>{http}</http_port>
  <tcp_port>{tcp}</tcp_port>
  <interserver_http_host>{host}</interserver_http_host>
  <interserver_http_port>{interserver}</interserver_http_port>
  <path>{folder}/data/</path>
  <tmp_path>{folder}/tmp/</tmp_path>
  <user_files_path>{folder}/files/</user_files_path>
  <format_schema_path>{folder}/schemas/</format_schema_path>
  <users_config>{folder}/users.xml</users_config>
  <default_profile>default</default_profile>
  <default_database>default</default_database>
  <mark_cache_size>100000000</mark_cache_size>
  <timezone>UTC</timezone>
  <zookeeper>{keeper}</zookeeper>
  <macros><replica>{name}</replica></macros>
  <merge_tree>
    <min_replicated_logs_to_keep>2</min_replicated_logs_to_keep>
    <max_replicated_logs_to_keep>5</max_replicated_logs_to_keep>
    <cleanup_delay_period>1</cleanup_delay_period>
    <cleanup_delay_period_random_add>0</cleanup_delay_period_random_add>
  </merge_tree>
</yandex>
"""
_USERS = """<?xml version="1.0"?>
<yandex>
  <profiles><default/></profiles>
  <users><default>
    <password/><networks><ip>{host}</ip></networks><profile>default</profile><quota>default</quota>
  </default></users>
  <quotas><default/></quotas>
</yandex>
"""


class QueryFailed(Exception):
    """ClickHouse said no; what it said."""


class Replica:
    """One server, to be stopped and started."""

    def __init__(self, name: str, folder: Path, keeper: Sequence[str]) -> None:
        self.name = name
        self._folder = folder
        self._ports = PortBlock.claim()
        self._process: subprocess.Popen[bytes] | None = None
        for each in ("data", "tmp", "files", "schemas"):
            (folder / each).mkdir(parents=True)
        base = self._ports.base
        config = _CONFIG.format(
            folder=folder,
            host=HOST,
            http=base,
            tcp=base + 1,
            interserver=base + 2,
            keeper="".join(map(_node, keeper)),
            name=name,
        )
        (folder / "config.xml").write_text(config)
        (folder / "users.xml").write_text(_USERS.format(host=HOST))

    def start(self) -> None:
        server = shutil.which("clickhouse-server", path="/usr/sbin:/usr/bin:/usr/local/bin")
        assert server is not None
        with (self._folder / "output").open("ab") as output:
            self._process = subprocess.Popen(
                [server, f"--config-file={self._folder}/config.xml"],
                cwd=self._folder,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        until(self._answers, f"{self.name} answers", START_SECONDS_MAX)

    def _answers(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            pytest.fail(
                f"ClickHouse did not start:\n{(self._folder / 'output').read_text()[-4000:]}"
            )
        try:
            return self.ask("select 1") == "1"
        except OSError:
            return False

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def close(self) -> None:
        self.kill()
        self._ports.release()

    def ask(self, sql: str, **settings: object) -> str:
        """The answer, as text with tabs."""
        url = f"http://{HOST}:{self._ports.base}/?{urllib.parse.urlencode(settings)}"
        try:
            with urllib.request.urlopen(url, sql.encode(), timeout=ANSWER_SECONDS_MAX) as answer:
                return str(answer.read().decode()).strip()
        except urllib.error.HTTPError as error:
            raise QueryFailed(error.read().decode(errors="replace")) from None


def _node(endpoint: str) -> str:
    host, port = parse_endpoint(endpoint)
    return f"<node><host>{host}</host><port>{port}</port></node>"


class Replicas:
    """Two of them, from ``with`` on."""

    def __init__(self, folder: Path, keeper: Sequence[str]) -> None:
        if shutil.which("clickhouse-server", path="/usr/sbin:/usr/bin:/usr/local/bin") is None:
            pytest.skip("there is no clickhouse-server")
        self.a = Replica("a", folder / "a", keeper)
        self.b = Replica("b", folder / "b", keeper)

    def __enter__(self) -> Self:
        try:
            self.a.start()
            self.b.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self.a.close()
        self.b.close()

    def create(self, table: str) -> None:
        """On both: rows of a day and a number, a partition for each month."""
        for replica in (self.a, self.b):
            replica.ask(
                f"create table {table} (day Date, n UInt64) engine = "
                f"ReplicatedMergeTree('/clickhouse/{table}', '{{replica}}') "
                "partition by toYYYYMM(day) order by n"
            )


def until(is_so: Callable[[], bool], what: str, seconds: float = PATIENCE_SECONDS) -> None:
    """Look until it is so."""
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            pytest.fail(f"not within {seconds:g} s: {what}")
        time.sleep(_look_every_seconds)
