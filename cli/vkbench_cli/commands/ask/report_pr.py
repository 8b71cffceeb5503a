"""`vkbench report pr`: what a change does, as one comment of a pull request and its status."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from vkbench.errors import (
    EXIT_OK,
    EXIT_REGRESSION,
    NothingToDo,
    UsageError,
    VkbenchError,
    WrongResult,
)
from vkbench.forges.forge import CommitState, CommitStatus, Forge, ForgeError, ForgeRefuses
from vkbench.forges.opening import ForgeKind, forge_of_runner
from vkbench.job import Mode
from vkbench.programs.build import SHA_SHOWN
from vkbench.words import markdown
from vkbench.words.sparklines import MOST
from vkbench_cli.options.records import RUN_HELP, Store
from vkbench_cli.options.spreading import spread
from vkbench_cli.show.telling import hand_over, tell
from vkbench_cli.store import reading

if TYPE_CHECKING:
    from vkbench_db.database import Transaction

MOST_DRAWN = 20  # rows with a history
# What `run` and `try` end with once they have measured; with all else nothing is known of a change.
MEASURED = (EXIT_OK, EXIT_REGRESSION, WrongResult.exit_code, VkbenchError.exit_code)
FORK = (
    "no comment: the token of a fork's pull request may only read, so that a stranger's change "
    "writes nothing; what the comment would say is above"
)
ENDED = ("finished", "cancelled")  # states of a try-out; the end of its time cancels the rest


@dataclass(frozen=True, kw_only=True)
class Posting:
    """Where a forge shows the comment and the status."""

    post: Annotated[
        ForgeKind | None,
        Option(help="Post to this forge; GITHUB_TOKEN or GITLAB_TOKEN has the token."),
    ] = None
    repository: Annotated[
        str, Option(metavar="OWNER/NAME", help="The repository of the pull request.")
    ] = ""
    number: Annotated[
        int, Option(metavar="N", min=0, help="The pull request that is commented on.")
    ] = 0
    commit: Annotated[str, Option(metavar="SHA", help="Set the status of this commit too.")] = ""
    name: Annotated[
        str,
        Option(metavar="NAME", help="Name of the status; each name has a comment of its own."),
    ] = "vkbench"
    link: Annotated[
        str, Option(metavar="URL", help="Where the whole report lies, for comment and status.")
    ] = ""
    pending: Annotated[
        bool,
        Option("--pending", help="Only set the status of --commit: RUN is being measured."),
    ] = False
    from_fork: Annotated[
        bool,
        Option(
            "--from-fork",
            help="The pull request is of a fork, whose token may only read: if the forge refuses "
            "the comment, print it and say why, and let that fail nothing.",
        ),
    ] = False

    def check(self) -> None:
        """UsageError where it does not say what to post, and where."""
        if not self.post:
            if self.repository or self.number or self.commit or self.pending:
                raise UsageError("--repository, --number, --commit and --pending need --post")
            return
        if self.pending and not self.commit:
            raise UsageError("--pending needs --commit: it is the status of that")
        if not (self.repository and (self.number or self.commit)):
            raise UsageError("--post needs --repository, and --number or --commit")
        if not self.name.replace("-", "").replace("_", "").replace(" ", "").isalnum():
            raise UsageError("--name takes letters, digits, blanks, - and _")


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What a change does: a line, a comment, and the exit code of its gate."""

    headline: str
    text: str
    code: int

    @property
    def state(self) -> CommitState:
        """What a status says of it."""
        if self.code == EXIT_OK:
            return CommitState.SUCCESS
        return CommitState.FAILURE if self.code in MEASURED else CommitState.ERROR


@spread
def pr(
    *,
    run_name: Annotated[
        str, Argument(metavar="RUN", help=f"With the change. {RUN_HELP}", show_default=False)
    ],
    against: Annotated[
        str,
        Option(
            metavar="OLD",
            help="Compare with this run or baseline, as `compare OLD RUN` does; without it, RUN "
            "is one of `vkbench try`.",
        ),
    ] = "",
    ended: Annotated[
        int,
        Option(
            metavar="CODE",
            min=0,
            help="What `run` or `try` of RUN ended with: but for 0, 1, 3, 4 and 7 it is not "
            "judged, and is an error.",
        ),
    ] = EXIT_OK,
    posting: Posting,
    store: Store,
) -> int:
    """Print what a change does as a comment for a pull request, or post it.

    The comment is written once and edited by later calls. What is wrong or failed comes first,
    then what is slower; the rest is folded. The status is success only if a run that ended was
    judged; --pending sets one before that. In CI, name the run of the job by a label of its own:
    `last` may be one of before.

    \b
    vkbench report pr last --against main
    vkbench report pr last --post github --repository OWNER/NAME --number 12

    Exit codes: 0 nothing became worse, 1 slower, 2 there is no such run, 3 wrong, 4 a case fails,
    7 nothing was compared, 8 nothing became worse, and the forge cannot be reached or does not
    take it; what --ended gives, if nothing was measured.
    """
    posting.check()
    if posting.post and posting.pending:
        _say_pending(posting, posting.post)
        return EXIT_OK
    try:
        verdict = _judge(store, run_name, against, ended)
    except VkbenchError as error:
        if not posting.post:
            raise
        # of an exit code that a verdict has too, the state must still be that of an error
        code = NothingToDo.exit_code if error.exit_code in MEASURED else error.exit_code
        verdict = _say_not_measured(str(error), code)
    if not posting.post:
        hand_over(verdict.text)
        return verdict.code
    troubles = _post(posting, posting.post, verdict)
    if troubles and all(_is_of_fork(posting, trouble) for trouble in troubles):
        hand_over(verdict.text)
        tell(FORK)
    elif troubles and verdict.code == EXIT_OK:
        raise troubles[0]
    for trouble in troubles:
        tell(f"vkbench: {trouble}")
    tell(verdict.headline)
    return verdict.code


def _post(posting: Posting, kind: ForgeKind, verdict: Verdict) -> list[VkbenchError]:
    """Write the comment and set the status; what kept one from that, which keeps not the other."""
    try:
        forge = forge_of_runner(kind, posting.repository)
    except UsageError as error:
        if not posting.from_fork:
            raise
        return [error]
    troubles: list[VkbenchError] = []
    if posting.number:
        more = f"\n[The whole report]({posting.link})\n" if posting.link else ""
        try:
            place = forge.write_comment(posting.number, f"pr {posting.name}", verdict.text + more)
            tell(f"comment: {place}")
        except ForgeError as error:
            troubles.append(error)
    if posting.commit:
        try:
            _set_status(forge, posting, verdict.state, verdict.headline)
        except ForgeError as error:
            troubles.append(error)
    return troubles


def _is_of_fork(posting: Posting, trouble: VkbenchError) -> bool:
    """Whether something was refused because the pull request is of a fork."""
    return posting.from_fork and isinstance(trouble, (ForgeRefuses, UsageError))


def _say_pending(posting: Posting, kind: ForgeKind) -> None:
    """Set a status that something is measured; a forge that does not take it stops nothing."""
    try:
        forge = forge_of_runner(kind, posting.repository)
        _set_status(forge, posting, CommitState.PENDING, "being measured")
    except (ForgeError, UsageError) as error:
        tell(f"vkbench: no status that it is measured: {error}")


def _set_status(forge: Forge, posting: Posting, state: CommitState, description: str) -> None:
    forge.set_status(
        CommitStatus(
            commit=posting.commit,
            state=state,
            name=posting.name,
            description=description,
            link=posting.link,
        )
    )


def _judge(store: Store, run_name: str, against: str, ended: int) -> Verdict:
    """The verdict on a run, if it was measured to its end."""
    if ended not in (*MEASURED, NothingToDo.exit_code):
        return _say_not_measured(f"{run_name} ended with {ended}", ended)
    return _compare(store, against, run_name) if against else _read_tryout(store, run_name)


def _say_not_measured(why: str, code: int) -> Verdict:
    line = f"not measured: {why}"
    return Verdict(headline=line, text=markdown.summary(line, []), code=code)


def _read_tryout(store: Store, run_name: str) -> Verdict:
    """What a run of `vkbench try` found."""
    from vkbench_cli.show.tryout import exit_code_of
    from vkbench_db.ask import queries
    from vkbench_db.ask.driver_names import names_of_files
    from vkbench_db.work.builds import names_of_builds
    from vkbench_detection.compare.tryouts import tryout_of
    from vkbench_tables.comparisons import tryout

    with reading(store.settings()) as tx:
        run = queries.find_run(tx, run_name)
        chosen = run.selection
        if run.mode != Mode.PAIRED or "old" not in chosen:
            raise UsageError(f"run {run.id} is none of `vkbench try`: give --against OLD")
        if run.progress.state not in ENDED:
            raise NothingToDo(f"run {run.id} has not ended: it is {run.progress.state}")
        names = names_of_builds(tx)
        drivers = names_of_files(tx)
        shas = (str(chosen["old"]), str(chosen.get("driver") or chosen["bundle"]))
        short = [sha[:SHA_SHOWN] for sha in shas]
        old, new = (
            names.get(sha) or drivers.get(digits) or digits
            for sha, digits in zip(shas, short, strict=True)
        )
        tried = tryout_of(tx, run.id, old=old, new=new)
    try:
        code = exit_code_of(tried)
    except NothingToDo as nothing:
        code = nothing.exit_code
    return Verdict(headline=tryout.headline(tried), text=tryout.in_markdown(tried), code=code)


def _compare(store: Store, old: str, new: str) -> Verdict:
    """What `vkbench compare` finds of two runs, all rows in it."""
    from vkbench.run import COMPARED
    from vkbench_cli.options.gate import FailOn, check_comparison, exit_code
    from vkbench_db.ask import queries
    from vkbench_detection.compare.comparison import compare, with_noise
    from vkbench_detection.compare.drift import drifts
    from vkbench_detection.compare.provenance import provenances
    from vkbench_detection.compare.references import find, find_of_run
    from vkbench_tables.comparisons import comparison, comparison_markdown

    with reading(store.settings()) as tx:
        run = queries.find_run(tx, new, COMPARED)
        if run.progress.state != "finished":
            raise NothingToDo(f"run {run.id} has not ended: it is {run.progress.state}")
        compared = compare(tx, find(tx, old), find_of_run(tx, str(run.id)))
        check_comparison(compared, mix=False, fail_on=FailOn.REGRESSION)
        pairs = sorted(with_noise(tx, compared.pairs, compared.histories), key=comparison.by_change)
        jobs = (side.job for pair in pairs for side in (pair.old, pair.new))
        canaries = drifts(tx, compared.pairs)
        shown = comparison.table(compared, pairs, provenances(tx, jobs), canaries)
        histories = _read_histories(tx, shown.rows)
    try:
        code = exit_code(compared, FailOn.REGRESSION)
    except NothingToDo as nothing:
        code = nothing.exit_code
    text = comparison_markdown.in_markdown(compared, shown, canaries, histories)
    return Verdict(headline=comparison_markdown.headline(compared), text=text, code=code)


def _read_histories(
    tx: Transaction, rows: Sequence[Mapping[str, Any]]
) -> dict[object, Sequence[float]]:
    """The seconds of the first rows that changed until the new result, by series."""
    from vkbench_detection.series.points import points_until

    changed = [
        row for row in rows if row.get("change") in ("slower", "faster") and row.get("new_series")
    ]
    return {
        row["new_series"]: [
            point.seconds for point in points_until(tx, row["new_series"], row["new_job"], MOST)
        ]
        for row in changed[:MOST_DRAWN]
    }
