"""The alternation of MLRL and SSMLRL between weights and a label covariance, and the model of its optimum."""
