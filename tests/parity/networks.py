"""A reference case's JSON in the shape of a checkpoint's yaml, for the parser that reads checkpoints."""

from pathlib import Path
from typing import Any

from firstword.models.checkpoint.yaml import Fields, HyperYaml, Tagged

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


def hift_fields(config: dict[str, Any]) -> Fields:
    kind = config["kind"]
    predictor = "CausalConvRNNF0Predictor" if kind == "CausalHiFTGenerator" else "ConvRNNF0Predictor"
    values = {name: value for name, value in config.items() if name not in ("kind", "note")}
    values["f0_predictor"] = Tagged("new", predictor, values["f0_predictor"])
    return fields(values)
