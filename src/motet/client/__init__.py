"""Talking to nodes: written once, for asyncio; whoever wants it without an event loop runs it in one."""
