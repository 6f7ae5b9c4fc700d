"""Serve the corpus that `setup.py` unpacked: nginx on a free loopback port, one virtual host a site.

    python -m bench.corpus.serve --dir DIR [--log FILE]     prints JSON: port, sites, seeds; runs on as a daemon
    python -m bench.corpus.serve --dir DIR --stop

`rust.test` and any name below it (`h0001.rust.test`) serve the same folder, so one corpus gives as many hosts
as a measurement wants. Directories have no listing; robots.txt is 404 on every host. The access log, if asked
for, has one line a request: host, target, status, seconds since 1970 with milliseconds.
nginx is installed with apt-get when it is missing and the user is root.
"""

from __future__ import annotations

import argparse
import getpass
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HEAD = """\
{user}worker_processes 1;
pid {run}/nginx.pid;
error_log {run}/error.log warn;
worker_rlimit_nofile 8192;
events {{ worker_connections 4096; }}
http {{
  include /etc/nginx/mime.types;
  default_type application/octet-stream;
  sendfile on;
  tcp_nopush on;
  tcp_nodelay on;
  server_tokens off;
  log_not_found off;
  keepalive_timeout 75s;
  keepalive_requests 100000;
  open_file_cache max=1000 inactive=20s;
  client_body_temp_path {run}/body;
  proxy_temp_path {run}/proxy;
  fastcgi_temp_path {run}/fastcgi;
  uwsgi_temp_path {run}/uwsgi;
  scgi_temp_path {run}/scgi;
  log_format seen '$host $request_uri $status $msec';
  access_log {log};
  server {{ listen {address}:{port} default_server; return 404; }}
"""

SERVER = r"""
  server {{
    listen {address}:{port};
    server_name ~^(?:.+\.)?{name}\.test$;
    root "{root}";
    index index.html;
    autoindex off;
    location = /robots.txt {{ return 404; }}
  }}
"""


def free_port(address: str) -> int:
    with socket.create_server((address, 0)) as probe:
        port: int = probe.getsockname()[1]
    return port


def nginx_program() -> str:
    """Path of nginx; installs it when that is possible, else says what to do and ends."""
    found = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
    if found:
        return found
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        sys.exit("nginx is not installed\nhint: apt-get install nginx-light")
    # Without this policy the package would start a server of its own on port 80.
    policy = Path("/usr/sbin/policy-rc.d")
    ours = not policy.exists()
    if ours:
        policy.write_text("#!/bin/sh\nexit 101\n", encoding="ascii")
        policy.chmod(0o755)
    try:
        subprocess.run(
            ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "nginx-light"],
            check=True,
            stdout=sys.stderr,
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        )
    finally:
        if ours:
            policy.unlink()
    return "/usr/sbin/nginx"


def configuration(
    corpus: Path, sites: list[dict[str, Any]], *, address: str, port: int, log: Path | None
) -> str:
    """The nginx configuration for `sites`; written out whole, nothing of the system's but mime.types."""
    user = f"user {getpass.getuser()};\n" if os.geteuid() == 0 else ""
    parts = [
        HEAD.format(
            user=user,
            run=corpus / "run",
            address=address,
            port=port,
            log=f'"{log}" seen buffer=64k flush=1s' if log else "off",
        )
    ]
    parts += [
        SERVER.format(address=address, port=port, name=site["name"], root=corpus / site["folder"])
        for site in sites
    ]
    return "".join([*parts, "}\n"])


def running_pid(corpus: Path) -> int | None:
    """The process id of the nginx that this corpus' pid file names, if it lives."""
    try:
        pid = int((corpus / "run" / "nginx.pid").read_text(encoding="ascii"))
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (OSError, ValueError):
        return None
    return pid if b"nginx" in command else None


def stop(corpus: Path) -> int:
    pid = running_pid(corpus)
    if pid is None:
        print("not running", file=sys.stderr)
        return 0
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + 10
    while running_pid(corpus) is not None:
        if time.monotonic() > deadline:
            print(f"nginx {pid} does not end", file=sys.stderr)
            return 1
        time.sleep(0.02)
    return 0


def start(corpus: Path, *, address: str, port: int, log: Path | None, foreground: bool) -> int:
    index = corpus / "sites.json"
    if not index.exists():
        print(f"no corpus at {corpus}\nhint: python -m bench.corpus.setup --dir {corpus}", file=sys.stderr)
        return 1
    if (pid := running_pid(corpus)) is not None:
        print(
            f"nginx {pid} serves this corpus\nhint: run with --stop, or read {corpus}/run/serve.json",
            file=sys.stderr,
        )
        return 1
    program = nginx_program()
    sites = json.loads(index.read_text(encoding="utf-8"))
    port = port or free_port(address)
    run = corpus / "run"
    run.mkdir(exist_ok=True)
    conf = run / "nginx.conf"
    conf.write_text(configuration(corpus, sites, address=address, port=port, log=log), encoding="utf-8")
    report = {
        "address": address,
        "port": port,
        "sites": {
            site["name"]: {
                "seeds": [f"http://{site['name']}.test:{port}{path}" for path in site["seeds"]],
                "html_files": site["html_files"],
            }
            for site in sites
        },
        "crawl_arguments": ["--resolve", f"*.test={address}", "--allow-private-addresses"],
    }
    text = json.dumps(report, indent=1)
    (run / "serve.json").write_text(text + "\n", encoding="utf-8")
    print(text, flush=True)
    command = [program, "-c", str(conf), "-e", str(run / "error.log"), "-p", str(run)]
    if foreground:
        os.execv(program, [*command, "-g", "daemon off;"])
    return subprocess.run(command, check=False).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description="Serve the documentation corpus on loopback.")
    parser.add_argument("--dir", type=Path, required=True, help="the folder that setup.py filled")
    parser.add_argument("--address", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="default: a free one")
    parser.add_argument("--log", type=Path, help="access log: host, target, status, time")
    parser.add_argument("--foreground", action="store_true", help="stay in the foreground")
    parser.add_argument("--stop", action="store_true", help="end the server that runs for this corpus")
    options = parser.parse_args()
    corpus = options.dir.resolve()
    if options.stop:
        return stop(corpus)
    log = options.log.resolve() if options.log else None
    return start(corpus, address=options.address, port=options.port, log=log, foreground=options.foreground)


if __name__ == "__main__":
    sys.exit(main())
