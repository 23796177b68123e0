"""Puts one at a time over a socket that is waited on: a load generator for latency, with no loop around it.

The core's own client makes the requests and checks the replies; what a program has besides (a loop, futures,
timers, other callers) is left out, as it is in the load generators that peers are asked by.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Mapping, Sequence

import msgspec

from motet.client.consensus import Answer, cluster_name
from motet.client.link import parse_endpoint
from motet.core.machine import Effect, Send
from motet.core.vsr.client import Client, Replied
from motet.core.vsr.config import VsrConfig
from motet.core.vsr.key_value import BATCH, Call, Result, decode_results, encode_calls
from motet.format.frame import FrameDecoder, FrameKind, encode_frame
from motet.ids import Address, ClientId
from motet.real.connection import unpack
from motet.real.entropy import RealEntropy
from motet.real.hello import encode_hello
from motet.real.time import RealTime

answer_seconds_max = 30.0
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Answer).decode


class OneByOne:
    """One session over one socket per replica."""

    def __init__(self, config: VsrConfig, endpoints: Mapping[Address, str]) -> None:
        self._now = RealTime().now
        self._client = Client(config, ClientId(RealEntropy().nonce()))
        self._sockets: dict[Address, socket.socket] = {}
        self._decoders: dict[Address, FrameDecoder] = {}
        for replica, where in endpoints.items():
            dialed = socket.create_connection(parse_endpoint(where), answer_seconds_max)
            dialed.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            dialed.sendall(encode_hello(cluster_name(config.cluster), None))
            self._sockets[replica] = dialed
            self._decoders[replica] = FrameDecoder()
        self._send(self._client.begin(self._now()))
        while self._result() is None:
            readable, _, _ = select.select(self._sockets.values(), (), (), answer_seconds_max)
            assert readable, "no answer came"
            for replica, each in self._sockets.items():
                if each in readable:
                    self._take(replica)
        #: who answers, as long as nothing happens to the cluster
        self._primary = config.replicas[config.primary(self._client.state.view)]

    def close(self) -> None:
        for each in self._sockets.values():
            each.close()

    def call(self, calls: Sequence[Call]) -> list[Result]:
        """Have these done in one request."""
        self._send(self._client.submit(BATCH, encode_calls(calls), self._now()))
        while (replied := self._result()) is None:
            self._take(self._primary)
        return decode_results(replied.body)

    def _send(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                frame = encode_frame(FrameKind.VSR, 0, _encode(effect.message))
                self._sockets[effect.to].sendall(frame)

    def _result(self) -> Replied | None:
        result = self._client.take_result()
        assert result is None or isinstance(result, Replied), result
        return result

    def _take(self, replica: Address) -> None:
        data = self._sockets[replica].recv(1 << 16)
        assert data, f"{replica} has hung up"
        frames = self._decoders[replica].feed(data)
        if frames and frames[0].kind == FrameKind.HELLO:
            frames = frames[1:]
        for frame in unpack(frames):
            self._client.on_message(replica, _decode(frame.body), self._now())
