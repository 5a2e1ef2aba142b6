"""The flows of CosyVoice 2 and 3: a front makes `mu`, an estimator moves noise to mel.

`firstword.models.flow.incremental` runs the same parts chunk by chunk.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firstword.models.config import FRAMES_PER_TOKEN, NUM_MELS, DiTFlowConfig, UNetFlowConfig
from firstword.models.flow.dit import DiT
from firstword.models.flow.encoder import ConformerFront, EmbeddingFront, without_lookahead
from firstword.models.flow.solver import fixed_noise, noise_between, solve
from firstword.models.flow.unet import CausalUNet
from firstword.models.layers import FullContext, SpeakerProjection, chunk_mask, visibility


class Flow(nn.Module):
    """Token ids and a speaker to mel frames. Weights, and the noise every solve starts from."""

    def __init__(self, config: UNetFlowConfig | DiTFlowConfig):
        super().__init__()
        self.config = config
        self.chunk_tokens = config.estimator.chunk // FRAMES_PER_TOKEN
        self.speaker_projection = SpeakerProjection(config.speaker_embedding_size, NUM_MELS)
        self.front: ConformerFront | EmbeddingFront
        self.estimator: CausalUNet | DiT
        if isinstance(config, UNetFlowConfig):
            self.front = ConformerFront(config, NUM_MELS)
            self.estimator = CausalUNet(config.estimator)
        else:
            self.front = EmbeddingFront(
                config.vocab_size, NUM_MELS, config.lookahead_channels, config.lookahead_tokens
            )
            self.estimator = DiT(config.estimator)
        self.noise = fixed_noise()  # (M, 15000), float32 whatever the weights are

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "Flow":
        super()._apply(fn, recurse)
        self.noise = self.noise.to(self.speaker_projection.weight.device)
        return self

    def mu(self, tokens: Tensor, is_streaming: bool, num_tokens: Tensor | None = None) -> Tensor:
        """tokens (B, T + lookahead), -1 where there is none -> (B, M, 2 T); chunk-causal if streaming.

        num_tokens (B,): what of each row is no padding; None: there is none.
        """
        length = tokens.shape[1] - self.config.lookahead_tokens
        chunk = self.chunk_tokens if is_streaming else 0
        token_mask = visibility(length, chunk, num_tokens, tokens.device)
        num_frames = None if num_tokens is None else FRAMES_PER_TOKEN * num_tokens
        frame_mask = visibility(
            FRAMES_PER_TOKEN * length, FRAMES_PER_TOKEN * chunk, num_frames, tokens.device
        )
        return self.front(tokens, FullContext(token_mask), FullContext(frame_mask))

    @torch.inference_mode()
    def forward(
        self,
        tokens: Tensor,
        prompt_tokens: Tensor,
        prompt_mel: Tensor,
        embedding: Tensor,
        is_streaming: bool = False,
        is_last: bool = True,
    ) -> Tensor:
        """One solve over prompt and tokens, from nothing.

        tokens (B, N), prompt_tokens (B, P), prompt_mel (B, F, M), embedding (B, 192) -> mel (B, M, T)
        float32, the prompt's F frames cut off. Not last: the last three tokens are lookahead only.
        """
        ids = torch.cat([prompt_tokens, tokens], dim=1)
        lookahead = self.config.lookahead_tokens
        mu = self.mu(without_lookahead(ids, lookahead) if is_last else ids, is_streaming)
        noise = noise_between(self.noise, 0, mu.shape[-1]).expand(len(mu), -1, -1)
        return self.mel(mu, prompt_mel, embedding, noise, is_streaming)

    def mel(
        self, mu: Tensor, prompt_mel: Tensor, embedding: Tensor, noise: Tensor, is_streaming: bool
    ) -> Tensor:
        """mu, noise (B, M, F + T), prompt_mel (B, F, M), embedding (B, 192) -> mel (B, M, T) float32.

        Differentiable; what the prompt's F frames become is cut off.
        """
        num_frames, prompt_frames = mu.shape[-1], prompt_mel.shape[1]
        cond = F.pad(prompt_mel.mT, (0, num_frames - prompt_frames))
        mask = chunk_mask(num_frames, self.config.estimator.chunk if is_streaming else 0, mu.device)
        context = FullContext(mask)

        def velocity(step: int, x: Tensor, mu: Tensor, t: Tensor, spks: Tensor, cond: Tensor) -> Tensor:
            return self.estimator(x, mu, t, spks, cond, context)

        mel = solve(velocity, self.config.cfm, noise, mu, self.speaker_projection(embedding), cond)
        return mel[:, :, prompt_frames:]
