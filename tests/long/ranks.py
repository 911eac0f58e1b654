#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Inside the root of tests/long/ranks: starts a Slurm of four nodes, runs jobs with a planted cause under srun and mpirun,
and asks `rocmcrash fleet` which rank fell first."""

import argparse
import collections
import glob
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time

FOLDER = "/var/tmp/ranks"
NODES = 4
OOM = ("torch.OutOfMemoryError: HIP out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 64.00 GiB of which 1.00 GiB is "
       "free. Of the allocated memory 60.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated.\n")
CLOSED = "RuntimeError: [../gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:3977\n"
KINDS = {"out of memory": 1, "crash": 1, "killed": 1, "two crashes": 2, "others are ended": 1}
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


# --- a rank: talks to rank 0, and loses it, or is lost, when another one dies ---

def variable(*names):
    return int(next(os.environ[name] for name in names if name in os.environ))


def fail(kind):
    if kind in ("out of memory", "others are ended"):
        sys.stderr.write(OOM)
        sys.stderr.flush()
        os._exit(1)
    os.kill(os.getpid(), signal.SIGKILL if kind == "killed" else signal.SIGSEGV)


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


def be_a_rank(kind, who, port):
    rank, size = variable("OMPI_COMM_WORLD_RANK", "SLURM_PROCID"), variable("OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS")
    if kind == "others are ended":
        time.sleep(60 if rank not in who else 5)  # nobody talks to anybody: it is the launcher that ends them
        fail(kind)
    peers = connect(rank, size, port)
    for step in range(60):
        if step == 20 and rank in who:
            fail(kind)
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


# --- the cluster ---

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


def wait_for_finishers():
    """A launcher that kills rocmcrash does not wait for the process that makes the bundle."""
    for _ in range(300):
        names = []
        for path in glob.glob("/proc/[0-9]*/comm"):
            try:
                with open(path, encoding="utf-8", errors="replace") as file:
                    names.append(file.read())
            except OSError:
                continue
        if not any(name.startswith("rocmcrash-finis") for name in names):
            return
        time.sleep(0.1)


def run(launcher, kind, who, ranks, number):
    """The answer of fleet about a job: (ranks named as causes, ranks of the job in bundles or missing, jobs, ranks that were asked to end)."""
    # Each run has its own folder: a finisher may outlive srun, and write its bundle while the next job runs.
    folder = os.path.join(FOLDER, f"out-{number}")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    rank = ["rocmcrash", "--", sys.executable, os.path.abspath(__file__), "--rank", kind, ",".join(map(str, who)), str(21000 + number)]
    starts = {"srun": ["srun", f"-N{NODES}", f"-n{ranks}", "--mpi=none", "--kill-on-bad-exit=1"],
              "mpirun": ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(ranks)]}
    subprocess.run([*starts[launcher], *rank], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                   timeout=240, check=False)
    wait_for_finishers()
    if not glob.glob(os.path.join(folder, "*.tar.gz")):
        return [], 0, 0, 0
    done = subprocess.run(["rocmcrash", "fleet", "--json", folder], capture_output=True, text=True, check=True)
    jobs = json.loads(done.stdout)["jobs"]
    causes = sorted(record["rank"] for job in jobs for record in job["causes"])
    return causes, sum(len(job["time_line"]) + len(job["missing"]) for job in jobs), len(jobs), sum(
        record.get("asked_to_end", False) for job in jobs for record in job["time_line"])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=18)
    line = parser.parse_args()
    rng = random.Random(line.seed)
    daemons = start_slurm()
    right, wrong, times = collections.Counter(), 0, collections.Counter()
    try:
        for number in range(line.runs):
            launcher = ("srun", "mpirun")[number % 2]
            kind = list(KINDS)[number // 2 % len(KINDS)]
            who = rng.sample(range(line.ranks), KINDS[kind])
            causes, seen, jobs, ended = run(launcher, kind, who, line.ranks, number)
            # When two fail at once, the first one ends the job, and the second may have no time left.
            ok = jobs == 1 and seen == line.ranks and (causes == sorted(who) or (len(who) == 2 and len(causes) == 1 and causes[0] in who))
            if kind == "others are ended" and launcher == "srun":  # Open MPI sends SIGKILL a moment after SIGTERM
                ok = ok and ended == line.ranks - 1
            times[launcher, kind] += 1
            right[launcher, kind] += ok
            wrong += not ok
            if not ok:
                print(f"wrong: {launcher}, {kind} on {who}: {causes} of {seen} ranks in {jobs} jobs, {ended} asked to end")
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
        for daemon in daemons:
            daemon.wait()
    for key, count in times.items():
        print(f"{', '.join(key)}: {right[key]} of {count}")
    print(f"ranks: {line.runs - wrong} passed, {wrong} failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--rank"]:
        be_a_rank(sys.argv[2], [int(word) for word in sys.argv[3].split(",")], int(sys.argv[4]))
    else:
        sys.exit(main())
