import subprocess

from browser import NODE, WEB, needs_node

pytestmark = needs_node


def test_the_bundle_is_what_its_sources_make(tmp_path):
    rebuilt = tmp_path / "bundle.js"
    done = subprocess.run([NODE, "build.mjs", "--out", rebuilt], cwd=WEB, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    committed = WEB.parent / "bundle.js"
    assert rebuilt.read_bytes() == committed.read_bytes(), "run `npm run build` in src/lln/view/page/web"


def test_the_sources_pass_the_type_checker():
    done = subprocess.run(
        [NODE, "node_modules/typescript/bin/tsc", "--noEmit"], cwd=WEB, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
