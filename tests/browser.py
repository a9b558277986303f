"""A headless Chromium for tests, driven through a pipe in its own protocol: no package, driver, port or download."""

import base64
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
SECONDS = 60  # an answer takes milliseconds; beyond this the browser is gone


def executable() -> str | None:
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Browser:
    """One page. `requests` and `complaints` are what it asked for and what its console said, since it was opened."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self.to_browser, self.from_browser = to_browser, from_browser
        self.rest, self.number, self.session = b"", 0, None
        self.requests: list[str] = []
        self.complaints: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def receive(self) -> dict:
        deadline = time.monotonic() + SECONDS
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.from_browser], [], [], max(0.0, deadline - time.monotonic()))
            got = os.read(self.from_browser, 1 << 20) if ready else b""
            if not got:
                raise RuntimeError("the browser does not answer")
            self.rest += got
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def note(self, event: dict) -> None:
        told = event.get("params", {})
        if event.get("method") == "Network.requestWillBeSent":
            self.requests.append(told["request"]["url"])
        elif event.get("method") == "Log.entryAdded":
            self.complaints.append(told["entry"]["text"])
        elif event.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(told["exceptionDetails"]["text"])
        elif event.get("method") == "Runtime.consoleAPICalled":
            self.complaints.append(json.dumps(told["args"]))

    def call(self, method: str, **parameters: object) -> dict:
        self.number += 1
        command = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            command["sessionId"] = self.session
        sent = json.dumps(command).encode() + b"\0"
        while sent:
            sent = sent[os.write(self.to_browser, sent) :]
        while (answer := self.receive()).get("id") != self.number:
            self.note(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def wait_for(self, method: str) -> None:
        while (event := self.receive()).get("method") != method:
            self.note(event)

    def open(self, path: Path, width: int = 1280, height: int = 900) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.requests.clear()
        self.complaints.clear()
        self.call("Page.navigate", url=path.resolve().as_uri())
        self.wait_for("Page.loadEventFired")

    def media(self, kind: str = "screen", scheme: str = "light") -> None:
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=kind, features=features)

    def evaluate(self, expression: str) -> object:
        """The value of an expression of JavaScript, or of what it promises."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"])[:1000])
        return answer["result"].get("value")

    def press(self, key: str, code: int) -> None:
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def type(self, key: str, code: int, text: str) -> None:
        """A key that is also a character: buttons and folds obey the character."""
        named = {"key": key, "code": "Space" if key == " " else key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **named)
        self.call("Input.dispatchKeyEvent", type="keyUp", **named)

    def pdf(self) -> bytes:
        printed = self.call("Page.printToPDF", printBackground=True, preferCSSPageSize=True)
        return base64.b64decode(printed["data"])

    def picture(self) -> bytes:
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])


@contextmanager
def chromium(profile: Path) -> Iterator[Browser]:
    """A browser without network, with a profile of its own."""
    read_commands, write_commands = os.pipe()
    read_answers, write_answers = os.pipe()
    # The protocol is spoken on descriptors 3 and 4. As root, which containers are, Chromium has no sandbox.
    flags = "--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars --no-first-run"
    flags += " --remote-debugging-pipe"
    line = f'exec "$0" {flags} --user-data-dir="$1" about:blank 3<&{read_commands} 4>&{write_answers}'
    process = subprocess.Popen(
        ["bash", "-c", line, executable(), str(profile)],
        pass_fds=(read_commands, write_answers),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(read_commands)
    os.close(write_answers)
    try:
        browser = Browser(write_commands, read_answers)
        yield browser
        browser.session = None
        browser.call("Browser.close")
    finally:
        os.close(write_commands)
        os.close(read_answers)
        try:
            process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
