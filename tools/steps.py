"""List, tag and check the steps of the history.

    python tools/steps.py list                  # every step, its commit and its title
    python tools/steps.py tag                   # make the tags: ep03.2, and ep03 for its last step
    python tools/steps.py check                 # run the tests of each step in a clean worktree
    python tools/steps.py check --from 04.1 -- python -m pytest -q tests/test_cache.py

A step is a commit whose message ends with a trailer such as "Step: 03.2". Tags do not travel with
a push, so a fresh clone makes them with `tag`.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Step:
    number: str  # "03.2"
    commit: str
    title: str

    @property
    def order(self) -> tuple[int, ...]:
        return order(self.number)


def main() -> None:
    args = parse()
    steps = find_steps(args.ref)
    if not steps:
        sys.exit(f"no commit of {args.ref} has a trailer Step:")
    if args.action == "list":
        for step in sorted(steps, key=lambda step: step.order):
            print(f"{step.number:6} {step.commit[:8]} {step.title}")
    elif args.action == "tag":
        print(f"{tag(steps)} tags on {len(steps)} steps")
    else:
        chosen = [step for step in steps if step.order >= args.first]
        failed = [step.number for step in chosen if not check(step, args.command)]
        sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=["list", "tag", "check"])
    parser.add_argument("--ref", default="HEAD", help="the branch or commit to read (HEAD)")
    parser.add_argument("--from", dest="first", type=order, default="00.0", metavar="STEP",
                        help="the first step to check")  # fmt: skip
    own, command = split(sys.argv[1:])
    args = parser.parse_args(own)
    args.command = command or [sys.executable, "-m", "pytest", "-q"]
    return args


def split(words: list[str]) -> tuple[list[str], list[str]]:
    """The words before -- and those behind it, which are the command that `check` runs."""
    place = words.index("--") if "--" in words else len(words)
    return words[:place], words[place + 1 :]


def order(number: str) -> tuple[int, ...]:
    return tuple(map(int, number.split(".")))


def git(*args: str) -> str:
    done = subprocess.run(["git", *args], cwd=ROOT, capture_output=True, encoding="utf-8")
    if done.returncode:
        sys.exit(f"git {args[0]} failed: {done.stderr.strip()}")
    return done.stdout


def find_steps(ref: str) -> list[Step]:
    """The steps, oldest commit first. One that was made anew counts where it was made anew."""
    fields = "%H%x1f%(trailers:key=Step,valueonly,separator=%x2C)%x1f%s"
    found: dict[str, Step] = {}
    for line in git("log", "--first-parent", "--reverse", f"--format={fields}", ref).splitlines():
        commit, numbers, title = line.split("\x1f")
        for number in filter(None, map(str.strip, numbers.split(","))):
            found.pop(number, None)
            found[number] = Step(number, commit, title)
    return list(found.values())


def tag(steps: list[Step]) -> int:
    """Tag every step and the last of each episode; drop tags whose step is gone."""
    wanted = {}
    for step in sorted(steps, key=lambda step: step.order):
        wanted[f"ep{step.number}"] = step.commit
        wanted[f"ep{step.number.split('.')[0]}"] = step.commit
    for name in git("tag", "--list", "ep[0-9]*").split():
        if re.fullmatch(r"ep\d\d(\.\d+)?", name) and name not in wanted:
            git("tag", "--delete", name)
    for name, commit in wanted.items():
        git("tag", "--force", name, commit)
    return len(wanted)


def check(step: Step, command: list[str]) -> bool:
    """Whether the step adds a test or its row, and the command succeeds in a clean worktree."""
    files = git("show", "--format=", "--name-only", step.commit).split("\n")
    taught = any(file.startswith("tests/") or file == "docs/episodes.md" for file in files)
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "tree")
        git("worktree", "add", "--detach", str(tree), step.commit)
        try:
            done = subprocess.run(command, cwd=tree, capture_output=True, encoding="utf-8")
        finally:
            git("worktree", "remove", "--force", str(tree))
    last = (done.stdout.strip().splitlines() or ["no output"])[-1]
    good = taught and done.returncode == 0
    reason = last if taught else "touches neither tests/ nor docs/episodes.md"
    print(f"{step.number:6} {'ok' if good else 'FAILED':6} {step.title}: {reason}", flush=True)
    if not good:
        print(done.stdout[-3000:], done.stderr[-1000:], sep="\n", flush=True)
    return good


if __name__ == "__main__":
    main()
