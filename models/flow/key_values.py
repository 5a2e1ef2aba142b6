"""Keys and values at the attentions of one network, and what of them a speaker's streams share."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(slots=True)
class KeyValues:
    """Keys and values at one attention site: (G, H, frames, D) each."""

    keys: Tensor
    values: Tensor

    @property
    def num_bytes(self) -> int:
        return self.keys.nbytes + self.values.nbytes

    def part(self, start: int, stop: int) -> "KeyValues":
        return KeyValues(self.keys[:, :, start:stop], self.values[:, :, start:stop])


@dataclass(frozen=True, slots=True)
class PromptCache:
    """The finished chunks of a speaker's prompt at every site; never written to again."""

    num_chunks: int = 0
    sites: tuple[KeyValues, ...] = ()
    lefts: tuple[Tensor, ...] = ()  # (G, C, frames) for each convolution
    positions: Tensor | None = None  # (frames, W), the keys' sinusoids; None: no relative positions

    @property
    def num_bytes(self) -> int:
        tensors = [*self.lefts] if self.positions is None else [*self.lefts, self.positions]
        return sum(site.num_bytes for site in self.sites) + sum(tensor.nbytes for tensor in tensors)
