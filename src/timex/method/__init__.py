"""The method: what TimeX minimises, the parts it trains to do so, and the explainer they make up."""
