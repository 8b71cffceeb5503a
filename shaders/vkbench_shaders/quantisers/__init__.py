"""Numbers as blocks and narrow floats, on the CPU: their decoders, encoders and quantisers."""
