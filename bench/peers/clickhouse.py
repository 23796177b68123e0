"""Two replicas of ClickHouse with a quorum of both, beside a ZooKeeper that is running."""

from __future__ import annotations

import http.client
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from peers.ports import free_ports

PROGRAM = shutil.which("clickhouse-server") or "/usr/sbin/clickhouse-server"
REPLICAS = 2

CONFIG = """<?xml version="1.0"?>
<yandex>
  <logger><level>warning</level><log>{folder}/log</log><errorlog>{folder}/errors</errorlog></logger>
  <listen_host>127.0.0.1</listen_host>
  <http_port>{http}</http_port>
  <tcp_port>{tcp}</tcp_port>
  <interserver_http_host>127.0.0.1</interserver_http_host>
  <interserver_http_port>{interserver}</interserver_http_port>
  <keep_alive_timeout>3600</keep_alive_timeout>
  <mark_cache_size>268435456</mark_cache_size>
  <path>{folder}/data/</path>
  <tmp_path>{folder}/tmp/</tmp_path>
  <user_files_path>{folder}/files/</user_files_path>
  <format_schema_path>{folder}/schemas/</format_schema_path>
  <users_config>{folder}/users.xml</users_config>
  <default_profile>default</default_profile>
  <default_database>default</default_database>
  <timezone>UTC</timezone>
  <zookeeper>{keepers}</zookeeper>
  <macros><replica>r{number}</replica></macros>
</yandex>
"""

USERS = """<?xml version="1.0"?>
<yandex>
  <profiles><default>
    <insert_quorum>2</insert_quorum>
    <select_sequential_consistency>1</select_sequential_consistency>
  </default></profiles>
  <users><default>
    <password></password><networks><ip>127.0.0.1</ip></networks>
    <profile>default</profile><quota>default</quota>
  </default></users>
  <quotas><default><interval>
    <duration>3600</duration><queries>0</queries><errors>0</errors><result_rows>0</result_rows>
    <read_rows>0</read_rows><execution_time>0</execution_time>
  </interval></default></quotas>
</yandex>
"""

TABLE = """CREATE TABLE {name} ({columns}) ENGINE =
ReplicatedMergeTree('/clickhouse/tables/{name}', '{{replica}}') PARTITION BY tuple() ORDER BY {key}"""


def is_there() -> bool:
    """Whether it is installed (Debian: clickhouse-server)."""
    return Path(PROGRAM).exists()


class ClickHouse:
    """Between its construction and ``stop``. It does not sync what it acknowledges; its ZooKeeper does."""

    def __init__(self, folder: Path, keepers: Sequence[int]) -> None:
        ports = free_ports(3 * REPLICAS)
        self._http = ports[:REPLICAS]
        self._connections: dict[int, http.client.HTTPConnection] = {}
        self._processes = []
        nodes = "".join(
            f'<node index="{i}"><host>127.0.0.1</host><port>{port}</port></node>'
            for i, port in enumerate(keepers)
        )
        for number in range(REPLICAS):
            own = folder / f"r{number}"
            for each in ("data", "tmp", "files", "schemas"):
                (own / each).mkdir(parents=True)
            (own / "users.xml").write_text(USERS)
            http_port, tcp, interserver = ports[number::REPLICAS]
            config = CONFIG.format(
                folder=own,
                http=http_port,
                tcp=tcp,
                interserver=interserver,
                keepers=nodes,
                number=number,
            )
            (own / "config.xml").write_text(config)
            command = [PROGRAM, f"--config-file={own}/config.xml"]
            with (own / "output").open("wb") as output:
                self._processes.append(
                    subprocess.Popen(command, stdout=output, stderr=output, cwd=own)
                )
        self._until("SELECT 1")

    def create(self, name: str, columns: str, key: str) -> None:
        """A table with a replica on each."""
        self._until(TABLE.format(name=name, columns=columns, key=key))

    def ask(self, sql: str, replica: int = 0) -> bytes:
        """A statement by itself."""
        return self._post(replica, "/", sql.encode())

    def insert(self, name: str, rows: bytes, replica: int = 0) -> None:
        """Rows in the format RowBinary."""
        self._post(replica, "/?query=" + quote(f"INSERT INTO {name} FORMAT RowBinary"), rows)

    def stop(self) -> None:
        for connection in self._connections.values():
            connection.close()
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()

    def _until(self, sql: str) -> None:
        """Have both do it; they need a moment until they have found their ZooKeeper."""
        why: Exception | None = None
        for replica in range(REPLICAS):
            for _ in range(120):
                try:
                    self.ask(sql, replica)
                    break
                except (OSError, RuntimeError) as error:
                    why = error
                    time.sleep(0.25)
            else:
                raise AssertionError(f"ClickHouse does not come up: {why}")

    def _post(self, replica: int, path: str, body: bytes) -> bytes:
        connection = self._connections.get(replica)
        if connection is None:
            connection = http.client.HTTPConnection("127.0.0.1", self._http[replica], timeout=120)
            self._connections[replica] = connection
        try:
            connection.request("POST", path, body)
            answer = connection.getresponse()
            told = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self._connections.pop(replica).close()
            raise OSError(str(error)) from error
        if answer.status != 200:
            raise RuntimeError(told.decode(errors="replace")[:400])
        return told
