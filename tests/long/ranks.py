#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Inside the root of tests/long/ranks: starts a Slurm of four nodes, runs jobs with a planted cause under srun, mpirun and torchrun,
and asks `rocmcrash fleet` which rank fell first. With `--backend nccl` on a machine with as many GPUs as ranks (tests/long/ranks_nccl)."""

import argparse
import collections
import fcntl
import glob
import http.server
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

FOLDER = "/var/tmp/ranks"
NODES = 4
CGROUPS = "/sys/fs/cgroup/memory"
OOM = ("torch.OutOfMemoryError: HIP out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 64.00 GiB of which 1.00 GiB is "
       "free. Of the allocated memory 60.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated.\n")
CLOSED = "RuntimeError: [../gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:3977\n"
FAULT = "Memory access fault by GPU node-4 (Agent handle: 0x55d1f0) on address 0x7f0c1a000000. Reason: Page not present or supervisor privilege.\n"
FAULT_LINES = ("amdgpu 0000:03:00.0: amdgpu: [gfxhub0] no-retry page fault (src_id:0 ring:24 vmid:8 pasid:32770, for process python3 pid {0} thread python3 pid {0})",
               "amdgpu 0000:03:00.0: amdgpu:   in page starting at address 0x00007f0c1a000000 from client 0x1b (UTCL2)")
MACHINE = ("/dev/kmsg", "/proc/sys/kernel/random/boot_id")
HANG_S = 300  # until the rank that hangs is ended; the others give up after
TIMEOUT_S = 10
LAUNCHERS = ("srun", "mpirun", "torchrun", "tree")  # tree: rocmcrash -- torchrun ...
SLURM = """ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd.%n
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.%n.pid
SlurmctldLogFile=/var/tmp/ranks/slurmctld.log
SlurmdLogFile=/var/tmp/ranks/slurmd.%n.log
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
SlurmdParameters=config_overrides
KillWait=10
NodeName=n[1-{nodes}] NodeHostname={host} NodeAddr=127.0.0.1 Port=[17001-{last}] CPUs=32 State=UNKNOWN
PartitionName=p Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class Kind:
    """What is planted. `classes`: of the ranks that fail by themselves, in their order; `whole_node`: all ranks of one node; `apart_s`: the
    second one fails up to so long after the first; `off_s`: how far the clocks of two nodes are off; `real_log`: the real kernel log is read."""

    def __init__(self, *classes, launchers=("srun", "mpirun"), whole_node=False, apart_s=0.0, off_s=0, real_log=False):
        self.classes, self.launchers, self.whole_node = classes, launchers, whole_node
        self.apart_s, self.off_s, self.real_log = apart_s, off_s, real_log


KINDS = {
    "out of memory": Kind("capacity"),
    "crash": Kind("app-bug"),
    "killed": Kind("unknown"),
    "others are ended": Kind("capacity"),
    "two failures": Kind("capacity", "app-bug", apart_s=0.05),
    "OOM killer": Kind("host-oom", real_log=True),
    "clocks off": Kind("capacity", off_s=3, launchers=("srun",)),
    "node faults": Kind("page-fault", whole_node=True, launchers=("srun",)),
    "node faults, clocks off": Kind("page-fault", whole_node=True, off_s=3, launchers=("srun",)),
    "torch: hang": Kind("unknown", launchers=("torchrun", "srun", "mpirun", "tree")),
    "torch: out of memory": Kind("capacity", launchers=("torchrun", "tree")),
    "torch: crash": Kind("app-bug", launchers=("torchrun", "tree")),
    "torch: killed": Kind("unknown", launchers=("torchrun", "tree")),
}


# --- a rank ---

def variable(*names):
    return int(next(os.environ[name] for name in names if name in os.environ))


def append_to_kernel_log(lines):
    """As the kernel writes them, into the log of the rank's own machine."""
    with open("/dev/kmsg", "r+", encoding="ascii") as log:
        fcntl.flock(log, fcntl.LOCK_EX)
        number = len(log.readlines())
        log.write("".join(f"3,{number + i},{time.monotonic_ns() // 1000},-;{line}\n" for i, line in enumerate(lines)))


def use_memory_without_end():
    group = f"{CGROUPS}/rocmcrash-ranks-{os.getpid()}"
    os.makedirs(group)
    for name, value in (("memory.limit_in_bytes", 64 << 20), ("cgroup.procs", os.getpid())):
        with open(os.path.join(group, name), "w", encoding="ascii") as file:
            file.write(str(value))
    kept = []
    while True:
        kept.append(b"x" * (1 << 20))


def fail(how):
    if how == "capacity":
        sys.stderr.write(OOM)
        sys.stderr.flush()
        os._exit(1)
    if how == "host-oom":
        use_memory_without_end()
    if how == "page-fault":
        append_to_kernel_log(line.format(os.getpid()) for line in FAULT_LINES)
        sys.stderr.write(FAULT)
        sys.stderr.flush()
        os.abort()
    os.kill(os.getpid(), signal.SIGKILL if how == "unknown" else signal.SIGSEGV)


def connect(rank, size, port):
    if rank == 0:
        server = socket.create_server(("127.0.0.1", port), backlog=size)
        return [server.accept()[0] for _ in range(size - 1)]
    for _ in range(1200):
        try:
            return [socket.create_connection(("127.0.0.1", port))]
        except OSError:
            time.sleep(0.05)
    return []


def fail_if_planted(kind, rank, who):
    """The second of two fails a while after the first one."""
    if rank in who:
        at = who.index(rank)
        time.sleep(random.uniform(0, kind.apart_s) if at > 0 else 0)
        fail(kind.classes[min(at, len(kind.classes) - 1)])


def talk_over_sockets(kind, rank, size, who, port):
    """To rank 0, until a peer is gone."""
    peers = connect(rank, size, port)
    for step in range(60):
        if step == 20:
            fail_if_planted(kind, rank, who)
        try:
            for peer in peers:
                peer.sendall(b"x")
            gone = any(peer.recv(1) == b"" for peer in peers)
        except OSError:
            gone = True
        if gone:
            sys.stderr.write(CLOSED)
            sys.stderr.flush()
            os._exit(1)
        time.sleep(0.01)


def torch_without_libuv():
    """Debian's PyTorch has none, and asks for it."""
    import torch.distributed as dist
    tcp_store = dist.TCPStore

    class Store(tcp_store):
        def __init__(self, *words, **named):
            tcp_store.__init__(self, *words, **{**named, "use_libuv": False})

    dist.TCPStore = dist.rendezvous.__globals__["TCPStore"] = Store
    return dist


def be_torchrun(arguments):
    torch_without_libuv()
    from torch.distributed.run import main as torchrun
    torchrun(arguments)


def run_out_of_gpu_memory():
    import torch
    torch.empty(2 * torch.cuda.get_device_properties(0).total_memory, dtype=torch.uint8, device="cuda")


def talk_over_torch(backend, name, rank, size, who, port):
    import datetime
    import torch
    dist = torch_without_libuv()
    torch.set_num_threads(1)
    if "MASTER_PORT" not in os.environ:
        os.environ.update({"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "lo"})
    device = "cpu"
    if backend == "nccl":
        device = f"cuda:{rank % torch.cuda.device_count()}"
        torch.cuda.set_device(device)
    dist.init_process_group(backend, rank=rank, world_size=size, timeout=datetime.timedelta(seconds=120))
    group = dist.new_group(timeout=datetime.timedelta(seconds=TIMEOUT_S))
    for step in range(10):
        if step == 5 and name == "torch: hang" and rank in who:
            time.sleep(HANG_S)
        elif step == 5 and rank in who and backend == "nccl" and KINDS[name].classes == ("capacity",):
            run_out_of_gpu_memory()
        elif step == 5:
            fail_if_planted(KINDS[name], rank, who)
        sum_of_all = torch.ones(1000, device=device)
        dist.all_reduce(sum_of_all, group=group)
        sum_of_all.tolist()


def be_a_rank(name, who, port, backend):
    rank = variable("OMPI_COMM_WORLD_RANK", "RANK", "SLURM_PROCID")
    size = variable("OMPI_COMM_WORLD_SIZE", "WORLD_SIZE", "SLURM_NTASKS")
    if name == "others are ended":
        time.sleep(60 if rank not in who else 5)  # nobody talks to anybody: it is the launcher that ends them
        fail_if_planted(KINDS[name], rank, who)
    elif name.startswith("torch: "):
        talk_over_torch(backend, name, rank, size, who, port)
    else:
        talk_over_sockets(KINDS[name], rank, size, who, port)


def be_on_a_machine(off_s, command):
    """Starts the command on the machine of its node of Slurm (else on the first one): a kernel log, a boot, and a wall clock of its own."""
    node = os.environ.get("SLURMD_NODENAME", "n1")
    os.unshare(os.CLONE_NEWNS)  # tests/long/ranks has made all mounts private
    for path in MACHINE:
        subprocess.run(["mount", "--bind", os.path.join(FOLDER, "machines", node, os.path.basename(path)), path], check=True)
    if off_s != 0 and node in ("n2", "n4"):
        library = glob.glob("/usr/lib/*/faketime/libfaketime.so.1")[0]
        os.environ.update({"LD_PRELOAD": library, "FAKETIME": f"{off_s:+d}s", "FAKETIME_DONT_FAKE_MONOTONIC": "1", "ROCMCRASH_LOADER": "keep"})
    os.execvp(command[0], command)


# --- the cluster ---

def make_machines():
    """The files that each node binds over those of MACHINE."""
    shutil.rmtree(os.path.join(FOLDER, "machines"), ignore_errors=True)
    for i in range(NODES):
        folder = os.path.join(FOLDER, "machines", f"n{i + 1}")
        os.makedirs(folder)
        for path, text in zip(MACHINE, (f"6,0,{time.monotonic_ns() // 1000},-;usb 1-2: new high-speed USB device number 7\n",
                                        f"{i + 1}0000000-0000-4000-8000-00000000000{i + 1}\n")):
            with open(os.path.join(folder, os.path.basename(path)), "w", encoding="ascii") as file:
                file.write(text)


def start_slurm():
    host = socket.gethostname().split(".")[0]
    for folder in ("/run/munge", "/var/log/munge", "/var/lib/munge", "/etc/munge", "/var/spool/slurmctld",
                   *(f"/var/spool/slurmd.n{i + 1}" for i in range(NODES))):
        os.makedirs(folder, exist_ok=True)
    if not os.path.exists("/etc/munge/munge.key"):
        with open("/etc/munge/munge.key", "wb") as key:
            key.write(os.urandom(1024))
    for folder in ("/run/munge", "/var/log/munge", "/var/lib/munge", "/etc/munge", "/etc/munge/munge.key"):
        shutil.chown(folder, "munge", "munge")
    os.chmod("/etc/munge/munge.key", 0o400)
    os.chmod("/run/munge", 0o755)
    with open("/etc/slurm/slurm.conf", "w", encoding="ascii") as conf:
        conf.write(SLURM.format(host=host, nodes=NODES, last=17000 + NODES))
    with open("/etc/slurm/cgroup.conf", "w", encoding="ascii") as conf:
        conf.write("CgroupPlugin=disabled\n")
    with open("/etc/hosts", "a", encoding="ascii") as hosts:
        hosts.write(f"127.0.0.1 localhost {host}\n")
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    daemons = [subprocess.Popen(["setpriv", "--reuid=munge", "--regid=munge", "--clear-groups", "munged", "--force", "-F"], **quiet),
               subprocess.Popen(["slurmctld", "-D"], **quiet)]
    daemons += [subprocess.Popen(["slurmd", "-D", "-N", f"n{i + 1}"], **quiet) for i in range(NODES)]
    for _ in range(120):
        done = subprocess.run(["sinfo", "-h", "-o", "%t %D"], capture_output=True, text=True, check=False)
        if f"idle {NODES}" in done.stdout:
            return daemons
        time.sleep(0.5)
    raise SystemExit("ranks: the nodes of Slurm did not come up: see /var/tmp/ranks/*.log in the root")


def our_finishers():
    """A launcher that kills rocmcrash does not wait for the process that makes the bundle. Only those of this root."""
    for path in glob.glob("/proc/[0-9]*"):
        try:
            with open(path + "/comm", encoding="utf-8", errors="replace") as file:
                if file.read().startswith("rocmcrash-") and os.path.samefile(path + "/root", "/"):
                    yield path
        except OSError:
            continue


def wait_for_finishers():
    for _ in range(600):
        if not any(True for _ in our_finishers()):
            return
        time.sleep(0.1)


def jobs_in(folder):
    """The jobs that fleet tells of; None where there is no bundle."""
    if not glob.glob(os.path.join(folder, "*.tar.gz")):
        return None
    done = subprocess.run(["rocmcrash", "fleet", "--json", folder], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["jobs"]


def facts_in(folder):
    """The facts of the only bundle; None where there is not one."""
    bundles = glob.glob(os.path.join(folder, "*.tar.gz"))
    if len(bundles) != 1:
        return None
    done = subprocess.run(["tar", "-xzOf", bundles[0], "--wildcards", "*/facts.json"], capture_output=True, text=True, check=True)
    return {fact["name"]: fact.get("value") for fact in json.loads(done.stdout)["facts"]}


def run(launcher, name, who, ranks, number, port, backend):
    """Returns what fleet tells of at once, and after the `recover` that a site's epilog makes. Of "tree", whose launcher runs below one
    rocmcrash, both are the facts of the bundle."""
    # Each run has its own folder: a finisher may outlive srun, and write its bundle while the next job runs.
    folder = os.path.join(FOLDER, f"out-{number}")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    kind = KINDS[name]
    script = os.path.abspath(__file__)
    rank = [sys.executable, script, "--rank", name, ",".join(map(str, who)), str(port + number), backend]
    if launcher != "tree":
        rank = ["rocmcrash", "--", *rank]
    if not kind.real_log:
        make_machines()
        off_s = kind.off_s * (-1) ** number
        rank = [sys.executable, script, "--machine", str(off_s), *rank]
    starts = {"srun": ["srun", f"-N{NODES}", f"-n{ranks}", f"--ntasks-per-node={ranks // NODES}", "--mpi=none",
                       "--wait=20" if name == "torch: hang" else "--kill-on-bad-exit=1"],
              "mpirun": ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(ranks)],
              "torchrun": [sys.executable, script, "--torchrun", "--standalone", "--local-addr=127.0.0.1", f"--nproc-per-node={ranks}", "--no-python"]}
    starts["tree"] = ["rocmcrash", "--", *starts["torchrun"]]
    with open(os.path.join(folder, "launcher.log"), "wb") as log:
        subprocess.run([*starts[launcher], *rank], cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                       timeout=1800, check=False)
    wait_for_finishers()
    for group in glob.glob(f"{CGROUPS}/rocmcrash-ranks-*"):
        os.rmdir(group)
    if launcher == "tree":
        facts = facts_in(folder)
        return facts, facts
    jobs = jobs_in(folder)
    subprocess.run(["rocmcrash", "recover"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False)
    return jobs, jobs_in(folder)


def complaints_about_tree(name, who, facts):
    """The bundle of a rank that hangs can only name the one that gave up waiting for it."""
    if facts is None:
        return ["not one bundle"]
    first, ended = facts.get("worker.0.rank"), facts.get("worker.0.signal")
    wrong = [] if name == "torch: hang" or first in who else [f"named {first}: {facts.get('worker.story')}"]
    wanted = {"torch: crash": signal.SIGSEGV, "torch: killed": signal.SIGKILL}.get(name)
    if wanted is not None and ended != wanted:
        wrong.append(f"ended by {ended}")
    return wrong


def complaints(launcher, name, who, ranks, jobs):
    """Returns a sentence for each thing that is not as it should be."""
    if launcher == "tree":
        return complaints_about_tree(name, who, jobs)
    if jobs is None or len(jobs) != 1:
        return [f"{len(jobs or [])} jobs"]
    job, kind = jobs[0], KINDS[name]
    named = [record["rank"] for record in job["causes"]]
    told = {record["rank"]: record for record in job["time_line"]}
    wrong = []
    if sorted([*told, *job["missing"]]) != list(range(ranks)):
        wrong.append(f"ranks {sorted(told)}, missing {job['missing']}")
    # The first one that fails may end the job before the other ones can.
    # These end all others when the first one gives up waiting: which one had not waited at all, nobody can tell.
    may_be_untold = launcher in ("mpirun", "torchrun") and name == "torch: hang"
    if not (named or may_be_untold) or not set(named) <= set(who):
        wrong.append(f"named {named}")
    classes = dict(zip(who, kind.classes)) if len(kind.classes) == len(who) else dict.fromkeys(who, kind.classes[0])
    wrong += [f"rank {rank} is {told[rank]['class']}" for rank in named if rank in classes and told[rank]["class"] != classes[rank]]
    if launcher == "srun" and not kind.real_log and job["machines"] != NODES:
        wrong.append(f"{job['machines']} machines")
    if name == "others are ended":
        # Open MPI 5.0.7 sends SIGTERM, and 0.3 s later SIGKILL to the whole process group (strace): on a busy machine rocmcrash dies
        # before it has read the first one, and leaves a bundle of a rank that was killed. Slurm waits (KillWait).
        roles = {"ended"} if launcher == "srun" else {"ended", "killed"}
        wrong += [f"rank {rank} {record['role']}" for rank, record in told.items() if rank not in who and record["role"] not in roles]
    return wrong


def planted(rng, name, ranks):
    kind = KINDS[name]
    if kind.whole_node:  # srun gives each node a block of ranks
        each = ranks // NODES
        first = rng.randrange(NODES) * each
        return list(range(first, first + each))
    return rng.sample(range(ranks), len(kind.classes))


def schedule(names, launchers, runs, rng):
    """Every kind as often as the others, under its launchers in turn, in an order that the seed tells."""
    under = {name: [launcher for launcher in KINDS[name].launchers if launcher in launchers] for name in names}
    names = [name for name in names if under[name]]
    rounds = ((i // len(names), names[i % len(names)]) for i in range(runs))
    plan = [(under[name][turn % len(under[name])], name) for turn, name in rounds]
    rng.shuffle(plan)
    return plan


# --- one event ---

class Collector(http.server.BaseHTTPRequestHandler):
    """As much of OTLP's other side as it takes to see what is sent."""
    seen = []

    def do_POST(self):
        self.seen.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def check_event():
    """Compiles samples/site/otlp.cpp as its head says, and lets a run send its event. Returns the exit status."""
    folder = os.path.join(FOLDER, "event")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "samples", "site", "otlp.cpp")
    with open(source, encoding="ascii") as file:
        compiler = [word for line in file if line.startswith("//   ") for word in line[2:].split()]
    client = os.path.join(folder, "otlp")
    subprocess.run([{"otlp": client, "otlp.cpp": source}.get(word, word) for word in compiler], check=True)
    server = http.server.HTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    environ = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{server.server_port}"}
    subprocess.run(["rocmcrash", f"--event-to={client}", "--output-dir", folder, "--", "sh", "-c", "kill -SEGV $$"], env=environ, check=False)
    bundle, = glob.glob(os.path.join(folder, "*.tar.gz"))
    wanted = [b"rocmcrash.failure", b"app-bug", b"file://" + bundle.encode()]
    passed = len(Collector.seen) == 1 and Collector.seen[0][0] == "/v1/logs" and all(word in Collector.seen[0][1] for word in wanted)
    print(f"event: {len(Collector.seen)} arrived, {'as it should' if passed else Collector.seen}")
    environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = "http://127.0.0.1:1"
    refused = subprocess.run([client, "nobody listens"], env=environ, check=False).returncode
    return 0 if passed and refused == 1 else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=18)
    parser.add_argument("--kind", action="append", choices=KINDS, help="only this one (may be given again)")
    parser.add_argument("--launcher", action="append", choices=LAUNCHERS, help="only this one (may be given again)")
    parser.add_argument("--backend", choices=("gloo", "nccl"), default="gloo", help="what the ranks of the kinds \"torch: ...\" talk over")
    parser.add_argument("--seconds", type=int, default=0, help="begin no run after so many (0: all runs)")
    parser.add_argument("--port", type=int, default=21000, help="the first of as many ports as runs")
    parser.add_argument("--event", action="store_true", help="no jobs: one event by OTLP (needs opentelemetry-cpp-dev and g++ in the root)")
    line = parser.parse_args()
    if line.event:
        return check_event()
    rng = random.Random(line.seed)
    kinds = line.kind or list(KINDS)
    if "OOM killer" in kinds and not os.path.isdir(CGROUPS):
        print(f"OOM killer: left out, no {CGROUPS}")
        kinds.remove("OOM killer")
    plan = schedule(kinds, line.launcher or LAUNCHERS, line.runs, rng)
    daemons = start_slurm() if any(launcher == "srun" for launcher, _ in plan) else []
    shutil.rmtree(os.path.join(FOLDER, "state", "runs"), ignore_errors=True)  # of a call that was ended
    right, times, lost, recovered, sure = (collections.Counter() for _ in range(5))
    begin = time.monotonic()
    try:
        for number, (launcher, name) in enumerate(plan):
            if line.seconds and time.monotonic() - begin > line.seconds:
                break
            who = planted(rng, name, line.ranks)
            first, jobs = run(launcher, name, who, line.ranks, number, line.port, line.backend)
            wrong = complaints(launcher, name, who, line.ranks, jobs)
            # Slurm's --wait ends with SIGKILL to everything: of the rank that hangs only the run directory is left until `recover`.
            hangs = name == "torch: hang" and launcher == "srun" and first
            if launcher == "tree":
                first = jobs = []
            if hangs and [first[0]["missing"], first[0].get("missing_cause")] not in ([[], None], [who, who[0]]):
                wrong.append(f"before recover: missing {first[0]['missing']}, named of these {first[0].get('missing_cause')}")
            lost[launcher] += sum(len(job["missing"]) for job in first or [])
            recovered[launcher] += sum(len(job["missing"]) for job in first or []) - sum(len(job["missing"]) for job in jobs or [])
            times[launcher, name] += 1
            right[launcher, name] += not wrong
            sure.update(job["sure"] for job in jobs or [] if job["causes"])
            if wrong:
                print(f"wrong: run {number}, {launcher}, {name} on {who}: {'; '.join(wrong)}", flush=True)
            else:
                shutil.rmtree(os.path.join(FOLDER, f"out-{number}"), ignore_errors=True)
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
        for daemon in daemons:
            daemon.wait()
    for key, count in sorted(times.items()):
        print(f"{', '.join(key)}: {right[key]} of {count}", flush=True)
    print("ranks that left nothing, of all runs: " + ", ".join(f"{launcher} {count}" for launcher, count in lost.items()))
    print("ranks that `recover` made a bundle of: " + ", ".join(f"{launcher} {count}" for launcher, count in recovered.items()))
    print("ranks named with confidence: " + ", ".join(f"{word} {count}" for word, count in sorted(sure.items())))
    passed = sum(right.values())
    failed = sum(times.values()) - passed
    print(f"ranks: {passed} passed, {failed} failed; {line.ranks} ranks, {time.monotonic() - begin:.0f} s, load {os.getloadavg()[1]:.0f}")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--rank"]:
        be_a_rank(sys.argv[2], [int(word) for word in sys.argv[3].split(",")], int(sys.argv[4]), sys.argv[5])
    elif sys.argv[1:2] == ["--torchrun"]:
        be_torchrun(sys.argv[2:])
    elif sys.argv[1:2] == ["--machine"]:
        be_on_a_machine(int(sys.argv[2]), sys.argv[3:])
    else:
        sys.exit(main())
