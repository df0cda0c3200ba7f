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
        found = re.fullmatch(r"(-?\d+)(\.\d+)?( \S+)?", cell)
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
            if part in ("N/A",) or part[:1] + part[-1:] == "[]":
                card[key] = None
            elif first.isdigit() and len(rest) <= 1:
                card[key] = int(first)
            elif first.replace(".", "", 1).isdigit() and len(rest) <= 1:
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
