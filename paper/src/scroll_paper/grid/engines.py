"""Where the stacks of a sweep are trained: on this machine, or on a cluster that is there already.

A cluster is reached through joblib. Its workers only train: they give back records, which the
process that asked for them writes, so that what a worker takes with it is no more than the stack
it was at.
"""

import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from threading import Lock
from typing import Any, NamedTuple

from scroll._core.checks import one_of, refusal

TRIES = 3  # in a row in which nothing comes back
WAIT = 30  # seconds, for a cluster to answer and for its first worker
ADDRESS = r"(\w+://)?(\[[0-9a-fA-F:.]+\]|[^/:\s]+):\d+"

_ONE = Lock()


class Engine(NamedTuple):
    """A kind of cluster, and where it is; "" is where Ray's own settings say."""

    kind: str
    address: str

    @property
    def local(self) -> bool:
        """Whether it is this machine."""
        return self.kind == "local"


class Failure(NamedTuple):
    """What went wrong in the work itself: another worker would fail alike."""

    text: str


def engine(text: str) -> Engine:
    """local, dask, ray, dask:tcp://host:8786 or ray:host:6379, checked; its package is there."""
    kind, _, address = text.partition(":")
    one_of(
        "--engine", kind, ("local", *CLUSTERS), "An address follows a colon: dask:tcp://HOST:8786."
    )
    if kind == "local":
        if address:
            raise refusal("--engine", "have no address for this machine", repr(text))
        return Engine(kind, "")
    known = not address or address in ("auto", "local") or re.fullmatch(ADDRESS, address)
    if not known:
        like = "dask:tcp://HOST:8786" if kind == "dask" else "ray:HOST:6379"
        raise refusal("--engine", f"read like {like}", repr(text))
    package = "distributed" if kind == "dask" else kind
    try:
        import_module(package)
    except ImportError:
        raise refusal(
            "--engine",
            "be one whose package is installed",
            f"{kind!r} without {package}",
            f"Install it with pip install './paper[{kind}]' in the repository.",
            ImportError,
        ) from None
    if kind == "dask":
        address = address or import_module("dask.config").get("scheduler-address", None) or ""
        if not address:
            remedy = "Use dask:tcp://HOST:8786, or set DASK_SCHEDULER_ADDRESS; local needs none."
            raise refusal("--engine", "name a cluster", repr(text), remedy)
    return Engine(kind, address)


def spread(
    where: Engine, work: Callable[..., Any], left: dict[int, tuple[Any, ...]]
) -> Iterator[tuple[int, Any]]:
    """(key, work(*left[key])) or (key, Failure), as they come from the cluster.

    Who reads this takes out of `left` what has been kept: when a worker is lost and its engine
    does not start it anew, the rest is given out again.
    """
    from joblib import Parallel, delayed

    with CLUSTERS[where.kind](where.address):
        tries = 0
        while left:
            before = len(left)
            tasks = [delayed(_done)(work, key, some) for key, some in left.items()]
            try:
                # A task's own errors come back as values, so that what is raised is the engine's.
                found = Parallel(return_as="generator_unordered", batch_size=1, pre_dispatch="all")(
                    tasks
                )
                with cancelling(found):
                    for one in found:  # noqa: UP028, as `yield from` would close it, with words
                        yield one
                return
            except Exception as error:
                tries = tries + 1 if len(left) == before else 1
                if tries >= TRIES:
                    raise RuntimeError(
                        f"{where.kind} has lost {tries} times in a row what it was given: "
                        f"{type(error).__name__}: {_short(error)}"
                    ) from error


@contextmanager
def cancelling(found: Any) -> Iterator[None]:
    """Cancel the tasks of a generator of joblib, without its warning, when its reader stops."""
    try:
        yield
    except GeneratorExit:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"\d+ tasks ", UserWarning)
            found.close()
        raise


class Recalled(Exception):
    """The task that runs here is no longer wanted."""


def recall() -> Callable[..., None]:
    """Return a function that raises `Recalled` once the process that asked for this task is gone.

    A cluster outlives a run and cannot stop a thread, so that the task has to ask. Dask forgets
    a task whose client has gone; Ray ends such tasks itself.
    """
    distributed: Any = sys.modules.get("distributed")
    try:
        worker = distributed.get_worker()
        key = worker.get_current_task()
    except (AttributeError, ValueError):  # not on a worker of Dask
        return lambda *told: None

    def check(*told: object) -> None:
        task = worker.state.tasks.get(key)
        if task is None or task.state == "cancelled":
            raise Recalled(key)

    return check


def _done(work: Callable[..., Any], key: int, some: tuple[Any, ...]) -> tuple[int, Any]:
    """Work on a worker, one task at a time per process however many threads it has."""
    with _ONE:
        try:
            return key, work(*some)
        except Recalled:  # should the cluster want it after all, the rest is given out again
            raise
        except Exception as error:
            return key, Failure(f"{type(error).__name__}: {error}")


@contextmanager
def _dask(address: str) -> Iterator[None]:
    from joblib import parallel_config

    try:
        client = import_module("distributed").Client(address, timeout=WAIT, set_as_default=False)
    except (OSError, ValueError, RuntimeError) as error:
        raise _silent("dask", address, error) from None
    with client:
        try:
            client.wait_for_workers(1, timeout=WAIT)
        except TimeoutError:
            remedy = f"Start one with: dask worker {address} --nthreads 1"
            raise refusal("--engine", "have workers", f"none at {address}", remedy) from None
        with parallel_config(backend="dask", client=client, n_jobs=-1) as config:
            _away(config["backend"])
            yield


@contextmanager
def _ray(address: str) -> Iterator[None]:
    from joblib import parallel_config, register_parallel_backend

    ray, address = import_module("ray"), address or os.environ.get("RAY_ADDRESS") or "auto"
    ours = not ray.is_initialized()
    if ours:
        try:
            ray.init(address=address, log_to_driver=False)
        except (OSError, ValueError, RuntimeError) as error:
            raise _silent("ray", address, error) from None
    try:
        register_parallel_backend("ray", _streaming)
        with parallel_config(backend="ray", n_jobs=-1):
            yield
    finally:
        if ours:
            ray.shutdown()


def _streaming(**how: Any) -> Any:
    """Ray's backend, from which results may come one by one.

    It is a pool like multiprocessing's, of which joblib knows that its generators may hang if a
    worker dies; Ray tells of that.
    """
    backend = import_module("ray.util.joblib.ray_backend").RayBackend(**how)
    backend.supports_return_generator = True
    return _away(backend)


def _away(backend: Any) -> Any:
    """A backend that works on the cluster even if it has but one slot as yet.

    What has room for one task only is worked off by joblib in this very process.
    """
    room = backend.effective_n_jobs
    backend.effective_n_jobs = lambda n_jobs: max(2, room(n_jobs))
    return backend


def _silent(kind: str, address: str, error: Exception) -> Exception:
    told, remedy = _short(error).rstrip("."), "Start the cluster, or correct the address."
    return refusal("--engine", f"reach a {kind} cluster at {address}", told, remedy, OSError)


def _short(error: Exception) -> str:
    """Its beginning and its end: an engine's errors are pages, with the cause in one of them."""
    told = " ".join(str(error).split()) or type(error).__name__
    return told if len(told) <= 400 else f"{told[:200]} ... {told[-200:]}"


CLUSTERS: dict[str, Callable[[str], AbstractContextManager[None]]] = {"dask": _dask, "ray": _ray}
