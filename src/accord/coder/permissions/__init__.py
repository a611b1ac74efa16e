"""May this call run? What stands between the loop and `accord.policy`: the question, the sandbox, the settings, trust."""
