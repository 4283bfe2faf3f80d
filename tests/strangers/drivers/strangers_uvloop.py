"""A pytest plugin: event loops are uvloop's, unless a test asks for another."""

import asyncio

import uvloop

asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
