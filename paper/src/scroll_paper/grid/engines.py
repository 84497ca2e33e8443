"""Where the stacks of a sweep are trained: on this machine, or on a running cluster.

A cluster is reached through joblib. Its workers only train: they return records, which the process
that asked for them writes. If a worker is lost, only its current stack is lost.
"""

import os
import re
import sys
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from threading import Lock
from typing import Any, NamedTuple, TypeVar

from scroll._core.checks import invalid, one_of

TRIES = 3  # in a row without any result
WAIT = 30  # seconds, for a cluster to answer and for its first worker
ADDRESS = r"(\w+://)?(\[[0-9a-fA-F:.]+\]|[^/:\s]+):\d+"

_ONE = Lock()
T = TypeVar("T")


class Engine(NamedTuple):
    """A kind of cluster and its address; "" takes the address from Ray's own settings."""

    kind: str
    address: str

    @property
    def local(self) -> bool:
        """True if it is this machine."""
        return self.kind == "local"


class Failure(NamedTuple):
    """An error of the work itself, which another worker would repeat."""

    text: str


def engine(text: str) -> Engine:
    """Return the engine that a text names, checked; its package must be installed.

    Args:
        text: local, dask, ray, dask:tcp://host:8786 or ray:host:6379.
    """
    kind, _, address = text.partition(":")
    one_of(
        "--engine", kind, ("local", *CLUSTERS), "An address follows a colon: dask:tcp://HOST:8786."
    )
    if kind == "local":
        if address:
            raise invalid("--engine", "have no address for this machine", repr(text))
        return Engine(kind, "")
    known = not address or address in ("auto", "local") or re.fullmatch(ADDRESS, address)
    if not known:
        like = "dask:tcp://HOST:8786" if kind == "dask" else "ray:HOST:6379"
        raise invalid("--engine", f"read like {like}", repr(text))
    package = "distributed" if kind == "dask" else kind
    try:
        import_module(package)
    except ImportError:
        raise invalid(
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
            raise invalid("--engine", "name a cluster", repr(text), remedy)
    return Engine(kind, address)


def spread(
    where: Engine, work: Callable[..., T], left: Mapping[int, tuple[object, ...]]
) -> Iterator[tuple[int, T | Failure]]:
    """Yield (key, work(*left[key])) or (key, Failure), as they come from the cluster.

    The caller removes from `left` what it has recorded: if a worker is lost and its engine does
    not start it again, the rest is given out again.

    Args:
        where: the cluster.
        work: a function at the top level of a module.
        left: its arguments by key.
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
def cancelling(found: "Generator[T, None, None]") -> Iterator[None]:
    """Cancel the tasks of a joblib generator, without its warning, when its reader stops."""
    try:
        yield
    except GeneratorExit:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"\d+ tasks ", UserWarning)
            found.close()
        raise


class Recalled(Exception):
    """The task that runs here is no longer needed."""


def recall() -> Callable[..., None]:
    """Return a function that raises `Recalled` once the process that asked for this task is gone.

    A cluster outlives a run and cannot stop a thread, so that the task has to ask. Dask forgets
    a task whose client has gone; Ray ends such tasks itself.
    """
    try:
        worker = sys.modules["distributed"].get_worker()
        key = worker.get_current_task()
    except (AttributeError, KeyError, ValueError):  # not on a worker of Dask
        return lambda *progress: None

    def check(*progress: object) -> None:
        task = worker.state.tasks.get(key)
        if task is None or task.state == "cancelled":
            raise Recalled(key)

    return check


def _done(work: Callable[..., T], key: int, some: tuple[object, ...]) -> tuple[int, T | Failure]:
    """Work on a worker: one task at a time per process, however many threads it has."""
    with _ONE:
        try:
            return key, work(*some)
        except Recalled:  # if the cluster needs it after all, the rest is given out again
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
            raise invalid("--engine", "have workers", f"none at {address}", remedy) from None
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
    """Return Ray's backend, changed to return results one by one.

    joblib forbids that for pools like multiprocessing's, because their generators hang if a worker
    dies; Ray reports that.
    """
    backend = import_module("ray.util.joblib.ray_backend").RayBackend(**how)
    backend.supports_return_generator = True
    return _away(backend)


def _away(backend: Any) -> Any:
    """Make a backend use the cluster even if it has only one slot yet.

    joblib would work in this process if there is room for one task only.
    """
    room = backend.effective_n_jobs
    backend.effective_n_jobs = lambda n_jobs: max(2, room(n_jobs))
    return backend


def _silent(kind: str, address: str, error: Exception) -> Exception:
    got, remedy = _short(error).rstrip("."), "Start the cluster, or correct the address."
    return invalid("--engine", f"reach a {kind} cluster at {address}", got, remedy, OSError)


def _short(error: Exception) -> str:
    """Return the beginning and the end of an engine's error, which may be pages long."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 400 else f"{text[:200]} ... {text[-200:]}"


CLUSTERS: dict[str, Callable[[str], AbstractContextManager[None]]] = {"dask": _dask, "ray": _ray}
