"""`make mutants`: change the source in small ways and check that a test notices each change.

Results are kept in `build/mutants`, so that an interrupted run continues and a later run repeats only what
changed. The exit code is 1 if a mutant survives that `explained.json` does not explain.
"""

import argparse
import json
import re
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.mutants.line_map import LineMap, TimedTest, file_hash
from tests.mutants.mutated_tree import MutatedTree
from tests.mutants.mutations import AREAS, ROOT, Mutant, explanations, sample

WORK = ROOT / "build" / "mutants"
KILLERS = Path(__file__).parent / "killers.json"
_FIRST = 30  # tests of the first run, so that most mutants fail soon
_BUDGET = 45.0  # seconds of tests per mutant
_QUICK = 0.3  # seconds of a test that depends on no other process, and so fails for no other reason
_FAILED = re.compile(r"^(?:FAILED|ERROR) (tests/\S+\.py(?:::.*?)?)(?: - .*)?$", re.MULTILINE)
_MISSING = re.compile(r"^ERROR: not found: \S*?/tree/(tests/[^\[\n]*).*$", re.MULTILINE)


class Results:
    """What became of each mutant, by key."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._rows: dict[str, dict[str, Any]] = json.loads(file.read_text("utf-8")) if file.exists() else {}

    def get(self, mutant: Mutant) -> dict[str, Any] | None:
        """Return the result, unless the function or the test that noticed it has changed."""
        row = self._rows.get(mutant.key)
        if row is None or row["function"] != mutant.function_hash:
            return None
        if row["outcome"] == "killed" and file_hash(ROOT / _file_of(row["by"])) != row["test"]:
            return None
        return row

    def set(self, mutant: Mutant, row: dict[str, Any]) -> None:
        self._rows[mutant.key] = {"function": mutant.function_hash, **row}
        new = self._file.with_suffix(".new")
        new.write_text(json.dumps(self._rows, indent=1), "utf-8")
        new.replace(self._file)

    def killers(self) -> dict[str, str]:
        """Return the test that noticed each mutant."""
        return {key: row["by"] for key, row in sorted(self._rows.items()) if row["outcome"] == "killed"}


def _file_of(test: str) -> str:
    return test.partition("::")[0]


class MutantRun:
    """Runs the tests of mutants in a copy of the repository."""

    def __init__(self, tree: MutatedTree, lines: LineMap, results: Results, hints: dict[str, str]) -> None:
        self._tree = tree
        self._lines = lines
        self._results = results
        self._hints = hints

    def repeat(self, mutant: Mutant) -> bool:
        """Return whether the mutant is killed, by an earlier result or by the test that noticed it before."""
        row = self._results.get(mutant)
        hint = self._hints.get(mutant.key, "")
        digest = file_hash(ROOT / _file_of(hint))
        if row is not None and row["outcome"] == "killed":
            return True
        if not digest or (row is not None and row["passed"].get(_file_of(hint)) == digest):
            return False
        return self._run(mutant, [[TimedTest(hint, 5.0, "")]])["outcome"] == "killed"

    def judge(self, mutant: Mutant) -> dict[str, Any]:
        """Run the tests of a mutant until one fails, and keep the result."""
        row = self._results.get(mutant)
        known: dict[str, str] = row["passed"] if row is not None else {}
        outcome = self._run(mutant, self._batches(mutant, known))
        if outcome["outcome"] == "survived":
            run = {_file_of(test.id): test.file_hash for test in self._lines.tests_of(mutant)}
            outcome["passed"] = known | run
            self._results.set(mutant, outcome)
        return outcome

    def _run(self, mutant: Mutant, batches: Iterable[list[TimedTest]]) -> dict[str, Any]:
        """Run batches of tests until one fails, and keep the result if it does."""
        started = time.monotonic()
        outcome: dict[str, Any] = {"outcome": "survived"}
        self._tree.mutate(mutant)
        try:
            killer = next((found for found in map(self._first_failure, batches) if found), None)
        finally:
            self._tree.restore(mutant)
        outcome["seconds"] = round(time.monotonic() - started, 1)
        if killer is not None:
            outcome |= {"outcome": "killed", "by": killer, "test": file_hash(ROOT / _file_of(killer))}
            self._results.set(mutant, outcome)
        return outcome

    def _batches(self, mutant: Mutant, passed: dict[str, str]) -> Iterator[list[TimedTest]]:
        """Yield a few near tests, then the others."""
        tests: list[TimedTest] = []
        spent = 0.0
        for test in self._lines.tests_of(mutant):
            fresh = file_hash(ROOT / _file_of(test.id)) == test.file_hash
            if fresh and passed.get(_file_of(test.id)) != test.file_hash:
                spent += test.seconds
                if tests and spent > _BUDGET:
                    break
                tests.append(test)
        for batch in (tests[:_FIRST], tests[_FIRST : 8 * _FIRST], tests[8 * _FIRST :]):
            if batch:
                yield batch

    def _first_failure(self, batch: list[TimedTest]) -> str | None:
        """Run tests until one fails, a slow one twice in a row. A run without end counts as a failure."""
        names = [test.id for test in batch]
        while names:
            times = [test.seconds for test in batch]
            limit, each = 120 + 5 * sum(times), max(30.0, 5 * max(times))
            code, output = self._pytest(names, limit, each)
            if code is None:
                return f"{_file_of(names[0])} (time limit)"
            if code in (0, 5):
                return None
            if code == 4:
                names = _found_names(names, set(_MISSING.findall(output)))
                continue
            found = _FAILED.search(output)
            if found is None:
                return f"{_file_of(names[0])} (exit code {code})"
            failed = found[1]
            quick = any(test.id == failed and test.seconds < _QUICK for test in batch)
            if quick or self._pytest([failed], limit, each)[0] != 0:
                return failed
            names = names[names.index(failed) + 1 :] if failed in names else []
        return None

    def _pytest(self, names: list[str], limit: float, each: float) -> tuple[int | None, str]:
        words = ["-m", "pytest", "-x", "-p", "no:cacheprovider", "--hypothesis-profile=ci", "--tb=no", "-rfE"]
        return self._tree.run([*words, "--color=no", f"--timeout={each}", *names], limit)


def _found_names(names: list[str], missing: set[str]) -> list[str]:
    """Replace the cases of a test that pytest does not find by the whole test, and leave out what is gone."""
    if not missing:
        return []
    tests = [name.partition("[")[0] for name in names]
    wider = [test if test in missing else name for name, test in zip(names, tests, strict=True)]
    return [name for name in dict.fromkeys(wider) if name not in missing or name not in names]


def _table(mutants: list[Mutant], results: Results, explained: dict[str, str]) -> tuple[str, list[str]]:
    """Return the counts by area, and the keys of the mutants that are neither killed nor explained."""
    lines = ["area      mutants  killed  explained  survived  not run"]
    left: list[str] = []
    totals = [0] * 5
    for area in AREAS:
        counts = [0] * 5
        for mutant in mutants:
            if mutant.area != area:
                continue
            row = results.get(mutant)
            counts[0] += 1
            if row is not None and row["outcome"] == "killed":
                counts[1] += 1
            elif mutant.key in explained:
                counts[2] += 1
            elif row is None:
                counts[4] += 1
            else:
                counts[3] += 1
                left.append(mutant.key)
        totals = [total + count for total, count in zip(totals, counts, strict=True)]
        lines.append(f"{area:8}  {counts[0]:7}  {counts[1]:6}  {counts[2]:9}  {counts[3]:8}  {counts[4]:7}")
    lines.append(f"{'all':8}  {totals[0]:7}  {totals[1]:6}  {totals[2]:9}  {totals[3]:8}  {totals[4]:7}")
    return "\n".join(lines), left


def main() -> int:
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("--only", metavar="TEXT", default="", help="run only mutants whose key contains TEXT")
    parser.add_argument("--list", action="store_true", help="show the sample and the results, run nothing")
    parser.add_argument("--no-map", action="store_true", help="do not run test files that changed")
    options = parser.parse_args()
    mutants = sample()
    explained = explanations()
    WORK.mkdir(parents=True, exist_ok=True)
    results = Results(WORK / "results.json")
    if options.list:
        for mutant in mutants:
            row = results.get(mutant)
            print(f"{row['outcome'] if row else '-':8} {mutant.area:8} {mutant.key}")
        print(_table(mutants, results, explained)[0])
        return 0
    hints: dict[str, str] = json.loads(KILLERS.read_text("utf-8")) if KILLERS.exists() else {}
    hints |= results.killers()
    with tempfile.TemporaryDirectory(prefix="mut", ignore_cleanup_errors=True) as folder:
        tree = MutatedTree(Path(folder))
        lines = LineMap(WORK / "lines")
        run = MutantRun(tree, lines, results, hints)
        chosen = [mutant for mutant in mutants if options.only in mutant.key and mutant.key not in explained]
        repeated = [mutant for mutant in chosen if run.repeat(mutant)]
        print(f"{len(repeated)} of {len(chosen)} mutants are noticed by the same test as before", flush=True)
        chosen = [mutant for mutant in chosen if mutant not in repeated]
        outdated = lines.outdated() if chosen and not options.no_map else []
        for number, test in enumerate(outdated, 1):
            print(f"[{number}/{len(outdated)}] {test}: {lines.update(tree, test)} tests", flush=True)
        for number, mutant in enumerate(chosen, 1):
            row = run.judge(mutant)
            note = row.get("by", "no test failed")
            print(f"[{number}/{len(chosen)}] {row['outcome']}: {mutant.key} ({note})", flush=True)
    table, left = _table(mutants, results, explained)
    killed = {**hints, **results.killers()}
    sampled = {mutant.key for mutant in mutants}
    kept = {key: test for key, test in sorted(killed.items()) if key in sampled}
    KILLERS.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")
    print(f"\n{table}")
    for key in left:
        print(f"survived: {key}")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
