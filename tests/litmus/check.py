#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Checks the barriers of docs/design/memory-order.md: runs each litmus test of this folder exhaustively.

    check.py [-v] [FILE...]

A file holds one or more tests, each as long as the next line `test NAME`:

    test ring-publish               # RING-1, shm/ring.h
    init word=0 data=0              # what is not named is 0
    P producer                      # a thread
        data = 1                    # a relaxed store
        word =release 1     {A}     # or =seq_cst
    P consumer
        r0 =acquire word    {B}     # a load: registers are r and a number
        r1 = data
    never r0 == 1 and r1 == 0       # may also name locations: their last values
    without A: arm64 sometimes, x86 never

More statements: `r0 =add x 1` and `r0 =swap x 1` (atomic, sequentially consistent; `acquire` behind them: acquire
alone), `fence full`, `fence acquire`, `fence release`, `membarrier`, `only if r0 == 1` (else the thread ends there).

`never` has to hold on both machines as the test stands. `without A` takes away what is marked so: a fence or a membarrier
vanishes, a membarrier marked {A:full} becomes a full fence of the calling thread alone, an access is relaxed, an atomic
instruction acquires and releases nothing. Then the outcome has to be possible, or not, as said: that the tests can fail is
tested, too. A test is named after its barrier, whose label stands in src/ and in docs/design/memory-order.md.

The model of arm64 is that of the Armv8-A architecture, multi-copy atomic, as in herd's aarch64.cat: an execution is
possible unless ordered-before has a cycle. An acquire is taken for the weaker LDAPR, and an atomic instruction for a pair
of exclusives. That of x86 is TSO. A membarrier is a full fence somewhere in each other thread, in all ways in turn,
between what the caller did before and what it does after (membarrier(2)).
"""
import argparse
import itertools
import pathlib
import re
import sys

MACHINES = ('arm64', 'x86')
STATEMENT = re.compile(r'(?P<text>[^{]*?)\s*(?:\{(?P<mark>\w+)(?P<full>:full)?\})?$')
FENCE = re.compile(r'fence (full|acquire|release)$')
ATOMIC = re.compile(r'(r\d+) =(add|swap) (\w+) (\d+)( acquire)?$')
ACCESS = re.compile(r'(\w+) =(release|acquire|seq_cst)? (\w+)$')
ONLY = re.compile(r'only if (.+)$')


class Test:
    """As it is written: its threads are lists of (text, mark, full)."""
    def __init__(self, name):
        self.name, self.init, self.threads, self.never, self.without = name, {}, [], None, []


class Event:
    """kind: R, W, F (a fence), M (a membarrier), C (a condition)."""
    def __init__(self, kind, thread, place=None, order='', value=None, register=None):
        self.kind, self.thread, self.place, self.order = kind, thread, place, order
        self.value, self.register = value, register  # W: a function of (registers, what the atomic read)
        self.atomic = None  # W: the R of the same instruction
        self.number = None


def fail(text):
    sys.exit(f'litmus: {text}')


def parse(path):
    tests = []
    for number, line in enumerate(path.read_text(encoding='utf-8').splitlines(), 1):
        line = line.split('#')[0].strip()
        word, _, rest = line.partition(' ')
        if not line:
            continue
        if word == 'test':
            tests.append(Test(rest))
        elif word == 'init':
            tests[-1].init = {k: int(v) for k, v in (pair.split('=') for pair in rest.split())}
        elif word == 'P':
            tests[-1].threads.append([])
        elif word == 'never':
            tests[-1].never = rest
        elif word == 'without':
            marks, _, verdicts = rest.partition(':')
            pairs = dict(pair.split() for pair in verdicts.split(','))
            if set(pairs) != set(MACHINES) or not set(pairs.values()) <= {'never', 'sometimes'}:
                fail(f'{path.name}:{number}: a verdict for each of {MACHINES}')
            tests[-1].without.append((frozenset(marks.replace(' and ', ' ').split()), pairs))
        else:
            match = STATEMENT.match(line)
            tests[-1].threads[-1].append((match['text'], match['mark'], match['full']))
    return tests


def number_or_register(word):
    return (lambda registers, _: registers[word]) if re.match(r'r\d+$', word) else (lambda *_: int(word))


def events_of(statement, thread, gone):
    """The events of one statement, as it stands or with its mark taken away."""
    text, mark, full = statement
    weak = mark in gone
    if match := FENCE.match(text):
        return [] if weak else [Event('F', thread, order=match[1])]
    if text == 'membarrier':
        return [Event('M', thread)] if not weak else [Event('F', thread, order='full')] if full else []
    if match := ONLY.match(text):
        return [Event('C', thread, value=match[1])]
    if match := ATOMIC.match(text):
        register, what, place, operand, acquire = match.groups()
        operand = int(operand)
        read = Event('R', thread, place, '' if weak else 'acquire' if acquire else 'seq_cst', register=register)
        read.strong = not weak
        write = Event('W', thread, place, '' if weak or acquire else 'seq_cst',
                      (lambda _, old: old + operand) if what == 'add' else (lambda *_: operand))
        write.atomic = read
        return [read, write]
    if match := ACCESS.match(text):
        to, order, source = match.groups()
        order = '' if weak or not order else order
        if re.match(r'r\d+$', to):
            return [Event('R', thread, source, order, register=to)]
        return [Event('W', thread, to, order, number_or_register(source))]
    return fail(f'what is "{text}"?')


def paths(events):
    """The ways through a thread: each condition holds, or fails and ends it."""
    for at, event in enumerate(events):
        if event.kind == 'C':
            yield events[:at] + [(event, False)]
    yield [(e, True) if e.kind == 'C' else e for e in events]


def reachable(pairs, size):
    """The transitive closure of a relation, as bit sets."""
    after = [0] * size
    for a, b in pairs:
        after[a] |= 1 << b
    for k in range(size):
        for i in range(size):
            if after[i] >> k & 1:
                after[i] |= after[k]
    return after


def has_cycle(pairs, size):
    return any(after >> i & 1 for i, after in enumerate(reachable(pairs, size)))


class Execution:
    """One way through each thread, which store each load sees, and in which order the stores of a place are."""
    def __init__(self, threads, conditions, barriers):
        self.threads = threads  # of R, W and F
        self.conditions = conditions  # (condition, its outcome, its thread, accesses of it before it)
        self.barriers = barriers  # pairs that a membarrier orders
        self.accesses = [e for thread in threads for e in thread if e.kind != 'F']
        self.size = len(self.accesses)

    def program_order(self):
        for thread in self.threads:
            for i, a in enumerate(thread):
                for b in thread[i + 1:]:
                    if a.kind != 'F' and b.kind != 'F':
                        yield a, b, [f for f in thread[thread.index(a) + 1:thread.index(b)]]

    def of_arm64(self):
        """Barrier-ordered-before and dependencies. A condition depends on all loads of its thread before it."""
        for a, b, between in self.program_order():
            fences = {f.order for f in between if f.kind == 'F'}
            if (fences & {'full', 'release'}  # a release fence is DMB ISH, too
                    or 'acquire' in fences and a.kind == 'R'
                    or a.kind == 'R' and a.order
                    or b.kind == 'W' and b.order
                    or a.kind == 'W' and a.order and b.kind == 'R' and self.is_rcsc(b)
                    or b.atomic is a and a.kind == 'R'):
                yield a, b
        for _, _, thread, before in self.conditions:
            for a in before:
                if a.kind == 'R':
                    for b in self.threads[thread]:
                        if b.kind == 'W' and b not in before:
                            yield a, b

    @staticmethod
    def is_rcsc(read):
        """Not LDAPR: a sequentially consistent load, or the load of an atomic instruction."""
        return read.order == 'seq_cst' or getattr(read, 'strong', False)

    def of_x86(self):
        for a, b, between in self.program_order():
            locked = any(e.atomic for e in between + [a]) or getattr(b, 'strong', None) is not None \
                or any(getattr(e, 'strong', None) is not None for e in between)
            if (not (a.kind == 'W' and b.kind == 'R') or locked or a.order == 'seq_cst'
                    or any(f.kind == 'F' and f.order == 'full' for f in between)
                    or any(e.kind == 'W' and e.order == 'seq_cst' for e in between)):
                yield a, b

    def is_possible(self, machine, reads_from, orders):
        """reads_from: a load's store (None: the initial value); orders: the stores of each place."""
        number = {e: i for i, e in enumerate(self.accesses)}
        rf = [(w, r) for r, w in reads_from.items() if w]
        co = [(a, b) for order in orders.values() for a, b in itertools.combinations(order, 2)]
        fr = []
        for r, w in reads_from.items():
            order = orders.get(r.place, ())
            fr += [(r, x) for x in (order[order.index(w) + 1:] if w else order)]
        local = [(a, b) for a, b, _ in self.program_order() if a.place == b.place]

        def pairs(relation):
            return [(number[a], number[b]) for a, b in relation]

        if has_cycle(pairs(rf + co + fr + local), self.size):
            return False
        for w in self.accesses:  # nothing comes between the halves of an atomic instruction
            if w.kind == 'W' and w.atomic:
                order = orders[w.place]
                seen = reads_from[w.atomic]
                if order.index(w) != (order.index(seen) + 1 if seen else 0):
                    return False
        external = [(a, b) for a, b in rf + co + fr if a.thread != b.thread]
        if machine == 'x86':
            return not has_cycle(pairs(list(self.of_x86()) + external + co + fr + self.barriers), self.size)
        atomic = [(w, r) for w, r in rf if w.thread == r.thread and w.atomic and r.order]
        return not has_cycle(pairs(list(self.of_arm64()) + external + atomic + self.barriers), self.size)


def executions(threads):
    """A membarrier in thread t puts a full fence between two accesses of each other thread, in all ways."""
    callers = [(t, i) for t, thread in enumerate(threads) for i, e in enumerate(thread)
               if not isinstance(e, tuple) and e.kind == 'M']
    if len(callers) > 1:
        fail('one membarrier a test')
    conditions, plain = [], []
    for t, thread in enumerate(threads):
        own = [e for e in thread if not isinstance(e, tuple)]
        for e in thread:
            if isinstance(e, tuple):
                before = [x for x in thread[:thread.index(e)] if not isinstance(x, tuple) and x.kind in 'RW']
                conditions.append((e[0].value, e[1], t, before))
        plain.append(own)
    if not callers:
        yield Execution(plain, conditions, [])
        return
    caller, _ = callers[0]
    at = next(i for i, e in enumerate(plain[caller]) if e.kind == 'M')
    before, after = plain[caller][:at], plain[caller][at + 1:]
    others = [t for t in range(len(plain)) if t != caller]
    for places in itertools.product(*(range(len(plain[t]) + 1) for t in others)):
        ways = list(plain)
        ways[caller] = before + [Event('F', caller, order='full')] + after
        barriers = []
        for t, place in zip(others, places):
            first, second = plain[t][:place], plain[t][place:]
            ways[t] = first + [Event('F', t, order='full')] + second
            barriers += [(a, b) for a in before for b in second] + [(a, b) for a in first for b in after]
        yield Execution(ways, conditions, [(a, b) for a, b in barriers if 'F' not in (a.kind, b.kind)])


def values(execution, reads_from, init):
    """The registers, and what each store stores; None: no value can be found for one."""
    registers, stored, seen = [{} for _ in execution.threads], {}, {}
    for _ in range(execution.size + 1):
        for e in execution.accesses:
            if e.kind == 'R' and e not in seen:
                w = reads_from[e]
                if not w or w in stored:
                    seen[e] = registers[e.thread][e.register] = stored[w] if w else init.get(e.place, 0)
            elif e.kind == 'W' and e not in stored:
                try:
                    stored[e] = e.value(registers[e.thread], seen.get(e.atomic))
                except (KeyError, TypeError):
                    pass
    if len(seen) + len(stored) < execution.size:
        return None
    return registers, stored


def holds(condition, names):
    try:
        return bool(eval(condition, {'__builtins__': {}}, names))  # the tests' own, in this tree
    except NameError:  # a register of what was not executed
        return False


def is_bad(test, execution, reads_from, orders):
    found = values(execution, reads_from, test.init)
    if not found:
        return False
    registers, stored = found
    for text, outcome, thread, _ in execution.conditions:
        if holds(text, registers[thread]) != outcome:
            return False
    names = dict(test.init)
    for place, order in orders.items():
        if order:
            names[place] = stored[order[-1]]
    for own in registers:
        names.update(own)
    return holds(test.never, names)


def outcomes(test, machine, gone):
    """Whether the outcome is possible; and how many executions were looked at."""
    built = [[e for s in thread for e in events_of(s, t, gone)] for t, thread in enumerate(test.threads)]
    looked = 0
    for ways in itertools.product(*(list(paths(thread)) for thread in built)):
        for execution in executions([list(way) for way in ways]):
            stores = {}
            for e in execution.accesses:
                stores.setdefault(e.place, [])
                if e.kind == 'W':
                    stores[e.place].append(e)
            loads = [e for e in execution.accesses if e.kind == 'R']
            for choice in itertools.product(*([None] + stores[r.place] for r in loads)):
                reads_from = dict(zip(loads, choice))
                for order in itertools.product(*(itertools.permutations(w) for w in stores.values())):
                    orders = dict(zip(stores, order))
                    looked += 1
                    if is_bad(test, execution, reads_from, orders) and \
                            execution.is_possible(machine, reads_from, orders):
                        return True, looked
    return False, looked


def run(test, verbose):
    """Prints what differs from what the test says. Returns the numbers of right and wrong verdicts."""
    right = wrong = 0
    for gone, verdicts in [(frozenset(), dict.fromkeys(MACHINES, 'never'))] + test.without:
        marks = {mark for thread in test.threads for _, mark, _ in thread}
        if not gone <= marks:
            fail(f'{test.name}: no statement has the mark {", ".join(sorted(gone - marks))}')
        for machine in MACHINES:
            possible, looked = outcomes(test, machine, gone)
            verdict = 'sometimes' if possible else 'never'
            without = f' without {" and ".join(sorted(gone))}' if gone else ''
            good = verdict == verdicts[machine]
            right, wrong = right + good, wrong + (not good)
            if verbose or not good:
                print(f'{"ok" if good else "WRONG"} {test.name}{without}, {machine}: {verdict}, {looked} executions'
                      + ('' if good else f'; expected {verdicts[machine]}'))
    unused = {m for t in test.threads for _, m, _ in t if m} - {m for gone, _ in test.without for m in gone}
    if unused:
        fail(f'{test.name}: the mark {", ".join(sorted(unused))} is never taken away')
    return right, wrong


def check_labels(tests):
    """Each test but those of the literature shows a barrier that the code and its page name."""
    root = pathlib.Path(__file__).resolve().parents[2]
    sources = [path.read_text(encoding='utf-8') for path in (root / 'src').rglob('*.[ch]')]
    page = (root / 'docs/design/memory-order.md').read_text(encoding='utf-8')
    for test in tests:
        label = re.match(r'[A-Z]+(-[0-9])?', test.name)[0]
        word = re.compile(rf'\b{label}\b')
        if not any(word.search(source) for source in sources) or f'{label} ' not in page.replace(',', ' '):
            fail(f'{test.name}: no barrier {label} in src/ and docs/design/memory-order.md')


def main():
    parser = argparse.ArgumentParser(description='Runs litmus tests exhaustively.')
    parser.add_argument('-v', action='store_true', help='prints each verdict')
    parser.add_argument('files', nargs='*', type=pathlib.Path)
    args = parser.parse_args()
    files = args.files or sorted(pathlib.Path(__file__).resolve().parent.glob('*.litmus'))
    right = wrong = 0
    for path in files:
        tests = parse(path)
        if path.name != 'model.litmus':
            check_labels(tests)
        for test in tests:
            r, w = run(test, args.v)
            right, wrong = right + r, wrong + w
    print(f'{right} verdicts as expected, {wrong} not')
    return 1 if wrong or not right else 0


if __name__ == '__main__':
    sys.exit(main())
