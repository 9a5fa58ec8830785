"""One-time tokens: the token gives the group, a token counts once, and adversaries have only their share of a group."""

from __future__ import annotations

import hashlib
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from crosstally.errors import CrosstallyError
from crosstally.local import Collector, Reason, Tokens, client, design
from crosstally.local.bulk import reports
from crosstally.local.client import reporting
from crosstally.local.influence import FALSE_ALARM, GroupSizes
from crosstally.local.oracles import ORACLES
from crosstally.local.oracles.oracle import ResidualOracle, ViewOracle
from crosstally.local.planning.methods import METHODS
from crosstally.local.protocol import groups_of_tokens
from crosstally.schema import Attribute, Schema
from reference_local import distribution, exponential_below

SCHEMA = Schema((Attribute("a", ("0", "1")), Attribute("b", ("0", "1", "2")), Attribute("c", ("0", "1"))))
SEVEN = Schema(tuple(Attribute(f"a{i}", ("0", "1")) for i in range(7)))
PEOPLE = 100_000


def hmac_sha256(key, message):
    """RFC 2104, written out; keys of at most 64 bytes."""
    inner, outer = (bytes(byte ^ pad for byte in key.ljust(64, b"\0")) for pad in (0x36, 0x5C))
    return hashlib.sha256(outer + hashlib.sha256(inner + message).digest()).digest()


def reference_place(digest, token, shares):
    """The first 64-bit word that is below the largest multiple of the shares, modulo the shares."""
    for attempt in range(100):
        message = b"crosstally group 2" + digest + bytes([attempt, 0, 0, 0])
        word = sum(byte << (8 * place) for place, byte in enumerate(hmac_sha256(token, message)[:8]))
        if word // shares < 2**64 // shares:
            return word % shares, attempt
    raise AssertionError


# The group of a token


def test_places_are_those_of_the_page_and_some_words_are_rejected() -> None:
    tokens = [bytes([i] * 16) for i in range(50)]
    for shares in (1, 3, 2**20 + 7, 2**63 + 1):
        slow = [reference_place(b"d" * 32, token, shares) for token in tokens]
        assert [client.place_of_token(b"d" * 32, token, shares) for token in tokens] == [place for place, _ in slow]
    assert max(attempts for _, attempts in slow) > 2


def test_a_vector_of_the_page() -> None:
    """Worked out with another tool: printf ... | openssl dgst -sha256 -mac HMAC -macopt hexkey:000102...0f."""
    token = bytes(range(16))
    assert client.place_of_token(hashlib.sha256(b"{}").digest(), token, 1000) == 503


def test_groups_follow_their_shares_and_the_device_agrees_with_the_collector() -> None:
    """20,000 tokens, false alarm 1e-6; the same sizes against equal shares are found to be wrong."""
    protocol = design(SCHEMA, epsilon=1, people=20_000, ways=2, method="residuals", tokens=True)
    tokens = Tokens.issue(protocol, 20_000)
    groups = groups_of_tokens(protocol, tokens.numbers)
    assert groups[:50].tolist() == [client.group_of_token(protocol.document, t.tobytes()) for t in tokens.numbers[:50]]
    sizes = np.bincount(groups, minlength=len(protocol.groups))
    assert min(GroupSizes.of(sizes, [group.share for group in protocol.groups]).probabilities) > 1e-6
    assert GroupSizes.of(sizes, [1] * len(sizes)).unusual != ()


def test_how_likely_sizes_are_by_hand() -> None:
    """Of ten reports 8 or more are in one of two equal groups with 56 / 1024; four tails are looked at."""
    assert GroupSizes.of(np.array([8, 2]), [1, 1]).probabilities == pytest.approx([4 * 56 / 1024] * 2)
    assert GroupSizes.of(np.array([5, 5]), [1, 1]).probabilities.tolist() == [1.0, 1.0]


# The device


class Untouchable(dict):
    def get(self, *_):
        raise AssertionError("the row was looked at")


@pytest.mark.parametrize("token", [None, "", "0" * 31, "0" * 33, "G" * 32, "A" * 32, "0" * 32 + "\n", b"0" * 32, 7, []])
def test_what_is_no_token_costs_nothing(token) -> None:
    protocol, store = design(SCHEMA, epsilon=1, people=5000, ways=2, tokens=True), {}
    with pytest.raises(client.TokenError, match="needs a token of 32 hexadecimal digits"):
        protocol.report(Untouchable(), store=store, cap=1, token=token)
    assert store == {}


def test_a_token_for_a_protocol_without_them_is_refused() -> None:
    store = {}
    with pytest.raises(client.TokenError, match="has no tokens"):
        design(SCHEMA, epsilon=1, people=5000, ways=2).report(Untouchable(), store=store, cap=1, token="0" * 32)
    assert store == {}


def test_a_second_token_buys_no_second_report() -> None:
    """A collector that hands out a token for every group has one report all the same, and epsilon once."""
    protocol, store = design(SCHEMA, epsilon=1, people=5000, ways=2, tokens=True), {}
    tokens = Tokens.issue(protocol, 200)
    assert len(set(groups_of_tokens(protocol, tokens.numbers).tolist())) == len(protocol.groups)
    sent = {protocol.report({"a": i % 2}, store=store, cap=16, token=t) for i, t in enumerate(tokens.texts())}
    assert len(sent) == 1
    assert next(iter(sent))[9:25].hex() == tokens.texts()[0]
    assert store["spent"] == "1"


def test_epsilon_holds_in_whatever_group_a_token_puts_a_device() -> None:
    """The exact law of the report for every group and every two rows: a ratio of at most e^epsilon, in fractions."""
    protocol = design(SCHEMA, epsilon=1, people=5000, ways=2, method="residuals", tokens=True)
    groups = groups_of_tokens(protocol, Tokens.issue(protocol, 300).numbers)
    assert set(groups.tolist()) == set(range(len(protocol.groups)))
    limit = exponential_below(Fraction(1))
    for number in range(len(protocol.groups)):
        laws = [
            distribution(partial(reporting._answer, protocol.document, number, row))
            for row in ([0, 0, 0], [1, 2, 1], [1, 1, 0])
        ]
        for first in laws:
            for second in laws:
                assert all(first[answer] <= limit * second[answer] for answer in first)


# The collector


def codes_of(people, attributes=7, seed=0):
    """One in twenty has each attribute."""
    return (np.random.default_rng(seed).random((attributes, people)) < 0.05).astype(np.int64)


def test_only_handed_out_tokens_count_once_and_in_their_group() -> None:
    protocol = design(SCHEMA, epsilon=1, people=3000, ways=2, method="residuals", tokens=True)
    tokens = Tokens.issue(protocol, 3000)
    codes = np.random.default_rng(0).integers(0, 2, (3, 3000))
    good = reports(protocol, codes, tokens=tokens)
    moved, unknown, old = good[:100].copy(), good[:50].copy(), good[:10].copy()
    moved["group"] = (moved["group"] + 1) % len(protocol.groups)
    moved["payload"] = 0
    unknown["id"] = np.frombuffer(bytes(range(200)) * 4, "V16")
    old["version"] = 2
    lies = good[:70].copy()  # another answer with a token that was used
    lies["payload"] ^= np.uint64(1)
    collector = Collector(protocol, tokens=tokens)
    received = collector.add_many(np.concatenate([moved, unknown, old, good, lies]))
    assert received.numbers() == {
        Reason.ACCEPTED: 3000,
        Reason.WRONG_VERSION: 10,
        Reason.DUPLICATE: 70,
        Reason.NOT_HANDED_OUT: 50,
        Reason.OTHER_GROUP: 100,
    }
    assert collector.add(bytes(moved[0])) is Reason.OTHER_GROUP


def test_collectors_share_the_tokens(tmp_path) -> None:
    protocol = design(SCHEMA, epsilon=1, people=3000, ways=2, tokens=True)
    tokens = Tokens.issue(protocol, 3000)
    good = reports(protocol, np.zeros((3, 3000), np.int64), tokens=tokens)
    parts = [Tokens(protocol.id, tokens.numbers[::2]), Tokens(protocol.id, tokens.numbers[1::2])]
    collectors = [Collector(protocol, tokens=part) for part in parts]
    for collector in collectors:
        assert collector.add_many(good).accepted == 1500
    whole = collectors[0].merged(collectors[1])
    assert whole.reports == 3000
    assert parts[0].joined(parts[1]).joined(tokens).texts() == [*parts[0].texts(), *parts[1].texts()]
    whole.save(tmp_path / "a.state")
    tokens.save(tmp_path / "a.tokens")
    again = Collector.load(tmp_path / "a.state", protocol, tokens=Tokens.load(tmp_path / "a.tokens", protocol))
    assert again.add_many(good).numbers() == {Reason.DUPLICATE: 3000}


def test_tokens_that_cannot_be_used(tmp_path) -> None:
    with_tokens, other, without = (
        design(SCHEMA, epsilon=1, people=people, ways=2, tokens=tokens)
        for people, tokens in ((3000, True), (4000, True), (3000, False))
    )
    tokens = Tokens.issue(with_tokens, 5)
    assert repr(tokens) == f"Tokens({with_tokens.id}, 5)"
    tokens.save(tmp_path / "t")
    for wrong, message in (
        (lambda: Tokens.issue(without, 5), "has no tokens"),
        (lambda: Tokens.issue(with_tokens, 0), "a whole number from 1"),
        (lambda: Tokens(with_tokens.id, tokens.numbers[[0, 0]]), "must be there once"),
        (lambda: tokens.joined(Tokens.issue(other, 1)), "of the same protocol"),
        (lambda: Collector(with_tokens), "must be given those that were handed out"),
        (lambda: Collector(without, tokens=tokens), "leave them out"),
        (lambda: Collector(other, tokens=tokens), "of another protocol"),
        (lambda: Tokens.load(tmp_path / "t", other), "of another protocol"),
        (lambda: Tokens.load(tmp_path / "none", other), "cannot read the tokens"),
        (lambda: reports(with_tokens, np.zeros((3, 6), np.int64), tokens=tokens), "each of 6 people, got 5"),
        (lambda: reports(with_tokens, np.zeros((3, 6), np.int64)), "each of 6 people, got 0"),
    ):
        with pytest.raises(CrosstallyError, match=message):
            wrong()
    lines = (tmp_path / "t").read_text().splitlines()
    for text, message in (
        ("", "no file of tokens"),
        ("\n".join(lines[1:]), "no file of tokens"),
        ("\n".join([*lines, "x"]), "line 7 is no token"),
        ("\n".join([*lines, lines[1]]), "must be there once"),
    ):
        (tmp_path / "bad").write_text(text)
        with pytest.raises(CrosstallyError, match=message):
            Tokens.load(tmp_path / "bad", with_tokens)
    (tmp_path / "bad").write_bytes(b"\xff\xfe")
    with pytest.raises(CrosstallyError, match="no file of tokens"):
        Tokens.load(tmp_path / "bad", with_tokens)


# Poisoning


def released_by(protocol, sent, tokens=None):
    collector = Collector(protocol, tokens=tokens)
    collector.add_many(sent)
    return collector, collector.release(shrink="none", nonnegative="none").marginal("a0").values[1]


def test_adversaries_who_choose_their_group_move_a_table_as_far_as_is_said() -> None:
    """1% of adversarial reports in one of seven groups: some 5,000 people become about 15,100, and the crowd shows.

    An honest report adds 1 or 0 on average, a lie (1 - q) / (p - q) = 1.582. Of 15,143 people in the group 1,000 lie,
    so that 100,000 x 1,000 / 15,143 x (1.582 - 0.05) = 10,120 are added: 0.97 of the bound. The reports that lies
    replace are noisy, so that this has a standard deviation of 0.01 (ten runs).
    """
    protocol = design(SEVEN, epsilon=1, people=PEOPLE, ways=1, method="marginals")
    sent, codes = reports(protocol, codes_of(PEOPLE)), codes_of(PEOPLE)
    collector, before = released_by(protocol, sent)
    assert min(collector.group_sizes().probabilities) > 1e-6  # below 1e-3 they would be called unusual
    lying = sent.copy()
    lying["group"][:1000], lying["payload"][:1000] = 0, 1
    poisoned, after = released_by(protocol, lying)
    assert abs(before - codes[0].sum()) < 6 * 1900
    assert 9_000 < after - before < 11_000
    # other groups are 143 people smaller, 1.3 standard deviations: one run in twenty has one of them unusual too
    assert 0 in poisoned.group_sizes().unusual
    bound = poisoned.max_shift("a0", adversarial=0.01)
    assert bound == pytest.approx(PEOPLE * 1000 / poisoned.group_sizes().reports[0] * 1.581977, rel=1e-5)
    assert 0.9 < (after - before) / bound < 1.04


def test_with_tokens_adversaries_cannot_beat_their_share() -> None:
    """The same lies with tokens: refused in the wrong group. Those who lie in their own move 1,000 x 1.532 people."""
    protocol = design(SEVEN, epsilon=1, people=PEOPLE, ways=1, method="marginals", tokens=True)
    tokens = Tokens.issue(protocol, PEOPLE)
    sent = reports(protocol, codes_of(PEOPLE), tokens=tokens)
    _, before = released_by(protocol, sent, tokens)
    crowding = sent.copy()
    crowding["group"][:1000], crowding["payload"][:1000] = 0, 1
    collector, after = released_by(protocol, crowding, tokens)
    assert PEOPLE - 950 < collector.reports < PEOPLE - 750  # six of seven adversarial reports were refused
    assert min(collector.group_sizes().probabilities) > 1e-6  # below 1e-3 they would be called unusual
    bound = collector.max_shift("a0", adversarial=0.01)
    assert bound == pytest.approx(collector.reports * 0.01 * 1.581977, rel=1e-5)
    binomial = 6 * np.sqrt(1000 / 7) * 7 * 1.582  # six standard deviations of how many adversaries are in the group
    assert 0 < after - before < bound + binomial
    assert bound + binomial < 3_000


def best_lie(oracle):
    """All reports of an oracle of few cells, as what each adds to the estimate of each row's cell or residual."""
    space = oracle.answers
    for answer in range(space.least, space.limit):
        if space.bits is None or answer.bit_count() == space.bits:
            slots = np.zeros(space.slots, np.int64)
            slots[[v for v in range(space.slots) if answer >> v & 1] if space.masked else answer] = 1
            yield slots


@pytest.mark.parametrize("kind", ORACLES)
def test_the_worst_lie_of_every_oracle_is_found(kind) -> None:
    """Against all reports one by one, for weights of two residuals (one, where an oracle tells only one)."""
    sizes = (2, 3)
    oracle = ORACLES[kind].of(sizes, Fraction(1))
    random = np.random.default_rng(3)
    wanted = {axes: random.normal(size=[sizes[i] for i in axes]) for axes in ((1,), (0, 1))}
    if kind == "residual-bit":
        del wanted[(1,)]
    said = []
    for slots in best_lie(oracle):
        if isinstance(oracle, ResidualOracle):
            found = {each.axes: each.values for each in oracle.residuals(slots, 2)}
        else:
            assert isinstance(oracle, ViewOracle)
            cells = (oracle.supports(slots) - float(oracle.false)) / float(oracle.true - oracle.false)
            table = cells.reshape(sizes)
            line = table.sum(axis=0)
            both = table - table.mean(axis=0) - table.mean(axis=1, keepdims=True) + table.mean()
            found = {(1,): line - line.mean(), (0, 1): both}
        said.append(sum(float((weights * found[axes]).sum()) for axes, weights in wanted.items()))
    assert oracle.extremes(wanted) == pytest.approx((min(said), max(said)))


@pytest.mark.parametrize("method", METHODS)
def test_no_crowd_moves_a_cell_further_than_is_said(method) -> None:
    """Any group, any lie: 5% of the people in turn. The same honest reports are behind all but the adversarial ones.

    What is moved, over what is said, is at most 1 for the worst lie, but for noise with a standard deviation of 0.02
    (25 runs, 1.04 at most): 1.2 is ten of them away. Half of what should be said would give 2 for ``each``.
    """
    protocol = design(SCHEMA, epsilon=1, people=20_000, ways=2, method=method)
    sent = reports(protocol, np.random.default_rng(5).integers(0, 2, (3, 20_000)))
    collector = Collector(protocol)
    collector.add_many(sent)
    honest = collector.release(shrink="none", nonnegative="none").marginal("a", "b").values
    for group in range(len(protocol.groups)):
        if protocol.groups[group].attributes == (2,):
            continue
        lies = sent[1000:2000].copy()
        lies["group"] = group
        lies["payload"] = sent["payload"][sent["group"] == group][7]
        poisoned = Collector(protocol)
        poisoned.add_many(np.concatenate([sent[:1000], lies, sent[2000:]]))
        moved = np.abs(poisoned.release(shrink="none", nonnegative="none").marginal("a", "b").values - honest).max()
        assert 0 < moved < 1.2 * poisoned.max_shift("a", "b", adversarial=0.05)


def test_adversaries_fill_the_groups_that_move_most() -> None:
    """With as many adversaries as people everything can be said: from no row at all to more than all."""
    protocol = design(SEVEN, epsilon=1, people=PEOPLE, ways=1, method="marginals")
    collector = Collector(protocol)
    collector.add_many(reports(protocol, codes_of(PEOPLE)))
    assert collector.max_shift("a0", adversarial=0) == 0
    assert collector.max_shift("a0", adversarial=1) == pytest.approx(PEOPLE * 1.581977, rel=1e-5)
    with pytest.raises(CrosstallyError, match="from 0 to 1, got 2"):
        collector.max_shift("a0", adversarial=2)


# Group sizes


def test_honest_sizes_are_seldom_unusual() -> None:
    """Ten groups of few and many people, 2,000 collections: at most 1e-3 of them unusual, and seven deviations."""
    shares = [1, 1, 2, 5, 10, 20, 61, 100, 300, 500]
    random = np.random.default_rng(0)
    drawn = random.multinomial(1000, np.array(shares) / 1000, size=2_000)
    unusual = sum(bool(GroupSizes.of(sizes, shares).unusual) for sizes in drawn)
    assert unusual <= 2000 * FALSE_ALARM + 7 * np.sqrt(2000 * FALSE_ALARM)
    crowded = drawn[0] + np.array([0, 12, 0, 0, 0, 0, 0, 0, 0, 0])
    assert GroupSizes.of(crowded, shares).unusual == (1,)
