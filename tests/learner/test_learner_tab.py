"""A learner closes the tab of a notebook while a cell runs, and opens it again."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest
from notebook_run import Here


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no named pipes of this kind")
def test_a_cell_runs_on_without_its_tab(tmp_path: Path) -> None:
    """It runs to its end, and the tab that is opened later finds what it has computed."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    cell = f"print('begun', flush=True)\nwith open({str(pipe)!r}) as file:\n    done = file.read()"

    async def learn() -> str:
        manager = Here(transport="ipc", connection_file=str(tmp_path / "k.json"))
        await manager.start_kernel()
        try:
            tab = manager.client()
            tab.start_channels()
            await tab.wait_for_ready(timeout=120)
            tab.execute(cell)
            while (await tab.get_iopub_msg(timeout=120))["msg_type"] != "stream":
                pass
            tab.stop_channels()  # the tab is closed
            await asyncio.to_thread(pipe.write_text, "a result")  # what the cell waits for
            again = manager.client()
            again.start_channels()
            await again.wait_for_ready(timeout=120)
            told = await again.execute("", user_expressions={"done": "done"}, reply=True, timeout=120)
            again.stop_channels()
            return str(told["content"]["user_expressions"]["done"]["data"]["text/plain"])
        finally:
            await manager.shutdown_kernel(now=True)

    assert asyncio.run(learn()) == "'a result'"
