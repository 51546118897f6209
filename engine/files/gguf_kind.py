"""What kind of file a GGUF is: a plain text model, or something that needs another method."""

from __future__ import annotations

_METHODS = {"eagle3": "EAGLE-3", "dflash": "DFlash", "medusa-heads": "Medusa"}
_NOT_GENERATORS = {
    "clip": "an image projector",
    "wavtokenizer-dec": "an audio decoder",
    "qwen3tts": "a speech model",
    "pockettts": "a speech model",
    "t5": "an encoder-decoder model",
    "t5encoder": "an embedding model",
    "dream": "a diffusion model",
    "llada": "a diffusion model",
    "llada-moe": "a diffusion model",
    "rnd1": "a diffusion model",
    "llama-embed": "an embedding model",
}
_TYPES = {"adapter": "an adapter (LoRA)", "mmproj": "an image projector", "imatrix": "statistics"}


def what_else(architecture: str, general_type: str, is_causal: bool, is_pooled: bool) -> str | None:
    """None for a plain text model, else a method ("EAGLE-3") or a thing ("an embedding model").

    architecture, general_type: of the file's metadata. is_causal: unless it says otherwise.
    is_pooled: its output is one vector a text.
    """
    if general_type in _TYPES:
        return _TYPES[general_type]
    if architecture in _METHODS:
        return _METHODS[architecture]
    if architecture.endswith("-assistant"):
        return f"{architecture.removesuffix('-assistant')} assistant drafting"
    if architecture in _NOT_GENERATORS:
        return _NOT_GENERATORS[architecture]
    is_encoder = not is_causal or "bert" in architecture or architecture.endswith("-embedding")
    return "an embedding model" if is_encoder or is_pooled else None
