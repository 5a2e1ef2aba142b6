"""Ray's router of requests to engines: each speaker has one, and another where that is gone or full."""

import hashlib
import random

from ray.serve.request_router import PendingRequest, RequestRouter, RunningReplica


class SpeakerRouter(RequestRouter):
    """Rendezvous hashing: an engine that comes or goes moves no speaker but its own.

    The session of a request is "N|silent|key": the engines in the order that the key gives, from the N-th on;
    without a key in any order; behind all others those that are named as silent. Ray matches what was chosen
    with requests by their ids, so that requests which run at once must not share one: each is made in a
    context of its own.
    """

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        session = "" if pending_request is None else pending_request.metadata.session_id
        nth, _, silent_and_key = session.partition("|")
        silent, _, key = silent_and_key.partition("|")

        def is_silent(replica: RunningReplica) -> bool:
            return replica.replica_id.unique_id in silent.split(",")

        def weight(replica: RunningReplica) -> bytes:
            return hashlib.sha256(f"{replica.replica_id.unique_id} {key}".encode()).digest()

        if not key:
            shuffled = random.sample(candidate_replicas, len(candidate_replicas))
            return [[one] for one in sorted(shuffled, key=is_silent)]
        ordered = sorted(sorted(candidate_replicas, key=weight, reverse=True), key=is_silent)
        start = int(nth) % max(1, len(ordered))
        return [[one] for one in ordered[start:] + ordered[:start]]
