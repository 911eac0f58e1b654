# SPDX-License-Identifier: Apache-2.0
"""Every verb of the program's own table, with good, damaged and hostile input and with none: the exit status is the
documented one, the verb writes only what it is for, the terminal gets nothing that it would obey, and the JSON can be
parsed."""

import collections
import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import unicodedata

try:
    import jsonschema
except ImportError:
    jsonschema = None

import support
from attack_table import Attacks
from support import HIP_OOM, PYTHON, ROCMCRASH
from test_surface import bundle_bytes

OK, BAD, FAILED, USAGE = 0, 1, 2, 125
ANY = (OK, BAD, FAILED)
NASTY = "n\x1b[2J\x9b31m\u202e\u2066\u200b\ufeff\u00ad\u2028\U000e0041\r\nrocmcrash: forged\x07\x7f"
FACTS = ("run.program", "env.HSA_XNACK", "os.kernel_release", "hsa.library", "python.version", "torch.version")

# Kinds of input. A verb answers all inputs of one kind in the same way.
KINDS = {
    "good": ("good",),
    "cut": ("cut",),  # its last bytes are missing: the intact files are used
    "broken": ("torn", "empty", "bomb", "text", "up", "absolute", "link", "device"),
    "nasty": ("nasty",),  # in every field, and in the name
    "gone": ("gone", "nasty gone"),
    "fifo": ("fifo",),
    "folder": ("folder",),
}

Row = collections.namedtuple("Row", "words status json writes")
BUNDLE = {"good": OK, "cut": OK, "broken": FAILED, "nasty": OK, "gone": FAILED, "fifo": FAILED, "folder": FAILED}
STRICT = {**BUNDLE, "cut": BAD, "broken": BAD}  # the whole bundle, or nothing
NOTHING = dict.fromkeys(KINDS, USAGE)           # takes none


def row(words, status=None, json="", writes=(), **others):
    """{} is the input. `others`: the status for a kind, where it is not that of `status`. `json`: "lines", "one", or
    "outcome", an object of templates/schema/outcome.json.
    `writes`: the input itself, or names below the folder of the test."""
    return Row(words.split(" ") if words else [], {**(status or BUNDLE), **others}, json, writes)


# For each verb its status without an operand, and how it is called.
ROWS = {
    "show": (FAILED, row("{}", json="lines"), row("--all {}"), row("--raw {}"), row("{} {good}")),
    "issue": (FAILED, row("{}", json="one"), row("--for drm-amd {}")),
    "open": (FAILED, row("--print {}", json="outcome", writes=("tmp/rocmcrash-page-",)), row("-o - {}")),
    "list": (OK, row("{}", dict.fromkeys(KINDS, FAILED), folder=OK, json="lines")),
    "verify": (USAGE, row("{}", STRICT, json="lines"), row("{} {good}", STRICT)),
    "triage": (USAGE, row("{}", json="one"), row("--explain leak {}"), row("--facts {} {good}", dict.fromkeys(KINDS, FAILED))),
    "diff": (FAILED, row("{good} {}", nasty=BAD, json="one"), row("{} {}")),  # as diff(1)
    "fleet": (USAGE, row("{}", fifo=FAILED, folder=FAILED, json="one"), row("{} {good}", dict.fromkeys(KINDS, OK), json="one", folder=OK)),
    "doctor": (ANY, row("--facts={}", NOTHING, json="one")),  # as the machine is
    "export": (USAGE, row("--trace {}", nasty=FAILED), row("--trace -o {out} {}", nasty=FAILED, json="outcome", writes=("jail/out",)),
               row("--torch {}", good=FAILED, cut=FAILED, nasty=FAILED)),
    "stacks": (USAGE, row("{}", NOTHING, json="outcome")),
    "snap": (USAGE, row("{}", NOTHING, json="outcome"), row("--watch {} 1", NOTHING), row("--times {} 1", NOTHING)),
    "watch": (USAGE, row("{}", NOTHING, json="outcome"), row("--bundle-at {} 1", NOTHING)),
    "complete": (USAGE, row("{}", cut=FAILED, json="outcome", writes=("{}",))),
    "reveal": (USAGE, row("{}", nasty=FAILED, json="one"), row("{} {text}", nasty=FAILED)),
    "redact": (USAGE, row("{}", STRICT, fifo=OK, json="outcome", writes=("{}",)), row("--preview {}", STRICT, fifo=OK, json="outcome")),
    "recover": (OK, row("{}", NOTHING, json="outcome")),
    "rerun": (USAGE, row("{}", good=USAGE, cut=FAILED, nasty=USAGE, json="outcome")),  # nobody can be asked
    "try": (USAGE, row("{}", good=USAGE, cut=FAILED, nasty=USAGE, json="one")),
    "fit": (USAGE, row("{}", NOTHING, json="one")),
    "collectors": (OK, row("{}", NOTHING)),
    "config": (OK, row("{}", NOTHING)),
    "release": (USAGE, row("{}", NOTHING, json="outcome")),
    "help": (OK, row("{}", NOTHING)),
}
JSON_ALONE = {"list", "config", "collectors", "recover"}  # with --json and no operand
WITHOUT_JSON = {"help"}


def tree(folder):
    """The files and folders below `folder`, by name and contents."""
    found = {}
    for place, folders, names in os.walk(folder):
        for name in folders + names:
            path = os.path.join(place, name)
            data = b""
            if os.path.isfile(path) and not os.path.islink(path):
                with open(path, "rb") as file:
                    data = file.read()
            found[os.path.relpath(path, folder)] = hashlib.sha256(data).hexdigest()
    return found


def nasty_bundle():
    facts = [{"name": name, "when": "static", "value": NASTY, "source": NASTY} for name in FACTS]
    verdict = {"class": NASTY, "subclass": NASTY, "confidence": NASTY, "sentence": NASTY, "vendor": NASTY,
               "file_at": NASTY, "title": NASTY}
    run = {"argv": [PYTHON, "it's", "a" + " " * 3000 + "b", NASTY], "cwd": "/" + NASTY, "argv_cut": 0}
    return bundle_bytes("rocmcrash-20260101T000000Z-x-capacity", {
        "SUMMARY.md": f"# x\n\n{NASTY.replace(chr(10), '')}\n".encode(), "output/stderr.txt": NASTY.encode(),
        "facts.json": json.dumps({"format": 1, "facts": facts}).encode(),
        "verdict.json": json.dumps(verdict).encode(), "run/run.json": json.dumps(run).encode(),
        "telemetry/telemetry.csv": f"t,{NASTY}\n1,2\n".encode()})


class Verbs(support.Case):
    def setUp(self):
        super().setUp()
        self.jail, self.state = self.path("jail"), self.environ["ROCMCRASH_STATE_DIR"]
        self.environ.update(TMPDIR=self.path("tmp"), HOME=self.path("home"), PAGER="cat")
        for folder in ("tmp", "home", "jail", "empty"):
            os.mkdir(self.path(folder))
        self.write("sysroot/dev/kmsg", "6,1,1,-;usb 1-2: new high-speed USB device number 7\n")
        # Made without a kernel log, so that `complete` has something to add.
        code = f"import sys; sys.stderr.write({HIP_OOM!r}); sys.exit(1)"
        self.bundle = self.only_bundle(self.python(code, options=["--sysroot", self.path("empty")]))
        self.good = self.path("good.tar.gz")
        shutil.copy(self.bundle.path, self.good)
        self.environ["ROCMCRASH_SYSROOT"] = self.path("sysroot")
        self.stages_before = self.stages()

    def inputs(self):
        with open(self.bundle.path, "rb") as file:
            good = file.read()
        data = {"good": (self.bundle.name + ".tar.gz", good), "nasty": ("good-" + NASTY + ".tar.gz", nasty_bundle()),
                "cut": (self.bundle.name + ".tar.gz", good[:-20]), "torn": ("torn.tar.gz", good[:600]),
                "empty": ("empty.tar.gz", b""), "bomb": ("bomb.tar.gz", gzip.compress(b"\0" * (64 << 20))),
                "text": ("text.tar.gz", b"hello\n" * 99),
                "up": ("up.tar.gz", support.archive(("b/../../x", support.REGULAR, b"x"))),
                "absolute": ("absolute.tar.gz", support.archive(("/tmp/x", support.REGULAR, b"x"))),
                "link": ("link.tar.gz", support.archive(("b/SUMMARY.md", support.LINK, b""))),
                "device": ("device.tar.gz", support.archive(("b/facts.json", support.DEVICE, b"")))}
        return {kind: (os.path.join(self.jail, name), contents) for kind, (name, contents) in data.items()}

    def give(self, kind, inputs):
        """The path of that input. It is alone in its folder."""
        shutil.rmtree(self.jail)
        os.mkdir(self.jail)
        path, data = inputs.get(kind, (os.path.join(self.jail, "gone-" + NASTY if kind == "nasty gone" else kind), None))
        if data is not None:
            with open(path, "wb") as file:
                file.write(data)
        elif kind == "fifo":
            os.mkfifo(path)
        elif kind == "folder":
            os.mkdir(path)
        return path

    def check_text(self, data):
        text = data.decode(errors="surrogateescape")
        self.assertEqual(text, data.decode(errors="replace"), "no UTF-8")
        hidden = {hex(ord(c)) for c in text if unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp") and c not in "\n\t"}
        self.assertEqual(hidden, set(), text[:400])
        self.assertNotIn("rocmcrash: forged", [line[:17] for line in text.split("\n")])

    def check_json(self, document, verb, status):
        self.assertIsInstance(document, (dict, list))
        if verb is not None:
            self.assertEqual((document["verb"], document["status"], "error" in document), (verb, status, status != OK), document)
        if verb is not None and jsonschema is not None:
            schema = json.loads(support.read(os.path.join(support.SOURCE, "templates", "schema", "outcome.json")))
            jsonschema.Draft7Validator(schema).validate(document)

    def call(self, verb, words, status, json_as="", writes=()):
        before = tree(self.folder)
        done = subprocess.run([ROCMCRASH, verb, *(["--json"] if json_as else []), *words], capture_output=True,
                              env=self.environ, cwd=self.jail, timeout=60, stdin=subprocess.DEVNULL, check=False)
        self.assertIn(done.returncode, status if isinstance(status, tuple) else (status,), done.stderr)
        self.check_text(done.stdout)
        self.check_text(done.stderr)
        if status in (FAILED, USAGE) and self.good not in words and verb not in ("rerun", "try"):  # these two print their commands
            self.assertTrue(json_as or done.stdout == b"", done.stdout)
            self.assertEqual(len(done.stderr.splitlines()), 0 if done.stdout else 1, done.stderr)
        self.assertTrue(status == OK or not done.stderr or done.stderr.startswith(b"rocmcrash: "), done.stderr)
        if json_as and (status in (OK, BAD) or done.stdout) and words:
            for text in [done.stdout] if json_as == "one" else done.stdout.splitlines():
                self.check_json(json.loads(text), verb if json_as == "outcome" else None, done.returncode)
            self.assertTrue(json_as == "lines" or done.stdout)
        changed = {name for name, _ in tree(self.folder).items() ^ before.items()}
        if status == OK:
            changed = {name for name in changed if not name.startswith(writes)}
        self.assertEqual(changed, set())

    def test_every_verb_has_a_row(self):
        self.assertEqual(set(ROWS), set(support.verbs()))
        for verb, (_, *rows) in ROWS.items():
            told = "--json" in self.verb(verb, "--help").stdout
            self.assertEqual((told, verb in JSON_ALONE or any(item.json for item in rows)), (verb not in WITHOUT_JSON,) * 2, verb)

    def test_without_an_operand(self):
        """In a folder without a bundle."""
        for verb, (status, *_) in ROWS.items():
            with self.subTest(verb=verb):
                self.call(verb, [], status)
                if verb in JSON_ALONE:
                    self.call(verb, [], OK, "one" if verb == "config" else "lines")

    def test_with_input_of_every_kind(self):
        inputs = self.inputs()
        with Attacks("verbs with input of every kind") as attacks:
            for verb, item, group, kind in ((verb, item, group, kind) for verb, (_, *rows) in ROWS.items() for item in rows
                                            for group, kinds in KINDS.items() for kind in kinds):
                for json_as in {"", item.json}:
                    path = self.give(kind, inputs)
                    places = {"{}": path, "{good}": self.good, "{text}": self.path("sysroot/dev/kmsg"), "{out}": os.path.join(self.jail, "out")}
                    words = ["".join(places.get(part, part) for part in re.split(r"(\{[a-z]*\})", word)) for word in item.words]
                    writes = tuple(os.path.relpath(path, self.folder) if name == "{}" else name for name in item.writes)
                    with attacks.one(f"{verb} {' '.join(item.words)} {json_as}: {kind}"):
                        self.call(verb, words, item.status[group], json_as, writes)
        self.assertGreater(attacks.tried, 400)
        self.assert_no_stage_left(self.stages_before)

    def test_a_full_device(self):
        """A verb says once that it cannot write, ends with 2, and does not say that it is done."""
        calls = (("show", "--all"), ("show", "--json"), ("issue",), ("issue", "--json"), ("list", "."), ("verify",), ("triage",),
                 ("fleet",), ("fleet", "--csv"), ("collectors",), ("config",), ("open", "--print"), ("open", "-o", "-"), ("diff",),
                 ("doctor",), ("export", "--trace"), ("reveal",), ("redact",), ("show", "--help"), ("snap", "--help"), ("help",), ("--version",))
        alone = ("list", "collectors", "config", "doctor", "help", "--version")
        for verb, *words in calls:
            operands = [] if verb in alone or "--help" in words else [self.bundle.path] * (2 if verb == "diff" else 1)
            with self.subTest(verb=verb, words=words), open("/dev/full", "wb") as full:
                done = subprocess.run([ROCMCRASH, verb, *words, *operands], stdout=full, stderr=subprocess.PIPE, env=self.environ,
                                      cwd=os.path.dirname(self.bundle.path), timeout=60, stdin=subprocess.DEVNULL, check=False)
                self.assertEqual((done.returncode, done.stderr.count(b"No space left on device")), (FAILED, 1), done.stderr)
                lines = [line for line in done.stderr.splitlines() if re.match(rb"rocmcrash: (?!this text makes public|replaced: )", line)]
                self.assertEqual((len(lines), b"attach" in done.stderr), (1, False), done.stderr)

    def test_what_is_not_there_is_told(self):
        for words, status, told in ((("list", "--class=foo"), USAGE, r"--class is one of .*page-fault, .*; not 'foo'"),
                                    (("list", "--class="), USAGE, "--class is one of"),
                                    (("show", "--section", "nothing", self.bundle.path), FAILED, "no heading has 'nothing'; the headings: .*Memory, "),
                                    (("doctor", "--", "nosuch-command"), USAGE, "cannot find 'nosuch-command'"),
                                    (("doctor", "--", "./nosuch"), USAGE, "cannot find './nosuch'"),
                                    (("export", "--torch", "-o", "x", self.bundle.path), FAILED, "the run has no snapshot of PyTorch's allocator"),
                                    (("fit", "--", "true"), USAGE, "--vary is missing")):
            with self.subTest(words=words):
                done = self.verb(*words)
                self.assertEqual((done.returncode, done.stdout), (status, ""), done.stderr)
                self.assertRegex(done.stderr, told)

    def test_a_failure_as_json(self):
        """As 'verify' has it: what failed is an object, too."""
        for verb in ("show", "issue", "verify"):
            done = self.verb(verb, "--json", "nofile")
            document = json.loads(done.stdout)
            self.assertEqual((done.returncode, done.stderr, document["path"]), (FAILED, "", "nofile"))
            self.assertIn("No such file or directory", document["error"])

    def test_an_unpacked_bundle(self):
        shutil.unpack_archive(self.good, self.path("unpacked"))
        [folder] = os.listdir(self.path("unpacked"))
        for verb in ("show", "verify", "triage", "issue"):
            done = self.verb(verb, os.path.join(self.path("unpacked"), folder))
            self.assertEqual((done.returncode, done.stdout), (FAILED, ""), done.stderr)
            self.assertIn("is an unpacked bundle: pack it again, 'tar -czf NAME.tar.gz FOLDER'", done.stderr)

    def test_a_process_of_ours(self):
        """`stacks`, `snap` and `release` take a process. The good input is a process that rocmcrash watches."""
        self.write("numpy.py", "")  # the hook takes this file for the library
        process = self.start(PYTHON, "-c", "import numpy, sys; print('ready', flush=True); sys.stdin.read()", cwd=self.folder,
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.addCleanup(process.communicate, timeout=20)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        pid = str(self.target_pid(process.pid))
        other = subprocess.Popen(["sleep", "1000"])
        self.addCleanup(other.wait)
        self.addCleanup(other.kill)
        for verb in ("stacks", "release"):
            done = self.verb(verb, pid)
            self.assertEqual((done.returncode, done.stderr), (OK, ""), verb)
            self.check_text(done.stdout.encode())
            done = self.verb(verb, str(other.pid))
            self.assertEqual((done.returncode, done.stdout), (FAILED, ""), done)
        for verb, status in (("stacks", OK), ("snap", OK), ("release", FAILED)):  # it was released above
            done = self.verb(verb, "--json", pid, cwd=self.jail)
            self.assertEqual(done.returncode, status, done.stderr)
            document = json.loads(done.stdout)
            self.check_json(document, verb, status)
            if verb == "snap":
                self.assertTrue(os.path.exists(os.path.join(self.jail, document["bundle"])), document)
            self.check_json(json.loads(self.verb(verb, "--json", "2147483647").stdout), verb, FAILED)


if __name__ == "__main__":
    support.main()
