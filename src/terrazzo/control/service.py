"""One process of the control plane: which parts it has, how they are put together, how it ends."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from typing import Any

import uvicorn
import yaml

from terrazzo import __version__
from terrazzo.control import offers, serving
from terrazzo.control.binding import Binder
from terrazzo.control.books import Books
from terrazzo.control.extender import Extender
from terrazzo.control.following import Followers
from terrazzo.control.guards import Accounts
from terrazzo.control.healing import Claims
from terrazzo.control.keeping import Keeper, server_context, service_names
from terrazzo.control.nominating import Nominator
from terrazzo.control.observed import Figures
from terrazzo.control.placing import Placer
from terrazzo.control.preempting import Preemptor
from terrazzo.control.reconciler import Reconciler
from terrazzo.control.reviews import Reviews
from terrazzo.control.settings import Settings
from terrazzo.control.waiting import Waiters
from terrazzo.control.webhook import Webhook
from terrazzo.kube.access import Access
from terrazzo.kube.client import Client
from terrazzo.kube.errors import ApiError
from terrazzo.kube.events import Teller
from terrazzo.kube.lease import Election
from terrazzo.model.errors import InputError, TerrazzoError
from terrazzo.model.policy import Policy

RETRY_S = 2.0
GARBAGE_AFTER = 100_000
"""New objects after which the collector looks at them."""


class Role(StrEnum):
    """What a process does."""

    EXTENDER = "extender"
    WEBHOOK = "webhook"
    RECONCILER = "reconciler"


class Service:
    """A process of the control plane.

    Args:
        settings: see ``Settings``.
        roles: what it does.
        access: the API server.
        log: structured log.
    """

    def __init__(self, settings: Settings, roles: Sequence[Role], access: Access, log: Any) -> None:
        self._settings = settings
        self._roles = frozenset(roles)
        self._access = access
        self._log = log
        self._figures = Figures()
        self._stop = asyncio.Event()
        self._waits: list[Callable[[], list[str]]] = [lambda: ["the API server"]]
        self._servers: list[uvicorn.Server] = []
        self._leads: Callable[[], bool] = lambda: False
        # The same after a restart in place, which then need not wait for its own lease to expire.
        self._identity = f"{socket.gethostname()}-{settings.probes.port or os.getpid()}"

    def stop(self) -> None:
        """End in good order: finish binds, give the lease back."""
        self._stop.set()

    async def run(self) -> None:
        """Run until ``stop`` or a signal.

        Raises:
            InputError: an address cannot be used.
        """
        # What lists are decoded to lives on; looking through all of it again and again would double a cold start.
        gc.set_threshold(GARBAGE_AFTER)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        work = asyncio.ensure_future(self._work())
        stopped = asyncio.ensure_future(self._stop.wait())
        await asyncio.wait((work, stopped), return_when=asyncio.FIRST_COMPLETED)
        for server in self._servers:
            server.should_exit = True
        if not work.done():
            await asyncio.wait((work,), timeout=0.2)
            work.cancel()
        stopped.cancel()
        try:
            await work
        except asyncio.CancelledError:
            return
        except BaseExceptionGroup as group:
            first: BaseException | None = group.subgroup(TerrazzoError)
            while isinstance(first, BaseExceptionGroup):
                first = first.exceptions[0]
            raise first or group from None

    async def _work(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            self._serve(
                tasks,
                "probes",
                self._settings.probes,
                serving.probes(self._missing, self._figures.text, lambda: self._leads()),  # noqa: PLW0108 - it changes later
            )
            agent = f"terrazzo/{__version__} ({','.join(sorted(self._roles))})"
            async with Client(self._access, agent=agent) as client:
                await self._parts(tasks, client)

    def _missing(self) -> list[str]:
        return [each for waits in self._waits for each in waits()]

    def _serve(self, tasks: asyncio.TaskGroup, what: str, address: Any, app: Any, tls: Any = None) -> None:
        listening = serving.listen(address, what)
        server = serving.server(app, tls=tls)
        self._servers.append(server)
        host, port = listening.getsockname()[:2]
        self._log.info("listening", what=what, host=host, port=port)
        tasks.create_task(server.serve(sockets=[listening]))

    async def _parts(self, tasks: asyncio.TaskGroup, client: Client) -> None:
        settings = self._settings
        dra = await self._ledger(client)
        followers: Followers
        books = Books(lambda sentence: followers.note(sentence))  # noqa: PLW0108 - it is made below
        self._figures.watch(books)
        placer = Placer(books, settings.filter_top)
        binds = Election(client, settings.namespace, "terrazzo-extender", self._identity)
        binder = Binder(client, books, placer, dra=dra, deadline_s=settings.bind_deadline_s, leads=lambda: binds.leads)
        claims = Claims(books, binder, client)
        teller = Teller(client, "controller", self._identity)
        preemptor = Preemptor(books, client, teller, self._log) if settings.preemption else None
        reconciler = Reconciler(
            books, client, binder, claims, Waiters(books, client, teller), preemptor,
            Nominator(
                books, placer, client, scheduler=settings.scheduler, backlog=settings.nominate, log=self._log
            ),
            teller, self._figures, self._log,
        )  # fmt: skip
        reconciles = Role.RECONCILER in self._roles
        followers = Followers(
            client, books, claims if reconciles and dra else None, preemptor if reconciles else None,
            reconciler.told if reconciles else _nothing, (settings.namespace, settings.policy), _yaml,
            self._figures, self._log, dra=dra,
        )  # fmt: skip
        following = tasks.create_task(followers.run(Policy(scheduler=settings.scheduler)))
        self._waits[:] = [lambda: followers.waits_for]
        extender_tls = settings.extender_tls and Role.EXTENDER in self._roles
        context = self._certificate(tasks, client) if extender_tls or Role.WEBHOOK in self._roles else None
        if Role.EXTENDER in self._roles:
            extender = Extender(placer, binder, self._figures, self._log, followers.caught_up)
            handlers = {"/filter": extender.filter, "/prioritize": extender.prioritize}
            handlers |= {"/bind": extender.bind, "/preempt": extender.preempt}
            self._serve(
                tasks, "extender", settings.extender, serving.posts(handlers), context if extender_tls else None
            )
            self._leads = lambda: binds.leads
            tasks.create_task(binds.lead(_after(followers, _for_ever), self._say_lease))
        if context is not None and Role.WEBHOOK in self._roles:
            self._admission(tasks, books, placer, context)
        tasks.create_task(self._freeze(followers))
        if reconciles:
            election = Election(client, settings.namespace, "terrazzo-reconciler", self._identity)
            tasks.create_task(election.lead(_after(followers, reconciler.run), self._say_lease))
        try:
            await following
        finally:
            await asyncio.wait_for(binder.settle(), settings.bind_deadline_s)

    def _certificate(self, tasks: asyncio.TaskGroup, client: Client) -> ssl.SSLContext:
        """Return the TLS context of this process; its certificate is kept from now on."""
        settings = self._settings
        context = server_context()
        names = settings.tls.names or service_names(settings.service, settings.namespace)
        keeper = Keeper(
            client, settings.namespace, settings.tls.secret, names, context, self._log,
            foreign=settings.tls.cert_manager, registers=Role.WEBHOOK in self._roles,
        )  # fmt: skip
        tasks.create_task(keeper.run())
        self._waits.append(lambda: keeper.waits_for)
        return context

    def _admission(self, tasks: asyncio.TaskGroup, books: Books, placer: Placer, context: ssl.SSLContext) -> None:
        settings = self._settings
        webhook = Webhook(
            lambda: books.policy, lambda: books.summary, lambda request: placer.is_crowded(request, settings.crowd),
            frozenset(Accounts.of(settings.namespace).all),
        )  # fmt: skip
        reviews = Reviews(self._figures, self._log)
        handlers = {
            "/admit": reviews.of(webhook.admit),
            "/admit-whole": reviews.of(webhook.admit_whole),
            "/warn": reviews.of(webhook.warn),
        }
        self._serve(tasks, "webhook", settings.webhook, serving.posts(handlers), context)

    def _say_lease(self, said: str) -> None:
        self._log.warning("lease", said=said)

    async def _ledger(self, client: Client) -> bool:
        """Return whether to use the ``dra`` ledger; waits until the API server can be asked."""
        if self._settings.ledger == "classic":
            return False
        while True:
            try:
                offered, why = await offers.offers_dra(client, self._settings.namespace)
                break
            except ApiError as error:
                self._log.warning("the API server cannot be asked", said=str(error))
                await asyncio.sleep(RETRY_S)
        if self._settings.ledger == "dra" and not offered:
            raise InputError(f"ledger dra cannot be used: {why}", where="settings", remedy="write ledger: auto")
        self._log.info("ledger", name="dra" if offered else "classic", why=why)
        return offered

    async def _freeze(self, followers: Followers) -> None:
        """Once everything is listed, keep the collector from walking it again and again."""
        await followers.all_listed()
        gc.collect()
        gc.freeze()
        self._log.info("ready", pid=os.getpid())


async def _for_ever() -> None:
    """Do nothing until cancelled: leading is all there is to do."""
    await asyncio.Event().wait()


def _nothing(_: object) -> None:
    """Drop instructions: another process carries them out."""


def _after(followers: Followers, work: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
    async def run() -> None:
        await followers.all_listed()
        await work()

    return run


def _yaml(text: str, where: str) -> object:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InputError(f"is not YAML ({' '.join(str(error).split())})", where=where) from None
