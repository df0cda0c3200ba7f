"""An exercise's reach: its solution, and what of the student's other cells that uses.

Only the reach runs when an exercise is judged, so a stray cell elsewhere costs nobody a point. A
cell belongs to the reach if it

- binds a global name that a cell of the reach uses: as a function, a class, a variable, an import,
  by ``global`` inside a function, or by taking it away;
- changes the object behind such a name: stores or deletes an attribute or an item, calls a method
  that may change it, or hands it to a function that changes what it is given;
- calls a function that changes such an object, as decorators that fill a table do.

It does not belong to the reach if it only *uses* what the reach defines: ``print(softmax(x))``, a
plot, a check. Of modules, too, only the binding counts: ``torch.manual_seed(0)`` in a stray cell is
no part of anybody's solution. Where the course, or the cell itself, imports the same thing by the
same name, another import of it is not needed.

Order matters as it does in a notebook that is run from its top. What a cell binds itself before it
uses it comes from nowhere else; what a function uses that its cell binds may only be changed below.
The course's own cells are not returned, but what they use of the student's is.

In doubt a cell belongs to the reach: a helper that is missing would cost an honest student more
than a cell too many.
"""

from __future__ import annotations

import builtins
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass

from helpers.reading.cells import Cell
from helpers.reading.uses import Call, Function, Uses, changes_given, find_uses, is_reading
from helpers.reading.words import words

# What modules' functions do to what they are given, beside those whose names end in "_".
_CHANGING = words("""
    delitem heapify heappop heappush heappushpop heapreplace insort insort_left insort_right setitem
    shuffle update_wrapper
""")
# Built-in functions that are hidden where all of a module is imported.
_HIDDEN = words("abs all any divmod max min pow round sum")
_HIDDEN_BY = {
    "math": words("pow"),
    "numpy": _HIDDEN,
    "operator": words("abs pow"),
    "pylab": _HIDDEN,
    "torch": _HIDDEN,
}
_MOST_FOLLOWED = 200  # functions called by functions: beyond that nobody means it


def find_reach(cells: Sequence[Cell], solution: int, wanted: Iterable[str] = ()) -> list[int]:
    """Return the positions of the cells that the exercise's solution reaches, in order.

    Args:
        cells: those that count for the exercise's test.
        solution: the position of the exercise's own cell.
        wanted: further names that are asked for, such as those that the test calls.
    """
    return _Search(cells).run(solution, wanted)


def find_standing(cells: Sequence[Cell]) -> list[int]:
    """Return the positions of the cells that still count after all have run, in order.

    A student's cell that was edited and run again no longer counts, where all that it bound was
    bound anew, or is used by no cell below that counts.
    """
    standing: list[int] = []
    bound_below: set[str] = set()
    used_below: set[str] = set()
    for place in range(len(cells) - 1, -1, -1):
        uses = find_uses(cells[place].code)
        names = set(uses.bound)
        is_edited = not names.isdisjoint(bound_below)
        left_over = names - bound_below
        is_replaced = is_edited and left_over.isdisjoint(used_below) and uses.changed <= names
        if cells[place].is_course or not is_replaced:
            standing.append(place)
            used_below |= uses.at_once | (uses.later - uses.firm)
        if not cells[place].is_course:
            bound_below |= uses.firm
    return standing[::-1]


def binds(cell: Cell, names: Iterable[str]) -> bool:
    """Return whether a cell binds one of these global names."""
    return not find_uses(cell.code).bound.keys().isdisjoint(names)


@dataclass(frozen=True)
class _Asked:
    """A name, and the positions between which a cell counts that binds or changes it."""

    name: str
    above: int
    below: int


class _Search:
    def __init__(self, cells: Sequence[Cell]) -> None:
        self._cells = cells
        self._uses = [find_uses(cell.code) for cell in cells]
        self._binders: dict[str, list[int]] = defaultdict(list)
        for place, uses in enumerate(self._uses):
            for name in uses.bound:
                self._binders[name].append(place)
        self._seen: set[int] = set()
        self._found: set[int] = set()

    def run(self, solution: int, wanted: Iterable[str]) -> list[int]:
        students = (place for place, cell in enumerate(self._cells) if not cell.is_course)
        self._changers = find_changers(self._uses, students, self._defined(solution))
        self._found.add(solution)
        waiting = list(self._asked_by(solution))
        waiting += (
            self._asked_of(name, solution) for name in self._names_to_call(solution, wanted)
        )
        asked: set[_Asked] = set()
        while waiting:
            question = waiting.pop()
            if question in asked:
                continue
            asked.add(question)
            for place in self._answers(question):
                waiting += self._asked_by(place)
        return sorted(self._found)

    def _names_to_call(self, solution: int, wanted: Iterable[str]) -> set[str]:
        return {*wanted, *self._defined(solution)}

    def _defined(self, place: int) -> set[str]:
        bound = self._uses[place].bound
        return {name for name, how in bound.items() if how & {"def", "class"}}

    def _asked_by(self, place: int) -> Iterator[_Asked]:
        """Ask for what a cell uses, once."""
        if place in self._seen:
            return
        self._seen.add(place)
        uses = self._uses[place]
        for name in uses.at_once:
            is_above = any(binder < place for binder in self._binders[name][:1])
            yield _Asked(name, -1, place if is_above else len(self._cells))
        for name in uses.later:
            yield self._asked_of(name, place)

    def _asked_of(self, name: str, place: int) -> _Asked:
        """Ask for a name that is used after all cells have run."""
        return _Asked(name, place if name in self._uses[place].firm else -1, len(self._cells))

    def _answers(self, asked: _Asked) -> Iterator[int]:
        """Return the cells that answer, the course's too, and keep the student's."""
        binders = self._needed_binders(asked)
        changers = () if self._is_import(asked.name) else self._changers[asked.name]
        for place in {*binders, *changers, *self._star_imports(asked.name)}:
            if asked.above < place < asked.below:
                if not self._cells[place].is_course:
                    self._found.add(place)
                yield place

    def _needed_binders(self, asked: _Asked) -> list[int]:
        binders = [b for b in self._binders[asked.name] if asked.above < b < asked.below]
        if not self._is_import(asked.name):
            return binders
        courses = [place for place in binders if self._cells[place].is_course]
        return courses[:1] or binders[:1]

    def _is_import(self, name: str) -> bool:
        """Return whether a name is nothing but one import, wherever it is bound."""
        how = {how for place in self._binders[name] for how in self._uses[place].bound[name]}
        return len(how) == 1 and how.pop().startswith("import ")

    def _star_imports(self, name: str) -> list[int]:
        if self._binders[name]:
            return []
        is_builtin = hasattr(builtins, name)
        return [
            place
            for place, uses in enumerate(self._uses)
            if any(not is_builtin or name in _HIDDEN_BY.get(m, ()) for m in uses.imports_all)
        ]


def find_changers(
    uses: Sequence[Uses], places: Iterable[int], own: Set[str]
) -> dict[str, list[int]]:
    """Return, for each name, the places where its object is changed.

    Args:
        uses: of cells, or of statements.
        places: those of them that are asked about.
        own: names of the functions and classes whose calls are tries.
    """
    effects = _Effects(uses, own)
    changers: dict[str, list[int]] = defaultdict(list)
    for place in places:
        changed = set(uses[place].changed)
        for call in uses[place].calls:
            changed |= effects.of_call(call)
        for base in uses[place].bases:
            changed |= effects.of_subclassing(base)
        for name in effects.behind(changed):
            if not effects.is_builtin(name):
                changers[name].append(place)
    return changers


class _Effects:
    """What calls change, as far as the notebook's cells show."""

    def __init__(self, uses: Sequence[Uses], own: Set[str]) -> None:
        self._functions: dict[str, list[Function]] = defaultdict(list)
        self._methods: dict[str, list[Function]] = defaultdict(list)
        self._how: dict[str, set[str]] = defaultdict(set)
        self._aliases: dict[str, set[str]] = defaultdict(set)
        self._own = own
        for place, of_cell in enumerate(uses):
            for name, how in of_cell.bound.items():
                self._how[name] |= how
            for name, others in of_cell.aliases.items():
                # What is no name is a place in its cell, and of another cell's it is another.
                key = name if name.isidentifier() else f"{place}:{name}"
                self._aliases[key] |= {n if n.isidentifier() else f"{place}:{n}" for n in others}
            for name, function in of_cell.functions.items():
                owner, _, method = name.rpartition(".")
                (self._methods[method] if owner else self._functions[name]).append(function)
                if method in ("__init__", "__new__"):
                    self._functions[owner].append(function)
                if method == "__init_subclass__":
                    self._functions[name].append(function)
        self._known: dict[str, tuple[frozenset[str], bool]] = {}

    def of_call(self, call: Call) -> set[str]:
        """Return the names whose objects a call changes."""
        if self._is_import(call.name):
            changes = (call.method or call.name).endswith("_") or bool(
                {call.method or call.name} & _CHANGING
            )
            return set(call.handed) if changes else set()
        return self._of_method(call) if call.method else self._of_function(call)

    def is_builtin(self, name: str) -> bool:
        """Return whether a name is Python's own wherever it stands: nothing changes its object."""
        return name not in self._how and hasattr(builtins, name)

    def of_subclassing(self, base: str) -> set[str]:
        """Return the names whose objects a new class below ``base`` changes."""
        hook = f"{base}.__init_subclass__"
        return {base, *self._of_name(hook)[0]} if hook in self._functions else set()

    def behind(self, names: Iterable[str]) -> set[str]:
        """Return ``names`` and those for whose objects they stand as well."""
        found = set(names)
        waiting = list(found)
        while waiting:
            new = self._aliases.get(waiting.pop(), set()) - found
            found |= new
            waiting += new
        return found

    def _of_method(self, call: Call) -> set[str]:
        methods = self._methods.get(call.method)
        if self.is_builtin(call.name):
            return set(call.handed) if changes_given(call.name, call.method) else set()
        if not methods:
            return set() if is_reading(call.method) else {call.name}
        changed: set[str] = set()
        if call.place != "part":
            changed.update(name for method in methods for name in method.changed)
        if any(method.changes_owner for method in methods):
            changed.add(call.name)
        if any(method.changes_arguments for method in methods):
            changed |= call.handed
        return changed

    def _of_function(self, call: Call) -> set[str]:
        if call.name not in self._functions:
            # What it is cannot be told, but not a function of Python's own.
            is_unknown = "value" in self._how.get(call.name, ())
            return {name for name in call.handed if self._is_no_function(name) and is_unknown}
        changed, changes_arguments = self._of_name(call.name)
        registers = any(self._how.get(name, set()) & {"def", "class"} for name in call.handed)
        is_meant = call.place != "part" or registers
        if call.name in self._own:
            is_meant = call.place == "decorator"
        return {*(changed if is_meant else ()), *(call.handed if changes_arguments else ())}

    def _of_name(self, name: str) -> tuple[frozenset[str], bool]:
        """Return what a function changes, with all that it calls."""
        if name not in self._known:
            changed: set[str] = set()
            for function in self._follow(name, lambda function: function.called):
                changed |= function.changed
            given = self._follow(name, lambda function: function.handed_on)
            self._known[name] = frozenset(changed), any(f.changes_arguments for f in given)
        return self._known[name]

    def _follow(self, name: str, leads_to: Callable[[Function], set[str]]) -> Iterator[Function]:
        seen, waiting = {name}, [name]
        while waiting and len(seen) < _MOST_FOLLOWED:
            for function in self._functions.get(waiting.pop(), ()):
                yield function
                new = leads_to(function) - seen
                seen |= new
                waiting += new

    def _is_import(self, name: str) -> bool:
        how = self._how.get(name, set())
        return bool(how) and all(h.startswith("import ") for h in how)

    def _is_no_function(self, name: str) -> bool:
        return "def" not in self._how.get(name, set())
