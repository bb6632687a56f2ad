"""A real browser without a window, for pages in files."""

import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

PROGRAM, DRIVER = "chromium", "chromedriver"
SILENT = (
    "--headless=new",
    "--no-sandbox",  # which needs rights that a container does not have; it opens our own files alone
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--force-prefers-reduced-motion",
    "--host-resolver-rules=MAP plain.test 127.0.0.1",  # a name that is no secure context over plain HTTP
    "--ignore-certificate-errors",
)
SECONDS = 60.0
"""How long anything may take; a busy machine is slow, a page that waits for ever is wrong."""


AXE = Path(os.environ.get("FEDBOARD_AXE", ""))
"""``axe.min.js`` of axe-core, which checks for barriers; ``.ci/run`` fetches it where it may."""
NEEDS_AXE = pytest.mark.skipif(
    not AXE.is_file(), reason="FEDBOARD_AXE does not name axe.min.js (npm pack axe-core)"
)


class Page:
    """A browser with one window."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, path: Path) -> None:
        """Open a file, and wait until its seal is checked."""
        self.visit(path.as_uri())

    def visit(self, address: str) -> None:
        """The same from anywhere."""
        self.driver.get(address)
        self.until("return 'ready' in document.documentElement.dataset")

    def leave(self) -> None:
        """Be as at the start: nowhere, at the first width, with nothing kept of pages or told of them."""
        self.driver.get("about:blank")
        self.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
        self.driver.execute_cdp_cmd("Storage.clearDataForOrigin", {"origin": "*", "storageTypes": "all"})
        self.driver.execute_cdp_cmd("Network.clearBrowserCache", {})
        self.console(), self.requests()

    def look(self, width: int, scheme: str) -> None:
        """Give the page this width, and a light or dark scheme."""
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        wanted = [
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": wanted})

    def js(self, script: str, *arguments: Any) -> Any:
        """The value of a function's body in the page."""
        return self.driver.execute_script(script, *arguments)

    def awaited(self, script: str, *arguments: Any) -> Any:
        """The value of an async function's body in the page."""
        body = f"const done = arguments[arguments.length - 1]; (async (...given) => {{ {script} }})(...arguments)"
        answer = self.driver.execute_async_script(
            f"{body}.then((value) => done({{ value }}), (error) => done({{ error: String(error) }}));",
            *arguments,
        )
        assert "error" not in answer, answer["error"]
        return answer.get("value")

    def until(self, script: str) -> Any:
        """Wait until a function's body gives something true."""
        ends = time.monotonic() + SECONDS
        while not (found := self.js(script)):
            assert time.monotonic() < ends, f"{script}: not within {SECONDS} s"
            time.sleep(0.02)
        return found

    def text(self, selector: str) -> str:
        """What is read there."""
        return str(self.js("return document.querySelector(arguments[0]).textContent", selector))

    def seal(self) -> tuple[str, dict[str, str]]:
        """The state of the seal, and of each of its steps."""
        steps = "return Object.fromEntries([...document.querySelectorAll('#seal-steps li')]"
        found = self.js(f"{steps}.map((row) => [row.dataset.step, row.dataset.state]))")
        return self.js("return document.documentElement.dataset.seal"), found

    def barriers(self) -> tuple[list[tuple[str, str, list[str]]], list[str]]:
        """What axe-core finds (rule, impact, first elements), and the rules that passed."""
        self.driver.execute_cdp_cmd("Runtime.evaluate", {"expression": AXE.read_text(encoding="utf-8")})
        found, passed = self.awaited(
            "const { violations, passes } = await axe.run(document, { resultTypes: ['violations'] });"
            "return [violations, passes.map(({ id }) => id)]"
        )
        told = [(one["id"], one["impact"], [node["html"] for node in one["nodes"]][:3]) for one in found]
        return told, passed

    def console(self) -> list[str]:
        """What was logged since this was asked last."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """What was asked of the network since this was asked last, as the browser's own protocol tells."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        return [
            event["params"]["request"]["url"]
            for event in events
            if event["method"] == "Network.requestWillBeSent"
            and not event["params"]["request"]["url"].startswith(("data:", "blob:"))
        ]


@contextmanager
def opened(profile: Path) -> Iterator[Page]:
    """A browser with a profile of its own; skips the test where there is none on this machine."""
    webdriver = pytest.importorskip(
        "selenium.webdriver", reason="selenium is not installed: pip install '.[dev]'"
    )
    program, driver = shutil.which(PROGRAM), shutil.which(DRIVER)
    if program is None or driver is None:
        pytest.skip("no browser here: install chromium and chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for argument in (*SILENT, f"--user-data-dir={profile}", "--window-size=1280,900"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    started = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        started.set_script_timeout(SECONDS)
        started.set_page_load_timeout(SECONDS)
        yield Page(started)
    finally:
        started.quit()
