"""``python tests/lab``: see ``--help``."""

import sys

from vmlab.command import main

sys.exit(main(sys.argv[1:]))
