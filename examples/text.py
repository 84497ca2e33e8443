"""A SCROLL head on a Hugging Face encoder: predict rents from the text of an advert.

    python examples/text.py                              # a tiny BERT, untrained, no download
    python examples/text.py distilbert-base-uncased      # any encoder on the Hugging Face hub

The adverts are simulated. The noise of unrenovated flats is four times that of the others. The
baseline is the same encoder trained on squared error, which has one noise level for all rows.
"""

import random
import sys

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoModel, AutoTokenizer, BertConfig, PreTrainedTokenizerFast

import scroll

SIZE = {"tiny": 4, "small": 6, "large": 10, "huge": 13}
PLACE = {"village": -2, "suburb": -1, "park": 1, "centre": 2}
STATE = {"unrenovated": 0, "renovated": 1, "new": 2}


def advert():
    """Return a text, its rent, and whether its noise is high."""
    size, place, state = (random.choice(list(words)) for words in (SIZE, PLACE, STATE))
    form = random.choice(["{} {} flat near the {}", "{} and {} , in the {}", "{} ! {} , {}"])
    wild = state == "unrenovated"
    rent = SIZE[size] + PLACE[place] + STATE[state] + random.gauss(0, 2.0 if wild else 0.5)
    return form.format(state, size, place), rent, wild


def encoder(name=None):
    """Return a tokenizer and an encoder from the hub, or a tiny one for the words of `texts`."""
    if name is not None:
        return AutoTokenizer.from_pretrained(name), AutoModel.from_pretrained(name)
    known = ["[PAD]", "[UNK]", *sorted({word for text in texts for word in text.split()})]
    words = Tokenizer(models.WordLevel({word: i for i, word in enumerate(known)}, "[UNK]"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    shape["intermediate_size"] = 64
    net = AutoModel.from_config(BertConfig(vocab_size=len(known), **shape))
    return PreTrainedTokenizerFast(tokenizer_object=words, pad_token="[PAD]"), net


def features(rows):
    """Return the mean of the last layer over the words of each advert."""
    batch = {key: ids[rows] for key, ids in tokens.items()}
    mask = batch["attention_mask"][..., None]
    return (net(**batch).last_hidden_state * mask).sum(1) / mask.sum(1)


random.seed(0), torch.manual_seed(0)
texts, rents, wild = zip(*(advert() for _ in range(2000)), strict=True)
train, test = torch.arange(2000).split(1500)
y, wild = torch.tensor(rents), torch.tensor(wild)[test]
y = (y - y[train].mean()) / y[train].std()
for name, how in {"scroll": {}, "squared error": {"method": "map", "covariance": "none"}}.items():
    tokenizer, net = encoder(*sys.argv[1:])
    tokens = tokenizer(list(texts), padding=True, return_tensors="pt")
    head = scroll.RegressionHead(net.config.hidden_size, **how)  # was: nn.Linear(hidden_size, 1)
    # The head's noise starts far from its final value, so the head needs a larger learning rate.
    groups = [{"params": net.parameters()}, {"params": head.parameters(), "lr": 1e-2}]
    optimiser = torch.optim.Adam(groups, lr=5e-5 if sys.argv[1:] else 1e-3)
    for rows in (rows for _ in range(10) for rows in torch.randperm(1500).split(50)):
        optimiser.zero_grad()
        head.loss(features(rows), y[rows], total=1500).backward()
        optimiser.step()
    net.eval()
    with torch.no_grad():
        if name != "scroll":
            head.fit_noise(features(train), y[train])
        p = head(features(test))
    within = (p.cdf(y[test]) - 0.5).abs() < 0.45
    calm, wide = within[~wild].float().mean(), within[wild].float().mean()
    print(f"{name:13}  NLL {-p.log_prob(y[test]).mean():.3f}", end="  ")
    print(f"90 % intervals cover {calm:.2f}, unrenovated flats {wide:.2f}")
