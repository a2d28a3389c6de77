"""`python run.py`: the desktop app. `python run.py --help` lists the other commands."""

import sys

try:
    from app.main import main
except KeyboardInterrupt:  # Ctrl+C in the first second
    sys.exit(130)

if __name__ == "__main__":
    main()
