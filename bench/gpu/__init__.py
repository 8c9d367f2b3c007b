"""The proof of the GPU path: parts of a few minutes each, for one short stretch with a device.

`python -m bench.gpu` lists the parts. docs/gpu.md says how to run them on a bare machine and what comes back. Each part
is a few cells that are measured one by one, and each cell is kept as soon as it is known, so a part that is stopped
goes on where it was. Real sizes and dry sizes are data (`bench.gpu.scale`); there is one way through the code.
"""
