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


# %% wrong: puts .tmp in the place of the ending, which may be .tmp
def save_safely(write, path):
    unfinished = Path(path).with_suffix(".tmp")
    write(unfinished)
    os.replace(unfinished, path)


# %% wrong: splits at the last slash, which a plain name does not have
def save_safely(write, path):
    folder, name = path.rsplit("/", 1)
    unfinished = f"{folder}/.{name}"
    write(unfinished)
    os.replace(unfinished, path)


# %% wrong: replaces an ending that the path need not have
def save_safely(write, path):
    unfinished = path.replace(".pt", ".tmp")
    write(unfinished)
    os.replace(unfinished, path)


# %% wrong: cuts at the first dot, which a folder may have
def save_safely(write, path):
    unfinished = path.split(".")[0] + ".tmp"
    write(unfinished)
    os.replace(unfinished, path)


# %% wrong: takes the ending away, which the path need not have
def save_safely(write, path):
    unfinished = os.path.splitext(path)[0]
    write(unfinished)
    os.replace(unfinished, path)


# %% wrong: returns the path
def save_safely(write, path):
    write(path + ".new")
    os.replace(path + ".new", path)
    return path


# %% wrong: raises an error of its own in the place of the writer's
def save_safely(write, path):
    try:
        write(path + ".new")
    except OSError as error:
        raise OSError("the checkpoint could not be written") from error
    os.replace(path + ".new", path)


# %% wrong: returns quietly whatever happened
def save_safely(write, path):
    try:
        write(path + ".new")
    except BaseException:
        return
    os.replace(path + ".new", path)


# %% wrong: takes a leftover of a killed write for a whole file
def save_safely(write, path):
    if os.path.exists(path + ".new"):
        os.replace(path + ".new", path)
    write(path + ".new")
    os.replace(path + ".new", path)


# %% wrong: refuses to write where a killed write left something
def save_safely(write, path):
    if os.path.exists(path + ".new"):
        raise FileExistsError(path + ".new")
    write(path + ".new")
    os.replace(path + ".new", path)


# %% right: a new name from tempfile, which is removed after an error
import tempfile


def save_safely(write, path):
    handle, name = tempfile.mkstemp(dir=os.path.dirname(os.path.abspath(path)))
    os.close(handle)
    try:
        write(name)
    except BaseException:
        os.unlink(name)
        raise
    os.replace(name, path)


# %% right: a hidden file beside it
def save_safely(write, path):
    folder, name = os.path.split(path)
    unfinished = os.path.join(folder, "." + name + ".tmp")
    write(unfinished)
    os.rename(unfinished, path)


# %% right: a prefix of the name, by rpartition
def save_safely(write, path):
    folder, slash, name = path.rpartition("/")
    unfinished = folder + slash + "unfinished-" + name
    write(unfinished)
    os.replace(src=unfinished, dst=path)


# %% right: by an absolute path
def save_safely(write, path):
    path = Path(path).resolve()
    unfinished = path.parent / ("~" + path.name)
    write(unfinished)
    unfinished.replace(path)


# %% right: by a context manager of its own
import contextlib


@contextlib.contextmanager
def _aside(path):
    unfinished = path + ".part"
    yield unfinished
    os.replace(unfinished, path)


def save_safely(write, path):
    with _aside(path) as target:
        write(target)


# %% right: writes to the disk first, under a name with the time
def save_safely(write, path):
    unfinished = f"{path}.{time.time_ns()}"
    write(unfinished)
    with open(unfinished, "rb") as file:
        os.fsync(file.fileno())
    os.replace(unfinished, path)


# %% right: hands over a Path, beside the old one
def save_safely(write, path):
    unfinished = Path(f"{path}.new")
    write(unfinished)
    os.replace(unfinished, path)


# %% wrong: one name for every unfinished file, which path may have
def save_safely(write, path):
    unfinished = os.path.join(os.path.dirname(path), "checkpoint.tmp")
    write(unfinished)
    os.replace(unfinished, path)


# %% wrong: Ctrl-C ends the saving quietly, and the caller goes on
def save_safely(write, path):
    try:
        write(path + ".new")
    except KeyboardInterrupt:
        return
    os.replace(path + ".new", path)


# %% wrong: another exception in the place of Ctrl-C
def save_safely(write, path):
    try:
        write(path + ".new")
    except KeyboardInterrupt as interrupt:
        raise RuntimeError("interrupted while saving") from interrupt
    os.replace(path + ".new", path)


# %% right: takes away what is torn after Ctrl-C, and passes it on
def save_safely(write, path):
    unfinished = path + ".new"
    try:
        write(unfinished)
    except KeyboardInterrupt:
        Path(unfinished).unlink(missing_ok=True)
        raise
    os.replace(unfinished, path)


# %% right: another name if path has the usual one
def save_safely(write, path):
    folder = os.path.dirname(path)
    unfinished = os.path.join(folder, "a.tmp")
    if os.path.basename(path) == "a.tmp":
        unfinished = os.path.join(folder, "b.tmp")
    write(unfinished)
    os.replace(unfinished, path)


# %% wrong: removes a file that may not be there yet, which hides the error
def save_safely(write, path):
    fresh = path + ".fresh"
    try:
        write(fresh)
    except BaseException:
        os.remove(fresh)
        raise
    os.replace(fresh, path)
