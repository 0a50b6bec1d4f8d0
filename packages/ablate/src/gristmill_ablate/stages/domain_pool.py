"""The documents that mixtures are tried on, with their domains, and those that are held out (proxy/domains.py)."""

from pathlib import Path

from gristmill.stages.contract import Asset, Count
from gristmill_ablate.proxy.domains import thin_domains
from gristmill_ablate.stages import pool


class Config(pool.Config):
    held: Count
    """Tokens of each domain that are held out, at most."""


def make(config: Config, path: Path) -> dict[str, int]:
    pool_of_domains = thin_domains(pool.check_hash(config), config.tokens, config.held)
    pool_of_domains.save(path)
    return {"tokens": len(pool_of_domains.tokens), "held_out_tokens": len(pool_of_domains.held_tokens)}


STAGE = Asset(version=1, config=Config, make=make)
