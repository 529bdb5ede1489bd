"""Signals end the process whichever of its threads takes them."""

import signal
import subprocess
import sys

import pytest

_TIMES = 40
_PROGRAM = """
import os, sys, threading, time
from pgwire_gateway.listener.termination import termination

number, times = map(int, sys.argv[1:])

def begin_threads():
    while True:
        thread = threading.Thread(target=int)
        thread.start()
        thread.join()

def end(waiting):
    waiting.wait()
    time.sleep(0.01)
    os.kill(os.getpid(), number)

for _ in range(4):
    threading.Thread(target=begin_threads, daemon=True).start()
for _ in range(times):
    waiting = threading.Event()
    with termination() as wait:
        threading.Thread(target=end, args=[waiting], daemon=True).start()
        waiting.set()
        wait()
print("ended", flush=True)
os._exit(0)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_no_signal_is_missed_while_threads_begin(number: signal.Signals) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(int(number)), str(_TIMES)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert ended.stdout == "ended\n"


def test_a_signal_that_came_before_is_not_missed() -> None:
    program = """
import os, signal
from pgwire_gateway.listener.termination import termination

with termination() as wait:
    os.kill(os.getpid(), signal.SIGTERM)
    wait()
with termination():
    pass
assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
assert signal.set_wakeup_fd(-1) == -1
"""
    subprocess.run([sys.executable, "-c", program], timeout=60, check=True)
