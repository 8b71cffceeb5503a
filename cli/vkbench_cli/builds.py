"""Finds the builds that a command's options name; the fleet's hosts get them from their place."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from vkbench.errors import UnknownName, UsageError
from vkbench.settings import Settings, settings
from vkbench_cli.drivers import kept_drivers
from vkbench_cli.show.telling import Elapsed, tell

if TYPE_CHECKING:
    from vkbench.programs.build import Build
    from vkbench.programs.making import Product
    from vkbench.programs.program import Program
    from vkbench.programs.registry import ProgramStore
    from vkbench.programs.store import BuildStore
    from vkbench_cli.options.making import MakeOptions
    from vkbench_db.database import Database
    from vkbench_local.making import Workshop
    from vkbench_scheduler.planning.selection import Selection


_LONGEST_NAME = 100  # of a build, characters


def kept_builds(settings: Settings) -> BuildStore:
    """The builds that are kept on this machine."""
    from vkbench.programs.store import BuildStore

    return BuildStore(settings.build_folder())


def kept_programs(settings: Settings) -> ProgramStore:
    """The programs that this machine knows: the built-in ones, and those that users added."""
    from vkbench.programs.registry import ProgramStore

    return ProgramStore(settings.program_folder())


def keep_program(file: Path, settings: Settings) -> Program:
    """Keep a program that a file declares, if its name is free among results."""
    from vkbench.programs.registry import read_program
    from vkbench_shaders.catalogue import is_code_path
    from vkbench_shaders.tolerance import limits_of

    program = read_program(file)
    if is_code_path(program.name):
        raise UsageError(f"{file}: name: {program.name} is a code path of a kernel: choose another")
    if program.arithmetic:
        limits_of(program.arithmetic)
    return kept_programs(settings).add(file)


def program_chosen(word: str, settings: Settings) -> Program:
    """The program of a name, or the one that a TOML file declares, which is kept from then on."""
    if word.endswith(".toml"):
        return keep_program(Path(word), settings)
    return kept_programs(settings).find(word)


def make_build(product: Product, logs: Path, options: MakeOptions) -> Build:
    """Make a build of a product from a revision, and say so, unless it is kept already."""
    from vkbench.process.git import find_revision, is_changed
    from vkbench.programs.making import Maker, find_ccache

    maker = Maker(
        product=product,
        repository=options.repository,
        logs=logs,
        tell=tell,
        limit_seconds=options.limit_seconds,
    )
    chosen = find_revision(options.repository, options.revision)
    if is_changed(options.repository):
        tell(f"{options.repository} has changes that are in no revision: they are not built")
    if not maker.find_made(chosen):
        ccache = find_ccache()
        tell(f"building {chosen.label}" + (f", with {ccache}" if ccache else ", without ccache"))
    with Elapsed(f"building {chosen.name}"):
        build = maker.make(chosen, options.name)
    tell(f"{build.name}: {product.name} of {chosen.label}")
    return build


def workshop_of(settings: Settings, *, of_fleet: bool = False) -> Workshop:
    """What makes the builds of a bisection on this machine, for itself or for the fleet."""
    from vkbench_local.making import Workshop, keep_here

    def send_to_fleet(build: Build) -> None:
        _send_build(build, settings)

    deliver = send_to_fleet if of_fleet else keep_here
    return Workshop(settings=settings, tell=tell, watch=Elapsed, deliver=deliver)


def build_chosen(word: str, bundle: str, settings: Settings) -> Build | None:
    """The build that --build names; None without the option."""
    if not word:
        return None
    _refuse_bundle(bundle)
    return kept_builds(settings).find(word)


def _refuse_bundle(bundle: str) -> None:
    if bundle:
        raise UsageError("--build has a program do the cases: leave out --bundle")


def build_for_fleet(database: Database, word: str, bundle: str = "") -> Build | None:
    """The build that --build names; None without the option."""
    if not word:
        return None
    _refuse_bundle(bundle)
    return find_for_fleet(database, word)


def find_for_fleet(database: Database, word: str, program: str = "") -> Build:
    """The build of a name or a hash, kept here, or submitted from elsewhere and in the database."""
    from vkbench_db.work.builds import find_build

    try:
        return kept_builds(settings()).find(word, program)
    except UnknownName:
        with database.reading() as tx:
            known = find_build(tx, word, program)
        if known and known.is_name_alone:
            raise UsageError(
                f"build '{word}' is known from imported results alone: `vkbench program build add "
                f"{known.program} FOLDER --name NAME` makes its files known"
            ) from None
        if known:
            return known
        raise


def choose_cases(selection: Selection, build: Build | None, *, is_open: bool) -> Selection:
    """The selection with the own cases that a build lists, if it is kept here.

    One that is open chooses no cases: then these are all of the build's own, if it has any.
    """
    own = settings()
    if not build or not kept_builds(own).has(build.sha):
        return selection
    from vkbench_local.own_cases import choose_own_cases

    return choose_own_cases(selection, build, own, tell, is_open=is_open)


def give_to_fleet(builds: Iterable[Build]) -> None:
    """Sign the builds that are kept here, and send what the lab's place of builds lacks of them."""
    for build in builds:
        if kept_builds(settings()).has(build.sha):
            _send_build(build, settings())


def _send_build(build: Build, settings: Settings) -> None:
    """Send a build of a program, or the files of a driver."""
    from vkbench.programs.program import DRIVER, declare_driver

    if build.program == DRIVER:
        drivers = kept_drivers(settings).builds
        send_signed(build, declare_driver(build.name), drivers, settings)
        return
    program = kept_programs(settings).find(build.program)
    send_signed(build, program, kept_builds(settings), settings)


def send_signed(build: Build, program: Program, store: BuildStore, settings: Settings) -> None:
    """Sign a build that a store keeps, and send what the lab's place of builds lacks of it."""
    from vkbench.programs.places.opening import open_place
    from vkbench.programs.program import DRIVER
    from vkbench.programs.signed import sign_for
    from vkbench.programs.transfer import send
    from vkbench.words.units import rate_column

    place = open_place(settings)
    signed = sign_for(place, program, build, settings.build_key)
    sent = send(build, signed, store, place)
    if sent:
        unit, [size] = rate_column([sent], "B")
        what = DRIVER if program.name == DRIVER else "build"
        tell(f"{size} {unit} of {what} {build.label} sent to {place.name}")


def find_imported_build(database: Database, word: str, program: str) -> Build:
    """The build that a file of results is of: a known one, or one known by its name alone."""
    from vkbench.programs.build import build_of_name
    from vkbench_db.work.builds import find_build
    from vkbench_local.peers.benchmark_files import check_peer

    with database.reading() as tx:
        known = find_build(tx, word, program)
    if known:
        return known
    kept = [
        build
        for build in kept_builds(settings()).list_builds()
        if word in (build.name, build.sha) and program in ("", build.program)
    ]
    if len(kept) == 1:
        return kept[0]
    if not program:
        raise UsageError(
            f"no build is called '{word}': give --program, and the file makes it known"
        )
    if not word.isprintable() or len(word) > _LONGEST_NAME:
        raise UsageError(f"--build takes up to {_LONGEST_NAME} printable characters; got {word!a}")
    return build_of_name(check_peer(program, "--program"), word)
