"""The settings of Ray Serve."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field


@dataclass(frozen=True, slots=True)
class RayOptions:
    """How many engines and servers Ray runs. Their variables begin with FIRSTWORD_RAY_."""

    engines: Annotated[int, Field(ge=1, description="Engines that Ray keeps at least")] = 2
    max_engines: Annotated[
        int, Field(ge=0, description="Engines at most, as the load asks for them; 0 is as many as at least")
    ] = 0
    ingresses: Annotated[
        int, Field(ge=1, description="Servers in front of the engines, under `serve run deploy.ray.app:app`")
    ] = 2
    gpus: Annotated[float, Field(ge=0, description="GPUs of one engine, 0.5 for two on one")] = 0
    cpus: Annotated[float, Field(gt=0, description="CPUs that Ray sets aside for one engine or server")] = 1
