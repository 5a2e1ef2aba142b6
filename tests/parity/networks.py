"""Builds the networks of the reference cases from the cases' own JSON, through the checkpoint's parser and names."""

from pathlib import Path
from typing import Any

from models.config_parser import NETWORKS, parse_flow, parse_hift
from models.fields import Fields
from models.flow.flow import Flow
from models.hyperyaml import HyperYaml, Tagged
from tests.parity.reference import Case

FLOW_ESTIMATORS = {
    "MaskedDiffWithXvec": "ConditionalDecoder",
    "CausalMaskedDiffWithXvec": "CausalConditionalDecoder",
    "CausalMaskedDiffWithDiT": "DiT",
}
FLOW_ENCODERS = {
    "MaskedDiffWithXvec": "ConformerEncoder",
    "CausalMaskedDiffWithXvec": "UpsampleConformerEncoder",
}


def fields(values: dict[str, Any]) -> Fields:
    return Fields(HyperYaml(Path("reference"), {}), "case", values)


def flow_fields(config: dict[str, Any]) -> Fields:
    """A case's JSON in the shape of a checkpoint's yaml."""
    kind = config["kind"]
    values = {name: value for name, value in config.items() if name not in ("kind", "note", "n_timesteps")}
    if "encoder" in values:
        values["encoder"] = Tagged("new", FLOW_ENCODERS[kind], values["encoder"])
    if "length_regulator" in values:
        values["length_regulator"] = Tagged("new", "InterpolateRegulator", values["length_regulator"])
    if "pre_lookahead" in values:
        values["pre_lookahead_layer"] = Tagged("new", "PreLookaheadLayer", values.pop("pre_lookahead"))
    cfm = Tagged("new", "DictConfig", {"content": values.pop("cfm")})
    estimator = Tagged("new", FLOW_ESTIMATORS[kind], values.pop("estimator"))
    values["decoder"] = Tagged("new", "CausalConditionalCFM", {"cfm_params": cfm, "estimator": estimator})
    return fields(values)
