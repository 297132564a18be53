#!/usr/bin/env python3
"""A report's page in a real browser, from a file and without a network: headless Chromium, driven over WebDriver.

    tests/page/report_test.py REPORT_TEST

REPORT_TEST is the unit tests' program of src/report, which writes a page of made-up records. Needs Debian's chromium and
chromium-driver (exit code 77 without).
"""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from browser import Browser, missing_programs, wait_for  # noqa: E402

REPORT_TEST = ""
CHARTS = ("latency-chart", "pareto-chart", "curves-chart", "timeline-chart")
NUM_ROWS = 10  # of the made-up page: two frameworks, five loads


class ReportPage(unittest.TestCase):
    """One story in chapters, in the order of their names."""

    @classmethod
    def setUpClass(cls):
        folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.path = folder / "report.html"
        subprocess.run([REPORT_TEST, "--gtest_filter=HtmlPage.IsWrittenWhereItIsAskedFor"], check=True, stdout=subprocess.DEVNULL,
                       env={**os.environ, "MILLRACE_REPORT_PAGE": str(cls.path)})
        cls.browser = cls.enterClassContext(Browser.started(folder))
        cls.browser.open(cls.path.as_uri())
        wait_for("the charts", lambda: cls.browser.run("return document.body.dataset.charts"))

    def numbers_of(self, chart, trace):
        return self.browser.run("return document.getElementById(arguments[0]).data[arguments[1]].y", chart, trace)

    def choose(self, chart, name, value):
        self.browser.run("""
            const element = document.getElementById(arguments[0]).previousElementSibling.elements[arguments[1]];
            if (element.type === "checkbox") element.checked = arguments[2]; else element.value = arguments[2];
            element.dispatchEvent(new Event("change", { bubbles: true }));
        """, chart, name, value)

    def axis_type(self, chart, axis):
        return self.browser.run("return document.getElementById(arguments[0])._fullLayout[arguments[1]].type", chart, axis)

    def test_1_every_chart_is_drawn(self):
        browser = self.browser
        self.assertEqual(browser.run("return document.body.dataset.charts"), "drawn")
        self.assertEqual(browser.run("return [...document.querySelectorAll('figure.chart')].map((chart) => chart.id)"), list(CHARTS))
        for chart in CHARTS:
            marks = browser.run("return document.querySelectorAll(`#${arguments[0]} svg :is(.scatterlayer .trace, .bars .point)`).length", chart)
            self.assertGreater(marks, 1, chart)
        self.assertFalse(browser.is_shown("#no-charts"))
        buttons = browser.run("return [...document.querySelectorAll('#latency-chart .modebar-btn')].map((button) => button.dataset.title)")
        self.assertEqual(len(buttons), 4, buttons)  # none that sends the chart somewhere
        self.assertEqual(browser.take_errors(), [])

    def test_2_markup_in_texts_stays_text(self):
        browser = self.browser
        self.assertEqual(browser.text("h1"), "<b>vLLM</b> and SGLang on one A100")
        self.assertIn("</script><script>window.isHurt = true</script>", browser.text("#verdicts"))
        self.assertIsNone(browser.run("return window.isHurt ?? null"))

    def test_3_a_header_sorts_the_table(self):
        browser = self.browser
        column = "[...document.querySelectorAll('#summary tbody tr')].map((row) => Number(row.cells[2].dataset.sort))"
        self.assertEqual(len(browser.run(f"return {column}")), NUM_ROWS)
        press = "[...document.querySelectorAll('#summary th button')].find((button) => button.textContent === 'done').click()"
        browser.run(press)
        ascending = browser.run(f"return {column}")
        self.assertEqual(ascending, sorted(ascending))
        self.assertGreater(len(set(ascending)), 3)
        browser.run(press)
        self.assertEqual(browser.run(f"return {column}"), ascending[::-1])
        self.assertEqual(browser.run("return document.querySelectorAll('#summary [aria-sort=descending]').length"), 1)

    def test_4_the_controls_draw_anew(self):
        browser = self.browser
        p50 = self.numbers_of("latency-chart", 0)
        self.choose("latency-chart", "figure", "p99")
        wait_for("p99", lambda: self.numbers_of("latency-chart", 0) != p50)
        self.assertTrue(all(high > low for high, low in zip(self.numbers_of("latency-chart", 0), p50)))
        for is_log, kind in ((True, "log"), (False, "linear")):
            self.choose("latency-chart", "log_time", is_log)
            wait_for(kind, lambda: self.axis_type("latency-chart", "yaxis4") == kind)
        self.choose("latency-chart", "clock", "scheduled")
        self.choose("latency-chart", "load", "reached")
        self.choose("curves-chart", "rows", "3")
        wait_for("one row's curves", lambda: browser.run("return document.getElementById('curves-chart').data.length") == 3)
        self.choose("timeline-chart", "row", "0")
        wait_for("the row's bars", lambda: browser.run("return document.getElementById('timeline-chart').data[0].y.length") == 20)
        self.assertEqual(browser.take_errors(), [])

    def test_5_dark_is_drawn_in_its_own_colours(self):
        browser = self.browser
        colour = lambda: browser.run("return document.getElementById('pareto-chart').layout.font.color")
        light = colour()
        browser.call("POST", "/goog/cdp/execute", {"cmd": "Emulation.setEmulatedMedia", "params": {
            "features": [{"name": "prefers-color-scheme", "value": "dark"}]}})
        wait_for("the dark colours", lambda: colour() != light)
        self.assertEqual(browser.take_errors(), [])

    def test_6_without_the_means_to_inflate_it_says_so(self):
        browser = self.browser
        browser.call("POST", "/goog/cdp/execute", {"cmd": "Page.addScriptToEvaluateOnNewDocument", "params": {
            "source": "delete window.DecompressionStream"}})
        browser.open(self.path.as_uri())
        wait_for("the note", lambda: browser.is_shown("#no-charts"))
        self.assertIn("cannot inflate", browser.text("#no-charts"))
        self.assertEqual(browser.run("return document.querySelectorAll('#summary tbody tr').length"), NUM_ROWS)

    def test_7_nothing_was_asked_of_a_network(self):
        requested = self.browser.take_requests()
        self.assertIn(self.path.as_uri(), requested)
        for url in requested:
            self.assertRegex(url, "^(file|data|blob|chrome):", url)


if __name__ == "__main__":
    REPORT_TEST = sys.argv.pop(1)
    if reason := missing_programs():
        print(f"skipped: {reason}")
        sys.exit(77)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the cleanups run then too
    unittest.main(argv=sys.argv, failfast=True)
