"""What a client asks for when it creates a model: learner, parameters, limits."""
