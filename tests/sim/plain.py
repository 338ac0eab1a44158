"""A second, plain gateway with slots: every instant visited, every arrival at its own time, lists only.

It shares no code with ``fairq.sim`` and drives a policy through its verbs, so that schedules and the sequence
of calls can be compared.
"""


class Recorder:
    """Passes the verbs on to a policy and notes them; a ``get`` that gives nothing is no event."""

    used = False

    def __init__(self, policy):
        self.policy = policy
        self.needs_now = policy.needs_now
        self.calls = []

    def __len__(self):
        return len(self.policy)

    def waiting(self, tenant):
        return self.policy.waiting(tenant)

    def put(self, request):
        self.policy.put(request)
        self.calls.append(("put", request.id))

    def get(self, **when):
        request = self.policy.get(**when)
        if request is not None:
            self.calls.append(("get", request.id))
        return request

    def done(self, request, cost=None):
        self.policy.done(request, cost)
        self.calls.append(("done", request.id, cost))

    def cancel(self, request):
        waited = self.policy.cancel(request)
        if waited:
            self.calls.append(("cancel", request.id))
        return waited


def plain_run(requests, policy, slots, *, patience=None, limit=None, workers=(), until=None):
    """id → (start, finish), and id → (status, time) of those never served.

    ``workers``: per worker a function n → (think, make(arrival) → request), or ``None`` when it stops.
    """
    agenda = sorted(requests, key=lambda r: r.arrival)  # stable
    running, served, left, deadlines, turn = [], {}, {}, [], {}

    def ask(worker, n, now):
        drawn = worker(n)
        if drawn is not None:
            think, make = drawn
            request = make(now + think)
            turn[request.id] = (worker, n)
            places = [i for i, other in enumerate(agenda) if other.arrival <= request.arrival]
            agenda.insert(places[-1] + 1 if places else 0, request)

    def follow(request, now):
        if request.id in turn:
            worker, n = turn.pop(request.id)
            ask(worker, n + 1, now)

    for worker in workers:
        ask(worker, 0, 0)
    while True:
        times = [r.arrival for r in agenda[:1]] + [end for end, _ in running] + [at for at, _ in deadlines]
        if not times:
            break
        now = min(times)
        if until is not None and now > until:
            break
        for end, request in [job for job in running if job[0] == now]:
            running.remove((end, request))
            policy.done(request)
            served[request.id] = (served[request.id][0], now)
            follow(request, now)
        while agenda and agenda[0].arrival == now:
            request = agenda.pop(0)
            free = slots - len(running) - len(policy)
            if limit is not None and free <= 0 and policy.waiting(request.tenant) >= limit:
                left[request.id] = ("refused", now)
                follow(request, now)
                continue
            policy.put(request)
            if patience is not None:
                deadlines.append((now + patience, request))
        while len(running) < slots and (request := policy.get()) is not None:
            served[request.id] = (now, None)
            running.append((now + request.service, request))
        for at, request in [d for d in deadlines if d[0] <= now]:
            deadlines.remove((at, request))
            if policy.cancel(request):
                left[request.id] = ("cancelled", now)
                follow(request, now)
    return served, left
