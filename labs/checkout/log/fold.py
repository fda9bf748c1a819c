"""The state of a service as a fold: start with nothing, and apply the records of the log in their order.

The state after N records depends on these records alone. So a service needs no database: a start reads the log again.
Two readers of the log agree on everything, because they read the same records in the same order.

There are two kinds of records. A *request* is what a client has asked for. A *result* is what a service has concluded
from an earlier record, and it carries the offset of the checkout that it belongs to. A result gets into the log at
least once: a service sends it again if the connection is lost before it has come back, and a service that starts again
sends all results that it concludes from the records after its snapshot. So each service skips a second result with the
same kind and offset.

Source: state machine replication as in Schneider, Implementing fault-tolerant services using the state machine
approach, ACM Computing Surveys 1990; events in place of rows as in Fowler, Event Sourcing, 2005.
"""


class Refused(Exception):
    """The answer to a request that has no effect: a text and an HTTP status."""

    def __init__(self, text, status=400):
        super().__init__(text)
        self.status = status


class Fold:
    """A method ``on_KIND(at, **values)`` applies the records of a kind; records of other kinds have no effect.

    ``at`` is the offset of a request; for a result, it is the offset of the checkout that it belongs to. The method
    returns the answer to a request, raises Refused before it has changed anything, or returns None and calls
    ``tell(at, status, answer)`` when it applies a later record.
    """

    WRITES = {}
    """The path of a request, and the kind of its record."""
    READS = {}
    """The path of a read, and the method that answers it."""

    def __init__(self, tell=lambda at, status, answer: None):
        self.tell = tell
        self.offset = 0
        """Of the next record."""
        self.pending = {}
        """Results of this service that have not come back from the log, by kind and offset."""
        self.seen = set()
        """Kind and offset of the results that it has applied."""

    def apply(self, record):
        """Apply the next record. Returns the results that this service concludes from it."""
        values, self.concluded = {**record}, []
        kind, at = values.pop("kind"), values.pop("of", self.offset)
        values.pop("asker", None)
        self.offset += 1
        if "of" in record:
            self.pending.pop((kind, at), None)
            if (kind, at) in self.seen:
                return []
            self.seen.add((kind, at))
        try:
            answer = getattr(self, f"on_{kind}", lambda at, **values: None)(at, **values)
        except Refused as refused:
            self.tell(at, refused.status, {"error": str(refused)})
        else:
            if answer is not None:
                self.tell(at, 200, answer)
        return self.concluded

    def emit(self, kind, at, **values):
        """Conclude a result."""
        self.pending[kind, at] = {"kind": kind, "of": at, **values}
        self.concluded.append(self.pending[kind, at])


def existing(rows, name):
    """The row with this id. Raises Refused (404) if there is none."""
    if name not in rows:
        raise Refused(f"there is no {name}", 404)
    return rows[name]
