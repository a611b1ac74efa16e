"""The layer that the command line, the terminal client and the gateway share: agent configuration, consent,
recording, mentions, sign-in and forms.
"""
