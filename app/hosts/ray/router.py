"""Ray's router of requests to engines: each speaker has one, and another where that is gone or full."""

from ray.serve.request_router import PendingRequest, RequestRouter, RunningReplica

from firstword.app.hosts.ray.order import ordered


class SpeakerRouter(RequestRouter):
    """The order that a request's session gives.

    Ray matches what was chosen with requests by their ids, so that requests which run at once must not share
    one: each is made in a context of its own.
    """

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        session = "" if pending_request is None else pending_request.metadata.session_id
        replicas = {one.replica_id.unique_id: one for one in candidate_replicas}
        return [[replicas[one]] for one in ordered(list(replicas), session)]
