"""``python -m reprise sft …`` is ``reprise sft …``."""

from reprise._program import main

main()
