"""Firstword behind Ray's own proxy, with the settings of the environment: `serve run deploy.ray.app:app`."""

from firstword.app.hosts.ray.serving import application
from firstword.app.settings import load_settings

app = application(load_settings())
