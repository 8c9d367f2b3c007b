"""The probe: marks at the places where training passes from one phase to the next, and the work between them."""
