"""What the host computes: in a process of its own, bounded, by onnxruntime or by ONNX's evaluator."""

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
    """A loop whose condition stays true, and nodes behind it."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["go2"]), helper.make_node("Identity", ["v"], ["v2"])], "body",
        [image("i", kind=TensorProto.INT64), image("go", kind=TensorProto.BOOL), image("v", 1)],
        [image("go2", kind=TensorProto.BOOL), image("v2", 1)],
    )  # fmt: skip
    loop = helper.make_node("Loop", ["", "flag", "one"], ["y"], "for_ever", body=body)
    return model(loop, *more, held=[("flag", FLAG), ("one", ONE)], **options)


def refusal(proto: bytes, outputs=("y",), **inputs) -> str:
    with pytest.raises(lt.ModelError) as error:
        run_on_host(proto, inputs, outputs)
    return str(error.value)


def is_running(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("count", [1 << 31, 1 << 40, 1 << 62])
@pytest.mark.parametrize("behind", [False, True])
def test_more_memory_than_there_may_be(count, behind):
    big = helper.make_node("ConstantOfShape", ["sizes"], ["z" if behind else "y"], "big")
    more = [helper.make_node("Relu", ["z"], ["y"], "behind")] if behind else []
    assert refusal(model(big, *more, held=[("sizes", np.array([count]))])) == (
        "node 'big' on the host must take at most 4 GiB of memory, and asks for more. Set LATHE_HOST_GIBIBYTES to "
        "allow more."
    )


def test_limits_of_the_environment(monkeypatch):
    small = model(helper.make_node("ConstantOfShape", ["sizes"], ["y"], "big"), held=[("sizes", np.array([1 << 28]))])
    assert run_on_host(small, {}, ("y",))["y"].nbytes == 1 << 30
    monkeypatch.setenv("LATHE_HOST_GIBIBYTES", "0.5")
    assert "must take at most 0.5 GiB of memory" in refusal(small)
    for name in ("LATHE_HOST_GIBIBYTES", "LATHE_HOST_SECONDS"):
        for wrong in ("much", "0", "-1", "nan", "inf"):
            with monkeypatch.context() as patch:
                patch.setenv(name, wrong)
                assert refusal(small) == f"{name} of the environment must be a positive number, not {wrong!r}."


def test_a_loop_that_runs_on_is_ended(monkeypatch):
    monkeypatch.setenv("LATHE_HOST_SECONDS", "2")
    message = (
        "node 'for_ever' on the host must end within 2 seconds, and does not. Set LATHE_HOST_SECONDS to allow more."
    )
    PROCESS.start()
    before = PROCESS.process.pid
    assert refusal(endless()) == message
    assert not is_running(before)
    assert PROCESS.process is None
    assert refusal(endless(helper.make_node("Relu", ["y"], ["z"], "behind"), outputs=("z",)), ("z",)) == message
    relu = model(helper.make_node("Relu", ["x"], ["y"]), inputs=[image("x", 2)])
    assert run_on_host(relu, {"x": np.array([-1, 1], np.float32)}, ("y",))["y"].tolist() == [0, 1]


def test_one_process_that_is_started_anew_after_its_death():
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


def test_models_that_are_kept(monkeypatch):
    monkeypatch.setattr(host_process, "MOST_MODELS", 2)
    PROCESS.end()
    models = [model(helper.make_node("Add", ["x", "c"], ["y"]), held=[("c", np.array([n], np.float32))],
                    inputs=[image("x", 1)]) for n in range(3)]  # fmt: skip
    for number in (0, 1, 2, 0, 2, 1, 1):
        assert run_on_host(models[number], {"x": ONE}, ("y",))["y"].tolist() == [number]
        assert len(PROCESS.known) <= 2


def test_memory_that_other_models_keep_is_given_back(monkeypatch):
    monkeypatch.setenv("LATHE_HOST_GIBIBYTES", "0.4")
    monkeypatch.setattr(host_process, "MOST_BYTES", 1 << 40)
    held = np.ones(40 << 20, np.uint8)
    for number in range(4):
        cast = helper.make_node("ReduceMax", ["c"], ["y"], f"node{number}")
        assert run_on_host(model(cast, held=[("c", held)], opset=18), {}, ("y",))["y"].item() == 1


def test_what_onnxruntime_refuses_is_evaluated():
    """Operators that it lacks, and types that it lacks; other nodes are onnxruntime's."""
    x = np.array([1.5, -2.25], np.float32)
    steps = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Cast", ["a"], ["b"], "to_four_bits",
             to=TensorProto.FLOAT4E2M1), helper.make_node("Cast", ["b"], ["y"], to=TensorProto.FLOAT)]  # fmt: skip
    assert run_on_host(model(*steps, inputs=[image("x", 2)], opset=23), {"x": x}, ("y",))["y"].tolist() == [1.5, 0]
    text = np.array(["a", "b"], object)
    joined = model(helper.make_node("StringConcat", ["x", "x"], ["y"]), opset=20,
                   inputs=[image("x", 2, kind=TensorProto.STRING)])  # fmt: skip
    assert run_on_host(joined, {"x": text}, ("y",))["y"].tolist() == ["aa", "bb"]


def test_types_that_numpy_lacks_come_as_what_they_are():
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


def test_what_nothing_computes():
    nodes = [helper.make_node("Relu", ["x"], ["z"]), helper.make_node("Gather", ["z", "k"], ["y"], "picks")]
    proto = model(*nodes, held=[("k", np.array([7]))], inputs=[image("x", 2)])
    assert refusal(proto, x=np.zeros(2, np.float32)) == (
        "node 'picks' on the host must be computed by onnxruntime or ONNX's evaluator, and is by neither. onnxruntime "
        "says: indices element out of data bounds, idx=7 must be within the inclusive range [-2,1]; ONNX's evaluator: "
        "index 7 is out of bounds for axis 0 with size 2."
    )


def test_a_node_that_ends_the_process(monkeypatch):
    """onnxruntime has died at it: the evaluator is asked, and if that dies, too, the node is named."""
    relu = model(helper.make_node("Relu", ["x"], ["y"], "deadly"), inputs=[image("x", 1)])
    asked = []

    def die(*words):
        asked.append(words[3:])
        raise host_process.EndedError(False, -signal.SIGSEGV, None)

    monkeypatch.setattr(PROCESS, "ask", die)
    assert refusal(relu, x=ONE) == (
        "node 'deadly' on the host must be computed by onnxruntime or ONNX's evaluator, and both ended their process: "
        "SIGSEGV."
    )
    assert [each[0] for each in asked] == [False, True]
    two = model(helper.make_node("Relu", ["x"], ["z"]), helper.make_node("Relu", ["z"], ["y"]), inputs=[image("x", 1)])
    assert refusal(two, x=ONE) == "the process that computes for the host must go on, and ended: SIGSEGV."


def test_results_that_do_not_fit_into_memory_here(monkeypatch):
    def full(*_):
        raise MemoryError

    monkeypatch.setattr(host_worker, "receive", full)
    relu = model(helper.make_node("Relu", ["x"], ["y"]), inputs=[image("x", 1)])
    assert refusal(relu, x=ONE) == "results of nodes on the host (y) must fit into memory, and do not."
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


@pytest.mark.parametrize("ends", ["", "os._exit(0)", "os.kill(os.getpid(), 9)"])
def test_a_script_without_a_guard_and_nothing_left_running(tmp_path, ends):
    script = tmp_path / "script.py"
    script.write_text(f"import os\n{SCRIPT}\n{ends}\n")
    found = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, timeout=120)
    once, values, number = found.stdout.splitlines()
    assert (once, values) == ("once", "[0.0, 1.0]")
    _ends_soon(int(number))


def test_nothing_is_left_running_though_it_was_busy(tmp_path):
    """A process that is killed while a loop runs on takes the loop with it."""
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
        time.sleep(1.5)  # so that it is most likely busy; the test holds if it is not
        found.kill()
    _ends_soon(number)


def _ends_soon(number: int) -> None:
    for _ in range(600):
        if not is_running(number) or Path(f"/proc/{number}/stat").read_text().split()[2] == "Z":
            return
        time.sleep(0.1)
    pytest.fail("the process of the host is left running")


def _child(queue) -> None:
    relu = model(helper.make_node("Relu", ["x"], ["y"]), inputs=[image("x", 1)])
    queue.put((run_on_host(relu, {"x": ONE}, ("y",))["y"].tolist(), PROCESS.process.pid))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_copy_of_this_process_has_its_own():
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
