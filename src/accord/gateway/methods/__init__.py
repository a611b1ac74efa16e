"""The methods that the gateway serves."""
