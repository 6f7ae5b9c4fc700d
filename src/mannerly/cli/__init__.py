"""The command line. `main` finds the command, `options` makes a configuration of what was typed, `assemble` joins the
parts and is the only place that knows adapters; the other modules are one command each.
"""
