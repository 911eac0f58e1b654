# SPDX-License-Identifier: Apache-2.0
"""A site's own nodes, message rules, redaction rules and collectors: what they add, and that a bad one costs only its
own result."""

import concurrent.futures
import json
import os
import re
import subprocess

import support

RULES = """# of this site
rule scratch-full
  line scratch quota of * exceeded: {site.scratch.used_bytes:size} used
  count site.scratch.refused
  set site.scratch.full true
  match mmfs: scratch quota of alice exceeded: 1.5 TiB used
  never scratch quota is fine
"""
NODES = {"format": 1, "stage": "This site", "why_here": "Its own limits explain more than a crash does.", "nodes": [
    {"id": "site-scratch", "question": "Was the scratch quota exceeded?",
     "test": "said(site.scratch.full) or site.quota.over_bytes > 0", "class": "site-quota",
     "sentence": "The scratch quota is exceeded.", "confidence": {"high": "true"},
     "advice": [{"say": "Clean up.", "source": "https://site.example", "verify": "quota -s"}]}]}
REDACTION = "rule badge\nkind user\nnear BADGE-\npattern BADGE-(\\w{4,8})\nlearn\nmatch BADGE-{alnum:6}\n"
SAY = "print('scratch quota of alice exceeded: 1.5 TiB used BADGE-ab1234', file=__import__('sys').stderr); __import__('os').abort()"


def at_once(*calls):
    """Runs the functions at the same time and returns their results: each run waits a second after its end for the
    counters."""
    with concurrent.futures.ThreadPoolExecutor(len(calls)) as pool:
        return [future.result() for future in [pool.submit(call) for call in calls]]


class Case(support.Case):
    def setUp(self):
        super().setUp()
        self.site = self.path("site")
        for name in ("", "tree", "collectors"):
            os.mkdir(os.path.join(self.site, name), 0o755)
        self.environ["ROCMCRASH_SITE"] = self.site

    def another(self):
        """Another case with its own site and folder."""
        other = type(self)(self._testMethodName)
        other.setUp()
        self.addCleanup(other.doCleanups)
        return other

    def add(self, name, text, mode=0o644):
        return self.write(os.path.join("site", name), text, mode)

    def collector(self, name, code):
        return self.add(f"collectors/{name}", f"#!{support.PYTHON}\nimport json, os, sys, time\n{code}\n", 0o755)

    def crash(self, code=SAY):
        return self.only_bundle(self.python(code))

    def facts_of_site(self, bundle):
        return {name: bundle.value(name) for name in bundle.facts if name.startswith("site.")}


class Collectors(Case):
    """Good collectors and bad ones, each group in one run."""

    @classmethod
    def setUpClass(cls):
        cases = [cls("crash"), cls("crash")]
        for case in cases:
            case.setUp()
            cls.addClassCleanup(case.doCleanups)
        cases[0].collectors_of_values()
        cases[0].collector_that_is_told()
        cases[0].collector_with_a_child()
        cases[1].bad_collectors()
        cls.path_of_good = cases[0].path
        cls.good, cls.bad = at_once(cases[0].crash, cases[1].crash)

    def collectors_of_values(self):
        self.collector("values", "print('''"
                       '{"fact": "site.a", "value": 1.5, "when": "static"}\n{"fact": "site.b.c", "value": true}\n'
                       '{"fact": "site.d_2", "value": "words"}\n{"missing": "site.e", "reason": "no quota here"}\n'
                       '\n{"status": "partial", "reason": "half of it"}'"''')")

    def test_kinds_of_values(self):
        bundle = self.good
        told = {"site." + name for name in ("protocol", "target_pid", "failed_pid", "start_time", "cwd", "stdin")}
        facts = {name: value for name, value in self.facts_of_site(bundle).items() if name not in told}
        self.assertEqual(facts, {"site.a": 1.5, "site.b.c": True, "site.d_2": "words", "site.e": None})
        self.assertEqual((bundle.fact("site.e")["status"], bundle.fact("site.e")["reason"]), ("unreadable", "no quota here"))
        row = bundle.row("site_values")
        self.assertEqual((row["status"], row["reason"]), ("partial", "half of it"))

    def collector_that_is_told(self):
        self.collector("told", "for name in ('PROTOCOL', 'TARGET_PID', 'FAILED_PID', 'START_TIME'):\n"
                       "    print(json.dumps({'fact': 'site.' + name.lower(), 'value': int(os.environ['ROCMCRASH_' + name])}))\n"
                       "print(json.dumps({'fact': 'site.cwd', 'value': os.environ['ROCMCRASH_TARGET_CWD']}))\n"
                       "print(json.dumps({'fact': 'site.stdin', 'value': sys.stdin.read()}))")

    def test_what_it_is_told(self):
        told = self.facts_of_site(self.good)
        self.assertEqual((told["site.protocol"], told["site.stdin"]), (1, ""))
        self.assertEqual(told["site.failed_pid"], told["site.target_pid"])
        self.assertGreater(told["site.target_pid"], 1)

    def bad_collectors(self):
        good = "print('{\"fact\": \"site.%s\", \"value\": 1}', flush=True)\n"
        self.collector("fine", good % "fine")
        self.collector("hanging", good % "hanging" + "time.sleep(100)")
        self.collector("crashing", good % "crashing" + "os.kill(os.getpid(), 11)")
        self.collector("failing", "sys.exit(3)")
        self.collector("high", "sys.exit(139)")
        self.collector("garbage", "sys.stdout.buffer.write(bytes(range(256)) * 50 + b'\\n')")
        self.collector("half", good % "half" + "print('{\"fact\": \"site.half_2\", \"val', end='')")
        self.collector("huge", good % "huge" + "try:\n    while True: print('{\"fact\": \"site.huge\", \"value\": 1}' * 99)\n"
                       "except BrokenPipeError: pass")
        self.collector("names", good % "names" + "print('{\"fact\": \"gpu.0.vram.used_bytes\", \"value\": 1}')")

    def test_bad_collectors_cost_themselves_only(self):
        bundle = self.bad
        self.assertEqual(self.verb("verify", bundle.path).returncode, 0)
        rows = {item["name"][5:]: (item["status"], item["reason"]) for item in bundle.manifest["items"]
                if item["name"].startswith("site_")}
        self.assertEqual({name: row[0] for name, row in rows.items()},
                         {"fine": "ok", "hanging": "partial", "crashing": "partial", "failing": "failed", "high": "failed", "garbage": "failed",
                          "half": "partial", "huge": "partial", "names": "partial"})
        for name, words in (("hanging", "did not end in time"), ("crashing", "ended by signal 11"), ("failing", "ended with status 3"),
                            ("high", "ended with status 139"),
                            ("garbage", "line 1: not a JSON object"), ("half", "line 2: its end is missing"),
                            ("huge", "it printed more than 1048576 bytes"), ("names", "line 2: a site's fact is named site.")):
            self.assertIn(words, rows[name][1])
        self.assertEqual(set(self.facts_of_site(bundle)), {"site." + name for name in
                                                           ("fine", "hanging", "crashing", "half", "huge", "names")})
        self.assertNotIn("site:names", [fact["source"] for fact in bundle.facts.get("gpu.0.vram.used_bytes", [])])

    def collector_with_a_child(self):
        mark = self.path("pid")
        self.collector("parent", "import subprocess\nchild = subprocess.Popen(['sleep', '1000'], stdout=subprocess.DEVNULL)\n"
                       f"open({mark!r}, 'w').write(str(child.pid))\n")

    def test_what_a_collector_leaves_behind_ends_with_it(self):
        self.assertEqual(self.good.row("site_parent")["status"], "ok")
        pid = int(support.read(self.path_of_good("pid")))
        support.wait_for(lambda: not support.is_running(pid), "the collector's child to end")


class Site(Case):
    def test_a_folder_that_does_not_answer(self):
        """The run and its bundle are as without a site, and the bundle says so."""
        argv = support.with_dead_folder(self, self.site, *self.command(support.PYTHON, "-c", SAY))
        with subprocess.Popen(argv, env=self.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            done = self.finished(process, *process.communicate(timeout=60))
        bundle = self.only_bundle(done)
        self.assertEqual(bundle.row("site")["status"], "partial")
        self.assertIn("/site': its file system does not answer", bundle.row("site")["reason"])  # a home may precede it

    def test_all_parts(self):
        well = self.another()
        for case in (self, well):
            case.add("messages.rules", RULES)
            case.add("tree/own.json", json.dumps(NODES))
        self.add("redaction.rules", REDACTION)
        self.collector("quota", "print(json.dumps({'fact': 'site.quota.over_bytes', 'value': 5}))\n"
                                "print(json.dumps({'file': 'quota.txt', 'text': 'BADGE-ab1234 holds it'}))")
        bundle, healthy = at_once(self.crash, lambda: well.only_bundle(
            well.python(SAY.replace("__import__('os').abort()", "0"), options=["--always"])))
        self.assertEqual(healthy.verdict["subclass"], "nothing failed")  # a run that ends well is not judged by the site
        self.assertEqual((bundle.verdict["class"], bundle.verdict["confidence"]), ("site-quota", "high"))
        self.assertEqual(self.facts_of_site(bundle), {"site.scratch.used_bytes": 3 << 39, "site.scratch.full": True,
                                                      "site.scratch.refused": 1, "site.quota.over_bytes": 5})
        self.assertEqual(bundle.fact("site.quota.over_bytes")["source"], "site:quota")
        self.assertEqual(bundle.fact("site.quota.over_bytes")["when"], "after")
        self.assertEqual(bundle.row("site_quota")["status"], "ok")
        self.assertEqual(bundle.row("site"), {})
        self.assertRegex(bundle.text("site_quota/quota.txt"), r"^BADGE-<user[0-9]+> holds it$")  # user1 may run the test
        self.assertNotIn("ab1234", bundle.text("output/stderr.txt"))
        log = self.write("pasted.log", "scratch quota of alice exceeded: 1.5 TiB used\n")
        self.assertIn("(site-quota, high", self.verb("triage", log).stdout)
        self.assertIn("site_quota", self.verb("collectors").stdout)
        done = self.verb("config")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("1 files of nodes, 1 message rules, own redaction rules, 1 collectors", done.stdout)
        del self.environ["ROCMCRASH_SITE"]
        self.assertNotIn("site-quota", self.verb("triage", log).stdout)

    def test_a_bundle_is_judged_again_by_the_site(self):
        self.add("messages.rules", RULES)
        self.add("tree/own.json", json.dumps(NODES))
        path = self.crash().path
        self.assertIn("(site-quota, high", self.verb("triage", path).stdout)
        os.remove(os.path.join(self.site, "messages.rules"))  # then the findings of the run's own rules stay
        self.assertIn("(site-quota, high", self.verb("triage", path).stdout)
        self.add("messages.rules", RULES.replace("quota of", "QUOTA of").replace("match mmfs: scratch quota", "match scratch QUOTA"))
        self.assertNotIn("(site-quota", self.verb("triage", path).stdout)  # the present rules find nothing in it

    def assert_left_out(self, words):
        done = self.verb("config")
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn(words, done.stdout)

    def run_without(self):
        """The bundle says that a part was left out, and is judged as without the site."""
        bundle = self.crash()
        row = bundle.row("site")
        self.assertEqual(row["status"], "partial")
        self.assertIn("not all of the site's own parts are used", row["reason"])
        self.assertEqual(bundle.verdict["class"], "app-bug")

    def test_a_wrong_part_is_left_out_and_told(self):
        rules, nodes = self.another(), self.another()
        rules.add("messages.rules", "rule a\n  line x\n  match y\n")
        rules.assert_left_out("messages.rules:3: the rule 'a' does not match this example")
        nodes.add("tree/own.json", "{")
        nodes.assert_left_out("own.json:")
        at_once(rules.run_without, nodes.run_without)
        for change, words in (({"id": "scratch"}, "a site's ids begin with 'site-'"), ({"class": "quota"}, "no such class 'quota'"),
                              ({"test": "site.x >"}, "'test': column"), ({"colour": "red"}, "'colour'")):
            self.add("tree/own.json", json.dumps({**NODES, "nodes": [{**NODES["nodes"][0], **change}]}))
            self.assert_left_out(words)
        os.remove(os.path.join(self.site, "tree", "own.json"))
        self.add("redaction.rules", "rule a\nkind user\npattern (\n")
        self.assert_left_out("redaction.rules:3:")

    def test_what_others_could_have_written_is_not_used(self):
        cases = {}
        for name, mode in (("", None), ("collectors/evil", 0o775), ("collectors", 0o777), (".", 0o777)):
            case = self.another()
            case.collector("evil", f"open({case.path('ran')!r}, 'w')")
            if mode is not None:
                os.chmod(os.path.join(case.site, name), mode)
                case.assert_left_out("others may")
            cases[name] = case
        at_once(*(case.crash for case in cases.values()))
        self.assertEqual([name for name, case in cases.items() if os.path.exists(case.path("ran"))], [""])

    def test_a_folder_that_is_named_and_missing_is_told(self):
        self.environ["ROCMCRASH_SITE"] = self.path("nowhere")
        self.assert_left_out("No such file or directory")

    def test_files_that_are_none_of_ours(self):
        self.add("collectors/README", "notes")
        self.add("collectors/notes", "not executable", 0o644)
        self.add("tree/.hidden.json", "{")
        self.add("tree/own.json~", "{")
        self.assertEqual(self.verb("config").returncode, 0)
        self.assertNotIn("site_", self.verb("collectors").stdout)

    def shipped_rules(self):
        """The texts of the rules of templates/messages.rules that a site could have, with names of a site's facts"""
        text = support.read(os.path.join(support.SOURCE, "templates", "messages.rules"))
        known = {"line", "also", "or", "unless", "take", "set", "count", "match", "never"}
        for part in re.split(r"^rule ", text, flags=re.M)[1:]:
            rows = [row for row in part.splitlines() if row.strip() and not row.startswith(("#", "scope", "define"))]
            words = {row.split()[0] for row in rows[1:]}
            if not words <= known or not {"line", "match"} <= words or re.search(r"\{\{|\{_| (sum|max|last)\}|gpu\.#|<<", part):
                continue
            yield "rule " + "\n".join([rows[0], *(self.renamed(row) for row in rows[1:])])

    @staticmethod
    def renamed(row):
        word = row.split()[0]
        if word == "count":
            return "  count site." + row.split()[1].lower()
        if word == "set":
            return re.sub(r"set ([\w.]+)", lambda match: "set site." + match.group(1).lower(), row, count=1)
        return row if word in ("match", "never") else re.sub(r"\{([a-z0-9_.]+):", r"{site.\1:", row)

    def test_the_language_is_that_of_the_shipped_rules(self):
        rules = [text for text in self.shipped_rules() if "\\n" not in text]
        self.assertGreater(len(rules), 30)
        at_once = 10  # a site may have 512 shapes; a rule has one for each of its alternatives
        for at in range(0, len(rules), at_once):
            self.add("messages.rules", "\n".join(rules[at:at + at_once]))
            done = self.verb("config")
            self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    support.main()
