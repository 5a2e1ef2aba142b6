"""Ray's router of requests to engines: each speaker has one, and another where that is gone or full."""

import hashlib
import random

from ray.serve.request_router import PendingRequest, RequestRouter, RunningReplica


class SpeakerRouter(RequestRouter):
    """Rendezvous hashing: an engine that comes or goes moves no speaker but its own.

    The session of a request is "N|key": the engines in the order that the key gives, from the N-th on;
    without a key in any order. Ray matches what was chosen with requests by their ids, so that requests
    which run at once must not share one: each is made in a context of its own.
    """

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        session = "" if pending_request is None else pending_request.metadata.session_id
        nth, _, key = session.partition("|")
        if not key:
            return [[one] for one in random.sample(candidate_replicas, len(candidate_replicas))]

        def weight(replica: RunningReplica) -> bytes:
            return hashlib.sha256(f"{replica.replica_id.unique_id} {key}".encode()).digest()

        ordered = sorted(candidate_replicas, key=weight, reverse=True)
        start = int(nth) % max(1, len(ordered))
        return [[one] for one in ordered[start:] + ordered[:start]]
