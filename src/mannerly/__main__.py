"""`python -m mannerly`: the command line; and `python -m mannerly _worker`, a worker process of an embedded crawl."""

import sys

if __name__ == "__main__":
    if sys.argv[1:] == ["_worker"]:
        from mannerly.worker.parent import end_with_parent

        end_with_parent()
        from mannerly.cli.assemble.worker import work

        work()
    else:
        from mannerly.cli.main import run

        run()
