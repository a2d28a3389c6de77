"""A library of models that is made of values, and remembers what was asked of it."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from app.errors import AppError, ModelError
from app.settings import ModelSettings
from app.values.model import (
    CatalogueEntry,
    DiskUse,
    Download,
    DownloadState,
    DraftModels,
    FileProgress,
    Fit,
    FolderContents,
    InstalledModel,
    Memory,
    MemoryNeed,
    Precision,
    Recommendation,
    RemoteModel,
    RowPrice,
    SearchHit,
    Verdict,
)
from app.values.quantisation_sizes import Quantisation

GB = 1_000_000_000
MEMORY = Memory("cpu", 8 * GB, 16 * GB)
DEMO_MODEL = InstalledModel("demo", Path("/app/demo"), "demo", 15_000_000)
SMALL = InstalledModel("org/small", Path("/cache/small"), "hub", 2 * GB, "c0ffee" * 6 + "c0de")
HALF = InstalledModel(
    "org/half", Path("/cache/half"), "hub", GB, state="incomplete", problem="Not all of it is here."
)
MINE = InstalledModel("mine", Path("/models/mine"), "folder", GB)


def make_fit(verdict: Verdict = "fits", weights: int = 2 * GB, context: int = 4096) -> Fit:
    need = MemoryNeed(weights, GB // 10, GB // 20, GB // 2)
    return Fit(need, MEMORY, "bfloat16", context, 32_768, verdict, f"{verdict}.", need.total)


def make_entry(repo: str, use: str = "chat", size: int = 2 * GB, is_gated: bool = False) -> CatalogueEntry:
    return CatalogueEntry(repo, "Family", size // 2, size, 8192, "mit", use, "Good for tests.", is_gated)  # type: ignore[arg-type]


def make_download(name: str, state: DownloadState = "running", done: int = 250, **more: object) -> Download:
    files = (
        FileProgress("model.safetensors", 800, min(done, 800)),
        FileProgress("config.json", 200, max(0, done - 800)),
    )
    return Download(name, state, files, **more)  # type: ignore[arg-type]


class ScriptedModels:
    """Says what it was given; `refuses` makes the next call fail with this sentence.

    It plays the hub and the downloads of a library, too."""

    def __init__(self) -> None:
        self.hub = self.downloads = self
        self.here: list[InstalledModel] = [DEMO_MODEL, SMALL, HALF]
        self.offers = [
            Recommendation(make_entry("org/small"), make_fit()),
            Recommendation(make_entry("org/coder", "code"), make_fit()),
            Recommendation(
                make_entry("org/middle", size=14 * GB, is_gated=True), make_fit("fits with int4", 14 * GB)
            ),
            Recommendation(make_entry("org/huge", size=60 * GB), make_fit("too big", 60 * GB)),
        ]
        self.hits = [SearchHit("somebody/small-one", 1234, 5), SearchHit("other/small-two", 7, is_gated=True)]
        self.fits: dict[str, Fit] = {}
        self.drafts: dict[str, DraftModels] = {}
        self.judged_drafts: list[str] = []
        self.temperatures: dict[str, float] = {}
        self.on_the_way: tuple[Download, ...] = ()
        self.calls: list[tuple[str, str]] = []
        self.used: list[ModelSettings] = []
        self.judged_for: list[tuple[Precision, int]] = []
        self.devices: list[str] = []
        self.cards: tuple[str, ...] = ()
        self.fast: Quantisation = "none"
        self.token = ""
        self.looks = 0
        self.refuses = ""
        self.is_unreadable = False

    def use(self, chosen: ModelSettings) -> None:
        self.used.append(chosen)

    def memory(self, device: str) -> Memory:
        self.devices.append(device)
        return MEMORY

    def gpus(self) -> Sequence[str]:
        return self.cards

    def open_path(self, path: str) -> InstalledModel:
        self._do("open", path)
        return MINE

    def list_folder(self, folder: Path) -> FolderContents:
        self._do("list", str(folder))
        return FolderContents(folder, folder.parent, (folder / "model.gguf",), (folder / "below",))

    def disk(self) -> DiskUse:
        return DiskUse(Path("/cache"), 50 * GB, 100 * GB)

    def recommended(self, memory: Memory, precision: Precision, context: int) -> Sequence[Recommendation]:
        self.judged_for.append((precision, context))
        return [replace(one, fit=replace(one.fit, memory=memory)) for one in self.offers]

    def installed(self) -> Sequence[InstalledModel]:
        self.looks += 1
        if self.is_unreadable:
            raise PermissionError("the cache is closed to us")
        return self.here

    def is_here(self, name: str) -> bool:
        return any(model.name == name for model in self.here)

    def judge(
        self,
        model: InstalledModel,
        memory: Memory,
        precision: Precision,
        context: int,
        draft_model: str = "",
        is_automatic: bool = False,
    ) -> Fit:
        self.judged_drafts.append(draft_model)
        precision = self.fast if is_automatic and self.fast != "none" else precision
        return self.fits.get(
            model.name, replace(make_fit(context=context), memory=memory, precision=precision)
        )

    def draft_models(self, model: InstalledModel) -> DraftModels:
        return self.drafts.get(model.name, DraftModels())

    def row_price(self, name: str, precision: Precision) -> RowPrice | None:
        self._do("row price", name)
        return RowPrice(logits=1_000, cache=500) if precision == "float32" else None

    def own_temperature(self, name: str) -> float:
        return self.temperatures.get(name, 0.0)

    def search(self, words: str) -> Sequence[SearchHit]:
        self._do("search", words)
        return [hit for hit in self.hits if words in hit.repo]

    def hub_id(self, text: str) -> str:
        return text.removeprefix("https://hub/") if text.removeprefix("https://hub/").count("/") == 1 else ""

    def inspect_model(self, name: str, memory: Memory, precision: Precision, context: int) -> RemoteModel:
        self._do("look at", name)
        return RemoteModel(
            name, "c0ffee", 2 * GB, (FileProgress("model.safetensors", 2 * GB),), licence="mit", parameters=GB,
            context=8192, fit=self.judge(SMALL, memory, precision, context),
        )  # fmt: skip

    def page(self, name: str) -> str:
        return f"https://hub/{name}"

    def snapshot(self) -> tuple[Download, ...]:
        return self.on_the_way

    def start(self, name: str) -> None:
        self._do("start", name)
        self.on_the_way += (make_download(name, "queued", 0),)

    def resume(self, name: str) -> None:
        self._do("resume", name)

    def pause(self, name: str) -> None:
        self._do("pause", name)

    def cancel(self, name: str) -> None:
        self._do("cancel", name)
        self.dismiss(name)

    def dismiss(self, name: str) -> None:
        self.on_the_way = tuple(download for download in self.on_the_way if download.name != name)

    def freed_by(self, model: InstalledModel) -> int:
        return model.size

    def delete(self, model: InstalledModel) -> int:
        self._do("delete", model.name)
        self.here = [one for one in self.here if one != model]
        return model.size

    def is_logged_in(self) -> bool:
        return bool(self.token)

    def log_in(self, token: str) -> str:
        if token != "hf_good":
            raise ModelError("The hub does not know this token.")
        self.token = token
        return "somebody"

    def log_out(self) -> None:
        self.token = ""

    def _do(self, call: str, name: str) -> None:
        if self.refuses:
            raise AppError(self.refuses)
        self.calls.append((call, name))
