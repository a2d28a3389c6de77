"""`python run.py`: the desktop app. `python run.py --help` lists the other commands."""

from app.main import main

if __name__ == "__main__":
    main()
