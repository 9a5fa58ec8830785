"""A person's own device: one row to one report, with the Python standard library alone.

This folder may be copied to a device as it is. It checks the public protocol, which may come from anyone, charges what
a report costs to the device's store, turns the row into codes, draws a group (or works it out from the one-time token
that the collector handed out), and draws the report for it with the probabilities that the protocol states as
fractions. Randomness comes from the operating system's secure source, and every draw is exact: there are no floating
point numbers in it.

What leaves the device is 37 bytes (docs/reference/local-wire-format.md). Group, report and id are drawn once for each
protocol, stored before anything is sent, and sent again byte for byte whatever the row becomes. A failed call must
not reveal more than a report does, so the order is fixed: check the whole protocol, charge, encode, draw, store.
"""

from __future__ import annotations

from .draws import SecureSource, draw, worst_ratio
from .field_rules import (
    LONGEST_AMOUNT,
    AmountError,
    CapReachedError,
    ClientError,
    ProtocolError,
    ReportLostError,
    StoreError,
    TokenError,
)
from .protocol_checks import GROUP_HASH, VERSION, check_protocol, protocol_digest, protocol_id
from .reporting import RECORD, TOKEN_BYTES, group_of_token, is_token, place_of_token, report
from .row_codes import encode_row, read_row
from .store import FileStore

__all__ = [
    "GROUP_HASH",
    "LONGEST_AMOUNT",
    "RECORD",
    "TOKEN_BYTES",
    "VERSION",
    "AmountError",
    "CapReachedError",
    "ClientError",
    "FileStore",
    "ProtocolError",
    "ReportLostError",
    "SecureSource",
    "StoreError",
    "TokenError",
    "check_protocol",
    "draw",
    "encode_row",
    "group_of_token",
    "is_token",
    "place_of_token",
    "protocol_digest",
    "protocol_id",
    "read_row",
    "report",
    "worst_ratio",
]
