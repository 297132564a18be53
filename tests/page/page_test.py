#!/usr/bin/env python3
"""The built-in page in a real browser: headless Chromium, driven over WebDriver, against the real server.

    tests/page/page_test.py MILLRACE

Needs Debian's chromium and chromium-driver (exit code 77 without), and ../shared/data/models/stories260k for its
tokenizer; tokens are made up by the null engine.
"""

import pathlib
import re
import signal
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tests" / "python"), str(ROOT / "tests" / "page")]

from browser import Browser, missing_programs, wait_for  # noqa: E402
from server_process import ServerProcess  # noqa: E402

BINARY = ""
STORIES = ROOT.parent / "shared" / "data" / "models" / "stories260k"
TEMPLATE = "{% for m in messages %}{{ m['content'] }} {% endfor %}"
KEY = "s3cret"
ENTER, ESCAPE = "\ue007", "\ue00c"


class Page(unittest.TestCase):
    """One story in chapters, in the order of their names: the browser and the server live through all of them."""

    @classmethod
    def setUpClass(cls):
        folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        template = folder / "template.jinja"
        template.write_text(TEMPLATE)
        flags = ["--engine", "null", "--null-tokens-per-second", "50", "--chat-template", template, "--generation-config", "none",
                 "--api-key", KEY, "--served-model-name", "<b>mill</b>", "--shutdown-timeout", "0"]
        cls.server = cls.enterClassContext(ServerProcess(BINARY, STORIES, *flags))
        cls.origin = cls.server.url + "/"
        cls.browser = cls.enterClassContext(Browser.started(folder))
        cls.browser.open(cls.origin)

    def ask(self, text):
        self.browser.type("#prompt", text + ENTER)

    def wait_for_end(self):
        wait_for("the end of the answer", lambda: self.browser.is_shown("#send"))

    def wait_for_text(self, num_characters):
        wait_for("text", lambda: len(self.browser.text(".answer .text") or "") >= num_characters)

    def test_1_a_key_is_asked_for_and_a_wrong_one_is_told(self):
        browser = self.browser
        wait_for("the dialog", lambda: browser.run("return document.getElementById('key-dialog').open"))
        self.assertFalse(browser.is_shown("#key-error"))
        browser.type("#key", "wrong" + ENTER)
        wait_for("the refusal", lambda: browser.is_shown("#key-error"))
        self.assertIn("key", browser.text("#key-error").lower())
        browser.type("#key", KEY + ENTER)
        wait_for("the model's name", lambda: browser.text("#model option") == "<b>mill</b>")
        self.assertFalse(browser.run("return document.getElementById('key-dialog').open"))
        self.assertEqual(browser.run("return sessionStorage.length + ' ' + localStorage.length"), "1 0")
        for message in browser.take_errors():  # Chromium tells of each refused request
            self.assertIn("401", message)

    def test_2_an_answer_comes_in_pieces_with_its_figures(self):
        browser = self.browser
        browser.type("#max-tokens", "80")
        browser.run("""
            window.pieces = 0;
            const log = document.getElementById("messages");
            new MutationObserver((changes) => {
              if (changes.some((change) => change.type === "characterData")) ++window.pieces;
            }).observe(log, { subtree: true, characterData: true });
        """)
        self.ask("Hello there")
        self.wait_for_text(1)
        self.assertEqual(browser.run("return document.querySelector('.answer').getAttribute('aria-busy')"), "true")
        self.wait_for_end()
        self.assertGreater(browser.run("return window.pieces"), 10)
        figures = browser.text(".answer .figures")
        self.assertRegex(figures, r"TTFT [\d.]+ ms · 80 tokens · [\d.]+ tokens/s · cut off at the token limit")
        speed = float(re.search(r"([\d.]+) tokens/s", figures).group(1))
        self.assertTrue(1 < speed < 1000, figures)  # 50, but for the machine's load
        self.assertEqual(browser.run("return document.querySelector('.answer').getAttribute('aria-busy')"), "false")
        self.assertEqual(browser.take_errors(), [])

    def test_3_markup_stays_text(self):
        browser = self.browser
        evil = "<script>window.isHurt = true</script><img src=x onerror='window.isHurt = true'><b>bold</b>"
        self.ask(evil)
        self.wait_for_end()
        self.assertEqual(browser.text(".question .text"), evil)
        self.assertIsNone(browser.run("return window.isHurt ?? null"))
        self.assertEqual(browser.run("return document.querySelectorAll('#messages :is(script, img, b)').length"), 0)
        self.assertEqual(browser.take_errors(), [])

    def test_4_stop_ends_an_answer(self):
        browser = self.browser
        browser.run("document.getElementById('max-tokens').value = ''")
        for stop in (lambda: browser.click("#stop"), lambda: browser.type("#prompt", ESCAPE)):
            browser.click("#new-chat")
            self.ask("Tell me more")
            self.wait_for_text(20)
            stop()
            self.wait_for_end()
            self.assertIn("stopped", browser.text(".answer .figures"))
            text = browser.text(".answer .text")
            time.sleep(0.3)
            self.assertEqual(browser.text(".answer .text"), text)
        self.assertEqual(browser.take_errors(), [])

    def test_5_the_panel_shows_what_the_server_does(self):
        browser = self.browser
        self.assertEqual(browser.text("#live-state"), "live")
        browser.click("#new-chat")
        self.ask("Go on")
        numbers = lambda: dict(browser.run("return [...document.querySelectorAll('.tile')].map("
                                           "(tile) => [tile.querySelector('dt').textContent, tile.querySelector('dd').textContent])"))
        wait_for("a running request", lambda: numbers()["Running"] == "1" and re.match(r"\d\d", numbers()["Generation, tokens/s"]))
        shown = numbers()
        self.assertEqual(len(shown), 9)
        self.assertEqual(shown["Waiting"], "0")
        for label, value in shown.items():
            self.assertRegex(value, r"^\d[\d.]*( ms| s| %)?$", label)
        self.assertRegex(browser.run("return document.querySelector('.tile path.line').getAttribute('d')"), r"^M.*L")
        browser.type("#prompt", ESCAPE)
        wait_for("quiet", lambda: numbers()["Running"] == "0")
        browser.click("#panel-toggle")
        time.sleep(0.5)  # for the request under way
        num_requests = len(browser.take_requests())
        time.sleep(2)
        self.assertEqual(browser.take_requests()[num_requests:], [], "a closed panel polls")
        browser.click("#panel-toggle")
        wait_for("the panel polls again", lambda: len(browser.take_requests()) > num_requests)
        self.assertEqual(browser.take_errors(), [])

    def test_6_a_refusal_is_told_and_can_be_tried_again(self):
        browser = self.browser
        browser.click("#new-chat")
        browser.run("document.getElementById('prompt').value = 'word '.repeat(2000)")
        self.ask("")
        wait_for("the error", lambda: browser.text(".answer .error"))
        self.assertIn("512", browser.text(".answer .error"))
        self.assertEqual(browser.text(".answer .error button"), "Try again")
        browser.click(".answer .error button")
        wait_for("the error", lambda: browser.text(".answer .error"))
        self.assertEqual(browser.run("return document.querySelectorAll('.answer').length"), 1)
        for message in browser.take_errors():
            self.assertIn("400", message)

    def test_7_the_system_prompt_and_the_conversation_are_sent(self):
        browser = self.browser
        browser.click("#new-chat")
        browser.run("""
            window.bodies = [];
            const fetchAnyhow = window.fetch;
            window.fetch = (path, options) => {
              if (options?.body) window.bodies.push(JSON.parse(options.body));
              return fetchAnyhow(path, options);
            };
        """)
        for selector, text in (("#system", "Be brief."), ("#max-tokens", "3"), ("#temperature", "0.5"), ("#seed", "7")):
            browser.type(selector, text)
        for text in ("One", "Two"):
            self.ask(text)
            self.wait_for_end()
        first, second = browser.run("return window.bodies")
        self.assertEqual([message["role"] for message in second["messages"]], ["system", "user", "assistant", "user"])
        self.assertEqual(second["messages"][2]["content"], browser.run("return document.querySelector('.answer .text').textContent"))
        self.assertEqual((first["temperature"], first["seed"], first["max_completion_tokens"]), (0.5, 7, 3))
        self.assertEqual(browser.take_errors(), [])

    def test_8_a_server_that_stops_is_told(self):
        browser = self.browser
        browser.run("document.getElementById('max-tokens').value = ''")
        self.ask("And on and on")
        self.wait_for_text(20)
        self.server.process.send_signal(signal.SIGTERM)
        wait_for("the error", lambda: browser.text(".answer .error"))
        self.assertTrue(browser.text(".answer .text"))
        wait_for("the panel's word", lambda: browser.text("#live-state") == "not reachable")
        self.ask("Anyone there?")
        wait_for("the error", lambda: "cannot be reached" in (browser.text(".answer .error") or ""))

    def test_9_nothing_came_from_elsewhere(self):
        requested = self.browser.take_requests()
        self.assertIn(self.origin + "app.js", requested)
        self.assertIn(self.origin + "metrics", requested)
        for url in requested:
            self.assertTrue(url.startswith(self.origin), url)


def missing():
    """What the test cannot do without."""
    if reason := missing_programs():
        return reason
    return None if STORIES.exists() else f"{STORIES} is missing"


if __name__ == "__main__":
    BINARY = sys.argv.pop(1)
    if reason := missing():
        print(f"skipped: {reason}")
        sys.exit(77)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the cleanups run then too
    unittest.main(argv=sys.argv, failfast=True)
