"""One-time tokens: what the collector hands out so that nobody chooses which group they report in.

People who lie and choose their group all go to one, where few others are, and each of them counts as often as people
are missing there. With tokens the group is a keyed hash of token and protocol (``client.place_of_token``): the device
works it out, the collector works it out again, and a token counts once. A token is a secret of the collector and of
the one person it was handed to; whoever has it can report in that person's place.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosstally.checks import is_whole
from crosstally.errors import CrosstallyError
from crosstally.local import client
from crosstally.local.protocol import Protocol
from crosstally.platform_files import write_text

__all__ = ["TOKEN", "Tokens", "groups_of_tokens"]

TOKEN = np.dtype(f"V{client.TOKEN_BYTES}")
_HEAD = re.compile(r"crosstally-tokens-1 ([0-9a-f]{16})")
_MOST = 10**8  # a file of 3.3 GB


@dataclass(frozen=True, slots=True, eq=False)
class Tokens:
    """The tokens of one protocol, in the order in which they are handed out; its repr hides them."""

    protocol: str
    numbers: NDArray[Any]

    def __post_init__(self) -> None:
        held = np.array(self.numbers, TOKEN)
        if len(np.unique(held)) < len(held):
            raise CrosstallyError("every token must be there once: somebody holds the same one as somebody else")
        held.flags.writeable = False
        object.__setattr__(self, "numbers", held)

    def __repr__(self) -> str:
        return f"Tokens({self.protocol}, {len(self):,})"

    def __len__(self) -> int:
        return len(self.numbers)

    @classmethod
    def issue(cls, protocol: Protocol, number: int) -> Tokens:
        """So many new tokens from the operating system's secure source."""
        if not protocol.tokens:
            raise CrosstallyError("this protocol has no tokens: design it with them")
        if not is_whole(number, 1, _MOST):
            raise CrosstallyError(f"the number of tokens must be a whole number from 1 to {_MOST:,}, got {number!r}")
        return cls(protocol.id, np.frombuffer(secrets.token_bytes(client.TOKEN_BYTES * number), TOKEN))

    def texts(self) -> list[str]:
        """Each token as its person gets it: 32 hexadecimal digits."""
        return [token.tobytes().hex() for token in self.numbers]

    def joined(self, other: Tokens) -> Tokens:
        """These, and those others of the same protocol that are not among them."""
        if other.protocol != self.protocol:
            raise CrosstallyError("only tokens of the same protocol can be joined")
        both = np.concatenate([self.numbers, other.numbers])
        return Tokens(self.protocol, both[np.sort(np.unique(both, return_index=True)[1])])

    def after(self, number: int) -> Tokens:
        """Those that are left when so many of the first were handed out."""
        return Tokens(self.protocol, self.numbers[number:])

    def save(self, path: str | Path) -> None:
        """Write them as text, one in a line, to a file that only its owner can read."""
        lines = [f"crosstally-tokens-1 {self.protocol}", *self.texts()]
        write_text(Path(path), "\n".join(lines) + "\n", private=True)

    @classmethod
    def load(cls, path: str | Path, protocol: Protocol) -> Tokens:
        """The tokens of a protocol from their file."""
        try:
            head, *lines = Path(path).read_text(encoding="ascii").splitlines() or [""]
        except OSError as error:
            raise CrosstallyError(f"cannot read the tokens {str(path)!r}: {error.strerror}") from None
        except UnicodeDecodeError:
            head, lines = "", []
        found = _HEAD.fullmatch(head)
        if found is None:
            raise CrosstallyError(f"{str(path)!r} is no file of tokens: its first line must be crosstally-tokens-1 ID")
        if found[1] != protocol.id:
            raise CrosstallyError(f"{str(path)!r} holds the tokens of another protocol")
        bad = next((i for i, line in enumerate(lines, start=2) if not client.is_token(line)), None)
        if bad is not None:
            raise CrosstallyError(
                f"{str(path)!r}: line {bad} is no token of {2 * client.TOKEN_BYTES} hexadecimal digits"
            )
        return cls(protocol.id, np.frombuffer(bytes.fromhex("".join(lines)), TOKEN))


def groups_of_tokens(protocol: Protocol, tokens: NDArray[Any]) -> NDArray[np.int64]:
    """The group that each token gives, as a device works it out."""
    ends = np.cumsum([group.share for group in protocol.groups])
    places = [client.place_of_token(protocol.digest, token.tobytes(), int(ends[-1])) for token in tokens]
    return np.searchsorted(ends, np.array(places, np.int64), side="right")
