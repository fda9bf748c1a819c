"""Rules 1 to 5, which every engine keeps."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from cases import CASES
from support import Fleet, case_names, epochs, examples, keys_of
from typing import Any


@case_names
def test_rule_01_equals_recomputation(name: str) -> None:
    """After every epoch each engine equals recomputation as a bag; partial on the keys that are filled."""

    @examples(12)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        fleet = Fleet(CASES[name])
        for given_ in data.draw(epochs(fleet.relations)):
            if data.draw(st.booleans()):
                fleet.read(data.draw(keys_of(fleet.view)))
            fleet.step(given_)
            fleet.check()
        fleet.close()

    run()
