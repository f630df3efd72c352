"""What each customer has ordered, customer by customer: ``python by_key.py FOLDER``."""

import sys

from orders import STATE, run
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor


class Customers(StatefulProcessor):
    """The number of a customer's orders, what they cost together, and the last item."""

    def init(self, handle):
        self.customer = handle.getValueState("customers", STATE)

    def handleInputRows(self, key, rows, timerValues):
        orders, spent, last = self.customer.get() or (0, 0, None)
        for row in rows:
            orders, spent, last = orders + 1, spent + row.amount, row.item
        self.customer.update((orders, spent, last))
        yield Row(customer=key[0], orders=orders, spent=spent)

    def close(self):
        pass


if __name__ == "__main__":
    run(Customers(), sys.argv[1])
