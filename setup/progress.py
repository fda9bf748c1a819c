"""How far pip is, from what it prints. Only the standard library, like bootstrap.py, which uses it."""

import os
import re
import select
import sys
import time


def follow(pip, log, packages, environment):
    """Copy pip's output to the log and show how far it is, until it closes. Returns the output."""
    progress, said, rest = Progress(packages, environment), [], b""
    while True:
        if select.select([pip.stdout], [], [], 1.0)[0]:
            chunk = os.read(pip.stdout.fileno(), 65536)
            if not chunk:
                progress.end()
                return "".join(said)
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                text = line.decode(errors="replace") + "\n"
                said.append(text)
                log.write(text)
                log.flush()
                progress.heard(text)
        progress.show()


class Progress:
    """One line on a terminal, rewritten; elsewhere a line every ten seconds."""

    def __init__(self, packages, environment):
        self.packages, self.environment = packages, environment
        self.fetched, self.phrase = 0, "pip starts"
        self.placing, self.before = False, 0
        self.started = self.shown = time.monotonic()

    def heard(self, line):
        """Take in one line of pip's."""
        if line.startswith("Collecting "):
            self.fetched += 1
            self.phrase = line.split()[1].split("==")[0]
        size = re.search(r"Downloading .*\(([\d.]+ [kMG]B)\)", line)
        if size:
            self.phrase = f"{self.phrase.split(' ')[0]} {size[1]}"
        if "Building wheel" in line and "started" in line:
            self.phrase = "building " + line.split("for ")[1].split()[0]
        if line.startswith("Installing collected packages"):
            self.placing, self.before = True, self.placed()

    def placed(self):
        """How many packages stand in the environment."""
        return sum(1 for _ in self.environment.glob("lib*/python*/site-packages/*.dist-info"))

    def show(self, every=10.0):
        """Say how far we are."""
        terminal, now = sys.stdout.isatty(), time.monotonic()
        if not terminal and now - self.shown < every:
            return
        self.shown = now
        if self.packages == 1:
            phrase = "installing the kit itself"
        elif self.placing:
            phrase = f"installing {min(self.placed() - self.before, self.fetched)} of {self.fetched}"
        else:
            phrase = f"fetching {self.fetched} of {max(self.packages, self.fetched)}: {self.phrase}"
        line = f"set-up: {now - self.started:4.0f} s  {phrase}"
        print(f"\r{line[:78]:<78}" if terminal else line, end="" if terminal else "\n", flush=True)

    def end(self):
        """Clear the line."""
        if sys.stdout.isatty():
            print("\r" + " " * 78 + "\r", end="", flush=True)
