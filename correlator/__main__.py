"""``python -m correlator``."""

from correlator.cli import main

if __name__ == "__main__":
    main()
