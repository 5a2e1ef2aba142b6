"""What a process sets for its networks on a GPU."""

import torch


def choose_kernels() -> None:
    """Choose among torch's kernels on a GPU, for the whole process, before anything runs there.

    cuDNN's attention, torch's first choice on Hopper, makes a plan of 20 to 40 ms for each new number of keys
    and in each thread; here every token and every prompt has another one. Float32 is float32, in convolutions
    too, where torch would take TF32: what stays float32 beside bfloat16 has to be exact, and is small.
    """
    torch.backends.cuda.enable_cudnn_sdp(False)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
