"""What a device refuses."""

from __future__ import annotations


class ClientError(Exception):
    """What a device refuses; every refusal derives from it."""


class AmountError(ClientError):
    """The cap is not a number."""


class CapReachedError(ClientError):
    """A fresh report would pass the device's lifetime cap."""


class ProtocolError(ClientError):
    """The protocol is not one of version 1, or does not keep the epsilon that it states."""


class ReportLostError(ClientError):
    """The protocol was charged, and its report was lost before it was stored."""


class StoreError(ClientError):
    """The device's store cannot be read or locked."""


class TokenError(ClientError):
    """The protocol needs a one-time token and none was given, or the other way round, or it is not a token."""
