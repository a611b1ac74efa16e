from tests.coder.agent.conftest import desk

__all__ = ["desk"]
