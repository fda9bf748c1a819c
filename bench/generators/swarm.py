"""In Locust's environment: FastHttpUsers against a port for some seconds; what Locust tells, as JSON.

    python bench/generators/swarm.py PORT USERS RATE SECONDS

Each user sends its next request when it has its answer, and at most RATE a second (0: at once). Prints "begun"
when all users run, then one line of JSON: requests, failures, seconds, cpu (seconds), p50_ms, p99_ms.
"""

from __future__ import annotations

import json
import resource
import sys
import time

import gevent  # type: ignore[import-untyped]  # it is in Locust's environment
from locust import FastHttpUser, constant_throughput, task  # type: ignore[import-not-found]
from locust.env import Environment  # type: ignore[import-not-found]


def cpu() -> float:
    """Seconds of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Ramp up, measure, tell."""
    port, users, rate, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])

    class Shopper(FastHttpUser):  # type: ignore[misc]
        host = f"http://127.0.0.1:{port}"
        if rate:
            wait_time = constant_throughput(rate)

        @task  # type: ignore[untyped-decorator]
        def checkout(self) -> None:
            self.client.post("/orders/checkout/abcdef00000000", name="checkout")

    runner = Environment(user_classes=[Shopper]).create_local_runner()
    runner.start(users, spawn_rate=users)
    while runner.user_count < users:
        gevent.sleep(0.05)  # Locust announces the end of its ramp to a web page only
    gevent.sleep(1)  # every user has its connection by then
    runner.stats.reset_all()
    before, began = cpu(), time.monotonic()
    print("begun", flush=True)
    gevent.sleep(seconds)
    took, used, total = time.monotonic() - began, cpu() - before, runner.stats.total
    told = {
        "requests": total.num_requests,
        "failures": total.num_failures,
        "seconds": took,
        "cpu": used,
        "p50_ms": total.get_response_time_percentile(0.5),
        "p99_ms": total.get_response_time_percentile(0.99),
    }
    runner.quit()
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
