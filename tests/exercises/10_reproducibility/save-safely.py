# %% wrong: straight into the old file
def save_safely(write, path):
    write(path)


# %% wrong: moves the old one away first, so that for a while there is none
def save_safely(write, path):
    if os.path.exists(path):
        os.replace(path, path + ".old")
    write(path)


# %% wrong: an error is swallowed, and the torn file takes the place of the good one
def save_safely(write, path):
    try:
        write(path + ".new")
    except OSError as error:
        print(error)
    os.replace(path + ".new", path)


# %% wrong: the torn file is put into place even if the write was cut off
def save_safely(write, path):
    try:
        write(path + ".new")
    finally:
        os.replace(path + ".new", path)


# %% wrong: in another folder, perhaps on another disk
def save_safely(write, path):
    unfinished = os.path.join(os.path.dirname(path), "..", "unfinished.pt")
    write(unfinished)
    os.replace(unfinished, path)


# %% wrong: written well, and left under the other name
def save_safely(write, path):
    write(path + ".new")


# %% wrong: the error is hidden from the caller
def save_safely(write, path):
    try:
        write(path + ".new")
        os.replace(path + ".new", path)
    except OSError as error:
        print("not saved:", error)


# %% wrong: copies, and whoever is killed meanwhile has a torn file
def save_safely(write, path):
    write(path + ".new")
    Path(path).write_bytes(Path(path + ".new").read_bytes())


# %% right: with the paths of pathlib
def save_safely(write, path):
    target = Path(path)
    unfinished = target.with_name(target.name + ".partial")
    write(str(unfinished))
    unfinished.replace(target)


# %% right: takes away what is torn, and passes the error on
def save_safely(write, path):
    unfinished = f"{path}.{os.getpid()}"
    try:
        write(unfinished)
    except BaseException:
        if os.path.exists(unfinished):
            os.remove(unfinished)
        raise
    os.replace(unfinished, path)


# %% wrong: removes the old one before the new one takes its place
def save_safely(write, path):
    write(path + ".new")
    if os.path.exists(path):
        os.remove(path)
    os.rename(path + ".new", path)


# %% right: renamed, which puts it into the old one's place here as well
def save_safely(write, path):
    write(path + ".new")
    Path(path + ".new").rename(path)


# %% wrong: empties the old one just before the new one takes its place
def save_safely(write, path):
    write(path + ".new")
    open(path, "w").close()
    os.replace(path + ".new", path)


# %% wrong: a path without a folder leads to the root of the disk
def save_safely(write, path):
    unfinished = os.path.dirname(path) + "/unfinished.pt"
    write(unfinished)
    os.replace(unfinished, path)


# %% wrong: writes twice, first to see whether it works
def save_safely(write, path):
    write(path + ".tried")
    write(path + ".new")
    os.replace(path + ".new", path)


# %% right: hands over a Path, beside the old one
def save_safely(write, path):
    unfinished = Path(path).with_suffix(".new")
    write(unfinished)
    os.replace(unfinished, path)
