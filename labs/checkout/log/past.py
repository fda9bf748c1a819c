"""Show the services as they were after the first records of a log.

python3 past.py FILE [--until OFFSET]
"""

import argparse
import json
from itertools import islice

from order import Orders
from payment import Payment
from stock import Stock


def past(path, until=None):
    """The three folds, after the records before this offset. None: after all records."""
    folds = Orders(), Stock(), Payment()
    with open(path, "rb") as log:
        for line in islice(log, until):
            for fold in folds:
                fold.apply(json.loads(line))
    return folds


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file")
    parser.add_argument("--until", type=int, metavar="OFFSET", help="only the records before this offset")
    given = parser.parse_args()
    orders, stock, payment = past(given.file, given.until)
    shown = {"records": orders.offset, "orders": orders.orders, "items": stock.items, "credit": payment.credit}
    print(json.dumps(shown, indent=2))
