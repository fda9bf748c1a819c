"""Runs a shop through the orders in which its messages can be delivered.

`cutter` finds the messages in the bytes of a connection.
"""
