"""Who asks: the holder of an API key, what the key allows, and whose speakers are whose."""

from dataclasses import dataclass, field
from typing import Final, Literal, get_args

Scope = Literal["speak", "enrol", "admin"]
Access = Literal["shared", "read-only", "private"]

SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
ACCESSES: Final[tuple[Access, ...]] = get_args(Access)


@dataclass(frozen=True, slots=True)
class Client:
    """scopes: what it may do; "admin" is everything. access: of the speakers it registers, unless it says."""

    name: str = ""  # of its key; "" without one
    scopes: frozenset[Scope] = frozenset()
    access: Access = "shared"
    key_digest: bytes = field(default=b"", repr=False)  # of the very key that it showed

    def may(self, scope: Scope) -> bool:
        return scope in self.scopes or self.is_admin

    @property
    def is_admin(self) -> bool:
        return "admin" in self.scopes

    @property
    def visible_owner(self) -> str | None:
        """Whose private things a list shows it; None: everybody's."""
        return None if self.is_admin else self.name

    def sees(self, owner: str, access: Access) -> bool:
        """Whether a speaker of that owner exists for it; `owner` is "" where nobody owns it."""
        return access != "private" or self._commands(owner)

    def may_change(self, owner: str, access: Access) -> bool:
        """Whether it may change, export and delete such a speaker."""
        return access == "shared" or self._commands(owner)

    def may_share(self, owner: str) -> bool:
        """Whether it may say who else uses that owner's speaker, and what it is called."""
        return self._commands(owner)

    def _commands(self, owner: str) -> bool:
        return self.is_admin or (owner != "" and owner == self.name)


STRANGER: Final = Client()
"""Who showed no key to a server that asks for one: sees what is public, may do nothing."""
ANYBODY: Final = Client(scopes=frozenset(SCOPES))
"""Everybody, where no keys are asked for."""
