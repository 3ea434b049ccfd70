"""The whole simulated platform, one per process: tenants and apps, tokens, callbacks, problems that fail a test."""

from dataclasses import dataclass, field

from tests.simulators.faults import FaultQueue
from tests.simulators.feishu import ids
from tests.simulators.feishu.clock import Clock
from tests.simulators.feishu.delivery import Delivery
from tests.simulators.feishu.errors import FeishuError
from tests.simulators.feishu.faults import Fault
from tests.simulators.feishu.journal import Record
from tests.simulators.feishu.limits import UUID_SECONDS
from tests.simulators.feishu.registration import Registration
from tests.simulators.feishu.state import App, Chat, ChatMode, Json, Message, Tenant
from tests.simulators.journal import CallJournal
from tests.simulators.problems import Problems
from tests.simulators.signals import Signal


@dataclass
class Token:
    """A tenant access token; expires: unix seconds."""

    app: App
    expires: float


@dataclass
class Callback:
    """The token of one press: valid for two updates of its card, once the press was answered."""

    app: App
    message: Message
    made: float
    answered: bool = False
    uses: int = 0


@dataclass
class World:
    """All state. origin: the simulator's own address, for the URLs that it issues."""

    origin: str = ""
    clock: Clock = field(default_factory=Clock)
    journal: CallJournal[Record] = field(default_factory=CallJournal)
    faults: FaultQueue[Fault] = field(default_factory=FaultQueue)
    released: Signal = field(default_factory=Signal)
    tenants: dict[str, Tenant] = field(default_factory=dict)
    apps: dict[str, App] = field(default_factory=dict)
    tokens: dict[str, Token] = field(default_factory=dict)
    callbacks: dict[str, Callback] = field(default_factory=dict)
    problems: Problems = field(default_factory=Problems)
    registration: Registration = field(default_factory=Registration)
    _uuids: dict[tuple[str, str], tuple[str, float]] = field(default_factory=dict)

    def add_app(self, app_id: str, app_secret: str, name: str, tenant_key: str) -> App:
        """Register an app in a tenant, which is created on first use."""
        tenant = self.tenants.setdefault(tenant_key, Tenant(tenant_key))
        app = App(app_id, app_secret, name, tenant, Delivery(app_id, self.problems.add))
        app.delivery.on_change = app.touch
        self.apps[app_id] = tenant.apps[app_id] = app
        return app

    def app_of(self, token: str) -> App:
        """The app of a tenant access token; raises FeishuError as the gateway does."""
        if not token:
            raise FeishuError(99991661, "Missing access token for authorization. Please make a test attempt")
        known = self.tokens.get(token)
        if known is None or known.expires <= self.clock.now():
            raise FeishuError(99991663, "Invalid access token for authorization. Please make a test attempt")
        return known.app

    def person(self, tenant: Tenant, spec: Json) -> str:
        """Add a person given by {id, name, ...} on first use; returns the id."""
        tenant.people.setdefault(str(spec["id"]), {"name": spec["id"], **spec})
        return str(spec["id"])

    def person_by(self, app: App, id_type: str, value: str) -> str | None:
        """The person behind an id of any type, for this app."""
        for person, known in app.tenant.people.items():
            names = {
                "open_id": ids.open_id(app.app_id, person),
                "union_id": ids.union_id(person),
                "user_id": person,
                "email": known.get("email"),
            }
            if names.get(id_type) == value:
                return person
        return None

    def direct_chat(self, app: App, person: str) -> Chat:
        """The chat of a person with the app's bot, opened on first use."""
        chat_id = ids.direct_chat(app.app_id, person)
        chat = app.tenant.chats.get(chat_id)
        if chat is None:
            chat = app.tenant.chats[chat_id] = Chat(chat_id, "p2p", person=person, app_id=app.app_id)
        return chat

    def group(self, tenant: Tenant, chat_id: str, mode: ChatMode, name: str) -> Chat:
        """A group by its id, created on first use."""
        return tenant.chats.setdefault(chat_id, Chat(chat_id, mode, name))

    def bots_in(self, chat: Chat, tenant: Tenant) -> list[App]:
        """The apps whose bots are in a chat."""
        return [tenant.apps[app_id] for app_id in sorted(chat.bots) if app_id in tenant.apps]

    def sent_with(self, app: App, uuid: str) -> Message | None:
        """The message that this app sent with a uuid within the last hour."""
        message_id, at = self._uuids.get((app.app_id, uuid), ("", 0.0))
        if not message_id or self.clock.now() - at >= UUID_SECONDS:
            return None
        return app.tenant.messages.get(message_id)

    def remember_uuid(self, app: App, uuid: str, message: Message) -> None:
        """Remember that a message was sent with this uuid."""
        self._uuids[app.app_id, uuid] = (message.message_id, self.clock.now())
