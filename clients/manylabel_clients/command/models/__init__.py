"""Commands about models: create, predict, update, evaluate, versions, plots."""
