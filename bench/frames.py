"""How many mel frames the flow's estimator is given for a second of audio: 50, as nothing is solved twice."""

from pathlib import Path

from firstword.bench.networks import CountedEstimator, begin, chunk, random_speaker
from firstword.models.checkpoint.open import open_checkpoint
from firstword.models.flow.flow import Flow
from firstword.models.flow.incremental import FlowNetworks
from firstword.models.networks import Networks
from firstword.models.token2wav import Token2Wav

CHUNKS_BEFORE = 3
CHUNKS_COUNTED = 3


def frames_per_second_and_pass(checkpoint: Path, prompt_tokens: int = 75) -> float:
    """Count frames in a stream's later chunks. A pass is one row of the estimator in one Euler step.

    Raises CheckpointError, and ValueError for a CosyVoice 1, whose flow starts over with every chunk.
    """
    opened = open_checkpoint(checkpoint)
    flow = opened.load_flow()
    if not isinstance(flow, Flow):
        raise ValueError(f"{checkpoint}: CosyVoice 1 solves each chunk with the whole prompt again")
    estimator = CountedEstimator(flow.estimator)
    networks = Networks(flow=FlowNetworks(flow.front, estimator))
    session = Token2Wav(flow, opened.load_hift(), networks=networks)
    stream = session.start(
        session.compute_prompt_state(random_speaker(flow.config.vocab_size, prompt_tokens))
    )
    begin(session, stream)
    for _ in range(CHUNKS_BEFORE):
        chunk(session, stream)
    estimator.num_frames = 0
    for _ in range(CHUNKS_COUNTED):
        chunk(session, stream)
    passes = flow.config.cfm.rows_per_stream * flow.config.cfm.num_steps
    audio_s = CHUNKS_COUNTED * session.chunk_tokens * session.samples_per_token / session.sample_rate_hz
    return estimator.num_frames / passes / audio_s
