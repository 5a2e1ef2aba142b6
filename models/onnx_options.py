"""How ONNX Runtime opens a graph on the CPU."""

import onnxruntime

LOG_NOTHING = 4  # severity fatal: what goes wrong is raised, not written to stderr


def session_options(num_threads: int) -> onnxruntime.SessionOptions:
    """So many threads, none of which spins while it waits."""
    assert num_threads >= 1, f"num_threads {num_threads}"
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = num_threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    options.log_severity_level = LOG_NOTHING
    return options
