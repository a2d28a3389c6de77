"""The list that the model's button in the bar opens: what is installed, the precision, and Unload."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import astuple, replace
from typing import cast, get_args

from markupsafe import Markup

from app.ui.frame.templates import render_macro
from app.ui.models.inventory import Inventory, is_same_model
from app.ui.models.load_options import LoadOptions, Option, options_here
from app.values.messages import DType, EngineStatus, ModelChoice
from app.values.model import gigabytes
from app.values.quantisation import Quantisation
from app.values.server import Server


def picker_html(
    inventory: Inventory | None, status: EngineStatus, choice: ModelChoice, servers: Sequence[Server] = ()
) -> Markup:
    """Return the list. `choice` is the model that the next message goes to."""
    here = options_here(inventory.gpus if inventory else ())
    is_local = status.model is not None and not status.model.server
    return render_macro(
        "model_picker.html",
        "picker",
        rows=list(_rows(inventory, status)) if inventory else None,
        precisions=[
            (each.value, each.words or each.label, _is_chosen(each.value, choice), _with(choice, each.value))
            for each in _precisions(here)
        ],
        name=status.model.name if status.model and is_local else "",
        remote=remote_rows(servers, choice),
    )


def remote_rows(servers: Sequence[Server], chosen: ModelChoice) -> list[dict[str, object]]:
    """The models of all servers, each with whether it is chosen, and what its button sends."""
    choices = [
        (server, ModelChoice(name, server=server.address)) for server in servers for name in server.models
    ]
    return [
        {
            "name": choice.name,
            "server": server,
            "is_chosen": (choice.name, choice.server) == (chosen.name, chosen.server),
            "value": json.dumps(astuple(choice)),
        }
        for server, choice in choices
    ]


def _precisions(here: LoadOptions) -> list[Option]:
    """The precisions of weights that exist here, dense and quantised."""
    return [option for option in (*here.dtype, *here.quantisation) if option.value != "none"]


def _rows(inventory: Inventory, status: EngineStatus) -> Iterator[dict[str, object]]:
    for one in inventory.installed:
        if one.model.state != "ready":
            continue
        is_loaded = status.model is not None and is_same_model(one.model, status.model)
        fit = one.fit.verdict if one.fit and one.fit.verdict != "fits" else ""
        facts = " · ".join(filter(None, (gigabytes(one.model.size), fit)))
        yield {"name": one.model.name, "path": one.model.path, "facts": facts, "is_loaded": is_loaded}


def _is_chosen(weights: str, choice: ModelChoice) -> bool:
    return weights == (choice.quantisation if choice.quantisation != "none" else choice.dtype)


def _with(choice: ModelChoice, weights: str) -> str:
    """The same model with weights of this precision, as a button carries it."""
    if weights in get_args(Quantisation):
        changed = replace(choice, dtype="auto", quantisation=cast(Quantisation, weights), offload=False)
    else:
        changed = replace(choice, dtype=cast(DType, weights), quantisation="none")
    return json.dumps(astuple(changed))
