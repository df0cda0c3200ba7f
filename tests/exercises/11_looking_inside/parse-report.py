# %% wrong: every value stays text, with its unit
def parse_report(text):
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines or lines[0].startswith("No devices"):
        return []
    names = [name.strip().split(" [")[0] for name in lines[0].split(",")]
    return [dict(zip(names, map(str.strip, line.split(",")), strict=True)) for line in lines[1:]]


# %% wrong: columns by their place, whatever the header says
def parse_report(text):
    cards = []
    for line in text.splitlines()[1:]:
        if line.strip():
            index, name, used, total, busy = (part.strip() for part in line.split(","))
            numbers = [int(value.split()[0]) for value in (used, total, busy)]
            keys = ("memory.used", "memory.total", "utilization.gpu")
            cards.append(
                {"index": int(index), "name": name, **dict(zip(keys, numbers, strict=True))}
            )
    return cards


def value_of(text):
    text = text.strip()
    words = text.split()
    try:
        number = float(words[0])
    except ValueError:
        return text
    return text if len(words) > 2 else number if "." in words[0] else int(words[0])


# %% wrong: what a card does not tell stays text
def parse_report(text):
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines or lines[0].startswith("No devices"):
        return []
    names = [name.strip().split(" [")[0] for name in lines[0].split(",")]

    def value_of(text):
        text = text.strip()
        words = text.split()
        try:
            number = float(words[0])
        except ValueError:
            return text
        return text if len(words) > 2 else number if "." in words[0] else int(words[0])

    return [dict(zip(names, map(value_of, line.split(",")), strict=True)) for line in lines[1:]]


# %% wrong: the unit stays in the key
def parse_report(text):
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines or lines[0].startswith("No devices"):
        return []
    names = [name.strip() for name in lines[0].split(",")]

    def value_of(text):
        text = text.strip()
        words = text.split()
        if text == "N/A" or text.startswith("["):
            return None
        try:
            number = float(words[0])
        except ValueError:
            return text
        return text if len(words) > 2 else number if "." in words[0] else int(words[0])

    return [dict(zip(names, map(value_of, line.split(",")), strict=True)) for line in lines[1:]]


# %% wrong: takes the first line for a card's where there is no card
def parse_report(text):
    lines = [line for line in text.splitlines() if line.strip()]
    names = [name.strip().split(" [")[0] for name in lines[0].split(",")]

    def value_of(text):
        text = text.strip()
        words = text.split()
        if text == "N/A" or text.startswith("["):
            return None
        try:
            number = float(words[0])
        except ValueError:
            return text
        return text if len(words) > 2 else number if "." in words[0] else int(words[0])

    return [dict(zip(names, map(value_of, line.split(",")), strict=True)) for line in lines[1:]]


# %% wrong: all numbers are floats
def parse_report(text):
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines or lines[0].startswith("No devices"):
        return []
    names = [name.strip().split(" [")[0] for name in lines[0].split(",")]

    def value_of(text):
        text = text.strip()
        words = text.split()
        if text == "N/A" or text.startswith("["):
            return None
        try:
            return float(words[0]) if len(words) < 3 else text
        except ValueError:
            return text

    return [dict(zip(names, map(value_of, line.split(",")), strict=True)) for line in lines[1:]]


# %% wrong: any number in a name is taken for the value
def parse_report(text):
    import re

    lines = [line for line in text.splitlines() if line.strip()]
    if not lines or lines[0].startswith("No devices"):
        return []
    names = [name.strip().split(" [")[0] for name in lines[0].split(",")]

    def value_of(text):
        text = text.strip()
        if text == "N/A" or text.startswith("["):
            return None
        found = re.findall(r"[0-9.]+", text)
        if not found:
            return text
        return float(found[0]) if "." in found[0] else int(found[0])

    return [dict(zip(names, map(value_of, line.split(",")), strict=True)) for line in lines[1:]]


# %% wrong: only the first card
def parse_report(text):
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines or lines[0].startswith("No devices"):
        return []
    names = [name.strip().split(" [")[0] for name in lines[0].split(",")]

    def value_of(text):
        text = text.strip()
        words = text.split()
        if text == "N/A" or text.startswith("["):
            return None
        try:
            number = float(words[0])
        except ValueError:
            return text
        return text if len(words) > 2 else number if "." in words[0] else int(words[0])

    return [dict(zip(names, map(value_of, lines[1].split(",")), strict=True))]


# %% right: by regular expressions, column after column
def parse_report(text):
    import re

    rows = [
        [cell.strip() for cell in line.split(",")] for line in text.splitlines() if line.strip()
    ]
    if not rows or rows[0][0].startswith("No devices"):
        return []

    def value_of(cell):
        if re.fullmatch(r"\[.*\]|N/A", cell):
            return None
        found = re.fullmatch(r"(\d+)(\.\d+)?( \S+)?", cell)
        if not found:
            return cell
        return float(found[1] + found[2]) if found[2] else int(found[1])

    header = [re.sub(r" \[.*", "", cell) for cell in rows[0]]
    return [
        {key: value_of(cell) for key, cell in zip(header, row, strict=True)} for row in rows[1:]
    ]


# %% right: digits are looked at one by one
def parse_report(text):
    header, cards = None, []
    for line in text.split("\n"):
        parts = [part.strip() for part in line.split(",")]
        if line.strip() == "" or parts[0] == "No devices were found":
            continue
        if header is None:
            header = [part.split("[")[0].strip() for part in parts]
            continue
        card = {}
        for key, part in zip(header, parts, strict=True):
            first, *rest = part.split(" ")
            whole, _, after = first.partition(".")
            if part in ("N/A",) or part[:1] + part[-1:] == "[]":
                card[key] = None
            elif first.isdigit() and len(rest) <= 1:
                card[key] = int(first)
            elif whole.isdigit() and after.isdigit() and len(rest) <= 1:
                card[key] = float(first)
            else:
                card[key] = part
        cards.append(card)
    return cards


# %% wrong: a number at the beginning is enough, so versions are cut
import re


def parse_report(text):
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines or lines[0].startswith("No devices"):
        return []
    names = [name.strip().split(" [")[0] for name in lines[0].split(",")]

    def read(value):
        value = value.strip()
        if value == "N/A" or value.startswith("["):
            return None
        found = re.match(r"(\d+)(\.\d+)?", value)
        if found is None or len(value.split()) > 2:
            return value
        return float(found[0]) if found[2] else int(found[1])

    return [dict(zip(names, map(read, line.split(",")), strict=True)) for line in lines[1:]]


# %% wrong: knows only the units of the example
def parse_report(text):
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines or lines[0].startswith("No devices"):
        return []
    names = [name.strip().split(" [")[0] for name in lines[0].split(",")]

    def read(value):
        value = value.strip()
        if value == "N/A" or value.startswith("["):
            return None
        for unit in (" MiB", " %", " W"):
            value = value.removesuffix(unit)
        if value.replace(".", "", 1).isdigit():
            return float(value) if "." in value else int(value)
        return value

    return [dict(zip(names, map(read, line.split(",")), strict=True)) for line in lines[1:]]


# %% wrong: stops at the first empty line
def parse_report(text):
    head, *lines = text.split("\n")
    if not head.strip() or head.startswith("No devices"):
        return []
    names = [name.strip().split(" [")[0] for name in head.split(",")]
    cards = []
    for line in lines:
        if not line.strip():
            break
        cards.append(dict(zip(names, map(number_or_text, line.split(",")), strict=True)))
    return cards


def number_or_text(text):
    text = text.strip()
    if text == "N/A" or (text.startswith("[") and text.endswith("]")):
        return None
    words = text.split()
    number = words[0] if words else ""
    if len(words) > 2 or not number.replace(".", "", 1).isdigit():
        return text
    return float(number) if "." in number else int(number)


# %% wrong: everything that float() takes is a number
def parse_report(text):
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines or lines[0].startswith("No devices"):
        return []
    names = [name.strip().split(" [")[0] for name in lines[0].split(",")]

    def value_of(text):
        text = text.strip()
        words = text.split()
        if text == "N/A" or text.startswith("["):
            return None
        try:
            number = float(words[0])
        except ValueError:
            return text
        if len(words) > 2:
            return text
        return int(words[0]) if words[0].isdigit() else number

    return [dict(zip(names, map(value_of, line.split(",")), strict=True)) for line in lines[1:]]


# %% wrong: a float that is whole becomes an int
import re


def parse_report(text):
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines or lines[0].strip() == "No devices were found":
        return []
    names = [re.sub(r"\s*\[[^\]]*\]$", "", n.strip()) for n in lines[0].split(",")]

    def value(entry):
        if entry == "N/A" or (entry.startswith("[") and entry.endswith("]")):
            return None
        m = re.fullmatch(r"(\d+(?:\.\d+)?)(?:\s+\S+)?", entry)
        if m:
            return int(float(m[1])) if float(m[1]).is_integer() else float(m[1])
        return entry

    return [
        {n: value(e.strip()) for n, e in zip(names, line.split(","), strict=True)}
        for line in lines[1:]
    ]


# %% wrong: a minus sign belongs to the number
import re


def parse_report(text):
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines or lines[0].strip() == "No devices were found":
        return []
    names = [re.sub(r"\s*\[[^\]]*\]$", "", n.strip()) for n in lines[0].split(",")]

    def value(entry):
        if entry == "N/A" or (entry.startswith("[") and entry.endswith("]")):
            return None
        m = re.fullmatch(r"(-?\d+(?:\.\d+)?)(?:\s+\S+)?", entry)
        if m:
            return float(m[1]) if "." in m[1] else int(m[1])
        return entry

    return [
        {n: value(e.strip()) for n, e in zip(names, line.split(","), strict=True)}
        for line in lines[1:]
    ]


# %% wrong: a dot without digits on one side of it
import re


def parse_report(text):
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines or lines[0].strip() == "No devices were found":
        return []
    names = [re.sub(r"\s*\[[^\]]*\]$", "", n.strip()) for n in lines[0].split(",")]

    def value(entry):
        if entry == "N/A" or (entry.startswith("[") and entry.endswith("]")):
            return None
        m = re.fullmatch(r"(\d*\.?\d+|\d+\.)(?:\s+\S+)?", entry)
        if m:
            return float(m[1]) if "." in m[1] else int(m[1])
        return entry

    return [
        {n: value(e.strip()) for n, e in zip(names, line.split(","), strict=True)}
        for line in lines[1:]
    ]


# %% wrong: whatever int() takes is a number
import re


def parse_report(text):
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines or lines[0].strip() == "No devices were found":
        return []
    names = [re.sub(r"\s*\[[^\]]*\]$", "", n.strip()) for n in lines[0].split(",")]

    def value(entry):
        if entry == "N/A" or (entry.startswith("[") and entry.endswith("]")):
            return None
        m = re.fullmatch(r"(\d+(?:\.\d+)?)(?:\s+\S+)?", entry)
        w = entry.split()
        try:
            if len(w) < 3:
                return int(w[0])
        except ValueError:
            pass
        if m:
            return float(m[1]) if "." in m[1] else int(m[1])
        return entry

    return [
        {n: value(e.strip()) for n, e in zip(names, line.split(","), strict=True)}
        for line in lines[1:]
    ]


# %% wrong: an empty line in front of the names is taken for them
import re


def parse_report(text):
    lines = text.splitlines()
    lines = lines[:1] + [x for x in lines[1:] if x.strip()]
    if not lines or lines[0].strip() == "No devices were found":
        return []
    names = [re.sub(r"\s*\[[^\]]*\]$", "", n.strip()) for n in lines[0].split(",")]

    def value(entry):
        if entry == "N/A" or (entry.startswith("[") and entry.endswith("]")):
            return None
        m = re.fullmatch(r"(\d+(?:\.\d+)?)(?:\s+\S+)?", entry)
        if m:
            return float(m[1]) if "." in m[1] else int(m[1])
        return entry

    return [
        {n: value(e.strip()) for n, e in zip(names, line.split(","), strict=True)}
        for line in lines[1:]
    ]


# %% wrong: brackets anywhere in a value make it None
import re


def parse_report(text):
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines or lines[0].strip() == "No devices were found":
        return []
    names = [re.sub(r"\s*\[[^\]]*\]$", "", n.strip()) for n in lines[0].split(",")]

    def value(entry):
        if entry == "N/A" or ("[" in entry and "]" in entry):
            return None
        m = re.fullmatch(r"(\d+(?:\.\d+)?)(?:\s+\S+)?", entry)
        if m:
            return float(m[1]) if "." in m[1] else int(m[1])
        return entry

    return [
        {n: value(e.strip()) for n, e in zip(names, line.split(","), strict=True)}
        for line in lines[1:]
    ]


# %% wrong: a unit without a blank before it
import re


def parse_report(text):
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines or lines[0].strip() == "No devices were found":
        return []
    names = [re.sub(r"\s*\[[^\]]*\]$", "", n.strip()) for n in lines[0].split(",")]

    def value(entry):
        if entry == "N/A" or (entry.startswith("[") and entry.endswith("]")):
            return None
        m = re.fullmatch(r"(\d+(?:\.\d+)?)(?:\s*[A-Za-z%]+)?", entry)
        if m:
            return float(m[1]) if "." in m[1] else int(m[1])
        return entry

    return [
        {n: value(e.strip()) for n, e in zip(names, line.split(","), strict=True)}
        for line in lines[1:]
    ]


# %% right: the standard library reads the table
import csv
import re

NUMBER = re.compile(r"(?P<number>\d+(\.\d+)?)( +[^ ]+)?")


def parse_report(text: str) -> list[dict]:
    lines = text.strip().split("\n")
    lines = [line for line in lines if line.strip() != ""]
    table = csv.DictReader(lines)
    result = []
    for record in table:
        new = {}
        for column, entry in record.items():
            column = column.strip().split(" ")[0]
            entry = entry.strip()
            if entry == "N/A" or re.fullmatch(r"\[.*\]", entry):
                new[column] = None
            elif found := NUMBER.fullmatch(entry):
                number = found["number"]
                new[column] = float(number) if "." in number else int(number)
            else:
                new[column] = entry
        result.append(new)
    return result


# %% right: a class, and patterns of words
import re
from dataclasses import dataclass


@dataclass
class Report:
    text: str

    @property
    def lines(self):
        return [line.strip() for line in self.text.splitlines() if line.strip()]

    @staticmethod
    def cell(raw):
        match raw.split():
            case ["N/A"]:
                return None
            case [n] | [n, _] if re.fullmatch("[0-9]+([.][0-9]+)?", n):
                return float(n) if "." in n else int(n)
        return None if raw[:1] == "[" and raw[-1] == "]" else raw

    def parse(self):
        if not self.lines:
            return []
        head, *body = ([c.strip() for c in line.split(",")] for line in self.lines)
        head = [h.split(" [")[0].strip() for h in head]
        return [{k: self.cell(v) for k, v in zip(head, row, strict=True)} for row in body]


def parse_report(text):
    return Report(text).parse()


# %% wrong: knows the values in brackets of the usual reports only
import re


def parse_report(text):
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines or lines[0].strip() == "No devices were found":
        return []
    names = [re.sub(r"\s*\[[^\]]*\]$", "", n.strip()) for n in lines[0].split(",")]

    def value(entry):
        if entry in (
            "N/A",
            "[N/A]",
            "[Not Supported]",
            "[Unknown Error]",
            "[Insufficient Permissions]",
        ):
            return None
        m = re.fullmatch(r"(\d+(?:\.\d+)?)(?:\s+\S+)?", entry)
        if m:
            return float(m[1]) if "." in m[1] else int(m[1])
        return entry

    return [
        {n: value(e.strip()) for n, e in zip(names, line.split(","), strict=True)}
        for line in lines[1:]
    ]


# %% wrong: a list of the units that nvidia-smi has for memory, time and heat
import re


def parse_report(text):
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines or lines[0].strip() == "No devices were found":
        return []
    names = [re.sub(r"\s*\[[^\]]*\]$", "", n.strip()) for n in lines[0].split(",")]

    def value(entry):
        if entry == "N/A" or (entry.startswith("[") and entry.endswith("]")):
            return None
        m = re.fullmatch(
            r"(\d+(?:\.\d+)?)(?:\s+(?:MiB|GiB|%|W|C|MHz|KB/s|MB/s|V|ms|us|mJ|J))?", entry
        )
        if m:
            return float(m[1]) if "." in m[1] else int(m[1])
        return entry

    return [
        {n: value(e.strip()) for n, e in zip(names, line.split(","), strict=True)}
        for line in lines[1:]
    ]


# %% wrong: a number with a dot needs a unit
import re


def parse_report(text):
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines or lines[0].strip() == "No devices were found":
        return []
    names = [re.sub(r"\s*\[[^\]]*\]$", "", n.strip()) for n in lines[0].split(",")]

    def value(entry):
        if entry == "N/A" or (entry.startswith("[") and entry.endswith("]")):
            return None
        m = re.fullmatch(r"(\d+)(?:\s+\S+)?|(\d+\.\d+)\s+\S+", entry)
        if m:
            return int(m[1]) if m[1] else float(m[2])
        return entry

    return [
        {n: value(e.strip()) for n, e in zip(names, line.split(","), strict=True)}
        for line in lines[1:]
    ]


# %% wrong: an empty value becomes None
import re


def parse_report(text):
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines or lines[0].strip() == "No devices were found":
        return []
    names = [re.sub(r"\s*\[[^\]]*\]$", "", n.strip()) for n in lines[0].split(",")]

    def value(entry):
        if entry in ("", "N/A") or (entry.startswith("[") and entry.endswith("]")):
            return None
        m = re.fullmatch(r"(\d+(?:\.\d+)?)(?:\s+\S+)?", entry)
        if m:
            return float(m[1]) if "." in m[1] else int(m[1])
        return entry

    return [
        {n: value(e.strip()) for n, e in zip(names, line.split(","), strict=True)}
        for line in lines[1:]
    ]


# %% wrong: the first word of an empty value is asked for
import re


def parse_report(text):
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines or lines[0].strip() == "No devices were found":
        return []
    names = [re.sub(r"\s*\[[^\]]*\]$", "", n.strip()) for n in lines[0].split(",")]

    def value(entry):
        if entry == "N/A" or (entry.startswith("[") and entry.endswith("]")):
            return None
        words = entry.split()
        if re.fullmatch(r"\d+(\.\d+)?", words[0]) and len(words) < 3:
            return float(words[0]) if "." in words[0] else int(words[0])
        return entry

    return [
        {n: value(e.strip()) for n, e in zip(names, line.split(","), strict=True)}
        for line in lines[1:]
    ]


# %% wrong: units of letters and % alone
def parse_report(text):
    import re

    def value_of(value):
        if value == "N/A" or (value.startswith("[") and value.endswith("]")):
            return None
        found = re.fullmatch(r"([0-9]+)(\.[0-9]+)?( [A-Za-z%]+)?", value)
        if not found:
            return value
        return float(found[1] + found[2]) if found[2] else int(found[1])

    lines = [line for line in text.splitlines() if line.strip()]
    if not lines or lines[0].strip() == "No devices were found":
        return []
    keys = [name.split("[")[0].strip() for name in lines[0].split(",")]
    rows = ([part.strip() for part in line.split(",")] for line in lines[1:])
    return [dict(zip(keys, map(value_of, row), strict=True)) for row in rows]


# %% wrong: None wherever N/A stands in the value
def parse_report(text):
    import re

    def value_of(value):
        if "N/A" in value or (value.startswith("[") and value.endswith("]")):
            return None
        found = re.fullmatch(r"([0-9]+)(\.[0-9]+)?( \S+)?", value)
        if not found:
            return value
        return float(found[1] + found[2]) if found[2] else int(found[1])

    lines = [line for line in text.splitlines() if line.strip()]
    if not lines or lines[0].strip() == "No devices were found":
        return []
    keys = [name.split("[")[0].strip() for name in lines[0].split(",")]
    rows = ([part.strip() for part in line.split(",")] for line in lines[1:])
    return [dict(zip(keys, map(value_of, row), strict=True)) for row in rows]


# %% wrong: None for n/a in small letters, too
def parse_report(text):
    import re

    def value_of(value):
        if value.upper() == "N/A" or (value.startswith("[") and value.endswith("]")):
            return None
        found = re.fullmatch(r"([0-9]+)(\.[0-9]+)?( \S+)?", value)
        if not found:
            return value
        return float(found[1] + found[2]) if found[2] else int(found[1])

    lines = [line for line in text.splitlines() if line.strip()]
    if not lines or lines[0].strip() == "No devices were found":
        return []
    keys = [name.split("[")[0].strip() for name in lines[0].split(",")]
    rows = ([part.strip() for part in line.split(",")] for line in lines[1:])
    return [dict(zip(keys, map(value_of, row), strict=True)) for row in rows]


# %% wrong: whole numbers through float, which cuts off digits
def parse_report(text):
    import re

    def value_of(value):
        if value == "N/A" or (value.startswith("[") and value.endswith("]")):
            return None
        found = re.fullmatch(r"([0-9]+)(\.[0-9]+)?( \S+)?", value)
        if not found:
            return value
        return float(found[1] + found[2]) if found[2] else int(float(found[1]))

    lines = [line for line in text.splitlines() if line.strip()]
    if not lines or lines[0].strip() == "No devices were found":
        return []
    keys = [name.split("[")[0].strip() for name in lines[0].split(",")]
    rows = ([part.strip() for part in line.split(",")] for line in lines[1:])
    return [dict(zip(keys, map(value_of, row), strict=True)) for row in rows]


# %% wrong: numbers that begin with 0 stay text
def parse_report(text):
    import re

    def value_of(value):
        if value == "N/A" or (value.startswith("[") and value.endswith("]")):
            return None
        found = re.fullmatch(r"(0|[1-9][0-9]*)(\.[0-9]+)?( \S+)?", value)
        if not found:
            return value
        return float(found[1] + found[2]) if found[2] else int(found[1])

    lines = [line for line in text.splitlines() if line.strip()]
    if not lines or lines[0].strip() == "No devices were found":
        return []
    keys = [name.split("[")[0].strip() for name in lines[0].split(",")]
    rows = ([part.strip() for part in line.split(",")] for line in lines[1:])
    return [dict(zip(keys, map(value_of, row), strict=True)) for row in rows]


# %% wrong: sorts the GPUs by their index, whatever the order of the lines
def parse_report(text):
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines or lines[0].startswith("No devices"):
        return []
    names = [name.strip().split(" [")[0] for name in lines[0].split(",")]
    found = [dict(zip(names, map(read_value, line.split(",")), strict=True)) for line in lines[1:]]
    return sorted(found, key=lambda gpu: gpu.get("index", 0))


def read_value(text):
    text = text.strip()
    if text == "N/A" or (text[:1], text[-1:]) == ("[", "]"):
        return None
    first, *unit = text.split(" ") if text else [""]
    whole, dot, rest = first.partition(".")
    if len(unit) > 1 or not whole.isdigit() or (dot and not rest.isdigit()):
        return text
    return float(first) if dot else int(first)


# %% wrong: reads no more than the first five columns
def parse_report(text):
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines or lines[0].startswith("No devices"):
        return []
    names = [name.strip().split(" [")[0] for name in lines[0].split(",")][:5]
    return [
        dict(zip(names, map(read_value, line.split(",")[:5]), strict=True)) for line in lines[1:]
    ]


def read_value(text):
    text = text.strip()
    if text == "N/A" or (text[:1], text[-1:]) == ("[", "]"):
        return None
    first, *unit = text.split(" ") if text else [""]
    whole, dot, rest = first.partition(".")
    if len(unit) > 1 or not whole.isdigit() or (dot and not rest.isdigit()):
        return text
    return float(first) if dot else int(first)


# %% wrong: writes the names of columns in lower case
def parse_report(text):
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines or lines[0].startswith("No devices"):
        return []
    names = [name.strip().lower().split(" [")[0] for name in lines[0].split(",")]
    return [dict(zip(names, map(read_value, line.split(",")), strict=True)) for line in lines[1:]]


def read_value(text):
    text = text.strip()
    if text == "N/A" or (text[:1], text[-1:]) == ("[", "]"):
        return None
    first, *unit = text.split(" ") if text else [""]
    whole, dot, rest = first.partition(".")
    if len(unit) > 1 or not whole.isdigit() or (dot and not rest.isdigit()):
        return text
    return float(first) if dot else int(first)


# %% wrong: takes a value for a number only if its unit has no digits
import re


def parse_report(text):
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines or lines[0].startswith("No devices"):
        return []
    names = [name.strip().split(" [")[0] for name in lines[0].split(",")]
    return [
        {name: value_of(part.strip()) for name, part in zip(names, line.split(","), strict=True)}
        for line in lines[1:]
    ]


def value_of(text):
    if text == "N/A" or re.fullmatch(r"\[.*\]", text):
        return None
    found = re.fullmatch(r"([0-9]+)(\.[0-9]+)?( +[^0-9 ]+)?", text)
    if found is None:
        return text
    return float(found[1] + found[2]) if found[2] else int(found[1])
