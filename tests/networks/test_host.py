"""Evaluation of nodes in the host worker process, with limits, by onnxruntime or by ONNX's evaluator."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from error_checks import raises
from onnx import TensorProto, helper, numpy_helper

import lathe as lt
from lathe.frontend.onnx import host_process, host_worker
from lathe.frontend.onnx.host_process import PROCESS
from lathe.frontend.onnx.run_host_nodes import run_on_host

FLAG, ONE = np.array(True), np.zeros(1, np.float32)


def model(*nodes, outputs=("y",), held=(), inputs=(), opset=17) -> bytes:
    made = [helper.make_empty_tensor_value_info(name) for name in outputs]
    constants = [numpy_helper.from_array(values, name) for name, values in held]
    graph = helper.make_graph(list(nodes), "graph", list(inputs), made, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9).SerializeToString()


def image(name, *shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def endless(*more, **options) -> bytes:
    """A loop whose condition stays true, and nodes after it."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["go2"]), helper.make_node("Identity", ["v"], ["v2"])], "body",
        [image("i", kind=TensorProto.INT64), image("go", kind=TensorProto.BOOL), image("v", 1)],
        [image("go2", kind=TensorProto.BOOL), image("v2", 1)],
    )  # fmt: skip
    loop = helper.make_node("Loop", ["", "flag", "one"], ["y"], "for_ever", body=body)
    return model(loop, *more, held=[("flag", FLAG), ("one", ONE)], **options)


def refused(proto: bytes, *mentions, outputs=("y",), **inputs) -> None:
    raises(lt.ModelError, run_on_host, proto, inputs, outputs, kind="argument", mentions=mentions)


def is_running(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("count", [1 << 31, 1 << 40, 1 << 62])
@pytest.mark.parametrize("used", [False, True])
def test_more_memory_than_the_limit(count, used):
    big = helper.make_node("ConstantOfShape", ["sizes"], ["z" if used else "y"], "big")
    more = [helper.make_node("Relu", ["z"], ["y"], "relu")] if used else []
    proto = model(big, *more, held=[("sizes", np.array([count]))])
    refused(proto, "node 'big'", "host CPU", "4 GiB", "LATHE_HOST_GIBIBYTES")


@pytest.mark.slow
def test_limits_of_the_environment(monkeypatch):
    small = model(helper.make_node("ConstantOfShape", ["sizes"], ["y"], "big"), held=[("sizes", np.array([1 << 28]))])
    assert run_on_host(small, {}, ("y",))["y"].nbytes == 1 << 30
    monkeypatch.setenv("LATHE_HOST_GIBIBYTES", "0.5")
    refused(small, "node 'big'", "0.5 GiB")
    for name in ("LATHE_HOST_GIBIBYTES", "LATHE_HOST_SECONDS"):
        for wrong in ("much", "0", "-1", "nan", "inf"):
            with monkeypatch.context() as patch:
                patch.setenv(name, wrong)
                refused(small, "environment variable", name, "positive", repr(wrong))


@pytest.mark.slow
def test_an_endless_loop_is_killed(monkeypatch):
    monkeypatch.setenv("LATHE_HOST_SECONDS", "2")
    mentions = ("node 'for_ever'", "host CPU", "2 seconds", "LATHE_HOST_SECONDS")
    PROCESS.start()
    before = PROCESS.process.pid
    refused(endless(), *mentions)
    assert not is_running(before)
    assert PROCESS.process is None
    refused(endless(helper.make_node("Relu", ["y"], ["z"], "relu"), outputs=("z",)), *mentions, outputs=("z",))
    relu = model(helper.make_node("Relu", ["x"], ["y"]), inputs=[image("x", 2)])
    assert run_on_host(relu, {"x": np.array([-1, 1], np.float32)}, ("y",))["y"].tolist() == [0, 1]


@pytest.mark.slow
def test_one_process_that_is_restarted_after_its_death():
    relu = model(helper.make_node("Relu", ["x"], ["y"]), inputs=[image("x", 2)])
    inputs = {"x": np.array([-1, 1], np.float32)}
    run_on_host(relu, inputs, ("y",))
    first = PROCESS.process.pid
    run_on_host(relu, inputs, ("y",))
    assert PROCESS.process.pid == first
    PROCESS.process.kill()
    PROCESS.process.wait()
    assert run_on_host(relu, inputs, ("y",))["y"].tolist() == [0, 1]
    assert PROCESS.process.pid != first


def test_threads_take_turns():
    models = [model(helper.make_node("Add", ["x", "c"], ["y"]), held=[("c", np.array([n], np.float32))],
                    inputs=[image("x", 1)]) for n in range(8)]  # fmt: skip
    with ThreadPoolExecutor(4) as pool:
        made = pool.map(lambda each: run_on_host(each, {"x": ONE}, ("y",))["y"].item(), models * 4)
    assert list(made) == [*range(8)] * 4


def test_models_that_are_cached(monkeypatch):
    monkeypatch.setattr(host_process, "MOST_MODELS", 2)
    PROCESS.end()
    models = [model(helper.make_node("Add", ["x", "c"], ["y"]), held=[("c", np.array([n], np.float32))],
                    inputs=[image("x", 1)]) for n in range(3)]  # fmt: skip
    for number in (0, 1, 2, 0, 2, 1, 1):
        assert run_on_host(models[number], {"x": ONE}, ("y",))["y"].tolist() == [number]
        assert len(PROCESS.known) <= 2


@pytest.mark.slow
def test_memory_of_cached_models_is_freed(monkeypatch):
    monkeypatch.setenv("LATHE_HOST_GIBIBYTES", "0.4")
    monkeypatch.setattr(host_process, "MOST_BYTES", 1 << 40)
    held = np.ones(40 << 20, np.uint8)
    for number in range(4):
        cast = helper.make_node("ReduceMax", ["c"], ["y"], f"node{number}")
        assert run_on_host(model(cast, held=[("c", held)], opset=18), {}, ("y",))["y"].item() == 1


def test_nodes_that_onnxruntime_refuses_are_evaluated():
    """ONNX's evaluator runs operators and types that onnxruntime lacks; onnxruntime runs other nodes."""
    x = np.array([1.5, -2.25], np.float32)
    steps = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Cast", ["a"], ["b"], "to_four_bits",
             to=TensorProto.FLOAT4E2M1), helper.make_node("Cast", ["b"], ["y"], to=TensorProto.FLOAT)]  # fmt: skip
    assert run_on_host(model(*steps, inputs=[image("x", 2)], opset=23), {"x": x}, ("y",))["y"].tolist() == [1.5, 0]
    text = np.array(["a", "b"], object)
    joined = model(helper.make_node("StringConcat", ["x", "x"], ["y"]), opset=20,
                   inputs=[image("x", 2, kind=TensorProto.STRING)])  # fmt: skip
    assert run_on_host(joined, {"x": text}, ("y",))["y"].tolist() == ["aa", "bb"]


def test_types_that_numpy_lacks_keep_their_dtype():
    for kind, dtype in (
        (TensorProto.BFLOAT16, ml_dtypes.bfloat16),
        (TensorProto.FLOAT8E4M3FN, ml_dtypes.float8_e4m3fn),
    ):
        cast = model(helper.make_node("Cast", ["x"], ["y"], to=kind), inputs=[image("x", 2)], opset=19)
        made = run_on_host(cast, {"x": np.array([1, -2], np.float32)}, ("y",))["y"]
        assert made.dtype == dtype
        assert made.astype(np.float32).tolist() == [1, -2]
        back = model(helper.make_node("Cast", ["x"], ["y"], to=1), inputs=[image("x", 2, kind=kind)], opset=19)
        assert run_on_host(back, {"x": made}, ("y",))["y"].tolist() == [1, -2]


def test_sequences_come_and_go():
    split = model(helper.make_node("SplitToSequence", ["x"], ["y"], axis=0), inputs=[image("x", 2, 3)])
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    parts = run_on_host(split, {"x": x}, ("y",))["y"]
    assert [each.shape for each in parts] == [(1, 3), (1, 3)]
    sequence = helper.make_tensor_sequence_value_info("x", TensorProto.FLOAT, None)
    joined = model(helper.make_node("ConcatFromSequence", ["x"], ["y"], axis=0), inputs=[sequence])
    assert np.array_equal(run_on_host(joined, {"x": parts}, ("y",))["y"], x)


def test_nodes_that_neither_can_compute():
    nodes = [helper.make_node("Relu", ["x"], ["z"]), helper.make_node("Gather", ["z", "k"], ["y"], "picks")]
    proto = model(*nodes, held=[("k", np.array([7]))], inputs=[image("x", 2)])
    of_onnxruntime = "indices element out of data bounds, idx=7 must be within the inclusive range [-2,1]"
    of_evaluator = "index 7 is out of bounds for axis 0 with size 2"
    refused(proto, "node 'picks'", "host CPU", of_onnxruntime, of_evaluator, x=np.zeros(2, np.float32))


def test_a_node_that_crashes_the_process(monkeypatch):
    """If onnxruntime crashes, the evaluator runs the node; if that crashes, too, the error names the node."""
    relu = model(helper.make_node("Relu", ["x"], ["y"], "deadly"), inputs=[image("x", 1)])
    asked = []

    def die(*words):
        asked.append(words[3:])
        raise host_process.EndedError(False, -signal.SIGSEGV, None)

    monkeypatch.setattr(PROCESS, "ask", die)
    refused(relu, "node 'deadly'", "host CPU", "both", "SIGSEGV", x=ONE)
    assert [each[0] for each in asked] == [False, True]
    two = model(helper.make_node("Relu", ["x"], ["z"]), helper.make_node("Relu", ["z"], ["y"]), inputs=[image("x", 1)])
    refused(two, "host CPU", "SIGSEGV", x=ONE)


def test_results_that_do_not_fit_into_memory_here(monkeypatch):
    def full(*_):
        raise MemoryError

    monkeypatch.setattr(host_worker, "receive", full)
    relu = model(helper.make_node("Relu", ["x"], ["y"]), inputs=[image("x", 1)])
    refused(relu, "host CPU", "(y)", "memory", x=ONE)
    assert PROCESS.process is None


SCRIPT = """
import numpy as np
from onnx import helper
from lathe.frontend.onnx.run_host_nodes import run_on_host
from lathe.frontend.onnx.host_process import PROCESS
print("once")
x = helper.make_tensor_value_info("x", 1, [2])
y = helper.make_empty_tensor_value_info("y")
graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "graph", [x], [y])
proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
print(run_on_host(proto, {"x": np.array([-1, 1], np.float32)}, ("y",))["y"].tolist())
print(PROCESS.process.pid, flush=True)
"""


@pytest.mark.sample(1)
@pytest.mark.parametrize("ends", ["", "os._exit(0)", "os.kill(os.getpid(), 9)"])
def test_a_script_without_a_guard_and_nothing_left_running(tmp_path, ends):
    script = tmp_path / "script.py"
    script.write_text(f"import os\n{SCRIPT}\n{ends}\n")
    found = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, timeout=120)
    once, values, number = found.stdout.splitlines()
    assert (once, values) == ("once", "[0.0, 1.0]")
    _ends_soon(int(number))


@pytest.mark.slow
def test_nothing_is_left_running_after_a_kill(tmp_path):
    """The worker ends with its parent, even if it is computing an endless loop."""
    (tmp_path / "model.onnx").write_bytes(endless())
    script = textwrap.dedent(
        f"""
        import threading, time
        from lathe.frontend.onnx.run_host_nodes import run_on_host
        from lathe.frontend.onnx.host_process import PROCESS
        PROCESS.start()
        print(PROCESS.process.pid, flush=True)
        run_on_host(open({str(tmp_path / "model.onnx")!r}, "rb").read(), {{}}, ("y",))
        """
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as found:
        number = int(found.stdout.readline())
        time.sleep(1.5)  # most likely busy then; the test is also valid if not
        found.kill()
    _ends_soon(number)


def _ends_soon(number: int) -> None:
    for _ in range(600):
        if not is_running(number) or Path(f"/proc/{number}/stat").read_text().split()[2] == "Z":
            return
        time.sleep(0.1)
    pytest.fail("the host worker is left running")


def _child(queue) -> None:
    relu = model(helper.make_node("Relu", ["x"], ["y"]), inputs=[image("x", 1)])
    queue.put((run_on_host(relu, {"x": ONE}, ("y",))["y"].tolist(), PROCESS.process.pid))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_process_has_its_own_worker():
    relu = model(helper.make_node("Relu", ["x"], ["y"]), inputs=[image("x", 1)])
    run_on_host(relu, {"x": ONE}, ("y",))
    own = PROCESS.process.pid
    context = get_context("fork")
    queue = context.SimpleQueue()
    copy = context.Process(target=_child, args=(queue,))
    copy.start()
    made, number = queue.get()
    copy.join()
    assert made == [0]
    assert number != own
    assert run_on_host(relu, {"x": ONE}, ("y",))["y"].tolist() == [0]
    assert PROCESS.process.pid == own
