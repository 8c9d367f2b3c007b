"""Words for judgements: effects, shares and causes, as terminals, files and reports say them."""
