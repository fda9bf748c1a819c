"""Mutants of systems with one process, or one process and a database."""

from __future__ import annotations

from .model import Mutant

MUTANTS = [
    Mutant(
        "lost-update-on-a-user",
        "single",
        "shop.py",
        "def checkout(log, order_id):\n",
        "def checkout(log, order_id):\n"
        "    found = USERS.get(ORDERS.get(order_id, {}).get('user'))\n"
        "    LOCK.release()\n"
        "    import time\n"
        "    time.sleep(0.002)\n"
        "    LOCK.acquire()\n"
        "    if found is not None:\n"
        "        USERS[ORDERS[order_id]['user']] = found\n",
        "load",
        "charged_times",
    ),
    Mutant(
        "always-200",
        "single",
        "shop.py",
        '        case "POST", "orders", "checkout", order:\n            return checkout(log, order)\n',
        '        case "POST", "orders", "checkout", order:\n            return {}\n',
        "load",
        "ok_not_paid",
    ),
    Mutant(
        "takes-stock-twice-now-and-then",
        "single",
        "shop.py",
        '    credit = look(USERS, order["user"]) - sum(',
        "    if order_id.endswith('7'):\n"
        "        item, quantity, _ = order['items'][0]\n"
        "        stock, price = ITEMS[item]\n"
        "        commit(log, {'items': {item: [stock - quantity, price]}})\n"
        '    credit = look(USERS, order["user"]) - sum(',
        "load",
        "taken_times",
    ),
    Mutant(
        "always-4xx",
        "single",
        "shop.py",
        "    order = look(ORDERS, order_id)\n",
        "    raise Refused('no')\n    order = look(ORDERS, order_id)\n",
        "load",
        "false_refusal",
    ),
    Mutant(
        "effect-after-4xx",
        "single",
        "shop.py",
        '"orders": {order_id: {**order, "paid": True}}})\n    return {}\n',
        '"orders": {order_id: {**order, "paid": True}}})\n'
        "    if order_id.endswith('a'):\n        raise Refused('timeout of a dependency')\n    return {}\n",
        "load",
        "refused_but_paid",
    ),
    Mutant(
        "only-in-memory",
        "single",
        "shop.py",
        "    os.write(log, line)\n",
        "    del line\n",
        "faults",
        "ok_not_paid",
    ),
    Mutant(
        "acknowledges-before-it-is-durable",
        "single",
        "shop.py",
        "    os.write(log, line)\n",
        "    PENDING.append(line)\n"
        "    if len(PENDING) > 40:\n"
        "        os.write(log, b''.join(PENDING))\n"
        "        PENDING.clear()\n",
        "faults",
        "ok_not_paid",
    ),
    Mutant(
        "charges-again-after-a-restart",
        "single",
        "shop.py",
        '    if order["paid"]:\n        return {}\n',
        '    if order["paid"] and order_id in FRESH:\n        return {}\n    FRESH.add(order_id)\n',
        "faults",
        "charged_times",
    ),
    Mutant(
        "charges-on-every-checkout",
        "single",
        "shop.py",
        '    if order["paid"]:\n        return {}\n',
        '    if order["paid"] and order_id.endswith("0"):\n        return {}\n',
        "duplicates",
        "charged_times",
    ),
    Mutant(
        "keeps-what-it-refuses",
        "single",
        "shop.py",
        '    if credit < 0:\n        raise Refused("out of credit")\n    commit(log, {"users"',
        "    if credit < 0:\n"
        "        commit(log, {'items': items})\n"
        '        raise Refused("out of credit")\n'
        '    commit(log, {"users"',
        "duplicates",
        "taken_times",
    ),
    Mutant(
        "sells-one-too-many",
        "single",
        "shop.py",
        "        if stock < quantity:\n",
        "        if stock + 1 < quantity:\n",
        "scarcity",
        "negative",
    ),
    Mutant(
        "never-sells-the-last-one",
        "single",
        "shop.py",
        "        if stock < quantity:\n",
        "        if stock < quantity + 1:\n",
        "scarcity",
        "never_sold",
    ),
    Mutant(
        "refuses-for-ever",
        "single",
        "shop.py",
        "        if stock < quantity:\n",
        "        if stock < quantity or order_id in FRESH:\n            FRESH.add(order_id)\n",
        "scarcity",
        "never_sold",
    ),
    Mutant(
        "adds-a-large-amount-twice",
        "single",
        "shop.py",
        '            stock += int(amount) if what == "add" else -int(amount)\n',
        '            stock += int(amount) * (1 + (int(amount) == 8**6)) if what == "add" else -int(amount)\n',
        "faults",
        "taken_times",
    ),
    Mutant(
        "keeps-the-last-one",
        "single",
        "shop.py",
        "        if stock < quantity:\n",
        "        if stock == quantity:\n            commit(log, {'items': items})\n        if stock <= quantity:\n",
        "scarcity",
        "leaked",
    ),
    Mutant(
        "lists-items-without-quantities",
        "slow",
        "shop.py",
        "            items = [[item, quantity] for item, quantity, _ in value",
        "            items = [item for item, quantity, _ in value",
        "contract",
        "contract",
    ),
    Mutant(
        "says-paid-with-a-number",
        "slow",
        "shop.py",
        '                "paid": value["paid"],\n',
        '                "paid": int(value["paid"]),\n',
        "contract",
        "contract",
    ),
    Mutant(
        "pays-beyond-the-credit",
        "single",
        "shop.py",
        '            credit = look(USERS, user) + (int(amount) if what == "add_funds" else -int(amount))\n'
        "            if credit < 0:\n",
        '            credit = look(USERS, user) + (int(amount) if what == "add_funds" else -int(amount))\n'
        "            if credit < -10:\n",
        "contract",
        "contract",
    ),
    Mutant(
        "reads-the-credit-then-writes-it",
        "postgres",
        "app.py",
        '    one(db, "UPDATE users SET credit = credit - %s WHERE id = %s RETURNING credit", cost, user)\n',
        '    (credit,) = one(db, "SELECT credit FROM users WHERE id = %s", user)\n'
        '    one(db, "UPDATE users SET credit = %s WHERE id = %s RETURNING credit", credit - cost, user)\n',
        "load",
        "charged_times",
    ),
    Mutant(
        "commits-the-stock-before-it-charges",
        "postgres",
        "app.py",
        '    cost = sum(quantity * price for _, quantity, price in lines)\n    one(db, "UPDATE users',
        '    db.commit()\n    cost = sum(quantity * price for _, quantity, price in lines)\n    one(db, "UPDATE users',
        "duplicates",
        "taken_times",
    ),
    Mutant(
        "charges-a-fee-at-a-restart",
        "single",
        "shop.py",
        "    LOG.append(os.open(",
        "    for user in list(USERS)[:3]:\n        USERS[user] -= 1\n    LOG.append(os.open(",
        "duplicates",
        "unstable",
        also="faults",
    ),
    Mutant(
        "keeps-what-it-has-read-once",
        "single",
        "shop.py",
        'return {"user_id": user, "credit": look(USERS, user)}',
        'return answer.__dict__.setdefault(user, {"user_id": user, "credit": look(USERS, user)})',
        "duplicates",
        "charged_times",
    ),
    Mutant(
        "guesses-what-is-paid",
        "single",
        "shop.py",
        '                "paid": value["paid"],\n',
        '                "paid": len(value["items"]) > 1,\n',
        "duplicates",
        "refused_but_paid",
    ),
    Mutant(
        "answers-200-when-out-of-stock",
        "single",
        "shop.py",
        '            raise Refused("out of stock")\n    if credit',
        "            return {}\n    if credit",
        "contract",
        "contract",
    ),
    Mutant(
        "is-right-at-first",
        "single",
        "shop.py",
        '    credit = look(USERS, order["user"]) - sum(',
        '    times = 2 if len(ORDERS) > 100 else 1\n    credit = look(USERS, order["user"]) - times * sum(',
        "load",
        "charged_times",
    ),
    Mutant(
        "sheds-load-after-the-effect",
        "sheds",
        "app.py",
        "        return 429, ",
        "        shop.reply(method, words)\n        return 429, ",
        "scarcity",
        "refused_but_paid",
        seconds=7.0,
    ),
    Mutant(
        "answers-400-when-overloaded",
        "overload",
        "app.py",
        "    return 503, ",
        "    return 400, ",
        "scarcity",
        "refused_but_paid",
        seconds=20.0,
    ),
    Mutant(
        "reads-the-stock-then-writes-it",
        "postgres",
        "app.py",
        '        one(db, "UPDATE items SET stock = stock - %s WHERE id = %s RETURNING stock", wanted[item], item)\n',
        '        (stock,) = one(db, "SELECT stock FROM items WHERE id = %s", item)\n'
        '        one(db, "UPDATE items SET stock = %s WHERE id = %s RETURNING 1", stock - wanted[item], item)\n',
        "load",
        "taken_times",
    ),
    Mutant(
        "looks-at-each-line-alone",
        "single",
        "shop.py",
        "        stock, price = items.get(item) or look(ITEMS, item)\n"
        "        items[item] = [stock - quantity, price]\n"
        "        if stock < quantity:\n",
        "        stock, price = items.get(item) or look(ITEMS, item)\n"
        "        items[item] = [stock - quantity, price]\n"
        "        if look(ITEMS, item)[0] < quantity:\n",
        "duplicates",
        "negative",
    ),
    Mutant(
        "keeps-the-lines-before-the-one-that-was-short",
        "single",
        "shop.py",
        "        if stock < quantity:\n",
        "        if stock < quantity:\n            del items[item]\n            commit(log, {'items': items})\n",
        "duplicates",
        "taken_times",
    ),
    Mutant(
        "forgets-after-seconds-what-is-paid",
        "single",
        "shop.py",
        '    if order["paid"]:\n        return {}\n',
        "    import time\n"
        '    if order["paid"] and time.monotonic() - order.setdefault("at", time.monotonic()) < 2:\n'
        "        return {}\n",
        "duplicates",
        "charged_times",
        also="scarcity",
    ),
    Mutant(
        "reads-then-adds-funds",
        "single",
        "shop.py",
        '            credit = look(USERS, user) + (int(amount) if what == "add_funds" else -int(amount))\n',
        '            credit = look(USERS, user) + (int(amount) if what == "add_funds" else -int(amount))\n'
        "            LOCK.release()\n"
        "            import time\n"
        "            time.sleep(0.002)\n"
        "            LOCK.acquire()\n",
        "contract",
        "contract",
    ),
    Mutant(
        "takes-lines-for-a-paid-order",
        "single",
        "shop.py",
        '            commit(log, {"orders": {order: {**value, "items": [',
        '            commit(log, {"orders": {order: {**value, "paid": False, "items": [',
        "contract",
        "contract",
    ),
    Mutant(
        "sells-nothing-after-a-restart",
        "single",
        "shop.py",
        "        with LOCK:\n",
        '        if words[:2] == ["orders", "checkout"] and len(ORDERS) > 20 and not FRESH:\n'
        '            return 503, {"error": "no connection"}\n'
        "        if len(ORDERS) < 20:\n"
        '            FRESH.add("")\n'
        "        with LOCK:\n",
        "faults",
        "unavailable",
    ),
    Mutant(
        "writes-down-what-is-sold-and-the-rest-later",
        "single",
        "shop.py",
        "    os.write(log, line)\n",
        "    PENDING.append(line)\n"
        "    if 'users' in change and 'orders' in change or len(PENDING) > 40:\n"
        "        os.write(log, b''.join(PENDING))\n"
        "        PENDING.clear()\n",
        "faults",
        "taken_times",
    ),
]
