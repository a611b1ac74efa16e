"""HTTP/2 on one socket, by h2: many requests at a time, each within its flow-control window."""

import asyncio
from typing import Final, cast

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings

from accord.gateway.access.door import Request
from accord.gateway.access.refusals import Refused
from accord.gateway.front.exchange import gather, read_target
from accord.gateway.front.exchange2 import Exchange2
from accord.gateway.front.http1 import peer_of
from accord.gateway.front.premises import Premises

_WINDOW: Final = 1024 * 1024
"""Bytes of a body that a client may send ahead."""
_RESETS: Final = 200
"""Requests that a client may take back, beyond those it let be answered."""
_CODE = h2.errors.ErrorCodes


class Http2(asyncio.Protocol):
    """A socket that speaks HTTP/2."""

    def __init__(self, premises: Premises) -> None:
        self.premises = premises
        self.transport: asyncio.Transport | None = None
        self.paused = False
        """The peer does not read what was written."""
        self._blocked = 0.0
        self.h2 = h2.connection.H2Connection(
            h2.config.H2Configuration(client_side=False, header_encoding=None)
        )
        self.exchanges: dict[int, Exchange2] = {}
        self._quiet = premises.clock.now()  # since when no request is open
        self._fresh = True
        self._credit = _RESETS
        self._tls = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport = cast(asyncio.Transport, transport)  # uvloop's has no such base class
        self._tls = transport.get_extra_info("ssl_object") is not None
        config = self.premises.config
        codes = h2.settings.SettingCodes
        self.h2.local_settings = h2.settings.Settings(
            client=False,
            initial_values={
                codes.MAX_CONCURRENT_STREAMS: config.streams,
                codes.INITIAL_WINDOW_SIZE: _WINDOW,
                codes.MAX_HEADER_LIST_SIZE: config.header_size,
                codes.ENABLE_PUSH: 0,
            },
        )
        self.h2.decoder.max_header_list_size = config.header_size
        self.h2.initiate_connection()
        self.h2.increment_flow_control_window(_WINDOW)
        self.flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        self.premises.left(self)
        exchanges, self.exchanges = self.exchanges, {}
        for exchange in exchanges.values():
            exchange.gone()

    def pause_writing(self) -> None:
        # Who does not read what was said needs not say more.
        self.paused = True
        self._blocked = self.premises.clock.now()
        if self.transport is not None:
            self.transport.pause_reading()

    def resume_writing(self) -> None:
        self.paused = False
        if self.transport is not None:
            self.transport.resume_reading()
        for exchange in list(self.exchanges.values()):
            exchange.roomier()

    def data_received(self, data: bytes) -> None:
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        try:
            for event in self.h2.receive_data(data):
                if not transport.is_closing():
                    self._event(event)
        except (h2.exceptions.ProtocolError, UnicodeDecodeError):
            self.premises.metrics.refused["malformed"] += 1
            self.flush()
            transport.close()
            return
        self.flush()

    def _event(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.RequestReceived():
                self._request(event)
            case h2.events.DataReceived():
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                if (exchange := self.exchanges.get(event.stream_id)) is not None:
                    exchange.took(event.data)
            case h2.events.StreamEnded():
                if (exchange := self.exchanges.get(event.stream_id)) is not None:
                    exchange.ended()
            case h2.events.StreamReset():
                self._reset(event)
            case h2.events.WindowUpdated():
                for stream in [event.stream_id] if event.stream_id else list(self.exchanges):
                    if (exchange := self.exchanges.get(stream)) is not None:
                        exchange.roomier()
            case h2.events.RemoteSettingsChanged():
                for exchange in list(self.exchanges.values()):
                    exchange.roomier()
            case h2.events.ConnectionTerminated():
                self.flush()
                if self.transport is not None and not self.exchanges:
                    self.transport.close()
            case _:
                pass

    def _request(self, event: h2.events.RequestReceived) -> None:
        self._fresh = False
        pseudo: dict[bytes, bytes] = {}
        plain: list[tuple[bytes, bytes]] = []
        for name, value in event.headers:
            if bytes(name).startswith(b":"):
                pseudo[bytes(name)] = bytes(value)
            else:
                plain.append((bytes(name), bytes(value)))
        headers = gather(plain)
        refusal = None
        path, query = "/", ""
        if authority := pseudo.get(b":authority", b"").decode("latin-1"):
            if headers.get("host", [authority]) != [authority]:
                refusal = Refused(400, "Host and :authority differ.")
            headers["host"] = [authority]
        try:
            path, query = read_target(pseudo.get(b":path", b"").decode("latin-1"))
        except Refused as error:
            refusal = error
        request = Request(
            method=pseudo.get(b":method", b"").decode("latin-1"),
            path=path,
            query=query,
            headers=headers,
            peer=peer_of(self.transport),
            tls=self._tls,
        )
        length = headers.get("content-length", [""])[0]
        declared = int(length) if length.isascii() and length.isdigit() and len(length) < 19 else None
        stream = event.stream_id or 0
        exchange = self.exchanges[stream] = Exchange2(self, stream, request, declared)
        exchange.whole = event.stream_ended is not None
        if refusal is not None:
            exchange.respond(refusal.status, [("content-type", "text/plain")], refusal.reason.encode())
        else:
            self.premises.handle(exchange)

    def _reset(self, event: h2.events.StreamReset) -> None:
        if not event.remote_reset:
            return
        exchange = self.exchanges.pop(event.stream_id or 0, None)
        if exchange is not None:
            self._empty()
            exchange.gone()
        self._credit -= 1
        if self._credit < 0:
            self.premises.metrics.refused["resets"] += 1
            self._goodbye(_CODE.ENHANCE_YOUR_CALM)

    def closed(self, exchange: Exchange2) -> None:
        """A response is complete."""
        if self.exchanges.pop(exchange.stream, None) is not None:
            self._credit = min(self._credit + 1, _RESETS)
            self._empty()
            if self.premises.stopping and not self.exchanges:
                self._goodbye(_CODE.NO_ERROR)

    def _empty(self) -> None:
        if not self.exchanges:
            self._quiet = self.premises.clock.now()

    def flush(self) -> None:
        """Put on the wire what h2 has made."""
        data = self.h2.data_to_send()
        if data and self.transport is not None and not self.transport.is_closing():
            self.transport.write(data)

    def _goodbye(self, code: h2.errors.ErrorCodes) -> None:
        if self.transport is None or self.transport.is_closing():
            return
        self.h2.close_connection(code)
        self.flush()
        self.transport.close()

    def tick(self, now: float) -> None:
        """See `Watched`."""
        config = self.premises.config
        if self.paused and now - self._blocked >= config.stall and not self.exchanges:
            self.abort()
        if not self.exchanges:
            if now - self._quiet >= (config.header_time if self._fresh else config.idle_time):
                self._goodbye(_CODE.NO_ERROR)
            return
        for exchange in list(self.exchanges.values()):
            if exchange.whole or now - exchange.begun < config.body_time:
                continue
            if exchange.answered:
                exchange.abort()
            else:
                self.premises.metrics.refused["slow"] += 1
                text = b"The body of this request came too slowly."
                exchange.respond(408, [("content-type", "text/plain")], text)

    def leave(self) -> None:
        """See `Socket`."""
        if not self.exchanges:
            self._goodbye(_CODE.NO_ERROR)

    def abort(self) -> None:
        """See `Socket`."""
        if self.transport is not None:
            self.transport.abort()
