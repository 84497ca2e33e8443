"""The table of claims, in Markdown."""

from collections import Counter
from collections.abc import Iterable, Iterator

from .claim import FAILS, PARTLY, VERDICTS, Claim, Evidence, Outcome, by_section, decide

TREE = ".."  # from docs/ to the root of the repository


def page(claims: Iterable[Claim], evidence: Evidence) -> Iterator[str]:
    """Yield the lines of the table of claims, with the number of claims per verdict above it.

    Args:
        claims: in the order of the paper.
        evidence: the tables of the report.
    """
    decided = {
        section: [(c, decide(c, evidence)) for c in found] for section, found in by_section(claims)
    }
    count = Counter(outcome.verdict for found in decided.values() for _, outcome in found)
    yield "| verdict | claims | meaning |"
    yield "|---|---:|---|"
    for verdict, meaning in VERDICTS.items():
        yield f"| {verdict} | {count[verdict]} | {meaning} |"
    yield ""
    yield "| claim, in our words | records | verdict | command |"
    yield "|---|---|---|---|"
    for section, found in decided.items():
        yield f"| **{section}** | | {tally([outcome for _, outcome in found])} | |"
        for claim, outcome in found:
            yield _row(claim, outcome)


def tally(outcomes: Iterable[Outcome]) -> str:
    """Return how many claims of a section have each verdict, in words.

    Args:
        outcomes: of the section.
    """
    count = Counter(outcome.verdict for outcome in outcomes)
    return ", ".join(f"{count[verdict]} {verdict}" for verdict in VERDICTS if count[verdict])


def _row(claim: Claim, outcome: Outcome) -> str:
    wrong = outcome.verdict in (FAILS, PARTLY)
    verdict = f"**{outcome.verdict}**" if wrong else outcome.verdict
    text = f"{outcome.text}. {claim.why}" if wrong and claim.why else outcome.text
    cells = (claim.statement, text, verdict, where(claim))
    return "| " + " | ".join(text.replace("|", "\\|") for text in cells) + " |"


def where(claim: Claim) -> str:
    """Return the command of a claim as a link: to its tables on the page, or to its tests."""
    links = []
    if claim.experiment:
        links.append(f"[`scroll bench {claim.experiment}`](#{claim.experiment})")
    for test in claim.tests:
        file, _, name = test.partition("::")
        links.append(f"[`{name}`]({TREE}/{file})")
    return ", ".join(links) or "--"
