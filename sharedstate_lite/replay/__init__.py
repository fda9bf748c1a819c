"""Messages in, recording out: an engine is played, and watched from beside, for the stepper.

    play        Replay: a history of messages to a recording
    read        what a person types, to messages, or a plain word
    watch       standing beside an engine: what happened, in order
    parts       operators, edges and pieces of state at a moment
    steps       from events to steps; flow (full, shared) and asked (partial) say where one ends
    told        steps to a Recording; captions  each in a sentence, and the question before it
    state       what was held at each step; tables, rows, ruler  as a reader sees it

What comes out is plain data (:mod:`.recording`), which is all that pictures see. No engine
knows that it is watched: look-ups and batches are seen from outside.
"""

from .play import Replay

__all__ = ["Replay"]
