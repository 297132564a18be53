"""Whether hints to memory are in the kernels' machine code: no result shows it when a compiler drops them, as gcc 12 did
with calls of a function that only prefetches.

    hints_test.py LIBRARY    the static library of src/kernels
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

LIBRARY = pathlib.Path(sys.argv.pop()).resolve()


def instructions_of(source):
    """Those of an object of the library that ask memory or multiply bytes, in order."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["ar", "x", LIBRARY, f"{source}.cpp.o"], cwd=folder, check=True)
        listing = subprocess.run(
            ["objdump", "-d", "--no-show-raw-insn", f"{source}.cpp.o"], cwd=folder, check=True, capture_output=True, text=True
        ).stdout
    return re.findall(r"\t(prefetch\w+|vpdpbusd)\b", listing)


class Hints(unittest.TestCase):
    def test_outputs_are_asked_for(self):
        for source in ("linear_avx2", "linear_avx512", "linear_avx512_dot", "linear_quantized_avx2",
                       "linear_quantized_avx512", "linear_quantized_avx512_vnni"):
            with self.subTest(source):
                self.assertIn("prefetchw", instructions_of(source))

    def test_next_panels_are_asked_for_between_products(self):
        found = instructions_of("linear_quantized_avx512_vnni")
        between = [i for i in range(1, len(found) - 1)
                   if found[i] == "prefetcht1" and found[i - 1] == found[i + 1] == "vpdpbusd"]
        self.assertGreater(len(between), 200, "two panels x six tokens alone have sixteen places in each format")


if __name__ == "__main__":
    unittest.main()
