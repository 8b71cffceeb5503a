"""Options that several commands share, declared once: records, which `spreading` spreads."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from vkbench.case import parse_shape, without_seed
from vkbench.errors import UsageError
from vkbench.job import Mode
from vkbench.peers import BY_NAME
from vkbench.selector import HELP
from vkbench.settings import Settings, settings
from vkbench_cli import completion
from vkbench_cli.options.choices import Aim, CacheFormat, Property, counts
from vkbench_cli.own import Sources, build_own, cases_of, refuse_sources
from vkbench_scheduler.planning.selection import ModelFile, Selection, Weights

if TYPE_CHECKING:
    from vkbench_cli.options.effort import Effort
    from vkbench_shaders.bundle import Bundle
    from vkbench_shaders.own.building import Built

DEFAULT_SUITE = "quick"
PROMPTS, BATCHES = "512", "1"  # of a model, where nothing else is asked for
NO_TRACK = "none"
RUN_HELP = "A run: its number, label, UUID (or the beginning of it), or 'last'."


@dataclass(frozen=True, kw_only=True)
class Store:
    """The option that names the database."""

    database: Annotated[
        str,
        Option(
            metavar="URL",
            help="Use this database (a URL or a SQLite file) instead of VKBENCH_DATABASE.",
        ),
    ] = ""

    def settings(self) -> Settings:
        """The settings of this process with this database in them."""
        process_settings = settings()
        if not self.database:
            return process_settings
        is_url = "://" in self.database
        url = self.database if is_url else f"sqlite:///{Path(self.database).expanduser().resolve()}"
        return replace(process_settings, database=url)


Sign = Annotated[
    Path | None,
    Option(
        "--sign",
        metavar="KEY",
        help="Sign the export by this SSH key, as `ssh-keygen -t ed25519` makes one.",
    ),
]
Suite = Annotated[
    str,
    Option(
        "--suite",
        metavar="S",
        help="Choose the cases of this suite.",
        autocompletion=completion.suites,
    ),
]
Kernels = Annotated[
    list[str],
    Option(
        "--kernel",
        "-k",
        metavar="GLOB",
        help="Only kernels whose name matches; may be repeated.",
        autocompletion=completion.kernels,
    ),
]
Formats = Annotated[
    list[str],
    Option(
        "--format",
        "-f",
        metavar="GLOB",
        help="Only cases of formats whose name matches; may be repeated.",
        autocompletion=completion.formats,
    ),
]
Shapes = Annotated[
    list[str],
    Option(
        "--shape",
        "-s",
        metavar="m=..,n=..,k=..",
        help=("Run at these sizes instead of those of the suite or catalogue; may be repeated."),
    ),
]
Devices = Annotated[
    list[str],
    Option(
        "--device",
        "-d",
        metavar="SELECTOR",
        help=HELP,
        autocompletion=completion.devices,
    ),
]
OneDevice = Annotated[
    str,
    Option(
        "--device",
        "-d",
        metavar="SELECTOR",
        help=f"{HELP} Must match one device; default: the best of this machine.",
        autocompletion=completion.devices,
    ),
]
AllRows = Annotated[
    bool,
    Option(
        "--all",
        help="List every passed check and skipped case too, not only how many there are.",
    ),
]
KernelsOf = Annotated[str, Option(metavar="SHA", help="Use the kernels of this bundle.")]
Gguf = Annotated[
    Path | None,
    Option(
        "--gguf",
        metavar="FILE",
        help="Read the weights from this GGUF file; --tensor names the tensor.",
    ),
]
Tensor = Annotated[
    str, Option("--tensor", metavar="NAME", help="Name of the tensor in the file of --gguf.")
]


@dataclass(frozen=True, kw_only=True)
class Selecting:
    """Options that choose what runs; every command that runs cases has them."""

    suite: Suite = ""
    kernel: Kernels = field(default_factory=list)
    format: Formats = field(default_factory=list)
    shape: Shapes = field(default_factory=list)
    case: Annotated[
        list[str],
        Option(
            metavar="NAME",
            help="Only this case: its full name as in the results table; may be repeated.",
        ),
    ] = field(default_factory=list)
    device: Devices = field(default_factory=list)
    mode: Annotated[
        Aim,
        Option(help="Check correctness, measure performance, or do both.", case_sensitive=False),
    ] = Aim.BOTH
    property: Annotated[
        Property | None,
        Option(
            help="Look at a property instead. batch: the bits of a row do not depend on how many "
            "rows there are. compile: how long the driver takes to compile and to submit each "
            "kernel, and what it makes of it.",
            case_sensitive=False,
        ),
    ] = None
    gguf: Gguf = None
    tensor: Tensor = ""
    model: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="Run the whole model of this GGUF file: a prompt, and tokens one by one.",
        ),
    ] = None
    prompt: Annotated[
        str, Option(metavar="N,..", help="Tokens of the model's prompts; 0 for none.")
    ] = PROMPTS
    generate: Annotated[
        str,
        Option(
            metavar="N,..",
            help="Tokens that the model generates; 0 for none. If not given, 128, and none of an "
            "encoder.",
            show_default=False,
        ),
    ] = ""
    batch: Annotated[
        str, Option(metavar="N,..", help="Sequences that the model reads at once.")
    ] = BATCHES
    context: Annotated[
        int,
        Option(
            metavar="N", min=0, help="Positions that the model's caches have; 0: what is needed."
        ),
    ] = 0
    cache: Annotated[
        CacheFormat,
        Option(help="Format of the model's keys and values.", case_sensitive=False),
    ] = CacheFormat.F16
    peer: Annotated[
        str,
        Option(
            metavar="NAME,..",
            help=f"Time these programs in turns with the kernels: {', '.join(BY_NAME)}.",
        ),
    ] = ""
    kernel_file: Annotated[
        list[Path],
        Option(
            metavar="FILE",
            help="Run the kernel of your own that this file declares, in all its cases, or those "
            "of all declarations in a folder; may be repeated.",
        ),
    ] = field(default_factory=list)
    sources: Sources = ""
    variant: Annotated[
        str,
        Option(
            metavar="V",
            help="Variant of the kernel to run: its name, 'all', or 'auto' for the best "
            "one that the device supports (in a suite: the suite's choice).",
        ),
    ] = "auto"
    bundle: Annotated[
        str,
        Option(
            metavar="SHA",
            help="Run the kernels of this bundle (its hash or the beginning of it); "
            "default: the bundle of the installed package.",
        ),
    ] = ""

    build: Annotated[
        str,
        Option(
            metavar="NAME",
            help="Have this build of another program do the cases: its name, or its hash.",
            autocompletion=completion.builds,
        ),
    ] = ""

    def selection(self, effort: Effort, bundle: Bundle | None = None) -> Selection:
        """The selection that jobs are planned from; the quick suite if no case is chosen.

        A bundle that declares a kernel brings its own cases, of which --case chooses.
        """
        model = self._model()
        own = (
            None
            if self._is_of_catalogue()
            else cases_of(bundle, self.build_own_kernel(effort.repeat))
        )
        anything = (model, own, self.suite, self.kernel, self.format, self.shape, self.case)
        has_no_series = self.property is Property.BATCH or effort.track.casefold() == NO_TRACK
        return Selection(
            suite=self.suite if any(anything) else DEFAULT_SUITE,
            kernels=tuple(self.kernel),
            formats=tuple(self.format),
            shapes=() if own else tuple(parse_shape(text) for text in self.shape),
            cases=tuple(self.case),
            devices=tuple(self.device),
            mode=self._mode(),
            variant=self.variant,
            bundle=self.bundle,
            priority=effort.priority,
            track="" if has_no_series else effort.track,
            repeat=effort.repeat,
            peers=tuple(filter(None, self.peer.split(","))),
            measure_seconds=effort.seconds,
            noise=effort.noise,
            limit_seconds=effort.limit,
            weights=self._weights(),
            model=model,
            own=own,
        )

    def build_own_kernel(self, repeat: int = 1) -> Built | None:
        """The kernel of --kernel-file, with its bundle; None without the option.

        Its bundle has the inputs of so many repetitions, and those that --case names.
        """
        if not self.kernel_file:
            refuse_sources(self.sources)
            return None
        if self._is_of_catalogue() or self.bundle:
            raise UsageError(
                "--kernel-file runs a kernel of your own: leave out --suite, --kernel, --format, "
                "--gguf, --model and --bundle"
            )
        if len(self.kernel_file) > 1:
            raise UsageError(
                f"--kernel-file is given {len(self.kernel_file)} times, and a schedule repeats "
                "one declaration: give each a schedule of its own"
            )
        is_batch = self.property is Property.BATCH
        seeds = {*range(repeat), *(without_seed(name)[1] for name in self.case)} - {0}
        ways = (tuple(self.shape), tuple(sorted(seeds)))
        return build_own(self.kernel_file[0], *ways, batches=is_batch, sources=self.sources)

    def of_file(self, file: Path, effort: Effort) -> tuple[Selecting, Effort]:
        """What was chosen, of one declaration of several; its run's label has the kernel's name.

        All that is wrong with the declaration is said now.
        """
        alone = replace(self, kernel_file=[file])
        built = alone.build_own_kernel(effort.repeat)
        if effort.label and built:
            effort = replace(effort, label=f"{effort.label}/{built.kernel.name}")
        return alone, effort

    def chooses_cases(self) -> bool:
        """Whether an option says what is to run, so that the quick suite does not."""
        return any((self._is_of_catalogue(), self.shape, self.case, self.kernel_file))

    def _mode(self) -> Mode:
        """The mode of the jobs: checks, timings or both, or a property."""
        if not self.property:
            return Mode(self.mode)
        if self.mode is not Aim.BOTH or self.model or self.peer:
            raise UsageError("--property is looked at alone: leave out --mode, --model and --peer")
        return Mode(self.property)

    def _is_of_catalogue(self) -> bool:
        """Whether an option is given that only kernels of the catalogue have."""
        return any((self.suite, self.kernel, self.format, self.gguf, self.model))

    def _model(self) -> ModelFile | None:
        from vkbench_scheduler.planning.models import model_from

        if not self.model:
            self._check_modelless()
            return None
        others = (self.suite, self.kernel, self.format, self.shape, self.case, self.gguf)
        if any(others):
            raise UsageError(
                "--model runs a whole model: leave out --suite, --kernel, --format, --shape, "
                "--case and --gguf"
            )
        return model_from(
            self.model,
            counts(self.prompt, "--prompt"),
            counts(self.generate, "--generate") if self.generate else None,
            counts(self.batch, "--batch", least=1),
            self.context,
            self.cache.value,
        )

    def _check_modelless(self) -> None:
        """UsageError if options of a model are given without --model."""
        given = (self.prompt, self.generate, self.batch, self.context, self.cache)
        if given != (PROMPTS, "", BATCHES, 0, CacheFormat.F16):
            raise UsageError(
                "--prompt, --generate, --batch, --context and --cache are of a --model FILE"
            )

    def _weights(self) -> Weights | None:
        from vkbench_scheduler.planning.weights import weights_from

        check_pair(self.gguf, self.tensor)
        return weights_from(self.gguf, self.tensor) if self.gguf else None


def check_pair(gguf: Path | None, tensor: str) -> None:
    """UsageError unless a file and a tensor of it are given together."""
    if bool(gguf) != bool(tensor):
        lacking = "--tensor NAME" if gguf else "--gguf FILE"
        raise UsageError(f"--gguf FILE and --tensor NAME go together: {lacking} is missing")
