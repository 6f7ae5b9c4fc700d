"""`python -m mannerly`: the command line; `python -m mannerly _worker`, a worker process of an embedded crawl; `_parser`, its parser."""

import sys

if __name__ == "__main__":
    if sys.argv[1:] in (["_worker"], ["_parser"]):
        from mannerly.worker.parent import end_with_parent

        end_with_parent()
        from mannerly.cli.assemble import worker

        worker.work() if sys.argv[1] == "_worker" else worker.parse()
    else:
        from mannerly.cli.main import run

        run()
