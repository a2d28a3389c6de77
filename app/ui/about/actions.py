"""What events of the about part do: look things up, and run the self-check."""

from collections.abc import Iterator

from app.ui.about import door_checks, home_checks
from app.ui.about.about_html import checks_html, facts_html, waiting_html
from app.ui.about.check import Check
from app.ui.about.facts import hardware, paths, versions
from app.ui.about.sockets import own_addresses, own_name, own_sockets
from app.ui.app_context import AppContext, Endpoint
from app.ui.services import Services


class AboutActions:
    """The events of the about part."""

    def __init__(self, services: Services, surroundings: AppContext, endpoint: Endpoint) -> None:
        self._services = services
        self._around = surroundings
        self._door = endpoint

    def open(self) -> str:
        """Versions, hardware and paths, as they are now."""
        devices = {memory.device: memory for memory in map(self._services.models.memory, ("", "cpu"))}
        machine = hardware(list(devices.values()), self._services.engine.status())
        return (
            facts_html("Versions", versions())
            + facts_html("Hardware", machine)
            + facts_html("Paths", paths(self._around))
        )

    def check(self) -> Iterator[str]:
        """Run the self-check."""
        yield waiting_html()
        yield checks_html(self.checks())

    def checks(self) -> list[Check]:
        """All results. Knocks at every address of this machine, and reads the whole database."""
        self._around.outside.learn_own(frozenset((own_name(),)))
        sockets, addresses = own_sockets(), own_addresses()
        self._around.outside.learn_own(frozenset(addresses))
        return [
            door_checks.check_bound(self._door, sockets, addresses),
            door_checks.check_host(self._door, door_checks.ask),
            door_checks.check_origin(self._door, door_checks.ask),
            door_checks.check_key(self._door, door_checks.ask),
            door_checks.check_policy(self._door, door_checks.ask),
            home_checks.check_outside(self._around.outside, own_sockets()),
            home_checks.check_disk(self._around.data_dir),
            home_checks.check_database(self._around.database),
            home_checks.check_engine(self._services.engine.status()),
        ]
