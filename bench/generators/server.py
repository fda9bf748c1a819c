"""Run by path: a server that answers every request at once, with 200 and {}; it is not what is measured.

It prints its port, and ends when its input closes. One thread, one epoll; a request ends with an empty line.
"""

import gc
import os
import select
import socket
import threading

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


def serve(listener: socket.socket) -> None:
    """Answer for ever."""
    poll, lines = select.epoll(), {}
    poll.register(listener.fileno(), select.EPOLLIN)
    while True:
        for number, _ in poll.poll(-1, 512):
            if number == listener.fileno():
                while True:
                    try:
                        line, _ = listener.accept()
                    except BlockingIOError:
                        break
                    line.setblocking(False)
                    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    lines[line.fileno()] = line
                    poll.register(line.fileno(), select.EPOLLIN)
                continue
            line = lines[number]
            try:
                data = line.recv(8192)
            except OSError:
                data = b""
            if data:
                line.send(ANSWER * data.count(b"\r\n\r\n"))
            else:
                del lines[number]
                line.close()


def main() -> None:
    """Listen, say where, serve."""

    def watch() -> None:
        os.read(0, 1)
        os._exit(0)

    gc.disable()  # a collection would be a late answer
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(4096)
    listener.setblocking(False)
    print(listener.getsockname()[1], flush=True)
    threading.Thread(target=watch, daemon=True).start()
    serve(listener)


if __name__ == "__main__":
    main()
