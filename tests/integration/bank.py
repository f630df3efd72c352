"""What the example reads, and the computation it is compared with."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

TOPICS = ("deposits", "withdrawals")
Balance = tuple[Decimal, int, Decimal]


@dataclass
class Bank:
    """Accounts whose movements go to the topics of the broker at ``kafka``."""

    kafka: str
    accounts: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        from confluent_kafka import Producer
        from confluent_kafka.admin import AdminClient, NewTopic

        # It tells of each broker that it does not reach, and the last one ends with the tests.
        quiet = {"bootstrap.servers": self.kafka, "log_level": 0}
        admin = AdminClient(quiet)
        for made in admin.create_topics([NewTopic(name, 2, 1) for name in TOPICS]).values():
            made.result(30)
        self._producer = Producer({**quiet, "acks": "all"})
        for nothing in (b"no JSON", b"{}", b'{"account": null, "cents": 5}', None):
            self._producer.produce(TOPICS[0], value=nothing)

    def move(self, chance: random.Random, number: int, accounts: range) -> None:
        """So many movements on some of the accounts; returns when the broker has them."""
        for _ in range(number):
            account, cents = f"account-{chance.choice(accounts)}", chance.randrange(1, 100_000)
            topic = chance.choice(TOPICS)
            message = json.dumps({"account": account, "cents": cents})
            self._producer.produce(topic, key=account, value=message)
            self.accounts[account].append(cents if topic == "deposits" else -cents)
        assert self._producer.flush(60) == 0

    @property
    def movements(self) -> int:
        return sum(map(len, self.accounts.values()))

    def balances(self) -> dict[str, Balance]:
        """What the output must have for each account."""
        return {
            account: (_euros(sum(moved)), len(moved), _euros(max(map(abs, moved))))
            for account, moved in self.accounts.items()
        }

    def values(self) -> dict[Any, Any]:
        """What the state must have for each account, in the newest format."""
        return {
            account: {"balance": balance, "moved": {"times": times, "largest": largest}}
            for account, (balance, times, largest) in self.balances().items()
        }


def _euros(cents: int) -> Decimal:
    return Decimal(cents).scaleb(-2)
