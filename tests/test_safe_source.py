"""What the source never does: unpickle, evaluate text, call a shell, or write a file that can be met half-written."""

import ast
import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "lln"
TREES = {str(path.relative_to(SOURCE)): ast.parse(path.read_text()) for path in sorted(SOURCE.rglob("*.py"))}
FORBIDDEN_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "yaml", "pty", "runpy"}
FORBIDDEN_CALLS = {
    "eval",
    "exec",
    "compile",
    "__import__",
    "os.system",
    "os.popen",
    "torch.load",
    "torch.save",
    "torch.jit.load",
    "pd.read_pickle",
    "pandas.read_pickle",
    "tempfile.mktemp",
}
# Programs are started with a list of words, never through a shell. Which file starts which, and why:
PROGRAMS = {
    "core/provenance.py": "git, to store the commit of a result",
    "data/read/sandbox.py": "a reader of its own process for files that may crash a C library",
    "export/c/export.py": "the C compiler and what it made, to try an export",
    "plots/animate.py": "ffmpeg, to write a film",
}
# Modules that can go over the network, and which file may use one, and for what.
NETWORK_MODULES = {
    *("aiohttp", "asyncio", "dask", "distributed", "fsspec", "ftplib", "http", "httpx", "imaplib", "optuna", "poplib"),
    *("requests", "smtplib", "socket", "socketserver", "sqlalchemy", "ssl", "telnetlib", "urllib", "urllib3"),
    *("webbrowser", "websockets", "xmlrpc"),
}
NETWORK = {
    "tuning/storage.py": "the database of a search, at the address that --storage names",
    "view/page/build.py": "opens a page on this machine in the user's browser",
    "core/workers.py": "the scheduler, at the address that --scheduler names",
}
# Writers in the source that do not go through whole_file, and why a reader cannot meet their half.
WRITERS = {
    "data/read/sandbox_worker.py": "a pipe to the process that asked",
    "data/read/formats.py": "each format is written to the path that whole_file gave",
    "plots/style.py": "a picture in memory, for a notebook",
    "paper/identify.py": "a line of a search is appended; a torn last line is one trial less",
    "paper/records.py": "a line is appended under a lock, and a torn last line is cut off when it is next opened",
    "core/safe_files.py": "a file in this user's own folder, then replaced; a checksum leads the file",
}
WRITES = {"write_text", "write_bytes", "savefig", "tofile", "savez", "save_file"}


def calls(tree):
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call)]


def imported(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def faults(tree):
    """What in a module could run somebody else's code."""
    found = [name for name in imported(tree) if name.partition(".")[0] in FORBIDDEN_MODULES]
    for call in calls(tree):
        name = ast.unparse(call.func)
        if name in FORBIDDEN_CALLS:
            found.append(name)
        words = {keyword.arg: keyword.value for keyword in call.keywords}
        allowed = words.get("allow_pickle")
        reads = name.endswith(("np.load", "numpy.load", "format.read_array"))
        if (allowed is not None or reads) and not (isinstance(allowed, ast.Constant) and allowed.value is False):
            found.append(f"{name} without allow_pickle=False")
        if "shell" in words:
            found.append(f"{name} with shell=")
        if name.startswith("subprocess.") and call.args and not _list_of_words(call.args[0]):
            found.append(f"{name} of one string")
    return found


def _list_of_words(node):
    return not isinstance(node, ast.Constant | ast.JoinedStr | ast.BinOp)


def test_nothing_in_the_source_runs_somebody_elses_code():
    assert {name: found for name, tree in TREES.items() if (found := faults(tree))} == {}


@pytest.mark.parametrize(
    "code",
    [
        "import pickle",
        "from joblib import load",
        "eval('1')",
        "torch.load(path)",
        "np.load(path)",
        "np.load(path, allow_pickle=True)",
        "np.lib.format.read_array(file, allow_pickle=wanted)",
        "subprocess.run('ls ' + name)",
        "subprocess.run(words, shell=True)",
        "os.system('ls')",
    ],
)
def test_each_of_these_would_be_found(code):
    assert len(faults(ast.parse(code))) == 1


def test_only_the_listed_files_start_programs():
    assert {name for name, tree in TREES.items() if "subprocess" in set(imported(tree))} == set(PROGRAMS)


def network(tree):
    """What in a module could go over the network."""
    found = [name for name in imported(tree) if name.partition(".")[0] in NETWORK_MODULES or name == "torch.hub"]
    return found + [ast.unparse(call.func) for call in calls(tree) if ast.unparse(call.func).startswith("torch.hub.")]


def test_only_the_listed_files_could_go_over_the_network():
    assert {name for name, tree in TREES.items() if network(tree)} == set(NETWORK)


@pytest.mark.parametrize("code", ["import requests", "from urllib.request import urlopen", "torch.hub.load(a, b)"])
def test_each_way_over_the_network_would_be_found(code):
    assert len(network(ast.parse(code))) == 1


def test_every_promise_of_the_security_page_names_tests_that_make_security_runs():
    page = (SOURCE.parents[1] / "SECURITY.md").read_text()
    promises = page.split("## What is promised")[1].split("\n## ")[0].split("\n- ")[1:]
    recipe = (SOURCE.parents[1] / "Makefile").read_text().split("\nsecurity:")[1].split("\n\n")[0]
    assert len(promises) >= 6
    for promise in promises:
        named = re.findall(r"`(tests/[\w/]+\.py)`", promise)
        assert named, promise
        assert all(name in recipe for name in named), named


def opens_to_write(call):
    """Whether `call` opens or writes a file."""
    name = ast.unparse(call.func).rpartition(".")[2]
    if ast.unparse(call.func) == "os.open":
        return "O_RDONLY" not in ast.unparse(call)
    if name in WRITES:
        return True
    if name not in ("open", "fdopen"):
        return False
    modes = [arg.value for arg in (*call.args, *(k.value for k in call.keywords)) if isinstance(arg, ast.Constant)]
    return any(isinstance(mode, str) and set(mode) <= set("wxabt+") and set(mode) & set("wxa") for mode in modes)


def unguarded(tree):
    """Calls that write outside a `with whole_file(...)` or a folder of this process alone."""
    guarded = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.With):
            texts = [ast.unparse(item.context_expr) for item in node.items]
            if any("whole_file(" in text or "TemporaryDirectory(" in text for text in texts):
                guarded |= {id(inner) for inner in ast.walk(node)}
    return [ast.unparse(call) for call in calls(tree) if opens_to_write(call) and id(call) not in guarded]


def test_every_file_is_written_whole_but_for_the_listed_ones():
    found = {name: written for name, tree in TREES.items() if (written := unguarded(tree))}
    assert set(found) == set(WRITERS), found


def test_a_bare_write_would_be_found():
    code = "with whole_file(a) as p:\n    p.write_text('')\nPath('b').write_text('')\nopen('c', 'w')\nopen('d')"
    assert unguarded(ast.parse(code)) == ["Path('b').write_text('')", "open('c', 'w')"]


def test_no_file_is_made_for_everybody_to_write():
    for path, tree in TREES.items():
        for call in calls(tree):
            name = ast.unparse(call.func)
            assert name.rpartition(".")[2] not in ("chmod", "umask"), f"{path}: {name}"
            if name == "os.open" or name.endswith(".mkdir"):
                modes = [arg.value for arg in (*call.args, *(k.value for k in call.keywords)) if _mode(arg)]
                assert all(not mode & 0o022 for mode in modes), f"{path}: {ast.unparse(call)}"


def _mode(node):
    return isinstance(node, ast.Constant) and type(node.value) is int
