"""One thread and one epoll object. A *turn* of the loop handles everything that has arrived since the last turn.

A turn has three parts: read from each socket that has data, call each timer that is due, and call `ends`, in this
order. While a turn runs, data arrives for the next one. So the more load there is, the more a turn handles, and the
less its fixed costs (one call of epoll, one sync of the log) are per request.
"""

import gc
import heapq
import itertools
import resource
import select
import socket
import time

ACCEPTED_PER_TURN = 64
"""If a thousand clients connect at once, the clients that are connected already must not wait for all of them."""


class Loop:
    def __init__(self):
        self.ends = []
        """Functions to call at the end of each turn."""
        self._poll, self._sockets = select.epoll(), {}
        self._timers, self._order = [], itertools.count()

    def watch(self, sock, ready):
        """Call ``ready()`` in each turn in which the socket can be read."""
        sock.setblocking(False)
        self._sockets[sock.fileno()] = ready
        self._poll.register(sock, select.EPOLLIN)

    def watch_room(self, sock, wanted):
        """If ``wanted``, call ``ready()`` also in each turn in which the socket can be written."""
        self._poll.modify(sock, select.EPOLLIN | select.EPOLLOUT if wanted else select.EPOLLIN)

    def forget(self, sock):
        """Stop watching a socket."""
        del self._sockets[sock.fileno()]
        self._poll.unregister(sock)

    def after(self, seconds, what):
        """Call ``what()`` once, after so many seconds."""
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._order), what))

    def listen(self, port, connected):
        """Accept connections, and call ``connected(socket)`` for each."""
        listening = socket.create_server(("127.0.0.1", port), backlog=4096)

        def accept():
            for _ in range(ACCEPTED_PER_TURN):
                try:
                    sock, _ = listening.accept()
                except OSError:  # no more connections, or no free file descriptors: try again in the next turn
                    return
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connected(sock)

        self.watch(listening, accept)

    def run(self):
        """Run turns forever."""
        # Requests do not create reference cycles, and a full collection of a large heap takes longer than an epoch.
        gc.disable()
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        while True:
            wait = max(0.0, self._timers[0][0] - time.monotonic()) if self._timers else None
            for number, _ in self._poll.poll(wait, 1024):
                if ready := self._sockets.get(number):  # an earlier event of this turn may have closed it
                    ready()
            while self._timers and self._timers[0][0] <= time.monotonic():
                heapq.heappop(self._timers)[2]()
            for end in self.ends:
                end()
