"""How much faster or slower than spoken speech may be asked for."""

MIN_SPEED, MAX_SPEED = 0.25, 4.0  # what is possible, and what OpenAI's clients may ask for
MIN_CLEAR_SPEED, MAX_CLEAR_SPEED = 0.5, 2.0  # what our own wires and commands take: beyond, it is no pleasure
