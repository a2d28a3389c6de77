"""What the buttons of servers and their models do."""

from app.messages import ModelChoice
from app.ui.services import Services

NO_QUESTION = ""


class ServerActions:
    """The actions. A reply that is being written goes on, wherever its model runs."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def use(self, model: str, address: str) -> str:
        """Send the next messages to this model."""
        self._services.choose_model(ModelChoice(model, server=address))
        return NO_QUESTION

    def add_model(self, model: str, address: str) -> str:
        """Put a model on the list."""
        self._services.servers.add_model(address, model)
        return NO_QUESTION

    def remove_model(self, model: str, address: str) -> str:
        """Take a model off the list. Where it is in use, the last local one takes its place."""
        self._services.servers.remove_model(address, model)
        if self._services.model == ModelChoice(model, server=address):
            self._use_local()
        return NO_QUESTION

    def remove(self, address: str) -> None:
        """Forget a server with its key and its models."""
        self._services.servers.remove(address)
        if self._services.model.server == address:
            self._use_local()

    def _use_local(self) -> None:
        self._services.choose_model(self._services.settings.local_model)
