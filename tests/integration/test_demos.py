# SPDX-License-Identifier: Apache-2.0
"""The recorded demos of samples/demo, with both outputs on one stream as on a terminal: each ends with the class in its
name."""

import os
import shutil
import subprocess

import support

SAMPLES = os.path.join(support.SOURCE, "samples")
DEMOS = (("capacity", "rx7900xtx", (), "capacity"), ("fragmentation", "rx7900xtx", (), "fragmentation"),
         ("leak", "rx7900xtx", (), "leak"), ("gtt-limit", "strix-halo", (), "gtt-limit"),
         ("held", "rx7900xtx", ("--hold", "19"), "held-by-other"), ("fault", "rx7900xtx", (), "page-fault"))


class Demos(support.Case):
    def test_each(self):
        for scenario, card, options, wanted in DEMOS:
            with self.subTest(scenario):
                machine, out = self.path(scenario), self.path(scenario + "-out")
                shutil.copytree(os.path.join(SAMPLES, "machine", card), machine, symlinks=True)
                os.mkdir(out)
                driver = subprocess.Popen([support.PYTHON, "-B", os.path.join(SAMPLES, "driver.py"), machine, *options],
                                          stdout=subprocess.PIPE)
                try:
                    driver.stdout.readline()  # it is ready
                    subprocess.run([support.ROCMCRASH, "--quiet", "--output-dir", out, "--", support.PYTHON, "-B",
                                    os.path.join(SAMPLES, "train.py"), scenario], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   timeout=60, check=False, env={**self.environ, "ROCMCRASH_SYSROOT": machine})
                finally:
                    driver.terminate()
                    driver.wait()
                    driver.stdout.close()
                (name,) = os.listdir(out)
                self.assertEqual(support.Bundle(os.path.join(out, name)).verdict["class"], wanted)


if __name__ == "__main__":
    support.main()
