"""The options of `forerun bench` that compare with llama-server."""

from __future__ import annotations

import argparse

from engine.bench.peer import PeerPlan
from engine.bench.peer_prompt import prompt_renderer
from engine.bench.peer_settings import PeerSetting, parse_peer_setting, peer_settings
from engine.cli.options import existing_file
from engine.data.errors import BadOptionError
from engine.data.folders import DataFolder
from engine.data.machine import processor
from engine.drafters.parse import parse_expression
from engine.models.catalogue import Catalogue
from engine.models.locate import locate


def add_peer_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("another program")
    group.add_argument(
        "--peer", type=existing_file, metavar="PATH", help="a llama-server to compare with"
    )
    group.add_argument(
        "--peer-drafter", metavar="M", help="its drafter; without: the first model:M of --drafter"
    )
    group.add_argument(
        "--peer-setting",
        action="append",
        default=[],
        metavar="NAME=ARGS",
        help='only these settings of it, e.g. "eagle3={draft} --spec-type draft-eagle3"',
    )


def chosen_settings(arguments: argparse.Namespace) -> tuple[PeerSetting, ...]:
    """Empty without --peer. BadOptionError where a setting needs a drafter and there is none."""
    if arguments.peer is None:
        if arguments.peer_setting or arguments.peer_drafter:
            raise BadOptionError("--peer-setting and --peer-drafter need --peer PATH")
        return ()
    drafter = _drafter_name(arguments)
    settings = tuple(parse_peer_setting(text) for text in arguments.peer_setting)
    if not settings:
        return peer_settings(arguments.peer, has_drafter=drafter is not None)
    if drafter is None and any(setting.needs_drafter for setting in settings):
        raise BadOptionError("a setting with {draft} needs --peer-drafter M")
    return settings


def peer_plan(arguments: argparse.Namespace) -> PeerPlan:
    """Only for targets and drafters that are on this machine."""
    folder = DataFolder(arguments.data_dir)
    catalogue = Catalogue.load(folder)
    target = locate(arguments.target, catalogue, folder).path
    drafter = _drafter_name(arguments)
    return PeerPlan(
        binary=arguments.peer,
        target=target,
        drafter=locate(drafter, catalogue, folder).path if drafter else None,
        context_length=arguments.ctx,
        threads=arguments.threads or processor().physical_cores,
        gpu_layers=arguments.gpu_layers,
        log_folder=folder.logs,
        render=prompt_renderer(target),
    )


def _drafter_name(arguments: argparse.Namespace) -> str | None:
    if arguments.peer_drafter:
        return str(arguments.peer_drafter)
    leaves = [leaf for text in arguments.drafter for leaf in parse_expression(text).leaves()]
    return next((leaf.argument for leaf in leaves if leaf.kind == "model"), None)
