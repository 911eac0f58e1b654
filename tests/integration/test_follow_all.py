# SPDX-License-Identifier: Apache-2.0
"""--follow=all: a piped stdout goes through a relay of its own. Nobody notices it, and of the output only lines about
memory and failures are kept."""

import contextlib
import hashlib
import json
import os
import signal
import subprocess

import support
from support import HIP_OOM, PYTHON

ALL = ["--follow=all"]

# 48 MB of lines that are all different, in writes of many sizes.
MANY = """
import os, sys
size, number, count = 0, 0, int(sys.argv[1])
while size < count:
    text = b"".join(b"%d the answer of line %d\\n" % (n, n * n) for n in range(number, number + 1 + number % 700))
    number += 1 + number % 700
    size += len(text)
    while text:
        text = text[os.write(1, text):]
"""


class FollowAll(support.Case):
    def test_every_byte_arrives_whoever_dies(self):
        script = self.write("many.py", MANY)
        argv = (PYTHON, "-S", script, "48000000")
        wanted = hashlib.sha256(subprocess.run(argv, capture_output=True, check=True).stdout).hexdigest()
        for kills in (0, 20):
            with self.subTest(kills=kills):
                process = self.start(*argv, stdout=subprocess.PIPE, options=ALL)
                seen = hashlib.sha256()
                for turn, chunk in enumerate(iter(lambda: os.read(process.stdout.fileno(), 65536), b"")):
                    seen.update(chunk)
                    if turn < kills:
                        with contextlib.suppress(ProcessLookupError):  # the one before it, which has just ended
                            os.kill(self.helper(process.pid, "stdout relay"), signal.SIGKILL)
                process.stdout.close()
                self.assertEqual(process.wait(timeout=60), 0)
                self.assertEqual(seen.hexdigest(), wanted)

    def test_lines_of_memory_and_failures_are_kept(self):
        text = ("INFO Loading model weights took 14.9595 GB\n" + "The answer is 42, said Ann.\n" * 20000
                + HIP_OOM.rstrip("\n"))  # without a line's end
        for stderr in (subprocess.PIPE, subprocess.DEVNULL):
            with self.subTest(stderr=stderr):
                said = self.write("said.txt", text)
                process = self.start("/bin/sh", "-c", 'cat "$1"; exit 1', "sh", said, stdout=subprocess.PIPE,
                                     stderr=stderr, options=ALL)
                out, err = process.communicate(timeout=60)
                self.assertEqual(out.decode(), text)
                bundle = self.only_bundle(self.finished(process, out, err or b""))
                self.assertEqual(bundle.text("stdout/stdout.txt"), text.splitlines(True)[0] + HIP_OOM)
                self.assertEqual(bundle.row("stdout")["status"], "ok")
                self.assertEqual(bundle.verdict["class"], "capacity")
                self.assertIn("stdout line ", bundle.fact("msg.vllm_weights_bytes")["source"])
                again = json.loads(self.verb("triage", "--json", bundle.path).stdout)
                self.assertEqual((again["class"], again["confidence"]),
                                 (bundle.verdict["class"], bundle.verdict["confidence"]))
                os.unlink(bundle.path)

    def test_a_flood_of_messages(self):
        """The first and the last messages are kept; each line is whole."""
        code = "import sys\nfor i in range(200000): print(f'HIP error: out of memory, request {i} of many')\nsys.exit(1)"
        bundle = self.only_bundle(self.run_it(PYTHON, "-S", "-c", code, options=ALL))
        lines = bundle.text("stdout/stdout.txt").splitlines()
        numbers = [int(line.split()[6]) for line in lines]
        self.assertEqual(lines, [f"HIP error: out of memory, request {i} of many" for i in numbers])
        self.assertEqual(numbers, sorted(set(numbers)))
        self.assertEqual((numbers[0], numbers[-1]), (0, 199999))

    def test_the_pipe_is_large(self):
        """With a small pipe, bulk output would wait for the relay at each write of 64 KiB."""
        with open("/proc/sys/fs/pipe-max-size", encoding="ascii") as file:
            if int(file.read()) < 1 << 20:
                self.skipTest("pipes may not be larger than " + file.name + " says")
        code = "import fcntl; print(fcntl.fcntl(1, 1032), fcntl.fcntl(2, 1032))"  # F_GETPIPE_SZ
        done = self.run_it(PYTHON, "-S", "-c", code, options=ALL)
        self.assertEqual([int(word) for word in done.stdout.split()], [1 << 20, 1 << 16])

    def test_reader_that_goes_away_ends_the_writer(self):
        process = self.start("/bin/sh", "-c", "while :; do echo x; done", stdout=subprocess.PIPE,
                             options=[*ALL, "--quiet"])
        self.assertEqual(process.stdout.readline(), b"x\n")
        process.stdout.close()
        self.assertEqual(process.wait(timeout=30), -signal.SIGPIPE)

    def test_what_has_no_relay_of_its_own(self):
        """stdout in a file, and stdout in the same pipe as stderr: they are read without that relay."""
        shell = ("/bin/sh", "-c", f"echo '{HIP_OOM.strip()}'; exit 1")
        with open(self.path("out.log"), "wb") as file:
            process = self.start(*shell, stdout=file, stderr=subprocess.PIPE, options=ALL)
            _, err = process.communicate(timeout=60)
        self.assertEqual(self.bundles(), [])  # a file is read after the end only
        process = self.start(*shell, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, options=ALL)
        out, _ = process.communicate(timeout=60)
        bundle = self.only_bundle(self.finished(process, out))
        self.assertIn(HIP_OOM, out.decode())
        self.assertIn(HIP_OOM.strip(), bundle.text("output/stderr.txt"))
        self.assertEqual(bundle.row("stdout")["reason"], "stdout is no file of its own")

    def test_not_asked_for(self):
        done = self.run_it("/bin/sh", "-c", f"echo '{HIP_OOM.strip()}'; kill -SEGV $$")
        self.assertNotIn("stdout/stdout.txt", self.only_bundle(done).files)


if __name__ == "__main__":
    support.main()
